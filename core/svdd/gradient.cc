#include "core/svdd/gradient.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/mp_real.h"
#include "core/base/status_macros.h"
#include "core/kernel/exp.h"
#include "core/svdd/cholesky.h"

namespace lethe::svdd {
namespace {

using kernel::KernelKind;

constexpr int kUpperBits = 640;
// A residual below this share of its terms is as good as double-double gets in a few passes; one
// above the second means that the held factor is not that of this state.
constexpr double kResidualGoal = 0x1p-92;
constexpr double kResidualLimit = 0x1p-60;
// Multipliers so large against what they come from cancel in what they go to: of the 106 bits fewer
// than 40 would be left.
constexpr double kLargestMultiplier = 0x1p60;

absl::Status CheckFinite(absl::string_view field, std::span<const double> numbers, int size) {
  if (numbers.size() != static_cast<size_t>(size)) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": has ", numbers.size(), " numbers, must have ", size));
  }
  for (size_t k = 0; k < numbers.size(); ++k) {
    if (!std::isfinite(numbers[k])) {
      return absl::InvalidArgumentError(absl::StrCat(field, "[", k, "]: must be finite"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFinite(absl::string_view field, const std::optional<double>& number) {
  if (number.has_value() && !std::isfinite(*number)) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": must be finite"));
  }
  return absl::OkStatus();
}

// What the arithmetics do not share.
DoubleDouble Difference(double x, double y, DoubleDouble /*of*/) { return TwoSum(x, -y); }
MpReal Difference(double x, double y, const MpReal& /*of*/) { return MpReal(x) - MpReal(y); }

DoubleDouble KernelExponent(const kernel::Kernel& kernel,
                            std::span<const double> x,
                            std::span<const double> y,
                            DoubleDouble /*of*/) {
  return kernel::Exponent(kernel, x, y);
}

MpReal KernelExponent(const kernel::Kernel& kernel,
                      std::span<const double> x,
                      std::span<const double> y,
                      const MpReal& of) {
  MpReal sum;
  for (size_t k = 0; k < x.size(); ++k) {
    const MpReal difference = Difference(x[k], y[k], of);
    sum +=
        kernel.kind == KernelKind::kExpDot ? MpReal(x[k]) * MpReal(y[k]) : difference * difference;
  }
  if (kernel.kind == KernelKind::kExpDot) return MpReal(kernel.parameter) * sum;
  return -(MpReal(kernel.parameter) * (kernel.kind == KernelKind::kRbf ? sum : Sqrt(sum)));
}

DoubleDouble KernelExp(const DoubleDouble& t) { return kernel::ExpDoubleDouble(t); }
MpReal KernelExp(const MpReal& t) { return Exp(t); }

// One pass backwards through one query of one state, in one arithmetic.
template <typename Real>
class Adjoint {
 public:
  Adjoint(const ExactMemory& memory, const Snapshot& state, std::span<const double> query)
      : memory_(memory),
        state_(state),
        kernel_(state.options.kernel),
        parameter_(kernel_.parameter),
        query_(query),
        d_(static_cast<size_t>(state.options.key_dimension)),
        m_(static_cast<size_t>(state.options.value_dimension)),
        query_bar_(d_) {}

  // Nullopt when this arithmetic has too few bits, or the held factor cannot be used.
  absl::StatusOr<std::optional<Gradients>> Run(std::span<const double> readout_bar,
                                               double decision_bar,
                                               double log_denominator_bar) {
    MakeGroups();
    Read(readout_bar, decision_bar, log_denominator_bar);
    if (state_.phase == Phase::kActive) {
      DivideWeightBars();
      LETHE_ASSIGN_OR_RETURN(const bool solved, ThroughTheWeights(decision_bar));
      if (!solved) return std::nullopt;
    }
    SetFlags();
    return Result();
  }

 private:
  using Vector = std::vector<Real>;

  // Tokens with weight and one key: one variable of the problem.
  struct Group {
    std::vector<size_t> members;  // positions among the supports, increasing
    bool margin = false;
    Real weight;      // of all members
    Real weight_bar;  // dL by it, at fixed keys and C
    Real w;           // the multiplier of its margin equation
    Vector key_bar;   // of the weights' part, for the group as a whole
  };
  struct Multipliers {
    Vector w;
    Real nu;
  };

  std::span<const double> Key(size_t support) const {
    return {state_.keys.data() + support * d_, d_};
  }
  std::span<const double> Key(const Group& group) const { return Key(group.members.front()); }
  Real Alpha(size_t support) const { return Real(state_.supports[support].alpha); }
  Real Count(const Group& group) const { return Real(static_cast<double>(group.members.size())); }
  Real Exponent(std::span<const double> x, std::span<const double> y) const {
    return KernelExponent(kernel_, x, y, Real());
  }

  // Groups in the order of their first member with weight.
  void MakeGroups() {
    const size_t n = state_.supports.size();
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [this](size_t a, size_t b) {
      const auto x = Key(a);
      const auto [p, q] = std::ranges::mismatch(x, Key(b));
      return p == x.end() ? a < b : *p < *q;
    });
    for (size_t i = 0; i < n; ++i) {
      if (i == 0 || !std::ranges::equal(Key(order[i]), Key(order[i - 1]))) groups_.emplace_back();
      groups_.back().members.push_back(order[i]);
    }
    std::sort(groups_.begin(), groups_.end(),
              [](const Group& a, const Group& b) { return a.members.front() < b.members.front(); });
    group_of_.resize(n);
    for (size_t g = 0; g < groups_.size(); ++g) {
      Group& group = groups_[g];
      group.key_bar.resize(d_);
      for (const size_t member : group.members) {
        group_of_[member] = g;
        group.weight += Alpha(member);
        group.margin |= state_.supports[member].label == Label::kMargin;
      }
    }
  }

  // t_bar dt/dx and t_bar dt/dy added to x_bar and y_bar, where kappa(x, y) = e^t, and the
  // parameter's part, in which t is linear. False where laplacian has its kink: nothing is added
  // then.
  bool AddExponent(const Real& t_bar,
                   const Real& t,
                   std::span<const double> x,
                   std::span<const double> y,
                   std::span<Real> x_bar,
                   std::span<Real> y_bar) {
    parameter_bar_ += t_bar * t;
    Real along = t_bar * parameter_;
    if (kernel_.kind == KernelKind::kExpDot) {
      for (size_t k = 0; k < x.size(); ++k) {
        x_bar[k] += along * Real(y[k]);
        y_bar[k] += along * Real(x[k]);
      }
      return true;
    }
    if (kernel_.kind == KernelKind::kLaplacian) {
      if (!(t < Real(0.0))) return false;
      along = along * parameter_ / -t;  // over the distance
    } else {
      along = along + along;
    }
    for (size_t k = 0; k < x.size(); ++k) {
      const Real step = along * Difference(x[k], y[k], Real());
      x_bar[k] -= step;
      y_bar[k] += step;
    }
    return true;
  }

  // What the readout itself depends on, and dL/da_i.
  void Read(std::span<const double> readout_bar, double decision_bar, double log_denominator_bar) {
    const size_t n = state_.supports.size();
    Vector t;
    for (size_t i = 0; i < n; ++i) t.push_back(Exponent(query_, Key(i)));
    const Real largest = *std::max_element(t.begin(), t.end());
    Vector relative;  // k_i / D
    Real denominator;
    for (size_t i = 0; i < n; ++i) {
      relative.push_back(KernelExp(t[i] - largest));
      denominator += relative[i] * Alpha(i);
    }
    Vector readout(m_);
    for (size_t i = 0; i < n; ++i) {
      relative[i] = relative[i] / denominator;
      const Real share = relative[i] * Alpha(i);
      for (size_t k = 0; k < m_; ++k) {
        readout[k] += share * Real(state_.values[i * m_ + k]);
        value_bar_.push_back(ToDouble(share * Real(readout_bar[k])));
      }
    }

    key_bar_.resize(n * d_);
    for (size_t i = 0; i < n; ++i) {
      Real along(log_denominator_bar);
      for (size_t k = 0; k < m_; ++k) {
        along += Real(readout_bar[k]) * (Real(state_.values[i * m_ + k]) - readout[k]);
      }
      Real alpha_bar = relative[i] * along;
      if (decision_bar != 0.0) alpha_bar += Real(2 * decision_bar) * KernelExp(t[i]);
      // L depends on a_i and k_i through their product.
      flags_.coinciding |= !AddExponent(alpha_bar * Alpha(i), t[i], query_, Key(i), query_bar_,
                                        {key_bar_.data() + i * d_, d_});
      alpha_bar_.push_back(std::move(alpha_bar));
    }
    if (decision_bar != 0.0 && kernel_.kind == KernelKind::kExpDot) {
      const Real self = Exponent(query_, query_);
      AddExponent(Real(-decision_bar) * KernelExp(self), self, query_, query_, query_bar_,
                  query_bar_);
    }
  }

  // From dL/da_i of the members to dL by their group's weight and by C.
  void DivideWeightBars() {
    for (Group& group : groups_) {
      Real sum;
      for (const size_t member : group.members) sum += alpha_bar_[member];
      if (!group.margin) {
        box_bar_ += sum;
      } else if (state_.options.duplicates == DuplicatesPolicy::kShared) {
        group.weight_bar = sum / Count(group);
      } else {
        // One copy takes what the full ones leave: its weight is the group's less C for each.
        for (const size_t member : group.members) {
          if (state_.supports[member].label == Label::kMargin) {
            group.weight_bar = alpha_bar_[member];
          }
        }
        box_bar_ += sum - group.weight_bar * Count(group);
      }
    }
  }

  absl::StatusOr<bool> ThroughTheWeights(double decision_bar) {
    const std::vector<Group*> margin = MarginGroups();
    if (margin.empty()) return true;
    const size_t s = margin.size();
    std::vector<Vector> exponents(s);  // lower triangles
    std::vector<Vector> gram(s);
    for (size_t p = 0; p < s; ++p) {
      for (size_t q = 0; q <= p; ++q) {
        exponents[p].push_back(Exponent(Key(*margin[p]), Key(*margin[q])));
        gram[p].push_back(KernelExp(exponents[p][q]));
      }
    }
    std::optional<Multipliers> solution;
    if constexpr (std::is_same_v<Real, DoubleDouble>) {
      solution = SolveByHeldFactor(margin, gram, decision_bar);
      if (!solution.has_value()) return false;
    } else {
      solution = SolveAfresh(margin, gram, decision_bar);
      if (!solution.has_value()) {
        return absl::FailedPreconditionError("the margin's Gram matrix is singular at 640 bits");
      }
    }

    for (size_t p = 0; p < s; ++p) margin[p]->w = std::move(solution->w[p]);
    for (size_t p = 0; p < s; ++p) {
      for (size_t q = 0; q <= p; ++q) {
        AddMarginPair(*margin[p], *margin[q], exponents[p][q], gram[p][q]);
      }
    }
    for (Group& error : groups_) {
      if (error.margin) continue;
      box_bar_ -= solution->nu * Count(error);
      for (Group* const group : margin) AddErrorPair(*group, error);
    }
    return true;
  }

  // In the order of the held factor's rows.
  std::vector<Group*> MarginGroups() {
    std::vector<Group*> margin;
    for (const TokenHandle handle : memory_.MarginHandles()) {
      const auto support =
          std::ranges::lower_bound(state_.supports, handle, {}, &SupportToken::handle);
      // The member that is filled first has weight under every policy.
      LETHE_CHECK(support != state_.supports.end() && support->handle == handle);
      margin.push_back(&groups_[group_of_[static_cast<size_t>(support - state_.supports.begin())]]);
      if (!margin.back()->margin) MoveToMargin(*margin.back());
    }
    return margin;
  }

  // A margin group whose copies are filled exactly to the box, none of them partly: which copy
  // takes a change depends on its sign. The last one filled is chosen, and the flag raised.
  void MoveToMargin(Group& group) {
    group.margin = true;
    const bool oldest = state_.options.duplicates == DuplicatesPolicy::kOldestFirst;
    group.weight_bar = alpha_bar_[oldest ? group.members.back() : group.members.front()];
    box_bar_ -= group.weight_bar * Count(group);
    flags_.small_slack = true;
  }

  // By refinement until the residual is that of double-double. Nullopt when it does not get there,
  // or the result would leave too few digits.
  std::optional<Multipliers> SolveByHeldFactor(const std::vector<Group*>& margin,
                                               const std::vector<Vector>& gram,
                                               double mass) const {
    const size_t s = margin.size();
    Multipliers solution{Vector(s), {}};
    constexpr int kPasses = 4;
    double worst = 0.0;
    for (int pass = 0; pass <= kPasses; ++pass) {
      Real mass_left(mass);
      double size = std::abs(mass);
      Vector product(s);
      std::vector<double> terms(s);
      for (size_t p = 0; p < s; ++p) {
        mass_left -= solution.w[p];
        size += std::abs(solution.w[p].hi);
        for (size_t q = 0; q <= p; ++q) {
          const Real twice = gram[p][q] + gram[p][q];
          product[p] += twice * solution.w[q];
          terms[p] += std::abs(twice.hi * solution.w[q].hi);
          if (q == p) continue;
          product[q] += twice * solution.w[p];
          terms[q] += std::abs(twice.hi * solution.w[p].hi);
        }
      }
      worst = size > 0.0 ? std::abs(mass_left.hi) / size : 0.0;
      std::vector<double> residual;
      for (size_t p = 0; p < s; ++p) {
        residual.push_back((margin[p]->weight_bar - solution.nu - product[p]).hi);
        terms[p] += std::abs(margin[p]->weight_bar.hi) + std::abs(solution.nu.hi);
        if (terms[p] > 0.0) worst = std::max(worst, std::abs(residual[p]) / terms[p]);
      }
      if (worst <= kResidualGoal || pass == kPasses) break;
      const std::optional<MarginSolution> step = memory_.SolveMarginSystem(residual, mass_left.hi);
      if (!step.has_value()) return std::nullopt;
      for (size_t p = 0; p < s; ++p) solution.w[p] += Real(step->w[p]);
      solution.nu += Real(step->nu);
    }
    if (!(worst <= kResidualLimit)) return std::nullopt;
    double source = std::abs(mass);
    double largest = 0.0;
    for (size_t p = 0; p < s; ++p) {
      source = std::max(source, std::abs(margin[p]->weight_bar.hi));
      largest = std::max(largest, std::abs(solution.w[p].hi) * gram[p][p].hi);
    }
    if (!(largest <= kLargestMultiplier * source)) return std::nullopt;
    return solution;
  }

  std::optional<Multipliers> SolveAfresh(const std::vector<Group*>& margin,
                                         const std::vector<Vector>& gram,
                                         double mass) const {
    CholeskyFactor<Real> factor;
    const Real share = MpReal::PowerOfTwo(40 - kUpperBits);
    Vector b;
    for (size_t p = 0; p < margin.size(); ++p) {
      Vector row = gram[p];
      const Real diagonal = std::move(row.back());
      row.pop_back();
      if (!factor.Append(std::move(row), diagonal, diagonal * share)) return std::nullopt;
      b.push_back(margin[p]->weight_bar);
    }
    Multipliers solution;
    SolveBordered(factor, std::move(b), Real(mass), solution.w, solution.nu);
    return solution;
  }

  // dL/dK dK for K = e^t of two groups of the margin, in both orders.
  void AddMarginPair(Group& a, Group& b, const Real& t, const Real& kernel_value) {
    // A group with itself: a constant 1 but for exp_dot, where both arguments move.
    if (&a == &b && kernel_.kind != KernelKind::kExpDot) return;
    const Real cross = &a == &b ? a.w * a.weight : a.w * b.weight + b.w * a.weight;
    Real coefficient = &a == &b ? a.w : Real();
    coefficient -= cross + cross;
    AddExponent(coefficient * kernel_value, t, Key(a), Key(b), a.key_bar, b.key_bar);
  }

  void AddErrorPair(Group& margin, Group& error) {
    const Real t = Exponent(Key(margin), Key(error));
    const Real product = margin.w * KernelExp(t);
    const Real by_mass = -(product + product);
    box_bar_ += by_mass * Count(error);
    AddExponent(by_mass * error.weight, t, Key(margin), Key(error), margin.key_bar, error.key_bar);
  }

  void SetFlags() {
    flags_.warming = state_.phase == Phase::kWarming;
    flags_.no_margin = state_.phase == Phase::kActive;
    for (const Group& group : groups_) {
      flags_.copies |= group.members.size() > 1;
      flags_.no_margin &= !group.margin;
      if (!group.margin || state_.options.duplicates == DuplicatesPolicy::kShared) continue;
      // The proof's slack is that of groups; a copy can be nearer to a bound than its group.
      for (const size_t member : group.members) {
        const SupportToken& token = state_.supports[member];
        if (token.label != Label::kMargin) continue;
        const double room = state_.options.capacity.weight_at_box() - token.alpha;
        flags_.small_slack |= std::min(token.alpha, room) < kSmallSlack;
      }
    }
    flags_.small_slack |= !flags_.warming && state_.proof.slack < kSmallSlack;
  }

  absl::StatusOr<std::optional<Gradients>> Result() const {
    Gradients result;
    for (size_t i = 0; i < state_.supports.size(); ++i) {
      result.handles.push_back(state_.supports[i].handle);
      const Group& group = groups_[group_of_[i]];
      const Real share = group.members.size() > 1 ? Alpha(i) / group.weight : Real(1.0);
      for (size_t k = 0; k < d_; ++k) {
        result.keys.push_back(ToDouble(key_bar_[i * d_ + k] + share * group.key_bar[k]));
      }
    }
    result.values = value_bar_;
    for (const Real& value : query_bar_) result.query.push_back(ToDouble(value));
    result.kernel_parameter = ToDouble(parameter_bar_ / parameter_);
    result.box = ToDouble(box_bar_);
    result.flags = flags_;
    bool finite = std::isfinite(result.kernel_parameter) && std::isfinite(result.box);
    for (const auto* numbers : {&result.keys, &result.values, &result.query}) {
      for (const double number : *numbers) finite &= std::isfinite(number);
    }
    if (!finite) return absl::OutOfRangeError("a derivative overflows");
    return result;
  }

  const ExactMemory& memory_;
  const Snapshot& state_;
  const kernel::Kernel& kernel_;
  const Real parameter_;
  const std::span<const double> query_;
  const size_t d_;
  const size_t m_;

  std::vector<Group> groups_;     // in the order of their first member with weight
  std::vector<size_t> group_of_;  // of each support
  Vector alpha_bar_;              // dL/da_i at fixed keys and C
  Vector key_bar_;                // of the readout's own dependence, a row a support
  std::vector<double> value_bar_;
  Vector query_bar_;
  Real parameter_bar_;  // times the parameter
  Real box_bar_;
  GradientFlags flags_;
};

}  // namespace

