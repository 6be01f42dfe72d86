// Training: it learns, and a run that was stopped and resumed ends with the bits of one that was
// not.
#include "core/model/language_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <utility>

#include "core/model/equal_state.h"
#include "core/model/limits.h"
#include "tests/model/runtime.h"

namespace lethe::model {
namespace {

LanguageTrainerOptions Small(AttentionKind kind) {
  LanguageTrainerOptions options;
  options.model.layers = 2;
  options.model.block = 32;
  options.model.mixer.kind = kind;
  options.model.mixer.width = 16;
  options.model.mixer.heads = 2;
  options.model.mixer.window = 8;
  options.model.mixer.chunk = 8;
  options.batch = 4;
  options.optimizer.peak_rate = 0.01;
  options.optimizer.last_rate = 0.001;
  options.optimizer.warm_up = 5;
  options.optimizer.steps = 60;
  return options;
}

// Words of two kinds that take turns, so that there is something to learn.
std::vector<uint8_t> Text() {
  std::mt19937_64 random(3);
  std::string text;
  while (text.size() < 4000) text += random() % 2 == 0 ? "forget " : "remember ";
  return {text.begin(), text.end()};
}

TEST(LanguageTrainer, ResumesBitForBit) {
  const std::vector<uint8_t> text = Text();
  const auto source = TextSamples::Create(text, 32, TextOrder::kRandom, 9).value();
  for (const AttentionKind kind : {AttentionKind::kHybrid, AttentionKind::kDeltaNet}) {
    TestRuntime one(1);
    TestRuntime three(3);
    auto straight = LanguageTrainer<float>::Create(Small(kind)).value();
    for (int i = 0; i < 9; ++i) ASSERT_TRUE(straight.Step(one.get(), *source).ok());

    auto stopped = LanguageTrainer<float>::Create(Small(kind)).value();
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(stopped.Step(three.get(), *source).ok());
    const std::string checkpoint = stopped.Checkpoint();
    ASSERT_TRUE(stopped.Step(three.get(), *source).ok());  // what a killed worker still did
    auto resumed = LanguageTrainer<float>::Restore(checkpoint).value();
    EXPECT_EQ(resumed.Checkpoint(), checkpoint);
    EXPECT_EQ(resumed.options(), Small(kind));
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(resumed.Step(three.get(), *source).ok());
    EXPECT_EQ(resumed.Checkpoint(), straight.Checkpoint());
    EXPECT_EQ(resumed.Artefact(), straight.Artefact());
    EXPECT_EQ(resumed.step(), 9u);
    EXPECT_EQ(resumed.next_sample(), 36u);
  }
}

TEST(LanguageTrainer, EveryKindLearns) {
  const std::vector<uint8_t> text = Text();
  const auto source = TextSamples::Create(text, 32, TextOrder::kRandom, 9).value();
  const auto held = TextSamples::Create(text, 32, TextOrder::kSequential, 0).value();
  TestRuntime runtime(2);
  for (int kind = 1; kind <= 6; ++kind) {
    auto trainer = LanguageTrainer<float>::Create(Small(static_cast<AttentionKind>(kind))).value();
    const double before = trainer.Evaluate(runtime.get(), *held, 0, 8).value().loss;
    EXPECT_NEAR(before, std::log(256.0), 0.2);
    while (!trainer.done()) {
      const StepReport report = trainer.Step(runtime.get(), *source).value();
      ASSERT_FALSE(report.update.skipped);
      ASSERT_EQ(report.loss.gates.unsolved + report.loss.gates.without_weights, 0u);
    }
    // A uniform choice among the 12 letters of the text is 2.5 nats.
    EXPECT_LT(trainer.Evaluate(runtime.get(), *held, 0, 8).value().loss, 1.7)
        << AttentionKindName(static_cast<AttentionKind>(kind));
  }
}

TEST(LanguageTrainer, ArtefactsAreReadBack) {
  const auto trainer = LanguageTrainer<float>::Create(Small(AttentionKind::kHybrid)).value();
  const auto trained = ReadLanguageArtefact<float>(trainer.Artefact()).value();
  EXPECT_EQ(trained.model.options(), trainer.options().model);
  EXPECT_TRUE(std::ranges::equal(trained.values, trainer.values()));
  EXPECT_EQ(ReadLanguageArtefact<double>(trainer.Artefact()).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(LanguageTrainer, DamagedBytesAreRefused) {
  LanguageTrainerOptions options = Small(AttentionKind::kHybrid);
  options.model.layers = 1;
  options.model.vocabulary = 20;
  const auto trainer = LanguageTrainer<float>::Create(options).value();
  const std::string good = trainer.Checkpoint();
  const auto code = [](const std::string& bytes) {
    return LanguageTrainer<float>::Restore(bytes).status().code();
  };
  ASSERT_EQ(code(good), absl::StatusCode::kOk);
  for (size_t size = 0; size < good.size(); size += size < 300 ? 1 : 97) {
    ASSERT_EQ(code(good.substr(0, size)), absl::StatusCode::kDataLoss) << size;
  }
  EXPECT_EQ(code(good + "x"), absl::StatusCode::kDataLoss);
  EXPECT_EQ(code(trainer.Artefact()), absl::StatusCode::kDataLoss);
  std::string not_finite = good;
  not_finite.replace(not_finite.size() - 4, 4, "\xff\xff\xff\xff");
  EXPECT_EQ(code(not_finite), absl::StatusCode::kDataLoss);
  // A count in the options may ask for any amount of memory; whatever a byte is changed to, the
  // answer is a status.
  for (size_t i = 0; i < 300; ++i) {
    for (const char flip : {'\x01', '\x80', '\xff'}) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ flip);
      LanguageTrainer<float>::Restore(bytes).status().IgnoreError();
    }
  }
}

// A checkpoint with one number behind the options changed.
class Forged {
 public:
  explicit Forged(const LanguageTrainer<float>& trainer)
      : good_(trainer.Checkpoint()), size_(trainer.values().size()) {}
  // What stands behind the options: three counters and three arrays with their lengths.
  size_t Cursor() const { return good_.size() - 3 * Array() - 3 * sizeof(uint64_t); }
  size_t Step() const { return Cursor() + sizeof(uint64_t); }
  size_t Skipped() const { return Step() + sizeof(uint64_t); }
  size_t Mean() const { return good_.size() - 2 * Array() + sizeof(uint64_t); }
  size_t Squares() const { return Mean() + Array(); }
  template <typename Number>
  std::string With(std::vector<std::pair<size_t, Number>> changes) const {
    std::string bytes = good_;
    for (const auto& [at, number] : changes) std::memcpy(bytes.data() + at, &number, sizeof number);
    return bytes;
  }

