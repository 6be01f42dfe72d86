// The tokens of a job as its run reads them.
#ifndef LETHE_CORE_TRAINING_TOKEN_DATA_H_
#define LETHE_CORE_TRAINING_TOKEN_DATA_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/jobs/job_config.h"
#include "core/model/random.h"

namespace lethe::training {

// In the order in which they were inserted. A run that reads the text alone has no keys and values,
// and the other way round.
struct TokenData {
  size_t tokens = 0;
  size_t key_dimension = 0;
  size_t value_dimension = 0;
  std::vector<double> keys;    // tokens x key_dimension
  std::vector<double> values;  // tokens x value_dimension
  std::string text;            // payloads, one behind the other

  std::span<const double> key(size_t i) const {
    return std::span(keys).subspan(i * key_dimension, key_dimension);
  }
  std::span<const double> value(size_t i) const {
    return std::span(values).subspan(i * value_dimension, value_dimension);
  }
};
inline bool ReadsText(jobs::JobKind kind) { return kind == jobs::JobKind::kTrainLm; }

// Which tokens are held out: a share of them, by chance. Both parts increase; the same for equal
// arguments.
struct Split {
  std::vector<uint32_t> kept;
  std::vector<uint32_t> held_out;
};
Split SplitTokens(size_t tokens, double held_out, uint64_t seed);

// `count` different numbers below `size`, in random order; advances `draw`. Requires count <= size.
// Cost O(size).
std::vector<uint32_t> DrawDifferent(const model::CounterRandom& random,
                                    size_t size,
                                    size_t count,
                                    uint64_t* draw);

// For each token the number of the first one with the same value.
std::vector<uint32_t> ValueGroups(const TokenData& data);

}  // namespace lethe::training

#endif  // LETHE_CORE_TRAINING_TOKEN_DATA_H_
