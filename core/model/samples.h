// Where training sequences come from: sample number i is a function of i, so that a cursor is one
// number and a resumed run reads what an undisturbed one does.
#ifndef LETHE_CORE_MODEL_SAMPLES_H_
#define LETHE_CORE_MODEL_SAMPLES_H_

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"

namespace lethe::model {

class SampleSource {
 public:
  SampleSource() = default;
  virtual ~SampleSource() = default;
  SampleSource(const SampleSource&) = delete;
  SampleSource& operator=(const SampleSource&) = delete;

  virtual size_t length() const = 0;      // tokens a sample
  virtual size_t vocabulary() const = 0;  // tokens and targets are below it
  // Requires spans of `length`. Any thread.
  virtual void Fill(uint64_t sample,
                    std::span<uint32_t> tokens,
                    std::span<uint32_t> targets) const = 0;
};

// Windows of a text, a token a byte, each position's target the next byte.
enum class TextOrder {
  kRandom,      // sample i begins anywhere, by seed and i (with replacement): for training
  kSequential,  // sample i begins at i length, round and round: for evaluation
};
class TextSamples : public SampleSource {
 public:
  // The text is the caller's and outlives the source. INVALID_ARGUMENT "text": not longer than a
  // sample.
  static absl::StatusOr<std::unique_ptr<TextSamples>> Create(std::span<const uint8_t> text,
                                                             size_t length,
                                                             TextOrder order,
                                                             uint64_t seed);

  size_t length() const override { return length_; }
  size_t vocabulary() const override { return 256; }
  void Fill(uint64_t sample,
            std::span<uint32_t> tokens,
            std::span<uint32_t> targets) const override;
  // Samples of kSequential before they repeat.
  uint64_t windows() const { return (text_.size() - 1) / length_; }

 private:
  TextSamples(std::span<const uint8_t> text, size_t length, TextOrder order, uint64_t seed)
      : text_(text), length_(length), order_(order), seed_(seed) {}

  std::span<const uint8_t> text_;
  size_t length_;
  TextOrder order_;
  uint64_t seed_;
};

// Selective copying: `count` data tokens stand anywhere among filler, in order; then a mark, and
// after it the model has to say them again. Only what it says there counts.
//
//     vocabulary: data tokens 0 .. kinds - 1, then filler, then the mark
//     sample:     [count data tokens among `filler` fillers] mark [the data tokens but the last]
class SelectiveCopy : public SampleSource {
 public:
  // INVALID_ARGUMENT "kinds": not in [1, 65534]; "count": not in [1, 4096]; "filler": above 8192.
  static absl::StatusOr<std::unique_ptr<SelectiveCopy>> Create(size_t kinds,
                                                               size_t count,
                                                               size_t filler,
                                                               uint64_t seed);

  size_t length() const override { return 2 * count_ + filler_; }
  size_t vocabulary() const override { return kinds_ + 2; }
  void Fill(uint64_t sample,
            std::span<uint32_t> tokens,
            std::span<uint32_t> targets) const override;

 private:
  SelectiveCopy(size_t kinds, size_t count, size_t filler, uint64_t seed)
      : kinds_(kinds), count_(count), filler_(filler), seed_(seed) {}

  size_t kinds_, count_, filler_;
  uint64_t seed_;
};

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_SAMPLES_H_