 private:
  size_t Array() const { return sizeof(uint64_t) + size_ * sizeof(float); }
  std::string good_;
  size_t size_;
};

TEST(LanguageTrainer, CheckpointsThatNoRunWritesAreRefused) {
  const std::vector<uint8_t> text = Text();
  const auto source = TextSamples::Create(text, 32, TextOrder::kRandom, 9).value();
  TestRuntime runtime(1);
  auto trainer = LanguageTrainer<float>::Create(Small(AttentionKind::kFull)).value();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(trainer.Step(runtime.get(), *source).ok());
  const Forged forged(trainer);
  const auto answer = [](const std::string& bytes) {
    const absl::Status status = LanguageTrainer<float>::Restore(bytes).status();
    EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kDataLoss) << status;
    return std::string(status.message());
  };
  using Counters = std::vector<std::pair<size_t, uint64_t>>;
  const size_t cursor = forged.Cursor();
  const size_t step = forged.Step();
  const size_t skipped = forged.Skipped();
  EXPECT_EQ(answer(forged.With(Counters{{step, 3}, {cursor, 12}, {skipped, 3}})), "");
  EXPECT_EQ(answer(forged.With(Counters{{step, 4}, {cursor, 16}})), "");
  // The next step would divide by 1 - beta^0.
  EXPECT_THAT(answer(forged.With(Counters{{step, UINT64_MAX}, {cursor, UINT64_MAX * 4}})),
              testing::HasSubstr("step"));
  EXPECT_THAT(answer(forged.With(Counters{{cursor, 13}})), testing::HasSubstr("next sample"));
  EXPECT_THAT(answer(forged.With(Counters{{step, 4}})), testing::HasSubstr("next sample"));
  EXPECT_THAT(answer(forged.With(Counters{{skipped, 4}})), testing::HasSubstr("skipped"));
  EXPECT_THAT(answer(forged.With<float>({{forged.Squares(), -1.0F}})),
              testing::HasSubstr("squares"));
  EXPECT_THAT(answer(forged.With<float>({{forged.Mean(), 1e30F}})), testing::HasSubstr("mean"));

