// Random numbers by counter: the i-th of a stream is a function of seed, stream and i, so that
// there is no state to keep, and whoever resumes asks for the next i.
//
// Philox 4x32 with ten rounds (Salmon et al. 2011). Not for secrets.
#ifndef LETHE_CORE_MODEL_RANDOM_H_
#define LETHE_CORE_MODEL_RANDOM_H_

#include <array>
#include <cstdint>

namespace lethe::model {

using RandomBlock = std::array<uint32_t, 4>;
RandomBlock Philox(RandomBlock counter, std::array<uint32_t, 2> key);

class CounterRandom {
 public:
  CounterRandom(uint64_t seed, uint64_t stream) : seed_(seed), stream_(stream) {}

  RandomBlock Block(uint64_t i) const;
  uint64_t Integer(uint64_t i) const;                // all 64 bits
  uint64_t Below(uint64_t i, uint64_t bound) const;  // bound >= 1; off uniform by bound 2^-64
  double Normal(uint64_t i) const;                   // by Box and Muller

 private:
  uint64_t seed_;
  uint64_t stream_;
};

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_RANDOM_H_
