// How far the exact solution of the bordered system (2) can be from a point at hand.
//
// With residual r (r_s = -h_s for s in S), r' = r - mean(r), mass error m0 = total - sum w, lambda
// a lower bound on the smallest eigenvalue of K_SS and kmax >= K_ss (docs/math.md, section 4):
// clang-format off
//     |w - w*|_2 <= |r'| / (2 lambda)       + |m0| sqrt(kmax / lambda)
//     |w - w*|_K <= |r'| / (2 sqrt(lambda)) + |m0| sqrt(kmax)                                     (4)
//     |mu - mu*| <= |mean(r)| + 2 sqrt(kmax) |w - w*|_K
// clang-format on
// and a gradient outside S is off by at most sqrt(K_ii) 2 |w - w*|_K + |mu - mu*|.
//
// `Scalar` is double where the point is double-double, MpReal above: bounds of a high rung are
// below the smallest double.
#ifndef LETHE_CORE_SVDD_ENCLOSURE_H_
#define LETHE_CORE_SVDD_ENCLOSURE_H_

#include <cmath>
#include <vector>

#include "core/base/double_double.h"
#include "core/base/mp_real.h"

namespace lethe::svdd {

inline double SquareRoot(double x) { return std::sqrt(x); }
inline MpReal SquareRoot(const MpReal& x) { return Sqrt(x); }

// The bounds (4).
template <typename Scalar>
struct Enclosure {
  Scalar weight{0.0};  // |w - w*|_2
  Scalar kernel{0.0};  // |w - w*|_K
  Scalar mu{0.0};      // |mu - mu*|

  // `residual`: r_i; `rounding`: bounds on what r_i itself may be off.
  static Enclosure Make(const std::vector<Scalar>& residual,
                        const std::vector<Scalar>& rounding,
                        const Scalar& mass_error,
                        const Scalar& lambda,
                        const Scalar& kmax) {
    const Scalar n(static_cast<double>(residual.size()));
    Scalar mean(0.0);
    Scalar mean_rounding(0.0);
    for (size_t i = 0; i < residual.size(); ++i) {
      mean += residual[i];
      mean_rounding += rounding[i];
    }
    mean = mean / n;
    mean_rounding = mean_rounding / n;
    Scalar deviation(0.0);
    Scalar noise(0.0);
    for (size_t i = 0; i < residual.size(); ++i) {
      const Scalar difference = residual[i] - mean;
      deviation += difference * difference;
      noise += rounding[i] * rounding[i];
    }
    const Scalar length = SquareRoot(deviation) + SquareRoot(noise);
    const Scalar two(2.0);
    // A percent covers the rounding of these lines.
    const Scalar widen(1.01);
    Enclosure result;
    result.weight = widen * (length / (two * lambda) + mass_error * SquareRoot(kmax / lambda));
    result.kernel = widen * (length / (two * SquareRoot(lambda)) + mass_error * SquareRoot(kmax));
    const Scalar shift = mean < Scalar(0.0) ? -mean : mean;
    result.mu = widen * (shift + mean_rounding + two * SquareRoot(kmax) * result.kernel);
    return result;
  }

  // How far a gradient with sqrt(K_ii) <= scale, scale >= 1, may be off.
  Scalar Slack() const { return Scalar(2.0) * kernel + mu; }
};

// What an enclosure says about the sign of a number; kTie only where the caller allows to call what
// it cannot tell from zero a zero.
enum class Sign { kNegative, kPositive, kTie, kOpen };

template <typename Real, typename Error>
Sign SignOf(const Real& value, const Error& error, bool tie) {
  if (value > Real(error)) return Sign::kPositive;
  if (value < -Real(error)) return Sign::kNegative;
  return tie ? Sign::kTie : Sign::kOpen;
}

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_ENCLOSURE_H_
