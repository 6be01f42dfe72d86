// Encoders: the loss of recall against its formula, gradients against differences, training that
// raises held-out recall, checkpoints to the bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>

#include "core/model/encoder_trainer.h"
#include "tests/model/differences.h"
#include "tests/model/runtime.h"

namespace lethe::model {
namespace {

using batched::KernelKind;

TEST(Recall, LossAndGradients) {
  constexpr size_t kTokens = 7;
  constexpr size_t kQueries = 5;
  for (const KernelKind kernel : {KernelKind::kRbf, KernelKind::kLaplacian, KernelKind::kExpDot}) {
    Numbers numbers(1);
    std::vector<double> queries = numbers.Normal(kQueries * 3);
    std::vector<double> keys = numbers.Normal(kTokens * 3);
    std::vector<double> values = numbers.Normal(kTokens * 2);
    // Four of the memory, one of them in reserve; three of the local chunk.
    std::vector<double> weights = {0.3, 0.0, 0.5, 0.2};
    std::vector<double> logs = {std::log(0.6), std::log(2.0), std::log(1.5)};
    const std::vector<uint32_t> groups = {0, 1, 2, 0, 4, 5, 2};
    const std::vector<uint32_t> targets = {0, 1, 2, 9, 5};  // nothing belongs to 9
    RecallScratch<double> scratch;
    const auto input = [&] {
      RecallInput<double> in;
      in.kernel = kernel;
      in.queries = {queries.data(), kQueries, 3, 3};
      in.keys = {keys.data(), kTokens, 3, 3};
      in.values = {values.data(), kTokens, 2, 2};
      in.weights = weights;
      in.groups = groups;
      in.targets = targets;
      in.parameter = std::exp(logs[0]);
      in.scale = std::exp(logs[1]);
      in.sharpness = std::exp(logs[2]);
      return in;
    };
    const auto loss = [&] { return 0.5 * Recall<double>(input(), 0.5, &scratch, nullptr).loss; };

    double expected = 0;
    size_t recalled = 0;
    for (size_t j = 0; j < kQueries; ++j) {
      if (targets[j] == 9) continue;
      std::vector<double> out(2);
      double sum = 0;
      for (size_t i = 0; i < kTokens; ++i) {
        double squares = 0;
        double dot = 0;
        for (size_t c = 0; c < 3; ++c) {
          squares += std::pow(queries[j * 3 + c] - keys[i * 3 + c], 2);
          dot += queries[j * 3 + c] * keys[i * 3 + c];
        }
        const double exponent = kernel == KernelKind::kRbf         ? -squares
                                : kernel == KernelKind::kLaplacian ? -std::sqrt(squares)
                                                                   : dot;
        const double m = (i < 4 ? 2.0 * weights[i] : 1.0) * std::exp(0.6 * exponent);
        sum += m;
        for (size_t c = 0; c < 2; ++c) out[c] += m * values[i * 2 + c];
      }
      double all = 0;
      double group = 0;
      double best = 0;
      bool best_belongs = false;
      for (size_t i = 0; i < kTokens; ++i) {
        double squares = 0;
        for (size_t c = 0; c < 2; ++c) squares += std::pow(out[c] / sum - values[i * 2 + c], 2);
        const double r = std::exp(-1.5 * squares);
        all += r;
        if (groups[i] == targets[j]) group += r;
        if (r > best) {
          best = r;
          best_belongs = groups[i] == targets[j];
        }
      }
      expected -= std::log(group / all);
      recalled += best_belongs ? 1 : 0;
    }
    std::vector<double> queries_bar(queries.size());
    std::vector<double> keys_bar(keys.size());
    std::vector<double> values_bar(values.size());
    std::vector<double> weights_bar(weights.size());
    RecallGradient<double> bars;
    bars.queries = {queries_bar.data(), kQueries, 3, 3};
    bars.keys = {keys_bar.data(), kTokens, 3, 3};
    bars.values = {values_bar.data(), kTokens, 2, 2};
    bars.weights = weights_bar;
    const RecallReport report = Recall<double>(input(), 0.5, &scratch, &bars);
    EXPECT_NEAR(report.loss, expected, 1e-12);
    EXPECT_EQ(report.counted, 4u);
    EXPECT_EQ(report.recalled, recalled);
    ExpectGradient("queries", queries, queries_bar, loss);
    ExpectGradient("keys", keys, keys_bar, loss);
    ExpectGradient("values", values, values_bar, loss);
    ExpectGradient("logs", logs,
                   std::vector<double>{bars.log_parameter, bars.log_scale, bars.log_sharpness},
                   loss);
    for (size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] == 0) {
        EXPECT_EQ(weights_bar[i], 0.0);
        continue;
      }
      EXPECT_NEAR(weights_bar[i], DifferenceQuotient(&weights[i], loss, 0x1p-10), 1e-8);
    }
  }
}

