#include "tests/bench/judge.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "core/base/check.h"

namespace lethe::bench {
namespace {

const char* const kTiny = "1e-40";  // far above the rounding of 50 digits, far below any slack

template <typename Real>
double Rounded(const Real& value) {
  // Through decimal digits, so that the rounding is strtod's.
  return std::strtod(value.str(45, std::ios_base::scientific).c_str(), nullptr);
}

// x with A x = b for a symmetric positive definite A, by Cholesky; for each column of b.
template <typename Real>
void SolveInPlace(std::vector<std::vector<Real>> a, std::vector<std::vector<Real>>& columns) {
  const size_t n = a.size();
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      Real sum = a[i][j];
      for (size_t k = 0; k < j; ++k) sum -= a[i][k] * a[j][k];
      if (i == j) {
        LETHE_CHECK(sum > 0);
        a[i][i] = sqrt(sum);
      } else {
        a[i][j] = sum / a[j][j];
      }
    }
  }
  for (std::vector<Real>& b : columns) {
    for (size_t i = 0; i < n; ++i) {
      for (size_t k = 0; k < i; ++k) b[i] -= a[i][k] * b[k];
      b[i] /= a[i][i];
    }
    for (size_t i = n; i-- > 0;) {
      for (size_t k = i + 1; k < n; ++k) b[i] -= a[k][i] * b[k];
      b[i] /= a[i][i];
    }
  }
}

}  // namespace

Judge::Judge(std::span<const Token> tokens, double gamma, const svdd::Capacity& capacity)
    : tokens_(tokens.begin(), tokens.end()),
      gamma_(gamma),
      total_(capacity.total()),
      box_(capacity.box()) {
  LETHE_CHECK(!capacity.Warming(tokens_.size()));
  MakeGroups();
  Solve();

  partition_.assign(tokens_.size(), 'R');
  alpha_.assign(tokens_.size(), 0.0);
  for (const Group& group : groups_) {
    const Real share = group.mass / Real(group.tokens.size());
    for (const size_t token : group.tokens) {
      partition_[token] = group.mass == 0 ? 'R' : group.mass == group.cap ? 'E' : 'S';
      alpha_[token] = Rounded(Real(share / total_));
    }
  }
  if (!free_.empty()) mu_ = (total_ - Slope(free_[0])) / total_;
}

Judge::Real Judge::Kernel(const Vector& a, const Vector& b) const {
  Real sum = 0;
  for (size_t k = 0; k < a.size(); ++k) {
    const Real difference = Real(a[k]) - Real(b[k]);
    sum += difference * difference;
  }
  return exp(Real(-gamma_ * sum));
}

void Judge::MakeGroups() {
  std::map<Vector, size_t> seen;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const auto [found, fresh] = seen.emplace(tokens_[i].key, groups_.size());
    if (fresh) groups_.emplace_back();
    Group& group = groups_[found->second];
    group.tokens.push_back(i);
    group.cap += box_;
  }
  gram_.assign(groups_.size(), std::vector<Real>(groups_.size()));
  for (size_t i = 0; i < groups_.size(); ++i) {
    for (size_t j = 0; j <= i; ++j) {
      gram_[i][j] = gram_[j][i] =
          Kernel(tokens_[groups_[i].tokens[0]].key, tokens_[groups_[j].tokens[0]].key);
    }
  }
}

Judge::Real Judge::Slope(size_t group) const {
  Real sum = 0;
  for (size_t j = 0; j < groups_.size(); ++j) {
    if (groups_[j].mass != 0) sum += gram_[group][j] * groups_[j].mass;
  }
  return 2 * sum;
}

void Judge::Solve() {
  Real left = total_;
  for (size_t i = 0; i < groups_.size() && left > 0; ++i) {
    groups_[i].mass = left < groups_[i].cap ? left : groups_[i].cap;
    left -= groups_[i].mass;
    if (groups_[i].mass < groups_[i].cap) free_.push_back(i);
  }
  bool stopped = false;
  for (int rounds = 0;; ++rounds) {
    LETHE_CHECK(rounds < 100000);
    if (!free_.empty() && !StepToMinimum()) {
      stopped = true;
      continue;
    }
    if (!FreeAViolator(stopped)) return;
    stopped = false;
  }
}

