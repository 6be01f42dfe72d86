#include "core/svdd/gradient.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/status_macros.h"
#include "core/kernel/exp.h"
#include "core/svdd/cholesky.h"

namespace lethe::svdd {
namespace {

using kernel::KernelKind;
using Vector = std::vector<DoubleDouble>;

constexpr int kFreshFactorBits = 640;
// A residual below this share of its terms is as good as double-double gets in a few passes; one
// above the second means that the held factor is not that of this state.
constexpr double kResidualGoal = 0x1p-92;
constexpr double kResidualLimit = 0x1p-60;

// Tokens with weight and one key: one variable of the problem.
struct KeyGroup {
  std::vector<size_t> members;  // positions among the supports, increasing
  bool margin = false;
  DoubleDouble weight;      // of all members
  DoubleDouble weight_bar;  // dL by it, at fixed keys and C
  DoubleDouble w;           // the multiplier of its margin equation
  Vector key_bar;           // of the weights' part, for the group as a whole
};

struct Multipliers {
  Vector w;
  DoubleDouble nu;
};

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

// The kernel's derivatives are those of its exponent t, kappa = e^t; t is linear in the parameter.
class Exponents {
 public:
  explicit Exponents(const kernel::Kernel& kernel) : kernel_(kernel) {}

  // dt/dx and dt/dy, each times `factor`, added to x_bar and y_bar; t = Exponent(x, y). False, and
  // nothing added, where laplacian has its kink.
  bool Add(const DoubleDouble& factor,
           const DoubleDouble& t,
           std::span<const double> x,
           std::span<const double> y,
           std::span<DoubleDouble> x_bar,
           std::span<DoubleDouble> y_bar) const {
    DoubleDouble along = factor * DoubleDouble(kernel_.parameter);
    if (kernel_.kind == KernelKind::kExpDot) {
      for (size_t k = 0; k < x.size(); ++k) {
        x_bar[k] += along * DoubleDouble(y[k]);
        y_bar[k] += along * DoubleDouble(x[k]);
      }
      return true;
    }
    if (kernel_.kind == KernelKind::kLaplacian) {
      const DoubleDouble distance = -t / DoubleDouble(kernel_.parameter);
      if (!(distance.hi > 0.0)) return false;
      along = along / distance;
    } else {
      along = along + along;
    }
    for (size_t k = 0; k < x.size(); ++k) {
      const DoubleDouble step = along * TwoSum(x[k], -y[k]);
      x_bar[k] -= step;
      y_bar[k] += step;
    }
    return true;
  }

  DoubleDouble ByParameter(const DoubleDouble& t) const {
    return t / DoubleDouble(kernel_.parameter);
  }

 private:
  const kernel::Kernel& kernel_;
};

class Adjoint {
 public:
  Adjoint(const ExactMemory& memory, std::span<const double> query)
      : memory_(memory),
        state_(memory.snapshot()),
        kernel_(state_->options.kernel),
        exponents_(kernel_),
        query_(query),
        d_(static_cast<size_t>(state_->options.key_dimension)),
        m_(static_cast<size_t>(state_->options.value_dimension)),
        query_bar_(d_) {}

  absl::StatusOr<Gradients> Run(std::span<const double> readout_bar,
                                double decision_bar,
                                double log_denominator_bar) {
    MakeGroups();
    Read(readout_bar, decision_bar, log_denominator_bar);
    if (state_->phase == Phase::kActive) {
      DivideWeightBars();
      LETHE_RETURN_IF_ERROR(ThroughTheWeights(decision_bar));
    }
    SetFlags();
    return Result();
  }

 private:
  std::span<const double> Key(size_t support) const {
    return {state_->keys.data() + support * d_, d_};
  }
  std::span<const double> Key(const KeyGroup& group) const { return Key(group.members.front()); }