absl::StatusOr<Gradients> Backward(const ExactMemory& memory,
                                   std::span<const double> query,
                                   std::span<const double> readout_bar,
                                   std::optional<double> decision_bar,
                                   std::optional<double> log_denominator_bar) {
  const std::shared_ptr<const Snapshot> state = memory.snapshot();
  const MemoryOptions& options = state->options;
  LETHE_RETURN_IF_ERROR(CheckFinite("query", query, options.key_dimension));
  if (absl::Status status = kernel::ValidateKey(options.kernel, query); !status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat("query", absl::StripPrefix(status.message(), "key")));
  }
  LETHE_RETURN_IF_ERROR(CheckFinite("readout_bar", readout_bar, options.value_dimension));
  LETHE_RETURN_IF_ERROR(CheckFinite("decision_bar", decision_bar));
  LETHE_RETURN_IF_ERROR(CheckFinite("log_denominator_bar", log_denominator_bar));
  if (state->phase == Phase::kEmpty) {
    return absl::FailedPreconditionError("the memory holds no token");
  }
  if (decision_bar.has_value() && !state->mu.has_value()) {
    return absl::FailedPreconditionError("decision_bar: mu is not unique in this state");
  }
  const double decision = decision_bar.value_or(0.0);
  const double log_denominator = log_denominator_bar.value_or(0.0);
  LETHE_ASSIGN_OR_RETURN(
      std::optional<Gradients> gradients,
      Adjoint<DoubleDouble>(memory, *state, query).Run(readout_bar, decision, log_denominator));
  if (!gradients.has_value()) {
    const PrecisionScope scope(kUpperBits);
    LETHE_ASSIGN_OR_RETURN(
        gradients,
        Adjoint<MpReal>(memory, *state, query).Run(readout_bar, decision, log_denominator));
  }
  return *std::move(gradients);
}

}  // namespace lethe::svdd