// Keys whose first two coordinates say which token it is and whose others are noise, larger; a
// query is the same token seen again, with other noise. Values are two bits.
struct Noisy {
  explicit Noisy(unsigned seed) {
    Numbers noise(seed);
    constexpr size_t kTokens = 24;
    std::vector<double> queries;
    std::vector<uint32_t> targets;
    const auto see = [&](size_t i, std::vector<double>* to) {
      const double angle = 2 * 3.14159265 * static_cast<double>(i) / kTokens;
      const std::vector<double> n = noise.Normal(6);
      to->push_back(2 * std::cos(angle) + 0.05 * n[0]);
      to->push_back(2 * std::sin(angle) + 0.05 * n[1]);
      for (size_t c = 2; c < 6; ++c) to->push_back(1.2 * n[c]);
    };
    std::vector<double> keys;
    std::vector<double> values;
    for (size_t i = 0; i < kTokens; ++i) {
      see(i, &keys);
      values.push_back(static_cast<double>(i / 3 % 2));
      values.push_back(static_cast<double>(i / 6 % 2));
    }
    for (size_t j = 0; j < 20 * kTokens; ++j) {
      see(j % kTokens, &queries);
      targets.push_back(static_cast<uint32_t>(j % kTokens));
    }
    const auto part = [&](size_t first, size_t count) {
      return RecallSet<double>::Create(keys, 6, values, 2,
                                       {queries.begin() + static_cast<long>(first * 6),
                                        queries.begin() + static_cast<long>((first + count) * 6)},
                                       {targets.begin() + static_cast<long>(first),
                                        targets.begin() + static_cast<long>(first + count)})
          .value();
    };
    training.emplace(part(0, 10 * kTokens));
    held_out.emplace(part(10 * kTokens, 10 * kTokens));
  }
  std::optional<RecallSet<double>> training, held_out;
};

EncoderTrainerOptions Options() {
  EncoderTrainerOptions options;
  options.encoder.key_dimension = 6;
  options.encoder.value_dimension = 2;
  options.encoder.width = 0.5;
  options.encoder.sharpness = 4.0;
  options.optimizer.peak_rate = 0.03;
  options.optimizer.last_rate = 0.003;
  options.optimizer.warm_up = 5;
  options.optimizer.steps = 80;
  options.memory = 16;
  options.local = 4;
  options.queries = 20;
  options.episodes = 4;
  return options;
}

TEST(EncoderEpisodes, Gradients) {
  const Noisy data(2);
  TestRuntime runtime(2);
  for (const bool unit_length : {false, true}) {
    EncoderOptions options = Options().encoder;
    options.projected_key = 4;
    options.projected_value = 3;
    options.unit_length = unit_length;
    options.ridge = 0.02;
    const Encoder encoder = Encoder::Create(options).value();
    std::vector<double> values(encoder.table().size());
    encoder.Initialise<double>(3, values);
    // So that queries and keys are not projected alike.
    for (size_t i = 0; i < values.size(); ++i) values[i] += 0.1 * std::sin(static_cast<double>(i));
    std::vector<Episode> episodes;
    for (uint64_t e = 0; e < 3; ++e) {
      episodes.push_back(DrawEpisode(*data.training, 1, 2, e, 20, 10));
    }
    EpisodeWorkspace<double> workspace;
    const EpisodeShape shape = {16, 4, 10};
    const auto loss = [&] {
      RecallReport recall;
      GateCounters gates;
      EXPECT_TRUE(RunEpisodes<double>(runtime.get(), encoder, values, *data.training, shape,
                                      episodes, {}, {}, &workspace, {}, &recall, &gates)
                      .ok());
      return recall.loss / 30;
    };
    std::vector<double> gradient(values.size());
    RecallReport recall;
    GateCounters gates;
    ASSERT_TRUE(RunEpisodes<double>(runtime.get(), encoder, values, *data.training, shape, episodes,
                                    {}, {}, &workspace, gradient, &recall, &gates)
                    .ok());
    EXPECT_EQ(gates.problems, 3u);
    EXPECT_EQ(gates.unsolved + gates.without_weights, 0u);
    const std::vector<uint8_t> labels = workspace.solution.labels;
    size_t compared = 0;
    for (const Parameter& part : encoder.table().parts()) {
      double largest = 0;
      for (const double entry : part.Part(std::span<double>(gradient))) {
        largest = std::max(largest, std::abs(entry));
      }
      EXPECT_GT(largest, 1e-6) << part.name;
      for (size_t i = part.first; i < part.first + part.size(); ++i) {
        bool kink = false;
        const double quotient = DifferenceQuotient(
            &values[i],
            [&] {
              const double value = loss();
              kink = kink || workspace.solution.labels != labels;
              return value;
            },
            0x1p-13);
        if (kink) continue;
        ++compared;
        EXPECT_NEAR(gradient[i], quotient, 1e-6 * std::abs(quotient) + 1e-7 * largest)
            << part.name << "[" << i - part.first << "]";
      }
    }
    EXPECT_GE(compared, values.size() - values.size() / 10);
  }
}

