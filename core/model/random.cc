#include "core/model/random.h"

#include <cmath>
#include <numbers>

namespace lethe::model {
namespace {

uint32_t Low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t High(uint64_t x) { return static_cast<uint32_t>(x >> 32); }
double UnitOf(uint64_t bits) { return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53; }

}  // namespace

RandomBlock Philox(RandomBlock counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xD2511F53} * counter[0];
    const uint64_t second = uint64_t{0xCD9E8D57} * counter[2];
    counter = {High(second) ^ counter[1] ^ key[0], Low(second), High(first) ^ counter[3] ^ key[1],
               Low(first)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

RandomBlock CounterRandom::Block(uint64_t i) const {
  return Philox({Low(i), High(i), Low(stream_), High(stream_)}, {Low(seed_), High(seed_)});
}

uint64_t CounterRandom::Integer(uint64_t i) const {
  const RandomBlock block = Block(i);
  return uint64_t{block[1]} << 32 | block[0];
}

uint64_t CounterRandom::Below(uint64_t i, uint64_t bound) const {
  // The high half of a 64 x 64 bit product, by halves.
  const uint64_t x = Integer(i);
  const uint64_t low = uint64_t{Low(x)} * Low(bound);
  const uint64_t cross = uint64_t{High(x)} * Low(bound) + High(low);
  const uint64_t other = uint64_t{Low(x)} * High(bound) + Low(cross);
  return uint64_t{High(x)} * High(bound) + High(cross) + High(other);
}

double CounterRandom::Normal(uint64_t i) const {
  const RandomBlock block = Block(i);
  const double radius = std::sqrt(-2 * std::log(UnitOf(uint64_t{block[1]} << 32 | block[0])));
  return radius * std::cos(2 * std::numbers::pi * UnitOf(uint64_t{block[3]} << 32 | block[2]));
}

}  // namespace lethe::model
