#include "core/jobs/job_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/check.h"

namespace lethe::jobs {
namespace {

template <typename Field>
constexpr bool kIsGrid = std::is_same_v<std::remove_const_t<Field>, std::vector<double>>;

// As long as a text may be that an error repeats.
constexpr size_t kMostShown = 40;

absl::Status Bad(JobKind kind, absl::string_view name, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(JobKindName(kind), ".", name, ": ", what));
}

std::string WordsOf(std::span<const absl::string_view> words) {
  std::vector<absl::string_view> there;
  std::ranges::copy_if(words, std::back_inserter(there), [](auto word) { return !word.empty(); });
  return absl::StrJoin(there, ", ");
}

// Those within the bounds, as a field may be of an enumeration without some of its words.
std::vector<absl::string_view> WordsWithin(const FieldInfo& info) {
  std::vector<absl::string_view> words;
  for (auto i = static_cast<size_t>(info.least); i <= static_cast<size_t>(info.most); ++i) {
    words.push_back(info.words[i]);
  }
  return words;
}

absl::Status CheckValue(JobKind kind, absl::string_view name, double value, const FieldInfo& info) {
  if (value >= info.least && value <= info.most) return absl::OkStatus();
  if (!info.words.empty()) {
    return Bad(kind, name, absl::StrCat("must be one of ", absl::StrJoin(WordsWithin(info), ", ")));
  }
  return Bad(kind, name, absl::StrCat("must be ", info.least, " to ", info.most));
}

std::string TextOf(double value) {
  // Shortest that reads back as the same.
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  return std::string(text.data(), end.ptr);
}

absl::Status ReadNumber(JobKind kind,
                        absl::string_view name,
                        absl::string_view text,
                        double& value) {
  if (absl::SimpleAtod(text, &value)) return absl::OkStatus();
  return Bad(kind, name, "must be a number");
}

absl::Status Read(JobKind kind, const FieldInfo& info, absl::string_view text, auto& member) {
  using Field = std::remove_cvref_t<decltype(member)>;
  if constexpr (kIsGrid<Field>) {
    Field values;
    for (const absl::string_view part : absl::StrSplit(text, ',')) {
      double value = 0.0;
      if (absl::Status read = ReadNumber(kind, info.name, part, value); !read.ok()) return read;
      values.push_back(value);
    }
    member = std::move(values);
  } else if constexpr (std::is_same_v<Field, double>) {
    return ReadNumber(kind, info.name, text, member);
  } else if constexpr (std::is_same_v<Field, bool>) {
    if (!absl::SimpleAtob(text, &member)) return Bad(kind, info.name, "must be true or false");
  } else if constexpr (std::is_same_v<Field, uint64_t>) {
    if (!absl::SimpleAtoi(text, &member)) return Bad(kind, info.name, "must be a whole number");
  } else {
    const auto found = std::ranges::find(info.words, text);
    if (text.empty() || found == info.words.end()) {
      return Bad(kind, info.name, absl::StrCat("must be one of ", WordsOf(info.words)));
    }
    member = static_cast<Field>(found - info.words.begin());
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view JobKindName(JobKind kind) {
  switch (kind) {
    case JobKind::kCalibrate:
      return "calibrate";
    case JobKind::kTrainEncoder:
      return "train_encoder";
    case JobKind::kTrainLm:
      return "train_lm";
  }
  return "";
}

JobConfig DefaultsOf(JobKind kind) {
  switch (kind) {
    case JobKind::kCalibrate:
      return CalibrateConfig();
    case JobKind::kTrainEncoder:
      return TrainEncoderConfig();
    case JobKind::kTrainLm:
      return TrainLmConfig();
  }
  LETHE_CHECK(false);
  return {};
}

std::span<const absl::string_view> KernelWords() {
  static constexpr std::array<absl::string_view, 5> kWords = {"memory", "rbf", "laplacian",
                                                              "exp_dot", "dot"};
  return kWords;
}
std::span<const absl::string_view> AttentionWords() {
  static constexpr std::array<absl::string_view, 7> kWords = {
      "", "full", "window", "hybrid", "delta_net", "linear", "linear_decay"};
  return kWords;
}
std::span<const absl::string_view> MlpWords() {
  static constexpr std::array<absl::string_view, 3> kWords = {"", "gelu", "swiglu"};
  return kWords;
}
std::span<const absl::string_view> NormWords() {
  static constexpr std::array<absl::string_view, 3> kWords = {"", "rms", "layer"};
  return kWords;
}

absl::Status CheckFields(const JobConfig& config) {
  absl::Status status;
  const JobKind kind = KindOf(config);
  std::visit(
      [&](const auto& one) {
        VisitFields(one, [&](const FieldInfo& info, const auto& member) {
          if constexpr (kIsGrid<std::remove_cvref_t<decltype(member)>>) {
            if (member.empty() || member.size() > kMaxGrid) {
              status.Update(
                  Bad(kind, info.name, absl::StrCat("must have 1 to ", kMaxGrid, " values")));
            }
            for (size_t i = 0; i < member.size(); ++i) {
              status.Update(
                  CheckValue(kind, absl::StrCat(info.name, "[", i, "]"), member[i], info));
            }
          } else {
            status.Update(CheckValue(kind, info.name, static_cast<double>(member), info));
          }
        });
      },
      config);
  return status;
}

absl::Status SetField(absl::string_view name, absl::string_view text, JobConfig& config) {
  absl::Status status;
  bool found = false;
  const JobKind kind = KindOf(config);
  std::vector<std::string> names;
  std::visit(
      [&](auto& one) {
        VisitFields(one, [&](const FieldInfo& info, auto& member) {
          names.emplace_back(info.name);
          if (name != info.name) return;
          found = true;
          status = Read(kind, info, absl::StripAsciiWhitespace(text), member);
        });
      },
      config);
  if (found) return status;
  const bool showable = name.size() <= kMostShown && std::ranges::all_of(name, [](char c) {
                          return absl::ascii_isgraph(static_cast<unsigned char>(c));
                        });
  return absl::InvalidArgumentError(
      absl::StrCat(JobKindName(kind), showable ? "." : "", showable ? name : absl::string_view(),
                   ": is no field; there are ", absl::StrJoin(names, ", ")));
}

std::vector<std::pair<std::string, std::string>> FieldTexts(const JobConfig& config) {
  std::vector<std::pair<std::string, std::string>> texts;
  std::visit(
      [&](const auto& one) {
        VisitFields(one, [&](const FieldInfo& info, const auto& member) {
          using Field = std::remove_cvref_t<decltype(member)>;
          std::string text;
          if constexpr (kIsGrid<Field>) {
            text = absl::StrJoin(
                member, ",", [](std::string* out, double value) { out->append(TextOf(value)); });
          } else if constexpr (std::is_same_v<Field, double>) {
            text = TextOf(member);
          } else if constexpr (std::is_same_v<Field, bool>) {
            text = member ? "true" : "false";
          } else if constexpr (std::is_same_v<Field, uint64_t>) {
            text = absl::StrCat(member);
          } else {
            const auto number = static_cast<size_t>(member);
            text = number < info.words.size() ? std::string(info.words[number]) : "";
          }
          texts.emplace_back(info.name, std::move(text));
        });
      },
      config);
  return texts;
}

}  // namespace lethe::jobs
