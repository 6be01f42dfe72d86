// Random tokens for the benches. The same seed gives the same tokens with either compiler: the
// generator is std::mt19937_64 and the normal deviates are made here, not by the library.
#ifndef LETHE_TESTS_BENCH_DATA_H_
#define LETHE_TESTS_BENCH_DATA_H_

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/svdd/memory.h"

namespace lethe::bench {

using Vector = std::vector<double>;

struct Token {
  Vector key;
  Vector value;
};

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  double Uniform();            // [0, 1)
  double Normal();             // mean 0, deviation 1
  size_t Below(size_t count);  // 0 .. count - 1; requires count > 0
  Vector Normals(size_t size, double deviation);
  Vector Near(const Vector& centre, double deviation);
  // `count` different numbers below `below`, ascending.
  std::vector<size_t> Subset(size_t count, size_t below);

 private:
  std::mt19937_64 engine_;
};

double SquaredDistance(const Vector& a, const Vector& b);
// exp(-|a - b|^2 gamma) by libm: for baselines, and as nobody's judge.
double Rbf(const Vector& a, const Vector& b, double gamma);

// A memory with rbf and equal shares for equal keys. Requires options that Create accepts.
std::unique_ptr<svdd::ExactMemory> MakeMemory(double gamma,
                                              svdd::Capacity capacity,
                                              size_t key_dimension,
                                              size_t value_dimension);
// Inserts tokens[i] with handle handles[i] in one call. Requires success.
void InsertAll(svdd::ExactMemory& memory,
               std::span<const Token> tokens,
               std::span<const svdd::TokenHandle> handles);
// Handles 0, 1, 2, ...
void InsertAll(svdd::ExactMemory& memory, std::span<const Token> tokens);

// SHA-256 over everything that is published: options, phase, counts, mu or its interval, and each
// support's handle, label, weight, key and value, bit for bit.
std::string StateDigest(const svdd::Snapshot& state);

double Median(Vector values);  // 0 of none
double Largest(const Vector& values);

}  // namespace lethe::bench

#endif  // LETHE_TESTS_BENCH_DATA_H_
