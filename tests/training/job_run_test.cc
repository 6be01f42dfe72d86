// Runs of jobs: interrupted anywhere they end with the bytes of an undisturbed one, every field
// that can be said has an effect, and what cannot be run is named.
#include "core/training/job_run.h"

#include <gmock/gmock.h>

#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "core/model/encoder_trainer.h"
#include "core/model/language_trainer.h"
#include "tests/model/runtime.h"

namespace lethe::training {
namespace {

using jobs::JobConfig;
using testing::HasSubstr;
using testing::StartsWith;

TokenData Tokens(size_t tokens) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  TokenData data;
  data.tokens = tokens;
  data.key_dimension = 4;
  data.value_dimension = 2;
  for (size_t i = 0; i < tokens; ++i) {
    const size_t value = random() % 5;
    for (size_t k = 0; k < data.key_dimension; ++k) {
      data.keys.push_back(normal(random) + (value == k ? 2.0 : 0.0));
    }
    data.values.push_back(std::cos(static_cast<double>(value)));
    data.values.push_back(std::sin(static_cast<double>(value)));
    absl::StrAppend(&data.text, "token ", value, " of kind ", value % 2, "\n");
  }
  return data;
}
const MemoryShape kShape{.kernel = batched::KernelKind::kRbf,
                         .parameter = 0.5,
                         .key_dimension = 4,
                         .value_dimension = 2};
const RunIdentity kIdentity{.data_sha256 = "aa", .build = "build 1"};

const jobs::CalibrateConfig kSweep{.boxes = {0.1, 0.3},
                                   .widths = {0.5, 1.0},
                                   .tokens = 24,
                                   .samples = 3,
                                   .queries = 16};
const jobs::TrainEncoderConfig kEncoder{.memory_tokens = 12,
                                        .local_tokens = 3,
                                        .queries = 8,
                                        .episodes = 2,
                                        .query_copies = 2,
                                        .steps = 6,
                                        .warm_up = 2,
                                        .clip = 0.01,
                                        .evaluation = 3};
const jobs::TrainLmConfig kLm{.layers = 1,
                              .width = 8,
                              .heads = 2,
                              .block = 24,
                              .window = 8,
                              .chunk = 8,
                              .steps = 6,
                              .batch = 2,
                              .warm_up = 2,
                              .clip = 0.01,
                              .evaluation = 3};
jobs::TrainLmConfig WithBox(jobs::TrainLmConfig config) {
  config.box = 0.3;
  return config;
}

absl::StatusOr<std::unique_ptr<JobRun>> Begin(const JobConfig& config,
                                              absl::string_view checkpoint = "",
                                              RunIdentity identity = kIdentity,
                                              size_t tokens = 120) {
  EXPECT_TRUE(CheckConfig(config, kShape, jobs::kMaxFileBytes).ok())
      << CheckConfig(config, kShape, jobs::kMaxFileBytes);
  return BeginRun(config, kShape, Tokens(tokens), identity, checkpoint);
}
RunResult End(JobRun& run, size_t threads = 1) {
  model::TestRuntime runtime(threads);
  while (!run.done()) EXPECT_TRUE(run.Step(runtime.get()).ok());
  absl::StatusOr<RunResult> result = run.Finish(runtime.get(), [] { return false; });
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *std::move(result) : RunResult();
}
RunResult Whole(const JobConfig& config, size_t threads = 1) {
  absl::StatusOr<std::unique_ptr<JobRun>> run = Begin(config);
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() ? End(**run, threads) : RunResult();
}

TEST(JobRunTest, InterruptedAtEveryStepItEndsWithTheSameBytes) {
  for (const JobConfig& config :
       {JobConfig(kSweep), JobConfig(kEncoder), JobConfig(WithBox(kLm))}) {
    SCOPED_TRACE(std::string(jobs::JobKindName(KindOf(config))));
    const RunResult whole = Whole(config);
    EXPECT_FALSE(whole.artefact.empty());
    EXPECT_EQ(Whole(config, 3).artefact, whole.artefact) << "threads";
    model::TestRuntime runtime(1);
    std::string checkpoint;
    while (true) {
      absl::StatusOr<std::unique_ptr<JobRun>> run = Begin(config, checkpoint);
      ASSERT_TRUE(run.ok()) << run.status();
      if ((*run)->done()) {
        const RunResult resumed = End(**run);
        EXPECT_EQ(resumed.artefact, whole.artefact);
        EXPECT_EQ(resumed.facts, whole.facts) << "counters are of the whole run";
        break;
      }
      ASSERT_TRUE((*run)->Step(runtime.get()).ok());
      checkpoint = (*run)->Checkpoint();
    }
    // Whoever finishes can be stopped and finish again.
    absl::StatusOr<std::unique_ptr<JobRun>> run = Begin(config, checkpoint);
    ASSERT_TRUE(run.ok());
    if (KindOf(config) != jobs::JobKind::kCalibrate) {
      EXPECT_TRUE(absl::IsCancelled((*run)->Finish(runtime.get(), [] { return true; }).status()));
    }
    EXPECT_EQ(End(**run).artefact, whole.artefact);
  }
}

TEST(JobRunTest, ArtefactsReadBack) {
  const RunResult encoder = Whole(kEncoder);
  const auto trained = model::ReadEncoderArtefact<float>(encoder.artefact);
  ASSERT_TRUE(trained.ok());
  EXPECT_EQ(trained->encoder.options(), OptionsOf(kEncoder, kShape).encoder);
  EXPECT_EQ(encoder.facts["measured"]["on"], "held-out tokens");
  const RunResult lm = Whole(WithBox(kLm));
  const auto model = model::ReadLanguageArtefact<float>(lm.artefact);
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->model.options(), OptionsOf(WithBox(kLm)).model);
  EXPECT_GT(lm.facts["solver"]["problems"], 0);
  EXPECT_LT(lm.facts["measured"]["after"]["loss"], lm.facts["measured"]["before"]["loss"]);
}