TEST(EncoderTrainer, RaisesHeldOutRecallOverRawKeys) {
  const Noisy data(4);
  TestRuntime runtime(2);
  auto trainer = EncoderTrainer<double>::Create(Options(), data.training->tokens()).value();
  const auto recall = [&] {
    const RecallReport report = trainer.Evaluate(runtime.get(), *data.held_out, 20).value().recall;
    return static_cast<double>(report.recalled) / static_cast<double>(report.counted);
  };
  const double raw = recall();
  uint64_t churn = 0;
  while (!trainer.done()) {
    const EncoderStepReport report = trainer.Step(runtime.get(), *data.training).value();
    ASSERT_EQ(report.gates.unsolved + report.gates.without_weights, 0u);
    ASSERT_FALSE(report.update.skipped);
    churn += report.gates.churn;
  }
  const double trained = recall();
  RecordProperty("raw", std::to_string(raw));
  RecordProperty("trained", std::to_string(trained));
  EXPECT_LT(raw, 0.8);
  EXPECT_GT(trained, raw + 0.1);
  EXPECT_GT(churn, 0u);
}

TEST(EncoderTrainer, ResumesBitForBit) {
  const Noisy data(5);
  TestRuntime one(1);
  TestRuntime three(3);
  const size_t tokens = data.training->tokens();
  auto straight = EncoderTrainer<double>::Create(Options(), tokens).value();
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(straight.Step(one.get(), *data.training).ok());
  auto stopped = EncoderTrainer<double>::Create(Options(), tokens).value();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(stopped.Step(three.get(), *data.training).ok());
  const std::string checkpoint = stopped.Checkpoint();
  auto resumed = EncoderTrainer<double>::Restore(checkpoint).value();
  EXPECT_EQ(resumed.Checkpoint(), checkpoint);
  EXPECT_EQ(resumed.options(), Options());
  // Measuring leaves no trace, stopped after some batches either.
  const uint64_t episodes = 5 * Options().episodes;
  ASSERT_TRUE(resumed.Evaluate(three.get(), *data.held_out, episodes).ok());
  int asked = 0;
  const auto stop = [&asked] { return ++asked > 3; };
  EXPECT_TRUE(
      absl::IsCancelled(resumed.Evaluate(three.get(), *data.held_out, episodes, stop).status()));
  EXPECT_EQ(asked, 4);
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(resumed.Step(three.get(), *data.training).ok());
  EXPECT_EQ(resumed.Checkpoint(), straight.Checkpoint());
  EXPECT_EQ(resumed.Artefact(), straight.Artefact());

  for (size_t size = 0; size < checkpoint.size(); size += 13) {
    ASSERT_EQ(EncoderTrainer<double>::Restore(checkpoint.substr(0, size)).status().code(),
              absl::StatusCode::kDataLoss);
  }
  EXPECT_EQ(EncoderTrainer<double>::Restore(checkpoint + "x").status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(EncoderTrainer<float>::Restore(checkpoint).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(Encoder, EncodesRowsAsItWasTrained) {
  EncoderOptions options = Options().encoder;
  options.projected_key = 4;
  options.projected_value = 3;
  options.unit_length = true;
  EncoderTrainerOptions trainer_options = Options();
  trainer_options.encoder = options;
  const auto trainer = EncoderTrainer<double>::Create(trainer_options, 24).value();
  const auto trained = ReadEncoderArtefact<double>(trainer.Artefact()).value();
  EXPECT_EQ(trained.encoder.options(), options);
  const std::vector<double> raw = Numbers(6).Normal(6);
  std::vector<double> key(4);
  trained.encoder.EncodeKey<double>(trained.values, raw, key);
  const Matrix<const double> matrix =
      trained.encoder.KeyMatrix(std::span<const double>(trained.values));
  std::vector<double> expected(4);
  for (size_t j = 0; j < 4; ++j) {
    for (size_t i = 0; i < 6; ++i) expected[j] += raw[i] * matrix.row(i)[j];
  }
  const double length = std::sqrt(Product(expected, expected));
  for (size_t j = 0; j < 4; ++j) EXPECT_NEAR(key[j], expected[j] / length, 1e-12);
  std::vector<double> query(4);
  trained.encoder.EncodeQuery<double>(trained.values, raw, query);
  EXPECT_EQ(query, key);  // before training
  std::vector<double> value(3);
  trained.encoder.EncodeValue<double>(trained.values, std::span(raw).first(2), value);
  EXPECT_NE(value[0], 0.0);
}

TEST(RecallSet, EqualNumbersAreEqualValues) {
  const auto set =
      RecallSet<float>::Create({1, 2, 3, 4}, 1, {0.0F, 1, -0.0F, 1, 0.0F, 2, -0.0F, 2}, 2, {1}, {0})
          .value();
  EXPECT_THAT(set.groups(), testing::ElementsAre(0, 0, 2, 2));
}

TEST(RecallSet, RefusesByName) {
  const auto message = [](std::vector<double> keys, std::vector<double> values,
                          std::vector<double> queries, std::vector<uint32_t> targets) {
    return std::string(
        RecallSet<double>::Create(keys, 2, values, 1, queries, targets).status().message());
  };
  EXPECT_EQ(message({1, 2, 3, 4}, {1, 2}, {1, 2}, {1}), "");
  EXPECT_THAT(message({1, 2, 3}, {1, 2}, {1, 2}, {1}), testing::HasSubstr("keys"));
  EXPECT_THAT(message({1, 2, 3, std::nan("")}, {1, 2}, {1, 2}, {1}),
              testing::HasSubstr("keys[1][1]"));
  EXPECT_THAT(message({1, 2, 3, 4}, {1}, {1, 2}, {1}), testing::HasSubstr("values"));
  EXPECT_THAT(message({1, 2, 3, 4}, {1, 2}, {1, 2}, {1, 1}), testing::HasSubstr("targets"));
  EXPECT_THAT(message({1, 2, 3, 4}, {1, 2}, {1, 2}, {2}), testing::HasSubstr("targets[0]"));
}

TEST(EncoderTrainer, RefusesByName) {
  const Noisy data(7);
  TestRuntime runtime(1);
  EncoderTrainerOptions options = Options();
  options.encoder.box = 1.0 / 16;
  EXPECT_THAT(std::string(EncoderTrainer<double>::Create(options, 24).status().message()),
              testing::HasSubstr("encoder.box"));
  EXPECT_THAT(std::string(EncoderTrainer<double>::Create(Options(), 19).status().message()),
              testing::HasSubstr("tokens"));
  auto trainer = EncoderTrainer<double>::Create(Options(), 30).value();
  const std::string before = trainer.Checkpoint();
  EXPECT_THAT(std::string(trainer.Step(runtime.get(), *data.training).status().message()),
              testing::HasSubstr("set"));
  EXPECT_EQ(trainer.Checkpoint(), before);
}

TEST(EncoderTrainer, CheckpointsThatNoRunWritesAreRefused) {
  const Noisy data(9);
  TestRuntime runtime(1);
  const size_t tokens = data.training->tokens();
  auto trainer = EncoderTrainer<double>::Create(Options(), tokens).value();
  ASSERT_TRUE(trainer.Step(runtime.get(), *data.training).ok());
  const std::string good = trainer.Checkpoint();
  const size_t parameters = trainer.values().size();
  // From the end: labels, weights, squares, each with its length; in front of the three arrays of
  // parameters step, skipped and tokens.
  const size_t labels = good.size() - tokens;
  const size_t weights = labels - 8 - 8 * tokens;
  const size_t squares = weights - 8 - 8 * parameters;
  const size_t step = squares - 2 * (8 + 8 * parameters) - 4 * 8;
  const auto with = [&](size_t at, auto number) {
    std::string bytes = good;
    std::memcpy(bytes.data() + at, &number, sizeof number);
    const absl::Status status = EncoderTrainer<double>::Restore(bytes).status();
    EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kDataLoss) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(with(step, uint64_t{2}), "");
  EXPECT_THAT(with(step, UINT64_MAX), testing::HasSubstr("step"));
  EXPECT_THAT(with(step + 8, uint64_t{2}), testing::HasSubstr("skipped"));
  EXPECT_THAT(with(squares, -1.0), testing::HasSubstr("squares"));
  const auto weight_at = [&](size_t i) {
    double weight;
    std::memcpy(&weight, good.data() + weights + 8 * i, sizeof weight);
    return weight;
  };
  for (size_t i = 0; i < tokens; ++i) {
    const auto label = static_cast<uint8_t>(good[labels + i]);
    EXPECT_EQ(with(weights + 8 * i, weight_at(i)), "");
    EXPECT_THAT(with(weights + 8 * i, 0.2500001), testing::HasSubstr("weights"));
    EXPECT_THAT(with(weights + 8 * i, -1e-9), testing::HasSubstr("weights"));
    EXPECT_THAT(with(weights + 8 * i, std::nan("")), testing::HasSubstr("weights"));
    for (const uint8_t other : std::initializer_list<uint8_t>{0, 1, 2, 3, 255}) {
      EXPECT_EQ(with(labels + i, other).empty(), other == label);
    }
  }
}

TEST(EncoderTrainer, WhatItWouldHoldIsBounded) {
  EncoderTrainerOptions options = Options();
  options.encoder.key_dimension = 4096;
  options.encoder.value_dimension = 4096;
  options.local = 4096;
  options.queries = 4096;
  ASSERT_TRUE(Validate(options).ok());
  options.episodes = 4096;
  EXPECT_THAT(std::string(Validate(options).message()), testing::StartsWith("episodes"));
  EXPECT_THAT(
      std::string(EncoderTrainer<float>::Create(Options(), kMaxTokens + 1).status().message()),
      testing::StartsWith("tokens"));
}

TEST(EncoderEpisodes, WorkspacesHoldNoMoreThanTheirBound) {
  const Noisy data(2);
  TestRuntime runtime(1);
  const auto held = [](const Buffer<double>& buffer) {
    return buffer.get().rows * buffer.get().columns;
  };
  for (const bool projected : {false, true}) {
    EncoderOptions options = Options().encoder;
    options.projected_key = projected ? 40 : 0;
    options.projected_value = projected ? 30 : 0;
    options.unit_length = projected;
    const Encoder encoder = Encoder::Create(options).value();
    std::vector<double> values(encoder.table().size());
    encoder.Initialise<double>(3, values);
    std::vector<Episode> episodes;
    for (uint64_t e = 0; e < 5; ++e) {
      episodes.push_back(DrawEpisode(*data.training, 1, 2, e, 20, 10));
    }
    const EpisodeShape shape = {16, 4, 10};
    EpisodeWorkspace<double> work;
    RecallReport recall;
    GateCounters gates;
    std::vector<double> gradient(values.size());
    ASSERT_TRUE(RunEpisodes<double>(runtime.get(), encoder, values, *data.training, shape, episodes,
                                    {}, {}, &work, gradient, &recall, &gates)
                    .ok());
    const size_t sum =
        held(work.raw_keys) + held(work.raw_queries) + held(work.raw_values) + held(work.keys) +
        held(work.queries) + held(work.values) + held(work.keys_bar) + held(work.queries_bar) +
        held(work.values_bar) + held(work.rows_bar) + work.key_lengths.size() +
        work.query_lengths.size() + work.groups.size() + work.targets.size() + work.points.size() +
        work.weights_bar.size() + work.solution.weights.size() + work.solution.labels.size() +
        work.gradients.points.size() + work.scalars.size();
    const uint64_t bound = WorkspaceNumbers(options, shape, episodes.size());
    EXPECT_LE(sum, bound) << projected;
    EXPECT_GT(sum, bound / 2) << projected;
  }
}

TEST(DrawEpisode, TokensAreDistinctAndAllComeUp) {
  const Noisy data(8);
  std::vector<size_t> first(24);
  for (uint64_t number = 0; number < 2400; ++number) {
    Episode episode = DrawEpisode(*data.training, 3, 4, number, 20, 7);
    ASSERT_EQ(episode.queries.size(), 7u);
    ++first[episode.tokens[0]];
    for (const uint32_t query : episode.queries) {
      ASSERT_THAT(episode.tokens, testing::Contains(data.training->targets()[query]));
    }
    std::ranges::sort(episode.tokens);
    ASSERT_EQ(std::ranges::adjacent_find(episode.tokens), episode.tokens.end());
  }
  // 2400 / 24 = 100 each, five standard deviations of 9.8.
  for (const size_t count : first) EXPECT_NEAR(static_cast<double>(count), 100.0, 49.0);
}

}  // namespace
}  // namespace lethe::model