  // Groups in the order of their first member with weight.
  void MakeGroups() {
    const size_t n = state_->supports.size();
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [this](size_t a, size_t b) {
      const auto x = Key(a);
      const auto y = Key(b);
      const auto [p, q] = std::ranges::mismatch(x, y);
      return p == x.end() ? a < b : *p < *q;
    });
    for (size_t i = 0; i < n; ++i) {
      if (i == 0 || !std::ranges::equal(Key(order[i]), Key(order[i - 1]))) groups_.emplace_back();
      groups_.back().members.push_back(order[i]);
    }
    std::sort(groups_.begin(), groups_.end(),
              [](const auto& a, const auto& b) { return a.members.front() < b.members.front(); });
    group_of_.resize(n);
    for (size_t g = 0; g < groups_.size(); ++g) {
      KeyGroup& group = groups_[g];
      group.key_bar.resize(d_);
      for (const size_t member : group.members) {
        group_of_[member] = g;
        group.weight += DoubleDouble(state_->supports[member].alpha);
        group.margin |= state_->supports[member].label == Label::kMargin;
      }
    }
  }

  // What the readout itself depends on, and dL/da_i.
  void Read(std::span<const double> readout_bar, double decision_bar, double log_denominator_bar) {
    const size_t n = state_->supports.size();
    Vector t;
    DoubleDouble largest(-INFINITY);
    for (size_t i = 0; i < n; ++i) {
      t.push_back(kernel::Exponent(kernel_, query_, Key(i)));
      if (t[i] > largest) largest = t[i];
    }
    Vector relative;  // k_i / D
    DoubleDouble denominator;
    for (size_t i = 0; i < n; ++i) {
      relative.push_back(kernel::ExpDoubleDouble(t[i] - largest));
      denominator += relative[i] * DoubleDouble(state_->supports[i].alpha);
    }
    Vector readout(m_);
    value_bar_.resize(n * m_);
    for (size_t i = 0; i < n; ++i) {
      relative[i] = relative[i] / denominator;
      const DoubleDouble share = relative[i] * DoubleDouble(state_->supports[i].alpha);
      for (size_t k = 0; k < m_; ++k) {
        readout[k] += share * DoubleDouble(state_->values[i * m_ + k]);
        value_bar_[i * m_ + k] = (share * DoubleDouble(readout_bar[k])).hi;
      }
    }

    alpha_bar_.resize(n);
    key_bar_.resize(n * d_);
    for (size_t i = 0; i < n; ++i) {
      DoubleDouble along(log_denominator_bar);
      for (size_t k = 0; k < m_; ++k) {
        along +=
            DoubleDouble(readout_bar[k]) * (DoubleDouble(state_->values[i * m_ + k]) - readout[k]);
      }
      alpha_bar_[i] = relative[i] * along;
      if (decision_bar != 0.0) {
        alpha_bar_[i] += DoubleDouble(2 * decision_bar) * kernel::ExpDoubleDouble(t[i]);
      }
      // L depends on a_i and k_i through their product.
      const DoubleDouble t_bar = alpha_bar_[i] * DoubleDouble(state_->supports[i].alpha);
      parameter_bar_ += t_bar * exponents_.ByParameter(t[i]);
      flags_.coinciding |=
          !exponents_.Add(t_bar, t[i], query_, Key(i), query_bar_, {key_bar_.data() + i * d_, d_});
    }
    if (decision_bar != 0.0 && kernel_.kind == KernelKind::kExpDot) {
      const DoubleDouble self = kernel::Exponent(kernel_, query_, query_);
      const DoubleDouble t_bar = DoubleDouble(-decision_bar) * kernel::ExpDoubleDouble(self);
      parameter_bar_ += t_bar * exponents_.ByParameter(self);
      exponents_.Add(t_bar, self, query_, query_, query_bar_, query_bar_);
    }
  }

