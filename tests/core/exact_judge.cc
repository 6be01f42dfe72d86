#include "tests/core/exact_judge.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"

namespace lethe::svdd {
namespace {

// Closer to a tie than this is one; pivots that lose more digits than this leave too few.
const Exact kTie("1e-90");
const Exact kSmallestPivot("1e-80");

struct Group {
  std::vector<size_t> members;  // positions of tokens, in insertion order
  bool margin = false;
  Exact weight = 0;  // of all members together
};

struct Problem {
  Problem(const Snapshot& state, std::span<const OwnedToken> tokens)
      : box(Exact(state.options.capacity.box()) / Exact(state.options.capacity.total())) {
    std::map<std::vector<double>, size_t> index;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto [entry, inserted] = index.try_emplace(tokens[i].key, groups.size());
      if (inserted) groups.emplace_back();
      groups[entry->second].members.push_back(i);
    }
    gram.assign(groups.size(), std::vector<Exact>(groups.size()));
    for (size_t a = 0; a < groups.size(); ++a) {
      for (size_t b = 0; b <= a; ++b) {
        gram[a][b] = gram[b][a] =
            ExactKernel(state.options.kernel, tokens[groups[a].members[0]].key,
                        tokens[groups[b].members[0]].key);
      }
    }
  }
  Exact Cap(const Group& group) const { return box * group.members.size(); }
  // 2 (Ka)_i - K_ii
  Exact Slope(size_t i) const {
    Exact sum = 0;
    for (size_t j = 0; j < groups.size(); ++j) sum += gram[i][j] * groups[j].weight;
    return 2 * sum - gram[i][i];
  }

  Exact box;
  std::vector<Group> groups;
  std::vector<std::vector<Exact>> gram;
};

// Gaussian elimination with partial pivoting; false when digits run out.
bool SolveLinear(std::vector<std::vector<Exact>>& a, std::vector<Exact>& b) {
  const size_t n = b.size();
  for (size_t c = 0; c < n; ++c) {
    size_t best = c;
    for (size_t r = c + 1; r < n; ++r) {
      if (abs(a[r][c]) > abs(a[best][c])) best = r;
    }
    if (abs(a[best][c]) < kSmallestPivot) return false;
    std::swap(a[c], a[best]);
    std::swap(b[c], b[best]);
    for (size_t r = c + 1; r < n; ++r) {
      const Exact factor = a[r][c] / a[c][c];
      if (factor == 0) continue;
      for (size_t k = c; k < n; ++k) a[r][k] -= factor * a[c][k];
      b[r] -= factor * b[c];
    }
  }
  for (size_t r = n; r-- > 0;) {
    for (size_t k = r + 1; k < n; ++k) b[r] -= a[r][k] * b[k];
    b[r] /= a[r][r];
  }
  return true;
}

// The label of each token as the state says; empty with a fault when it says it badly.
std::vector<Label> LabelsOf(const Snapshot& state,
                            std::span<const OwnedToken> tokens,
                            std::string& fault) {
  std::vector<Label> labels(tokens.size(), Label::kReserve);
  size_t position = 0;
  for (const SupportToken& token : state.supports) {
    while (position < tokens.size() && tokens[position].handle != token.handle) ++position;
    if (position == tokens.size()) {
      fault = absl::StrCat("token ", token.handle, " is not retained, or out of order");
      return {};
    }
    if (token.label == Label::kReserve) {
      fault = absl::StrCat("token ", token.handle, " is in reserve and among the supports");
      return {};
    }
    labels[position++] = token.label;
  }
  return labels;
}

// Divides the group's weight among its members. False when a member's label is another.
bool Divide(const Snapshot& state,
            const Problem& problem,
            const Group& group,
            const std::vector<Label>& labels,
            std::vector<Exact>& alpha) {
  std::vector<size_t> order = group.members;
  if (state.options.duplicates == DuplicatesPolicy::kNewestFirst) {
    order.assign(group.members.rbegin(), group.members.rend());
  }
  Exact left = group.weight;
  for (const size_t member : order) {
    Label label = Label::kMargin;
    if (state.options.duplicates == DuplicatesPolicy::kShared || order.size() == 1) {
      alpha[member] = group.weight / order.size();
      if (!group.margin) label = group.weight == 0 ? Label::kReserve : Label::kError;
    } else {
      alpha[member] = left > problem.box ? problem.box : left;
      if (abs(left) <= kTie) {
        alpha[member] = 0;
        label = Label::kReserve;
      } else if (left >= problem.box - kTie) {
        alpha[member] = problem.box;
        label = Label::kError;
      }
      left -= alpha[member];
    }
    if (labels[member] != label) return false;
  }
  return true;
}

}  // namespace

