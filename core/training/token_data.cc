#include "core/training/token_data.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "core/base/check.h"

namespace lethe::training {
namespace {

// Streams of random.h; trainers have others.
constexpr uint64_t kSplitStream = 3'000'001;

}  // namespace

std::vector<uint32_t> DrawDifferent(const model::CounterRandom& random,
                                    size_t size,
                                    size_t count,
                                    uint64_t* draw) {
  LETHE_CHECK(count <= size);
  std::vector<uint32_t> numbers(size);
  std::iota(numbers.begin(), numbers.end(), 0u);
  for (size_t i = 0; i < count; ++i) {
    std::swap(numbers[i], numbers[i + random.Below((*draw)++, size - i)]);
  }
  numbers.resize(count);
  return numbers;
}

Split SplitTokens(size_t tokens, double held_out, uint64_t seed) {
  const auto share = static_cast<size_t>(std::llround(held_out * static_cast<double>(tokens)));
  Split split;
  uint64_t draw = 0;
  split.held_out = DrawDifferent(model::CounterRandom(seed, kSplitStream), tokens,
                                 std::min(share, tokens), &draw);
  std::ranges::sort(split.held_out);
  auto next = split.held_out.begin();
  for (uint32_t i = 0; i < tokens; ++i) {
    if (next != split.held_out.end() && *next == i) {
      ++next;
    } else {
      split.kept.push_back(i);
    }
  }
  return split;
}

std::vector<uint32_t> ValueGroups(const TokenData& data) {
  // By the numbers and not by their bytes: -0 is 0 (core/model/recall_set.h).
  const auto less = [](std::span<const double> a, std::span<const double> b) {
    return std::ranges::lexicographical_compare(a, b);
  };
  std::map<std::span<const double>, uint32_t, decltype(less)> seen(less);
  std::vector<uint32_t> groups;
  groups.reserve(data.tokens);
  for (uint32_t i = 0; i < data.tokens; ++i) {
    groups.push_back(seen.emplace(data.value(i), i).first->second);
  }
  return groups;
}

}  // namespace lethe::training
