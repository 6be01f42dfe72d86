// The streams of tokens that the benches of costs feed to a memory.
#ifndef LETHE_TESTS_BENCH_PERF_DATA_H_
#define LETHE_TESTS_BENCH_PERF_DATA_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/svdd/memory.h"
#include "tests/bench/data.h"

namespace lethe::bench {

// Keys and values, row after row.
struct Tokens {
  size_t key_dimension = 0;
  size_t value_dimension = 0;
  std::vector<double> keys;
  std::vector<double> values;

  size_t size() const { return key_dimension == 0 ? 0 : keys.size() / key_dimension; }
  std::span<const double> Key(size_t i) const {
    return {keys.data() + i * key_dimension, key_dimension};
  }
  std::span<const double> Value(size_t i) const {
    return {values.data() + i * value_dimension, value_dimension};
  }
};

// The first `count` hours with at least four of seven vital signs measured, from a CSV with the
// columns record_id, HR, MAP, SysABP, DiasABP, RespRate, Temp, GCS and one line an hour. What was
// not measured keeps its last value of the same stay, or is the mean before the first one. Keys are
// the seven signs at mean 0 and deviation 1, values the mean pressure and the heart rate. NOT_FOUND
// without the file, INVALID_ARGUMENT names the columns or the line.
absl::StatusOr<Tokens> IcuHours(const std::string& path, size_t count);

// As many made-up hours of a like shape: stays of up to 48 hours, each a walk around a level of its
// own, one in eight far from the others, three signs that go together, few digits.
Tokens SyntheticHours(size_t count, uint64_t seed);

// Tokens that say the same few things again and again: a few hundred centres that drift slowly,
// each token a centre plus a little noise. Values are normal.
class RedundantStream {
 public:
  static constexpr size_t kCentres = 200;
  static constexpr double kNoise = 0.02;
  static constexpr double kDrift = 0.001;  // of a centre, each time it is used

  RedundantStream(size_t key_dimension, size_t value_dimension, uint64_t seed);
  Tokens Next(size_t count);

 private:
  size_t key_dimension_;
  size_t value_dimension_;
  Random random_;
  std::vector<double> centres_;
};

// Tokens first .. first + n - 1 of `tokens` as a memory takes them, with handles from `handle` on.
std::vector<svdd::NewToken> AsNewTokens(const Tokens& tokens,
                                        size_t first,
                                        size_t count,
                                        svdd::TokenHandle handle);

}  // namespace lethe::bench

#endif  // LETHE_TESTS_BENCH_PERF_DATA_H_