Exact ExactKernel(const kernel::Kernel& kernel,
                  std::span<const double> x,
                  std::span<const double> y) {
  Exact sum = 0;
  for (size_t k = 0; k < x.size(); ++k) {
    const Exact a = x[k];
    const Exact b = y[k];
    sum += kernel.kind == kernel::KernelKind::kExpDot ? a * b : (a - b) * (a - b);
  }
  const Exact parameter = kernel.parameter;
  switch (kernel.kind) {
    case kernel::KernelKind::kRbf:
      return exp(-parameter * sum);
    case kernel::KernelKind::kLaplacian:
      return exp(-parameter * sqrt(sum));
    case kernel::KernelKind::kExpDot:
      return exp(parameter * sum);
  }
  return 0;
}

double RoundOnce(const Exact& value) {
  const double nearest = mpfr_get_d(value.backend().data(), MPFR_RNDN);
  for (const double direction : {-HUGE_VAL, HUGE_VAL}) {
    const Exact midpoint = (Exact(nearest) + Exact(std::nextafter(nearest, direction))) / 2;
    if (abs(value - midpoint) <= abs(value) * kTie) {
      char decimal[64];  // a sign, 25 digits, an exponent
      mpfr_snprintf(decimal, sizeof(decimal), "%.24RNe", value.backend().data());
      return std::strtod(decimal, nullptr) + 0.0;
    }
  }
  return nearest + 0.0;
}

ExactSolution SolveExactly(const Snapshot& state, std::span<const OwnedToken> tokens) {
  ExactSolution solution;
  solution.alpha.assign(tokens.size(), Exact(0));
  const std::vector<Label> labels = LabelsOf(state, tokens, solution.fault);
  if (!solution.fault.empty()) return solution;
  const auto fail = [&](std::string why) {
    solution.fault = std::move(why);
    return solution;
  };

  Problem problem(state, tokens);
  const size_t n = tokens.size();
  if (problem.box * n < 1) {
    for (size_t i = 0; i < n; ++i) {
      if (labels[i] != Label::kError) return fail("warming, and not all in error");
      solution.alpha[i] = Exact(1) / n;
    }
    return solution;
  }

  std::vector<size_t> margin;
  Exact mass = 1;
  for (size_t g = 0; g < problem.groups.size(); ++g) {
    Group& group = problem.groups[g];
    size_t error = 0;
    size_t reserve = 0;
    for (const size_t member : group.members) {
      if (labels[member] == Label::kError) ++error;
      if (labels[member] == Label::kReserve) ++reserve;
    }
    if (reserve == group.members.size()) continue;
    if (error == group.members.size()) {
      group.weight = problem.Cap(group);
      mass -= group.weight;
    } else {
      group.margin = true;
      margin.push_back(g);
    }
  }

  if (!margin.empty()) {
    // [0 1'; 1 2K_SS] [mu; a_S] = [mass; diag_S - 2 K_SE a_E]
    const size_t m = margin.size();
    std::vector<std::vector<Exact>> matrix(m + 1, std::vector<Exact>(m + 1, Exact(0)));
    std::vector<Exact> right(m + 1);
    right[0] = mass;
    for (size_t p = 0; p < m; ++p) {
      matrix[0][p + 1] = matrix[p + 1][0] = 1;
      right[p + 1] = -problem.Slope(margin[p]);
      for (size_t q = 0; q < m; ++q) matrix[p + 1][q + 1] = 2 * problem.gram[margin[p]][margin[q]];
    }
    if (!SolveLinear(matrix, right)) return fail("too singular for these digits");
    solution.mu = right[0];
    for (size_t p = 0; p < m; ++p) {
      Group& group = problem.groups[margin[p]];
      group.weight = right[p + 1];
      if (group.weight <= kTie || group.weight >= problem.Cap(group) - kTie) {
        return fail(absl::StrCat("the margin token ", tokens[group.members[0]].handle,
                                 " has a weight outside its bounds"));
      }
    }
  } else if (abs(mass) > kTie) {
    return fail("no margin, and the error tokens do not hold the mass");
  }

  for (size_t g = 0; g < problem.groups.size(); ++g) {
    const Group& group = problem.groups[g];
    if (!Divide(state, problem, group, labels, solution.alpha)) {
      return fail(absl::StrCat("copies of token ", tokens[group.members[0]].handle,
                               " do not divide their weight by the policy"));
    }
    const Exact end = -problem.Slope(g);
    if (!margin.empty()) {
      const Exact gradient = *solution.mu - end;
      const bool wrong = group.margin        ? abs(gradient) > kTie
                         : group.weight == 0 ? gradient < -kTie
                                             : gradient > kTie;
      if (wrong) {
        return fail(absl::StrCat("the gradient of token ", tokens[group.members[0]].handle,
                                 " has the wrong sign"));
      }
    } else if (group.weight == 0) {
      if (!solution.mu_low.has_value() || end > *solution.mu_low) solution.mu_low = end;
    } else if (!solution.mu_high.has_value() || end < *solution.mu_high) {
      solution.mu_high = end;
    }
  }
  if (solution.mu_low.has_value() && *solution.mu_low > *solution.mu_high + kTie) {
    return fail("no mu fits");
  }
  return solution;
}

