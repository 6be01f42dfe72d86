// What can be said of jobs: one list, held against the wire contract and against what computes.
#include "core/jobs/job_config.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>

#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/training/job_options.h"
#include "lethe/v1/job_service.pb.h"

namespace lethe::jobs {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using testing::HasSubstr;
using testing::StartsWith;

const Descriptor* MessageOf(JobKind kind) {
  switch (kind) {
    case JobKind::kCalibrate:
      return v1::CalibrateConfig::descriptor();
    case JobKind::kTrainEncoder:
      return v1::TrainEncoderConfig::descriptor();
    case JobKind::kTrainLm:
      return v1::TrainLmConfig::descriptor();
  }
  return nullptr;
}
constexpr JobKind kKinds[] = {JobKind::kCalibrate, JobKind::kTrainEncoder, JobKind::kTrainLm};

// Calls visit(kind, info, default) for every field of every kind.
template <typename Visit>
void ForEveryField(const Visit& visit) {
  for (const JobKind kind : kKinds) {
    std::visit(
        [&](const auto& one) {
          VisitFields(
              one, [&](const FieldInfo& info, const auto& member) { visit(kind, info, member); });
        },
        DefaultsOf(kind));
  }
}

TEST(JobConfigTest, TheWireHasTheSameFields) {
  std::map<JobKind, std::set<std::string>> names;
  ForEveryField([&](JobKind kind, const FieldInfo& info, const auto& member) {
    using Field = std::remove_cvref_t<decltype(member)>;
    SCOPED_TRACE(absl::StrCat(JobKindName(kind), ".", info.name));
    EXPECT_TRUE(names[kind].insert(info.name).second) << "twice";
    const FieldDescriptor* field = MessageOf(kind)->FindFieldByName(info.name);
    ASSERT_NE(field, nullptr);
    FieldDescriptor::CppType type = FieldDescriptor::CPPTYPE_DOUBLE;
    if (std::is_same_v<Field, uint64_t>) type = FieldDescriptor::CPPTYPE_UINT64;
    if (std::is_same_v<Field, bool>) type = FieldDescriptor::CPPTYPE_BOOL;
    if constexpr (std::is_enum_v<Field>) {
      type = FieldDescriptor::CPPTYPE_ENUM;
      // The words are the names of the wire, in its numbers.
      for (auto i = static_cast<size_t>(info.least); i <= static_cast<size_t>(info.most); ++i) {
        if (info.words[i] == "memory") continue;  // where nothing is said
        const auto* value = field->enum_type()->FindValueByNumber(static_cast<int>(i));
        ASSERT_NE(value, nullptr) << i;
        std::string lower = value->name();
        for (char& c : lower) c = absl::ascii_tolower(static_cast<unsigned char>(c));
        EXPECT_THAT(lower, testing::EndsWith(absl::StrCat("_", info.words[i])));
      }
    }
    EXPECT_EQ(field->cpp_type(), type);
    EXPECT_EQ(field->is_repeated(), (std::is_same_v<Field, std::vector<double>>));
    EXPECT_TRUE(field->is_repeated() || field->has_optional_keyword() ||
                type == FieldDescriptor::CPPTYPE_ENUM)
        << "0 must be distinguishable from nothing";
  });
  for (const JobKind kind : kKinds) {
    EXPECT_EQ(static_cast<size_t>(MessageOf(kind)->field_count()), names[kind].size());
  }
}

TEST(JobConfigTest, TheDocumentHasTheSameFieldsAndDefaults) {
  std::stringstream document;
  document << std::ifstream(std::string(LETHE_SOURCE_DIR) + "/docs/jobs.md").rdbuf();
  const std::string text = document.str();
  for (const JobKind kind : kKinds) {
    const size_t begin = text.find(absl::StrCat("\n### ", JobKindName(kind), "\n"));
    ASSERT_NE(begin, std::string::npos);
    const std::string chapter = text.substr(begin, text.find("\n#", begin + 2) - begin);
    for (const auto& [name, value] : FieldTexts(DefaultsOf(kind))) {
      EXPECT_THAT(chapter, HasSubstr(absl::StrCat("\n| `", name, "` | ", value, " | ")));
    }
  }
}

TEST(JobConfigTest, BoundsAreKept) {
  const training::MemoryShape memory{.key_dimension = 8, .value_dimension = 2};
  for (const JobKind kind : kKinds) {
    EXPECT_TRUE(training::CheckConfig(DefaultsOf(kind), memory, jobs::kMaxFileBytes).ok())
        << JobKindName(kind);
  }
  ForEveryField([&](JobKind kind, const FieldInfo& info, const auto& member) {
    using Field = std::remove_cvref_t<decltype(member)>;
    SCOPED_TRACE(absl::StrCat(JobKindName(kind), ".", info.name));
    const auto set = [&](double value) {
      JobConfig config = DefaultsOf(kind);
      std::visit(
          [&](auto& one) {
            VisitFields(one, [&](const FieldInfo& other, auto& to) {
              using To = std::remove_cvref_t<decltype(to)>;
              if (std::string(other.name) != info.name) return;
              if constexpr (std::is_same_v<To, std::vector<double>>) {
                to = {value};
              } else {
                to = static_cast<To>(value);
              }
            });
          },
          config);
      return CheckFields(config);
    };
    const auto message = [](const absl::Status& status) { return std::string(status.message()); };
    EXPECT_TRUE(set(info.least).ok());
    EXPECT_TRUE(set(info.most).ok());
    if (std::is_same_v<Field, bool>) return;
    const std::string field = absl::StrCat(JobKindName(kind), ".", info.name);
    if (info.least > 0) {
      EXPECT_THAT(message(set(info.least / 2)), StartsWith(field));
    }
    if (!std::is_enum_v<Field>) {
      EXPECT_THAT(message(set(info.most * 2)), StartsWith(field));
    } else {
      EXPECT_THAT(message(set(info.most + 1)), StartsWith(field));
    }
    if (std::is_same_v<Field, double>) {
      EXPECT_THAT(message(set(std::nan(""))), StartsWith(field));
    }
  });
}

TEST(JobConfigTest, TextReadsBack) {
  for (const JobKind kind : kKinds) {
    JobConfig config = DefaultsOf(kind);
    for (const auto& [name, text] : FieldTexts(config)) {
      EXPECT_TRUE(SetField(name, text, config).ok()) << name << " " << text;
    }
    EXPECT_EQ(config, DefaultsOf(kind));
  }
  JobConfig config = TrainLmConfig();
  EXPECT_TRUE(SetField("attention", "delta_net", config).ok());
  EXPECT_TRUE(SetField("normalise", "true", config).ok());
  EXPECT_TRUE(SetField("learning_rate", " 1e-4 ", config).ok());
  EXPECT_EQ(std::get<TrainLmConfig>(config),
            (TrainLmConfig{
                .attention = LmAttention::kDeltaNet, .normalise = true, .learning_rate = 1e-4}));
  JobConfig sweep = CalibrateConfig();
  EXPECT_TRUE(SetField("boxes", "0.1, 0.25", sweep).ok());
  EXPECT_THAT(std::get<CalibrateConfig>(sweep).boxes, testing::ElementsAre(0.1, 0.25));
  for (const auto& [name, text, wanted] :
       {std::tuple("steps", "many", "train_lm.steps: must be a whole number"),
        std::tuple("steps", "-1", "train_lm.steps: must be a whole number"),
        std::tuple("box", "", "train_lm.box: must be a number"),
        std::tuple("normalise", "perhaps", "train_lm.normalise: must be true or false"),
        std::tuple("attention", "", "train_lm.attention: must be one of full, window, hybrid"),
        std::tuple("boxes", "1", "train_lm.boxes: is no field; there are attention, layers")}) {
    EXPECT_THAT(std::string(SetField(name, text, config).message()), StartsWith(wanted));
  }
  EXPECT_THAT(std::string(SetField("se\ncret", "1", config).message()), Not(HasSubstr("\n")));
}

// What computes has the last word, and speaks of the fields that a person has set.
TEST(JobConfigTest, WhatDoesNotGoTogetherIsNamed) {
  const training::MemoryShape memory{.key_dimension = 8, .value_dimension = 2};
  const auto check = [&](const JobConfig& config) {
    return std::string(training::CheckConfig(config, memory, jobs::kMaxFileBytes).message());
  };
  EXPECT_THAT(check(TrainLmConfig{.width = 10, .heads = 3}), StartsWith("train_lm.heads:"));
  EXPECT_THAT(check(TrainLmConfig{.chunk = 4}), StartsWith("train_lm.box:"));
  EXPECT_EQ(check(TrainLmConfig{.attention = LmAttention::kFull, .chunk = 4}), "");
  EXPECT_THAT(check(TrainLmConfig{.block = 2048}), StartsWith("train_lm.chunk:"));
  EXPECT_THAT(check(TrainLmConfig{.layers = 8, .width = 1024}), HasSubstr("checkpoints of"));
  EXPECT_THAT(check(TrainLmConfig{.block = 8192, .chunk = 8192, .batch = 65536}),
              StartsWith("train_lm.batch:"));
  EXPECT_THAT(check(TrainEncoderConfig{.box = 0.01}), StartsWith("train_encoder.box:"));
  EXPECT_THAT(check(CalibrateConfig{.boxes = {0.05}, .tokens = 20}),
              StartsWith("calibrate.boxes:"));
  // Rates and warm-up give way instead of refusing short runs.
  EXPECT_EQ(check(TrainEncoderConfig{.steps = 1, .learning_rate = 1e-5}), "");
}

TEST(JobConfigTest, AnEncoderStartsWithTheMemorysKernel) {
  const training::MemoryShape memory{.kernel = batched::KernelKind::kLaplacian,
                                     .parameter = 0.75,
                                     .key_dimension = 8,
                                     .value_dimension = 2};
  EXPECT_EQ(OptionsOf(TrainEncoderConfig(), memory).encoder.kernel,
            batched::KernelKind::kLaplacian);
  EXPECT_EQ(OptionsOf(TrainEncoderConfig(), memory).encoder.width, 0.75);
  EXPECT_EQ(OptionsOf(TrainEncoderConfig{.width = 2.0}, memory).encoder.width, 2.0);
  EXPECT_EQ(OptionsOf(TrainEncoderConfig{.kernel = JobKernel::kRbf}, memory).encoder.width, 0.0);
  EXPECT_EQ(OptionsOf(TrainEncoderConfig{.projected_key = 4}, memory).encoder.width, 0.0);
}

}  // namespace
}  // namespace lethe::jobs
