// The whole model: every part's gradient against differences for each kind of attention, and the
// same bits on any number of threads.
#include "core/model/language_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model/differences.h"
#include "tests/model/runtime.h"

namespace lethe::model {
namespace {

constexpr AttentionKind kKinds[] = {AttentionKind::kFull,   AttentionKind::kWindow,
                                    AttentionKind::kHybrid, AttentionKind::kDeltaNet,
                                    AttentionKind::kLinear, AttentionKind::kLinearDecay};

LanguageModelOptions Small(AttentionKind kind) {
  LanguageModelOptions options;
  options.layers = 2;
  options.block = 24;
  options.vocabulary = 11;
  options.mixer.kind = kind;
  options.mixer.width = 8;
  options.mixer.heads = 2;
  options.mixer.window = 5;
  options.mixer.chunk = 8;
  options.mixer.gate.box = 0.3;
  options.mixer.gate.ridge = 1e-2;
  options.mixer.gate.scale = 3.0;
  options.mlp_width = 12;
  options.deviation = 0.4;
  return options;
}

std::vector<uint32_t> Tokens(size_t size, uint32_t vocabulary, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint32_t> tokens(size);
  for (uint32_t& token : tokens) token = static_cast<uint32_t>(random() % vocabulary);
  return tokens;
}

// The labels of all problems: where they change the loss has a kink.
std::vector<uint8_t> Labels(const LanguageModelWorkspace<double>& workspace) {
  std::vector<uint8_t> labels;
  for (const auto& layer : workspace.layers) {
    for (const auto& chunk : layer.mixer.gate.chunks) {
      labels.insert(labels.end(), chunk.solution.labels.begin(), chunk.solution.labels.end());
    }
  }
  return labels;
}

void HoldGradients(const LanguageModelOptions& options) {
  SCOPED_TRACE(AttentionKindName(options.mixer.kind));
  const LanguageModel model = LanguageModel::Create(options).value();
  TestRuntime runtime(1);
  std::vector<double> values(model.table().size());
  model.Initialise<double>(5, values);
  const size_t sequences = 2;
  const std::vector<uint32_t> tokens = Tokens(sequences * options.block, 11, 1);
  std::vector<uint32_t> targets = Tokens(tokens.size(), 11, 2);
  targets[3] = kNoTarget;
  LanguageModelWorkspace<double> workspace;
  const auto loss = [&] {
    return model.Forward<double>(runtime.get(), values, sequences, tokens, targets, &workspace)
        .value()
        .loss;
  };
  loss();
  const std::vector<uint8_t> labels = Labels(workspace);
  std::vector<double> gradient(values.size());
  ASSERT_TRUE(model.Backward<double>(runtime.get(), values, &workspace, gradient).ok());

  size_t wanted = 0;
  size_t compared = 0;
  size_t skipped = 0;
  for (const Parameter& part : model.table().parts()) {
    double largest = 0;
    for (const double entry : part.Part(std::span<double>(gradient))) {
      largest = std::max(largest, std::abs(entry));
    }
    EXPECT_GT(largest, 1e-6) << part.name;
    const size_t stride = std::max<size_t>(1, part.size() / 5);
    wanted += (part.size() - 1) / stride + 1;
    for (size_t i = part.first; i < part.first + part.size(); i += stride) {
      bool kink = false;
      const double quotient = DifferenceQuotient(
          &values[i],
          [&] {
            const double value = loss();
            kink = kink || Labels(workspace) != labels;
            return value;
          },
          0x1p-13);
      if (kink) {
        ++skipped;
        continue;
      }
      ++compared;
      EXPECT_NEAR(gradient[i], quotient, 1e-6 * std::abs(quotient) + 1e-7 * largest)
          << part.name << "[" << i - part.first << "]";
    }
  }
  EXPECT_EQ(compared + skipped, wanted);
  // Only labels have kinks.
  EXPECT_LE(skipped, options.mixer.kind == AttentionKind::kHybrid ? wanted / 10 : 0);
}

TEST(LanguageModel, Gradients) {
  for (const AttentionKind kind : kKinds) HoldGradients(Small(kind));
  LanguageModelOptions other = Small(AttentionKind::kFull);
  other.mlp = MlpKind::kSwiglu;
  other.norm = NormKind::kLayer;
  HoldGradients(other);
}

TEST(LanguageModel, ReservesAreOutAndProblemsAreSolved) {
  const LanguageModel model = LanguageModel::Create(Small(AttentionKind::kHybrid)).value();
  TestRuntime runtime(1);
  std::vector<double> values(model.table().size());
  model.Initialise<double>(5, values);
  LanguageModelWorkspace<double> workspace;
  const std::vector<uint32_t> tokens = Tokens(3 * 24, 11, 1);
  const LossReport report =
      model.Forward<double>(runtime.get(), values, 3, tokens, tokens, &workspace).value();
  // 3 sequences, 2 heads, 2 layers, prefixes of 8 and 16.
  EXPECT_EQ(report.gates.problems, 3u * 2 * 2 * 2);
  EXPECT_EQ(report.gates.tokens, 3u * 2 * 2 * (8 + 16));
  EXPECT_EQ(report.gates.unsolved + report.gates.without_weights, 0u);
  EXPECT_GT(report.gates.kept, 0u);
  EXPECT_LT(report.gates.kept, report.gates.tokens);
  EXPECT_GT(report.gates.churn, 0u);
}

TEST(GateShape, CountsChunksOfAnyLength) {
  const auto chunks = [](size_t length, size_t chunk) {
    return GateShape{1, 1, length, chunk}.chunks();
  };
  EXPECT_EQ(chunks(16, 8), 2u);
  EXPECT_EQ(chunks(17, 8), 3u);
  EXPECT_EQ(chunks(7, 8), 1u);
  EXPECT_EQ(chunks(8, SIZE_MAX), 1u);
}

// A chunk that no sequence fills has no prefix, so nothing is solved.
TEST(LanguageModel, TheLongestChunkIsPlainAttention) {
  LanguageModelOptions options = Small(AttentionKind::kHybrid);
  options.mixer.chunk = kMaxChunk;
  const LanguageModel model = LanguageModel::Create(options).value();
  TestRuntime runtime(1);
  std::vector<double> values(model.table().size());
  model.Initialise<double>(5, values);
  LanguageModelWorkspace<double> workspace;
  const std::vector<uint32_t> tokens = Tokens(24, 11, 1);
  const LossReport report =
      model.Forward<double>(runtime.get(), values, 1, tokens, tokens, &workspace).value();
  EXPECT_EQ(report.gates.problems, 0u);
  EXPECT_TRUE(std::isfinite(report.loss));
}

TEST(GateCounters, ProblemsAreSolvedUnsolvedOrWithoutWeights) {
  using batched::Outcome;
  batched::Solution<double> solution;
  solution.outcome = {Outcome::kConverged, Outcome::kSinglePivot,         Outcome::kUnsolved,
                      Outcome::kUnsolved,  Outcome::kNotPositiveDefinite, Outcome::kNotFinite,
                      Outcome::kZeroKey};
  solution.labels = {0, 1, 2, 0, 0, 1, 0};
  GateCounters counters;
  Count(solution, 1, &counters);
  EXPECT_EQ(counters.problems, 7u);
  EXPECT_EQ(counters.single_pivots, 1u);
  EXPECT_EQ(counters.unsolved, 3u);
  EXPECT_EQ(counters.without_weights, 2u);
  EXPECT_EQ(counters.kept, 3u);
}

template <typename T>
size_t Held(const Buffer<T>& buffer) {
  return buffer.get().rows * buffer.get().columns;
}
TEST(LanguageModel, WorkspacesHoldNoMoreThanTheirBound) {
  for (const AttentionKind kind : kKinds) {
    for (const size_t block : {size_t{24}, size_t{100}}) {
      LanguageModelOptions options = Small(kind);
      options.block = block;
      const LanguageModel model = LanguageModel::Create(options).value();
      TestRuntime runtime(1);
      std::vector<double> values(model.table().size());
      std::vector<double> gradient(values.size());
      model.Initialise<double>(5, values);
      LanguageModelWorkspace<double> work;
      const std::vector<uint32_t> tokens = Tokens(3 * block, 11, 1);
      ASSERT_TRUE(model.Forward<double>(runtime.get(), values, 3, tokens, tokens, &work).ok());
      ASSERT_TRUE(model.Backward<double>(runtime.get(), values, &work, gradient).ok());
      size_t held = Held(work.last) + Held(work.last_normed) + Held(work.logits) +
                    work.losses.size() + 3 * work.tokens.size() + Held(work.x_bar) +
                    Held(work.branch) + Held(work.branch_bar) + Held(work.mlp.inner_bar) +
                    Held(work.mlp.active_bar) + Held(work.mixer.qkv_bar) + Held(work.mixer.o_bar) +
                    Held(work.mixer.rates_bar);
      for (const auto& layer : work.layers) {
        held += Held(layer.x) + Held(layer.mixer_in) + Held(layer.middle) + Held(layer.mlp_in) +
                Held(layer.mlp.inner) + Held(layer.mlp.active) + Held(layer.mixer.qkv) +
                Held(layer.mixer.o) + Held(layer.mixer.log_sums) + Held(layer.mixer.rates) +
                Held(layer.mixer.decays);
        const SvddGateWorkspace<double>& gate = layer.mixer.gate;
        held += Held(gate.gates) + Held(gate.gates_bar) + gate.gradients.points.size() +
                gate.weights_bar.size();
        for (const auto& chunk : gate.chunks) {
          held += chunk.points.size() + chunk.start.size() + chunk.previous_labels.size() +
                  chunk.solution.weights.size() + chunk.solution.labels.size();
        }
      }
      for (const auto& part : work.mixer.attention)
        held += Held(part.scores) + Held(part.scores_bar);
      for (const auto& part : work.mixer.delta_net) {
        held += Held(part.q) + Held(part.k) + Held(part.rows) + Held(part.u) + Held(part.kept) +
                Held(part.states) + Held(part.state_bar) + Held(part.row_bar);
      }
      for (const auto& part : work.mixer.linear) {
        held += Held(part.q) + Held(part.k) + Held(part.decay) + Held(part.state) + Held(part.row) +
                Held(part.ratio_bar) + Held(part.q_unit_bar);
      }
      const uint64_t bound = WorkspaceNumbers(options, 3);
      EXPECT_LE(held, bound) << AttentionKindName(kind);
      EXPECT_GT(held, bound - bound / 4) << AttentionKindName(kind);
    }
  }
}

template <typename T>
void ExpectSameBitsOnAnyThreads(AttentionKind kind) {
  LanguageModelOptions options = Small(kind);
  options.mixer.width = 40;
  options.block = 70;
  options.mixer.chunk = 20;
  options.deviation = 0.05;
  const LanguageModel model = LanguageModel::Create(options).value();
  std::vector<T> values(model.table().size());
  model.Initialise<T>(7, values);
  const std::vector<uint32_t> tokens = Tokens(3 * 70, 11, 1);
  const std::vector<uint32_t> targets = Tokens(3 * 70, 11, 2);
  std::vector<T> first;
  double loss = 0;
  for (const size_t threads : {size_t{1}, size_t{2}, size_t{5}}) {
    TestRuntime runtime(threads);
    LanguageModelWorkspace<T> workspace;
    // The second time everything is already allocated.
    for (int round = 0; round < 2; ++round) {
      std::vector<T> gradient(values.size());
      const LossReport report =
          model.template Forward<T>(runtime.get(), values, 3, tokens, targets, &workspace).value();
      ASSERT_TRUE(model.template Backward<T>(runtime.get(), values, &workspace, gradient).ok());
      if (first.empty()) {
        first = gradient;
        loss = report.loss;
      }
      ASSERT_EQ(report.loss, loss) << AttentionKindName(kind) << " " << threads;
      ASSERT_EQ(gradient, first) << AttentionKindName(kind) << " " << threads;
    }
  }
}
TEST(LanguageModel, BitsDoNotDependOnThreads) {
  for (const AttentionKind kind : kKinds) {
    ExpectSameBitsOnAnyThreads<float>(kind);
    ExpectSameBitsOnAnyThreads<double>(kind);
  }
}

// What comes later must not show earlier.
TEST(LanguageModel, IsCausal) {
  for (const AttentionKind kind : kKinds) {
    const LanguageModel model = LanguageModel::Create(Small(kind)).value();
    TestRuntime runtime(1);
    std::vector<double> values(model.table().size());
    model.Initialise<double>(5, values);
    std::vector<uint32_t> tokens = Tokens(24, 11, 1);
    LanguageModelWorkspace<double> workspace;
    const auto rows = [&] {
      EXPECT_TRUE(model.Forward<double>(runtime.get(), values, 1, tokens, tokens, &workspace).ok());
      const Matrix<double> p = LanguageModel::Probabilities(workspace);
      return std::vector<double>(p.data, p.data + p.rows * p.columns);
    };
    const std::vector<double> before = rows();
    constexpr size_t kChanged = 13;
    tokens[kChanged] = (tokens[kChanged] + 1) % 11;
    const std::vector<double> after = rows();
    for (size_t i = 0; i < 24; ++i) {
      const bool same = std::equal(before.begin() + static_cast<long>(i * 11),
                                   before.begin() + static_cast<long>((i + 1) * 11),
                                   after.begin() + static_cast<long>(i * 11));
      if (i <= kChanged) {
        EXPECT_EQ(same, i < kChanged) << AttentionKindName(kind) << " " << i;
      }
    }
  }
}

TEST(LanguageModel, RefusesNonsenseByName) {
  const auto message = [](const LanguageModelOptions& options) {
    return std::string(LanguageModel::Create(options).status().message());
  };
  LanguageModelOptions options = Small(AttentionKind::kHybrid);
  options.mixer.heads = 3;
  EXPECT_THAT(message(options), testing::HasSubstr("model.heads"));
  options = Small(AttentionKind::kHybrid);
  options.mixer.gate.box = 0.125;
  EXPECT_THAT(message(options), testing::HasSubstr("gate.box"));
  options = Small(AttentionKind::kHybrid);
  options.block = 600;
  EXPECT_THAT(message(options), testing::HasSubstr("gate.chunk"));
  for (const size_t chunk : {size_t{1}, kMaxChunk + 1, SIZE_MAX}) {
    options = Small(AttentionKind::kHybrid);
    options.mixer.chunk = chunk;
    EXPECT_THAT(message(options), testing::HasSubstr("gate.chunk"));
  }
  options = Small(AttentionKind::kWindow);
  options.mixer.window = 0;
  EXPECT_THAT(message(options), testing::HasSubstr("model.window"));
  options = Small(AttentionKind::kFull);
  options.layers = 0;
  EXPECT_THAT(message(options), testing::HasSubstr("model.layers"));

  const LanguageModel model = LanguageModel::Create(Small(AttentionKind::kFull)).value();
  std::vector<double> values(model.table().size());
  TestRuntime runtime(1);
  LanguageModelWorkspace<double> workspace;
  const std::vector<uint32_t> outside = {1, 11};
  const std::vector<uint32_t> inside = {1, 2};
  EXPECT_THAT(
      std::string(model.Forward<double>(runtime.get(), values, 1, outside, inside, &workspace)
                      .status()
                      .message()),
      testing::HasSubstr("tokens[1]"));
  EXPECT_THAT(
      std::string(model.Forward<double>(runtime.get(), values, 1, inside, outside, &workspace)
                      .status()
                      .message()),
      testing::HasSubstr("targets[1]"));
  EXPECT_FALSE(
      model.Forward<double>(runtime.get(), values, 1, inside, {inside.data(), 1}, &workspace).ok());
}

}  // namespace
}  // namespace lethe::model