std::string ExactFault(const Snapshot& state, std::span<const OwnedToken> tokens) {
  PartitionCounts counts;
  for (const SupportToken& token : state.supports) {
    (token.label == Label::kMargin ? counts.margin : counts.error) += 1;
  }
  counts.reserve = tokens.size() - state.supports.size();
  if (!(counts == state.counts)) return "the counts are not those of the labels";
  if (tokens.empty()) return state.phase == Phase::kEmpty ? "" : "empty, and not called so";

  const ExactSolution solution = SolveExactly(state, tokens);
  if (!solution.fault.empty()) return solution.fault;
  const bool active = solution.mu.has_value() || solution.mu_high.has_value();
  if (state.phase != (active ? Phase::kActive : Phase::kWarming)) return "the phase is another";
  size_t position = 0;
  for (const SupportToken& token : state.supports) {
    while (tokens[position].handle != token.handle) ++position;
    const double rounded = RoundOnce(solution.alpha[position]);
    if (std::bit_cast<uint64_t>(rounded) != std::bit_cast<uint64_t>(token.alpha)) {
      return absl::StrCat("the weight of token ", token.handle, " is not the exact one rounded");
    }
  }
  const auto same = [](const std::optional<double>& published, const std::optional<Exact>& exact) {
    return published.has_value() == exact.has_value() &&
           (!exact.has_value() ||
            std::bit_cast<uint64_t>(RoundOnce(*exact)) == std::bit_cast<uint64_t>(*published));
  };
  if (!same(state.mu, solution.mu)) return "mu is not the exact one rounded";
  if (!same(state.mu_low, solution.mu_low)) return "the lower end of mu is not the exact one";
  if (!same(state.mu_high, solution.mu_high)) return "the upper end of mu is not the exact one";
  return "";
}

Exact ExactSolution::KernelSum(const MemoryOptions& options,
                               std::span<const OwnedToken> tokens,
                               std::span<const double> query) const {
  Exact sum = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (alpha[i] != 0) sum += alpha[i] * ExactKernel(options.kernel, query, tokens[i].key);
  }
  return sum;
}

std::vector<Exact> ExactSolution::Readout(const MemoryOptions& options,
                                          std::span<const OwnedToken> tokens,
                                          std::span<const double> query) const {
  std::vector<Exact> value(tokens[0].value.size(), Exact(0));
  Exact sum = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (alpha[i] == 0) continue;
    const Exact weight = alpha[i] * ExactKernel(options.kernel, query, tokens[i].key);
    sum += weight;
    for (size_t k = 0; k < value.size(); ++k) value[k] += weight * Exact(tokens[i].value[k]);
  }
  for (Exact& coordinate : value) coordinate /= sum;
  return value;
}

Exact ExactGap(const Snapshot& state, std::span<const OwnedToken> tokens, const Exact& mu) {
  std::vector<Exact> alpha(tokens.size(), Exact(0));
  size_t position = 0;
  for (const SupportToken& token : state.supports) {
    while (tokens[position].handle != token.handle) ++position;
    alpha[position] = token.alpha;
  }
  const Exact box = Exact(state.options.capacity.box()) / Exact(state.options.capacity.total());
  Exact gap = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    Exact g = mu - ExactKernel(state.options.kernel, tokens[i].key, tokens[i].key);
    for (size_t j = 0; j < tokens.size(); ++j) {
      if (alpha[j] == 0) continue;
      g += 2 * alpha[j] * ExactKernel(state.options.kernel, tokens[i].key, tokens[j].key);
    }
    // A weight at the box may be rounded to above it.
    if (g > 0) {
      gap += alpha[i] * g;
    } else if (alpha[i] < box) {
      gap += (alpha[i] - box) * g;
    }
  }
  return gap;
}

}  // namespace lethe::svdd
