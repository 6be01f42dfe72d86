#include "core/model/samples.h"

#include <algorithm>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/model/cross_entropy.h"
#include "core/model/limits.h"
#include "core/model/random.h"

namespace lethe::model {
namespace {

// Streams of random.h. Parameters use the small numbers of their parts.
constexpr uint64_t kTextStream = 1'000'001;
constexpr uint64_t kCopyStream = 1'000'002;

}  // namespace

absl::StatusOr<std::unique_ptr<TextSamples>> TextSamples::Create(std::span<const uint8_t> text,
                                                                 size_t length,
                                                                 TextOrder order,
                                                                 uint64_t seed) {
  if (length < 1 || text.size() <= length) {
    return absl::InvalidArgumentError(absl::StrCat(
        "text: has ", text.size(), " bytes, must be longer than a sample of ", length));
  }
  return absl::WrapUnique(new TextSamples(text, length, order, seed));
}

void TextSamples::Fill(uint64_t sample,
                       std::span<uint32_t> tokens,
                       std::span<uint32_t> targets) const {
  LETHE_CHECK(tokens.size() == length_ && targets.size() == length_);
  const uint64_t first =
      order_ == TextOrder::kRandom
          ? CounterRandom(seed_, kTextStream).Below(sample, text_.size() - length_)
          : sample % windows() * length_;
  for (size_t i = 0; i < length_; ++i) {
    tokens[i] = text_[first + i];
    targets[i] = text_[first + i + 1];
  }
}

absl::StatusOr<std::unique_ptr<SelectiveCopy>> SelectiveCopy::Create(size_t kinds,
                                                                     size_t count,
                                                                     size_t filler,
                                                                     uint64_t seed) {
  LETHE_RETURN_IF_ERROR(InRange("kinds", kinds, 1, 65534));
  LETHE_RETURN_IF_ERROR(InRange("count", count, 1, 4096));
  LETHE_RETURN_IF_ERROR(InRange("filler", filler, 0, 8192));
  return absl::WrapUnique(new SelectiveCopy(kinds, count, filler, seed));
}

void SelectiveCopy::Fill(uint64_t sample,
                         std::span<uint32_t> tokens,
                         std::span<uint32_t> targets) const {
  LETHE_CHECK(tokens.size() == length() && targets.size() == length());
  const CounterRandom random(seed_, kCopyStream);
  const CounterRandom kinds(seed_, kCopyStream + 1);
  const uint64_t first = sample * length();
  const size_t input = count_ + filler_;
  const auto filler = static_cast<uint32_t>(kinds_);
  const auto mark = static_cast<uint32_t>(kinds_ + 1);
  std::ranges::fill(targets, kNoTarget);
  std::fill_n(tokens.begin(), input, filler);
  tokens[input] = mark;
  // Each place takes a data token with the chance that leaves all subsets equally likely.
  size_t placed = 0;
  for (size_t i = 0; i < input; ++i) {
    if (random.Below(first + i, input - i) >= count_ - placed) continue;
    const auto token = static_cast<uint32_t>(kinds.Below(first + i, kinds_));
    tokens[i] = token;
    targets[input + placed] = token;
    if (placed + 1 < count_) tokens[input + placed + 1] = token;
    ++placed;
  }
}

}  // namespace lethe::model
