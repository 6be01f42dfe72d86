// Ziv's rounding test, and the division of a group's mass among its members: from an enclosure of
// an exact real number to the double nearest to it.
#ifndef LETHE_CORE_SVDD_ROUNDING_H_
#define LETHE_CORE_SVDD_ROUNDING_H_

#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "core/base/check.h"
#include "core/base/double_double.h"
#include "core/base/mp_real.h"
#include "core/svdd/problem.h"
#include "core/svdd/snapshot.h"

namespace lethe::svdd {

// A bound on the rounding of one operation, or a few, with results of this size.
inline double OperationError(const DoubleDouble& size) { return std::abs(size.hi) * 0x1p-100; }
inline MpReal OperationError(const MpReal& size) {
  return Abs(size) * MpReal::PowerOfTwo(4 - PrecisionScope::bits());
}

// The double nearest to every real in [value - error, value + error]; nullopt when they round to
// different doubles and `tie` does not allow to take the midpoint that lies among them for exact.
// Both neighbours of an exact midpoint are nearest; the one taken is that to which its decimal of
// 25 significant digits rounds, so that whoever holds the exact solution printed to 25 digits gets
// our bits from any strtod (docs/adr/0050). Never -0.
inline constexpr int kTieDigits = 25;

inline std::optional<double> RoundToNearest(const DoubleDouble& value, double error, bool /*tie*/) {
  // value itself comes from an operation or two, and value.lo +- error rounds: the widening covers
  // it.
  const double width = error * (1 + 0x1p-40) + OperationError(value) + 0x1p-1074;
  const double low = value.hi + (value.lo - width);
  const double high = value.hi + (value.lo + width);
  if (low != high) return std::nullopt;
  return low + 0.0;
}

inline std::optional<double> RoundToNearest(const MpReal& value, const MpReal& error, bool tie) {
  const MpReal width = error + OperationError(value);
  const double low = ToDouble(value - width);
  const double high = ToDouble(value + width);
  if (low == high) return low + 0.0;
  if (!tie) return std::nullopt;
  if (Abs(value) <= width) return 0.0;
  return ToDouble(RoundToDecimal(value, kTieDigits)) + 0.0;
}

// The weights of a margin group's members from its mass w (mass units), |w - exact| <= error.
// `tie`: the error is so small that a mass which cannot be told from a multiple of the box is one.
// Appends to `out`; false (nothing appended) when a rounding or a sign stays open.
template <typename Real, typename Error>
bool DivideMargin(std::span<const TokenHandle> members,
                  DuplicatesPolicy policy,
                  const Capacity& capacity,
                  const Real& w,
                  const Error& error,
                  bool tie,
                  std::vector<SupportToken>& out) {
  const Real total(capacity.total());
  const Real box(capacity.box());
  const auto count = static_cast<double>(members.size());
  if (members.size() == 1 || policy == DuplicatesPolicy::kShared) {
    const Real parts = total * Real(count);
    const std::optional<double> alpha =
        RoundToNearest(w / parts, error / Error(capacity.total() * count), tie);
    if (!alpha.has_value()) return false;
    for (const TokenHandle member : members) out.push_back({member, Label::kMargin, *alpha});
    return true;
  }
  // Members filled to the box, then one that takes the rest.
  auto full = static_cast<size_t>(std::max(0.0, std::floor(ToDouble(w / box))));
  Real rest = w - Real(static_cast<double>(full)) * box;
  // The subtraction of full members is good to a few units of w.
  const Error wide = error + OperationError(w);
  const Real bound(wide);
  if (rest < -bound) {
    LETHE_CHECK(full > 0);
    --full;
    rest += box;
  }
  std::optional<double> last;
  if (rest > bound && box - rest > bound) {
    last = RoundToNearest(rest / total, wide / Error(capacity.total()), tie);
    if (!last.has_value()) return false;
  } else {
    if (!tie) return false;
    if (!(rest <= bound)) ++full;
  }
  LETHE_CHECK(full + (last.has_value() ? 1 : 0) <= members.size());
  for (size_t i = 0; i < full + (last.has_value() ? 1 : 0); ++i) {
    const TokenHandle member =
        policy == DuplicatesPolicy::kOldestFirst ? members[i] : members[members.size() - 1 - i];
    if (i < full) {
      out.push_back({member, Label::kError, capacity.weight_at_box()});
    } else {
      out.push_back({member, Label::kMargin, *last});
    }
  }
  return true;
}

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_ROUNDING_H_