  // From dL/da_i of the members to dL by their group's weight and by C.
  void DivideWeightBars() {
    const bool shared = state_->options.duplicates == DuplicatesPolicy::kShared;
    for (KeyGroup& group : groups_) {
      DoubleDouble sum;
      for (const size_t member : group.members) sum += alpha_bar_[member];
      if (!group.margin) {
        box_bar_ += sum;
      } else if (shared) {
        group.weight_bar = sum / DoubleDouble(static_cast<double>(group.members.size()));
      } else {
        // One copy takes what the full ones leave: its weight is the group's less C for each.
        for (const size_t member : group.members) {
          if (state_->supports[member].label == Label::kMargin) {
            group.weight_bar = alpha_bar_[member];
          }
        }
        box_bar_ +=
            sum - group.weight_bar * DoubleDouble(static_cast<double>(group.members.size()));
      }
    }
  }

  absl::Status ThroughTheWeights(double decision_bar) {
    bool known = false;
    LETHE_ASSIGN_OR_RETURN(const std::vector<size_t> margin, MarginGroups(&known));
    if (margin.empty()) return absl::OkStatus();
    const size_t s = margin.size();
    std::vector<Vector> gram(s);  // lower triangle
    Vector b;
    for (size_t p = 0; p < s; ++p) {
      b.push_back(groups_[margin[p]].weight_bar);
      for (size_t q = 0; q <= p; ++q) {
        gram[p].push_back(
            kernel::EvaluateDoubleDouble(kernel_, Key(groups_[margin[p]]), Key(groups_[margin[q]]))
                .value);
      }
    }
    std::optional<Multipliers> solution;
    if (known) solution = SolveByHeldFactor(gram, b, decision_bar);
    if (!solution.has_value()) solution = SolveAfresh(margin, b, decision_bar);
    if (!solution.has_value()) {
      return absl::FailedPreconditionError("the margin's Gram matrix is singular at 640 bits");
    }
    for (size_t p = 0; p < s; ++p) groups_[margin[p]].w = solution->w[p];

    for (size_t p = 0; p < s; ++p) {
      for (size_t q = 0; q <= p; ++q)
        AddMarginPair(groups_[margin[p]], groups_[margin[q]], gram[p][q]);
    }
    DoubleDouble at_box;  // tokens in error groups
    for (const KeyGroup& group : groups_) {
      if (!group.margin) at_box += DoubleDouble(static_cast<double>(group.members.size()));
    }
    box_bar_ -= solution->nu * at_box;
    for (const size_t g : margin) {
      for (KeyGroup& error : groups_) {
        if (!error.margin) AddErrorPair(groups_[g], error);
      }
    }
    return absl::OkStatus();
  }