  // The last step that counters can have is the last that is made.
  auto last = LanguageTrainer<float>::Restore(
                  forged.With(Counters{{step, kMaxSteps - 1}, {cursor, 4 * (kMaxSteps - 1)}}))
                  .value();
  ASSERT_TRUE(last.Step(runtime.get(), *source).ok());
  const std::string before = last.Checkpoint();
  EXPECT_EQ(last.Step(runtime.get(), *source).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(last.Checkpoint(), before);
  EXPECT_EQ(answer(before), "");
}

// Logits of one sharp token and one far away leave a gradient whose squares no float can hold.
TEST(LanguageTrainer, WhatItWritesAfterAnEndlessGradientIsRead) {
  const std::vector<uint8_t> text = Text();
  const auto source = TextSamples::Create(text, 32, TextOrder::kRandom, 9).value();
  TestRuntime runtime(1);
  LanguageTrainerOptions options = Small(AttentionKind::kFull);
  options.optimizer.clip = 0;
  const auto fresh = LanguageTrainer<float>::Create(options).value();
  // The last gain multiplies the embedding's gradient.
  const size_t first_value =
      Forged(fresh).Mean() - 2 * sizeof(uint64_t) - fresh.values().size() * 4 + sizeof(uint64_t);
  const Parameter& gain = fresh.model().table().parts().back();
  std::vector<std::pair<size_t, float>> changes;
  for (size_t i = 0; i < gain.size(); ++i) {
    changes.push_back({first_value + (gain.first + i) * sizeof(float), 1e25F});
  }
  auto trainer = LanguageTrainer<float>::Restore(Forged(fresh).With(changes)).value();
  const StepReport report = trainer.Step(runtime.get(), *source).value();
  EXPECT_TRUE(std::isfinite(report.update.gradient_length));
  EXPECT_GT(report.update.gradient_length, 1e22);
  EXPECT_TRUE(report.update.skipped);
  const std::string checkpoint = trainer.Checkpoint();
  EXPECT_EQ(LanguageTrainer<float>::Restore(checkpoint).value().Checkpoint(), checkpoint);
}

TEST(LanguageTrainer, WhatItWouldHoldIsBounded) {
  LanguageTrainerOptions options = Small(AttentionKind::kHybrid);
  options.model.layers = 64;
  options.model.block = 512;
  options.model.mixer.heads = 8;
  options.model.mixer.chunk = 128;
  ASSERT_TRUE(Validate(options).ok());
  options.batch = 2048;
  EXPECT_THAT(std::string(LanguageTrainer<float>::Create(options).status().message()),
              testing::StartsWith("batch"));
  // Two gates for each pair of chunk and token of each head and layer are too many alone.
  EXPECT_GT(uint64_t{2} * 2048 * 512 * 4 * 8 * 64, kMaxTrainerNumbers);
  options.model.mixer.kind = AttentionKind::kFull;
  options.model.layers = 1;
  options.model.mixer.width = 32;
  EXPECT_TRUE(Validate(options).ok());
  options.model.vocabulary = 65536;
  EXPECT_THAT(std::string(Validate(options).message()), testing::StartsWith("batch"));
}

TEST(LanguageTrainer, RefusesSamplesThatDoNotFit) {
  const std::vector<uint8_t> text = Text();
  TestRuntime runtime(1);
  auto trainer = LanguageTrainer<float>::Create(Small(AttentionKind::kFull)).value();
  const std::string before = trainer.Checkpoint();
  const auto long_ones = TextSamples::Create(text, 33, TextOrder::kRandom, 9).value();
  EXPECT_THAT(std::string(trainer.Step(runtime.get(), *long_ones).status().message()),
              testing::HasSubstr("source"));
  EXPECT_EQ(trainer.Checkpoint(), before);
  EXPECT_FALSE(TextSamples::Create(text, text.size(), TextOrder::kRandom, 9).ok());
  LanguageTrainerOptions options = Small(AttentionKind::kFull);
  options.batch = 0;
  EXPECT_FALSE(LanguageTrainer<float>::Create(options).ok());
}

TEST(SelectiveCopy, AsksForTheDataInOrder) {
  const auto made = SelectiveCopy::Create(16, 5, 40, 7).value();
  const SelectiveCopy& source = *made;
  std::vector<uint32_t> tokens(source.length());
  std::vector<uint32_t> targets(source.length());
  std::vector<size_t> places(45);
  for (uint64_t sample = 0; sample < 400; ++sample) {
    source.Fill(sample, tokens, targets);
    std::vector<uint32_t> data;
    for (size_t i = 0; i < 45; ++i) {
      EXPECT_EQ(targets[i], kNoTarget);
      if (tokens[i] == 16) continue;
      data.push_back(tokens[i]);
      ++places[i];
    }
    ASSERT_EQ(data.size(), 5u);
    ASSERT_EQ(tokens[45], 17u);
    for (size_t i = 0; i < 5; ++i) {
      ASSERT_EQ(targets[45 + i], data[i]);
      if (i > 0) {
        ASSERT_EQ(tokens[45 + i], data[i - 1]);
      }
    }
  }
  // 400 5 / 45 = 44 a place, five standard deviations 32.
  for (const size_t count : places) EXPECT_NEAR(static_cast<double>(count), 44.4, 32);
}

TEST(SelectiveCopy, RefusesByName) {
  const auto message = [](size_t kinds, size_t count, size_t filler) {
    return std::string(SelectiveCopy::Create(kinds, count, filler, 1).status().message());
  };
  EXPECT_EQ(message(1, 1, 0), "");
  EXPECT_THAT(message(0, 1, 0), testing::StartsWith("kinds"));
  EXPECT_THAT(message(65535, 1, 0), testing::StartsWith("kinds"));
  EXPECT_THAT(message(1, 0, 8), testing::StartsWith("count"));
  EXPECT_THAT(message(1, SIZE_MAX / 2 + 1, 0), testing::StartsWith("count"));
  EXPECT_THAT(message(1, 1, SIZE_MAX), testing::StartsWith("filler"));
}

TEST(EqualState, CountsWhatIsKept) {
  MixerOptions options;
  options.width = 64;
  options.heads = 4;
  options.chunk = 16;
  options.kind = AttentionKind::kHybrid;
  const double hybrid = StateBytes(options, 200, 12.5, 4);
  EXPECT_DOUBLE_EQ(hybrid, 4 * (16 * 128 + 12.5 * (128 + 4)));
  const size_t window = WindowOfBytes(options, hybrid, 4);
  EXPECT_EQ(window, 29u);
  options.kind = AttentionKind::kWindow;
  options.window = window;
  EXPECT_GE(StateBytes(options, 200, 0, 4), hybrid);
  options.window = window - 1;
  EXPECT_LT(StateBytes(options, 200, 0, 4), hybrid);
  options.kind = AttentionKind::kDeltaNet;
  EXPECT_DOUBLE_EQ(StateBytes(options, 200, 0, 4), 4 * 4 * 16 * 16);
  options.kind = AttentionKind::kLinear;
  EXPECT_DOUBLE_EQ(StateBytes(options, 200, 0, 8), 8 * 4 * (16 * 16 + 16));
}

}  // namespace
}  // namespace lethe::model