bool Judge::StepToMinimum() {
  const size_t n = free_.size();
  std::vector<std::vector<Real>> a(n, std::vector<Real>(n));
  std::vector<std::vector<Real>> columns(2, std::vector<Real>(n, Real(1)));
  Real mass = 0;
  for (size_t p = 0; p < n; ++p) {
    mass += groups_[free_[p]].mass;
    columns[1][p] = -Slope(free_[p]) / 2;
    for (size_t q = 0; q < n; ++q) {
      a[p][q] = gram_[free_[p]][free_[q]];
      columns[1][p] += a[p][q] * groups_[free_[q]].mass;
    }
  }
  SolveInPlace(a, columns);
  // w_F = y + t u with the mass that is there.
  Real sum_u = 0;
  Real sum_y = 0;
  for (size_t p = 0; p < n; ++p) {
    sum_u += columns[0][p];
    sum_y += columns[1][p];
  }
  const Real t = (mass - sum_y) / sum_u;
  Real step = 1;
  std::optional<size_t> blocked;
  for (size_t p = 0; p < n; ++p) {
    const Group& group = groups_[free_[p]];
    const Real move = columns[1][p] + t * columns[0][p] - group.mass;
    const Real target = group.mass + move;
    if (target > Real(kTiny) && target < group.cap - Real(kTiny)) continue;
    // Within 1e-40 of a bound is at the bound.
    Real length = move < 0 ? group.mass / -move : (group.cap - group.mass) / move;
    if (move == 0) length = 0;
    if (!blocked.has_value() || length < step) {
      step = length < 1 ? length : Real(1);
      blocked = p;
    }
  }
  for (size_t p = 0; p < n; ++p) {
    Group& group = groups_[free_[p]];
    group.mass += step * (columns[1][p] + t * columns[0][p] - group.mass);
  }
  if (!blocked.has_value()) return true;
  Group& group = groups_[free_[*blocked]];
  group.mass = group.mass < group.cap / 2 ? Real(0) : group.cap;
  free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(*blocked));
  return false;
}

bool Judge::FreeAViolator(bool smallest_index) {
  std::vector<Real> slope(groups_.size());
  for (size_t i = 0; i < groups_.size(); ++i) slope[i] = Slope(i);
  if (free_.empty()) {
    // Mass moves from a full group to an empty one while that lowers the objective.
    std::optional<size_t> low;
    std::optional<size_t> high;
    for (size_t i = 0; i < groups_.size(); ++i) {
      if (groups_[i].mass == 0) {
        if (!low.has_value() || slope[i] < slope[*low]) low = i;
      } else if (!high.has_value() || slope[i] > slope[*high]) {
        high = i;
      }
    }
    if (!low.has_value() || !high.has_value() || slope[*low] >= slope[*high] - Real(kTiny)) {
      return false;
    }
    free_ = {*low, *high};
    return true;
  }
  const Real level = slope[free_[0]];
  Real worst(kTiny);
  std::optional<size_t> found;
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (std::find(free_.begin(), free_.end(), i) != free_.end()) continue;
    const Real violation = groups_[i].mass == 0 ? level - slope[i] : slope[i] - level;
    if (violation <= worst) continue;
    found = i;
    if (smallest_index) break;
    worst = violation;
  }
  if (!found.has_value()) return false;
  free_.push_back(*found);
  return true;
}

Judge::Answer Judge::Query(const Vector& query) const {
  std::vector<Real> sums(tokens_[0].value.size(), Real(0));
  Real denominator = 0;
  for (const Group& group : groups_) {
    if (group.mass == 0) continue;
    const Real weight = group.mass * Kernel(query, tokens_[group.tokens[0]].key);
    denominator += weight;
    for (const size_t token : group.tokens) {
      const Real share = weight / Real(group.tokens.size());
      for (size_t m = 0; m < sums.size(); ++m) sums[m] += share * Real(tokens_[token].value[m]);
    }
  }
  Answer answer;
  for (const Real& sum : sums) answer.value.push_back(Rounded(Real(sum / denominator)));
  if (mu_.has_value()) answer.decision = Rounded(Real(2 * denominator / total_ - 1 + *mu_));
  return answer;
}

}  // namespace lethe::bench