  // The margin's groups, in the order of the held factor's rows when `known`.
  absl::StatusOr<std::vector<size_t>> MarginGroups(bool* known) {
    const std::vector<TokenHandle> handles = memory_.MarginHandles();
    std::vector<size_t> margin;
    *known = true;
    for (const TokenHandle handle : handles) {
      const auto support =
          std::ranges::lower_bound(state_->supports, handle, {}, &SupportToken::handle);
      if (support == state_->supports.end() || support->handle != handle) {
        *known = false;
        continue;
      }
      const size_t g = group_of_[static_cast<size_t>(support - state_->supports.begin())];
      if (!groups_[g].margin) {
        // Copies filled exactly to the box, none of them partly: the group is in the margin.
        MoveToMargin(groups_[g]);
      }
      margin.push_back(g);
    }
    if (*known) return margin;
    margin.clear();
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].margin) margin.push_back(g);
    }
    if (margin.size() != handles.size()) {
      return absl::FailedPreconditionError(
          "copies are filled exactly to the box: this state has no derivative");
    }
    return margin;
  }

  // Its weight is k C exactly: which copy takes a change depends on the sign. The newest taken is
  // chosen, and the flag raised.
  void MoveToMargin(KeyGroup& group) {
    group.margin = true;
    const bool oldest = state_->options.duplicates == DuplicatesPolicy::kOldestFirst;
    group.weight_bar = alpha_bar_[oldest ? group.members.back() : group.members.front()];
    box_bar_ -= group.weight_bar * DoubleDouble(static_cast<double>(group.members.size()));
    flags_.small_slack = true;
  }

  // By refinement until the residual is that of double-double. Nullopt when it does not get there.
  std::optional<Multipliers> SolveByHeldFactor(const std::vector<Vector>& gram,
                                               const Vector& b,
                                               double mass) const {
    const size_t s = b.size();
    Multipliers solution{Vector(s), {}};
    constexpr int kPasses = 4;
    double worst = INFINITY;
    for (int pass = 0; pass <= kPasses; ++pass) {
      DoubleDouble mass_left(mass);
      double size = std::abs(mass);
      Vector product(s);
      std::vector<double> absolute(s);
      for (size_t p = 0; p < s; ++p) {
        mass_left -= solution.w[p];
        size += std::abs(solution.w[p].hi);
        for (size_t q = 0; q <= p; ++q) {
          const DoubleDouble twice(2 * gram[p][q].hi, 2 * gram[p][q].lo);
          product[p] += twice * solution.w[q];
          absolute[p] += std::abs(twice.hi * solution.w[q].hi);
          if (q == p) continue;
          product[q] += twice * solution.w[p];
          absolute[q] += std::abs(twice.hi * solution.w[p].hi);
        }
      }
      worst = size > 0.0 ? std::abs(mass_left.hi) / size : 0.0;
      std::vector<double> residual;
      for (size_t p = 0; p < s; ++p) {
        residual.push_back((b[p] - solution.nu - product[p]).hi);
        const double terms = absolute[p] + std::abs(b[p].hi) + std::abs(solution.nu.hi);
        if (terms > 0.0) worst = std::max(worst, std::abs(residual[p]) / terms);
      }
      if (worst <= kResidualGoal || pass == kPasses) break;
      const std::optional<MarginSolution> step = memory_.SolveMarginSystem(residual, mass_left.hi);
      if (!step.has_value()) return std::nullopt;
      for (size_t p = 0; p < s; ++p) solution.w[p] += DoubleDouble(step->w[p]);
      solution.nu += DoubleDouble(step->nu);
    }
    if (!(worst <= kResidualLimit)) return std::nullopt;
    return solution;
  }

  std::optional<Multipliers> SolveAfresh(const std::vector<size_t>& margin,
                                         const Vector& b,
                                         double mass) const {
    const PrecisionScope scope(kFreshFactorBits);
    CholeskyFactor<MpReal> factor;
    const MpReal share = MpReal::PowerOfTwo(40 - kFreshFactorBits);
    std::vector<MpReal> right;
    for (size_t p = 0; p < margin.size(); ++p) {
      std::vector<MpReal> row;
      const auto key = Key(groups_[margin[p]]);
      for (size_t q = 0; q < p; ++q) {
        row.push_back(kernel::EvaluateMp(kernel_, key, Key(groups_[margin[q]])).value);
      }
      const MpReal diagonal = kernel::EvaluateMp(kernel_, key, key).value;
      if (!factor.Append(std::move(row), diagonal, diagonal * share)) return std::nullopt;
      right.emplace_back(b[p]);
    }
    std::vector<MpReal> w;
    MpReal nu;
    SolveBordered(factor, std::move(right), MpReal(mass), w, nu);
    Multipliers solution;
    for (const MpReal& value : w) solution.w.push_back(ToDoubleDouble(value));
    solution.nu = ToDoubleDouble(nu);
    return solution;
  }

  // dL/dK_pq dK_pq of both orders, groups of the margin.
  void AddMarginPair(KeyGroup& a, KeyGroup& b, const DoubleDouble& kernel_value) {
    const DoubleDouble cross = &a == &b ? a.w * a.weight : a.w * b.weight + b.w * a.weight;
    DoubleDouble coefficient = &a == &b ? a.w : DoubleDouble();
    coefficient -= cross + cross;
    AddKernel(coefficient * kernel_value, a, b);
  }

  void AddErrorPair(KeyGroup& margin, KeyGroup& error) {
    const DoubleDouble value =
        kernel::EvaluateDoubleDouble(kernel_, Key(margin), Key(error)).value * margin.w;
    const DoubleDouble by_mass = -(value + value);
    box_bar_ += by_mass * DoubleDouble(static_cast<double>(error.members.size()));
    AddKernel(by_mass * error.weight, margin, error);
  }

  void AddKernel(const DoubleDouble& t_bar, KeyGroup& a, KeyGroup& b) {
    // A group with itself: a constant 1 but for exp_dot, where both arguments move.
    if (&a == &b && kernel_.kind != KernelKind::kExpDot) return;
    const DoubleDouble t = kernel::Exponent(kernel_, Key(a), Key(b));
    parameter_bar_ += t_bar * exponents_.ByParameter(t);
    exponents_.Add(t_bar, t, Key(a), Key(b), a.key_bar, b.key_bar);
  }

  void SetFlags() {
    flags_.warming = state_->phase == Phase::kWarming;
    flags_.no_margin = state_->phase == Phase::kActive;
    for (const KeyGroup& group : groups_) {
      flags_.copies |= group.members.size() > 1;
      flags_.no_margin &= !group.margin;
      if (!group.margin || state_->options.duplicates == DuplicatesPolicy::kShared) continue;
      // The proof's slack is that of groups; a copy can be nearer to a bound than its group.
      for (const size_t member : group.members) {
        const SupportToken& token = state_->supports[member];
        if (token.label != Label::kMargin) continue;
        const double room = state_->options.capacity.weight_at_box() - token.alpha;
        flags_.small_slack |= std::min(token.alpha, room) < kSmallSlack;
      }
    }
    flags_.small_slack |= !flags_.warming && state_->proof.slack < kSmallSlack;
  }

  absl::StatusOr<Gradients> Result() const {
    Gradients result;
    bool finite = std::isfinite(parameter_bar_.hi) && std::isfinite(box_bar_.hi);
    const auto round = [&finite](const DoubleDouble& value) {
      finite &= std::isfinite(value.hi);
      return value.hi;
    };
    for (size_t i = 0; i < state_->supports.size(); ++i) {
      result.handles.push_back(state_->supports[i].handle);
      const KeyGroup& group = groups_[group_of_[i]];
      DoubleDouble share(1.0);
      if (group.members.size() > 1) {
        share = DoubleDouble(state_->supports[i].alpha) / group.weight;
      }
      for (size_t k = 0; k < d_; ++k) {
        result.keys.push_back(round(key_bar_[i * d_ + k] + share * group.key_bar[k]));
      }
    }
    for (const double value : value_bar_) result.values.push_back(round(value));
    for (const DoubleDouble& value : query_bar_) result.query.push_back(round(value));
    result.kernel_parameter = parameter_bar_.hi;
    result.box = box_bar_.hi;
    result.flags = flags_;
    if (!finite) return absl::OutOfRangeError("a derivative overflows");
    return result;
  }

  const ExactMemory& memory_;
  const std::shared_ptr<const Snapshot> state_;
  const kernel::Kernel& kernel_;
  const Exponents exponents_;
  const std::span<const double> query_;
  const size_t d_;
  const size_t m_;

  std::vector<KeyGroup> groups_;  // in the order of their first member with weight
  std::vector<size_t> group_of_;  // of each support
  Vector alpha_bar_;              // dL/da_i at fixed keys and C
  Vector key_bar_;                // of the readout's own dependence, a row a support
  std::vector<double> value_bar_;
  Vector query_bar_;
  DoubleDouble parameter_bar_;
  DoubleDouble box_bar_;
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
  return Adjoint(memory, query)
      .Run(readout_bar, decision_bar.value_or(0.0), log_denominator_bar.value_or(0.0));
}

}  // namespace lethe::svdd