// Checkpoints are believed only where they are of this run.
TEST(JobRunTest, OtherCheckpointsAreRefused) {
  model::TestRuntime runtime(1);
  for (const JobConfig& config :
       {JobConfig(kSweep), JobConfig(kEncoder), JobConfig(WithBox(kLm))}) {
    auto run = *Begin(config);
    ASSERT_TRUE(run->Step(runtime.get()).ok());
    const std::string checkpoint = run->Checkpoint();
    EXPECT_TRUE(Begin(config, checkpoint).ok());
    for (size_t size = 1; size < checkpoint.size(); size += 1 + checkpoint.size() / 97) {
      EXPECT_TRUE(absl::IsDataLoss(Begin(config, checkpoint.substr(0, size)).status())) << size;
    }
    EXPECT_TRUE(absl::IsDataLoss(Begin(config, checkpoint + "x").status()));
    EXPECT_THAT(std::string(Begin(config, checkpoint, {"bb", "build 1"}).status().message()),
                HasSubstr("other tokens"));
    JobConfig other = config;
    ASSERT_TRUE(jobs::SetField("seed", "99", other).ok());
    EXPECT_THAT(std::string(Begin(other, checkpoint).status().message()),
                HasSubstr("another configuration"));
    // Another build may go on, and is named.
    auto resumed = *Begin(config, checkpoint, {"aa", "build 2"});
    EXPECT_THAT(resumed->builds(), testing::ElementsAre("build 1", "build 2"));
    EXPECT_EQ(End(*resumed).facts["builds"].size(), 2u);
  }
}

// Another value of any field gives another artefact, or tells other facts.
TEST(JobRunTest, EveryFieldHasAnEffect) {
  const std::map<std::string, std::string> others = {
      {"heads", "4"},          {"box", "0.4"},
      {"chunk", "12"},         {"held_out", "0.3"},
      {"beta1", "0.8"},        {"beta2", "0.9"},
      {"clip", "0.02"},        {"normalise", "true"},
      {"width", "16"},         {"memory_tokens", "14"},
      {"query_noise", "1"},    {"last_learning_rate", "1e-3"},
      {"boxes", "0.1,0.2"},    {"widths", "0.5,2"},
      {"attention", "linear"}, {"target_supports", "0.01"},
      {"target_recall", "1"},  {"target_condition", "1.5"},
      {"kernel", "laplacian"}, {"mlp", "swiglu"},
      {"norm", "layer"},       {"unit_length", "true"},
      {"gate_width", "0.5"},   {"ridge", "0.01"},
      {"scale", "2"},          {"gate_scale", "2"},
      {"sharpness", "2"},      {"learning_rate", "0.01"},
      {"weight_decay", "1"}};
  jobs::TrainLmConfig window = kLm;
  window.attention = jobs::LmAttention::kWindow;
  const std::vector<JobConfig> bases = {kSweep, kEncoder, WithBox(kLm), window};
  for (const JobConfig& base : bases) {
    const bool is_window = base == JobConfig(window);
    const RunResult whole = Whole(base);
    for (const auto& [name, text] : jobs::FieldTexts(base)) {
      if (is_window != (name == "window")) continue;
      SCOPED_TRACE(absl::StrCat(std::string(jobs::JobKindName(KindOf(base))), ".", name));
      const auto found = others.find(name);
      JobConfig other = base;
      ASSERT_TRUE(jobs::SetField(
                      name,
                      found != others.end() ? found->second : absl::StrCat(std::stoull(text) + 1),
                      other)
                      .ok());
      ASSERT_FALSE(other == base);
      const RunResult result = Whole(other);
      EXPECT_TRUE(result.artefact != whole.artefact || result.facts != whole.facts);
    }
  }
}

TEST(JobRunTest, WhatCannotBeRunIsNamed) {
  const auto fails = [](const JobConfig& config, size_t tokens) {
    const absl::Status status = Begin(config, "", kIdentity, tokens).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(fails(kSweep, 5), StartsWith("tokens: the memory has 5"));
  EXPECT_THAT(fails(kEncoder, 10), AllOf(StartsWith("tokens: 8 of the memory's 10 are trained on"),
                                         HasSubstr("an episode takes 15")));
  EXPECT_THAT(fails(kEncoder, 40), AllOf(StartsWith("tokens: 8 of the memory's 40 are held out"),
                                         HasSubstr("train_encoder.held_out")));
  EXPECT_THAT(fails(kLm, 1), AllOf(StartsWith("tokens: "), HasSubstr("are trained on")));
  EXPECT_THAT(fails(kLm, 10), HasSubstr("are held out"));
  jobs::TrainEncoderConfig none = kEncoder;
  none.held_out = 0;
  auto run = Begin(none, "", kIdentity, 15);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(End(**run).facts["measured"]["on"], "the tokens trained on");
}

}  // namespace
}  // namespace lethe::training
