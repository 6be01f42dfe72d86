// The true answer of a small rbf problem, by a method that shares nothing with the core: a primal
// active-set method in 50 decimal digits (Boost.Multiprecision) from a feasible vertex, ended only
// when the conditions of optimality hold in those digits. docs/math.md, section 1.
//
// Cost: O(n^2) exponentials and O(|S|^3) an iteration in 50 digits; meant for n up to about 100.
#ifndef LETHE_TESTS_BENCH_JUDGE_H_
#define LETHE_TESTS_BENCH_JUDGE_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <boost/multiprecision/cpp_bin_float.hpp>

#include "core/svdd/problem.h"
#include "tests/bench/data.h"

namespace lethe::bench {

class Judge {
 public:
  // Solves. Requires at least capacity.total() / capacity.box() tokens.
  Judge(std::span<const Token> tokens, double gamma, const svdd::Capacity& capacity);

  // A letter a token: R, S or E, as svdd::Label.
  const std::string& partition() const { return partition_; }
  // The weights rounded to nearest, summing to 1.
  const Vector& alpha() const { return alpha_; }

  struct Answer {
    Vector value;                    // the readout
    std::optional<double> decision;  // where mu is unique
  };
  // Evaluated in 50 digits from the unrounded weights, then rounded.
  Answer Query(const Vector& query) const;

 private:
  using Real = boost::multiprecision::cpp_bin_float_50;
  struct Group {
    std::vector<size_t> tokens;  // bit-identical keys
    Real mass = 0;
    Real cap = 0;
  };

  void MakeGroups();
  void Solve();
  bool StepToMinimum();  // false when a bound stopped it
  bool FreeAViolator(bool smallest_index);
  Real Slope(size_t group) const;  // 2 (Kw)_i
  Real Kernel(const Vector& a, const Vector& b) const;

  std::vector<Token> tokens_;
  Real gamma_;
  Real total_;
  Real box_;
  std::vector<Group> groups_;
  std::vector<std::vector<Real>> gram_;
  std::vector<size_t> free_;
  std::string partition_;
  Vector alpha_;
  std::optional<Real> mu_;
};

}  // namespace lethe::bench

#endif  // LETHE_TESTS_BENCH_JUDGE_H_
