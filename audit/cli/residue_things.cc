// What `lethe-verify residue` is told to look for.
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "audit/cli/input.h"
#include "audit/cli/residue.h"
#include "client/cli/numbers.h"
#include "core/base/status_macros.h"

namespace lethe::audit::cli {
namespace {

constexpr size_t kMaxThingsFile = size_t{64} << 20;

// The lines of a file, without their ends. INVALID_ARGUMENT for an empty one: it would be skipped
// by mistake, and the next ones called by wrong numbers.
absl::StatusOr<std::vector<std::string>> ReadLines(const std::string& path) {
  LETHE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxThingsFile));
  std::vector<std::string> lines = absl::StrSplit(absl::StripSuffix(text, "\n"), '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    if (absl::EndsWith(lines[i], "\r")) lines[i].pop_back();
    if (lines[i].empty()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ", line ", i + 1, ": is empty"));
    }
  }
  return lines;
}

// "1,2.5" or "[1, 2.5]".
absl::StatusOr<std::vector<double>> ParseNumbers(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (absl::ConsumePrefix(&text, "[") != absl::ConsumeSuffix(&text, "]")) {
    return absl::InvalidArgumentError("a bracket without the other");
  }
  return ::lethe::cli::ParseVector(text);
}

absl::Status About(absl::string_view name, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(name, " ", status.message()));
}

class Collector {
 public:
  explicit Collector(const ResidueOptions& options) : rules_(options.rules) {}

  absl::Status AddText(absl::string_view text) {
    const std::string name = absl::StrCat("text ", ++texts_);
    absl::StatusOr<std::vector<TraceForm>> forms = TextForms(text, rules_);
    if (!forms.ok()) return About(name, forms.status());
    return Keep({name, *std::move(forms)});
  }

  absl::Status AddVector(absl::string_view text) {
    const std::string name = absl::StrCat("vector ", ++vectors_);
    const absl::StatusOr<std::vector<double>> numbers = ParseNumbers(text);
    if (!numbers.ok()) return About(name, numbers.status());
    absl::StatusOr<std::vector<TraceForm>> forms = VectorForms(*numbers, rules_);
    if (!forms.ok()) return About(name, forms.status());
    return Keep({name, *std::move(forms)});
  }

  // Id, subject, payload, key and value; each subject once. Labels are not a token's own.
  absl::Status AddToken(const ::lethe::cli::TokenSource::Item& item) {
    const std::string name = absl::StrCat("token ", ++tokens_);
    const auto& token = item.token;
    if (!token.id.empty()) LETHE_RETURN_IF_ERROR(KeepPart(name, "id", TextForms(token.id, rules_)));
    if (!token.subject.empty() && subjects_.insert(token.subject).second) {
      LETHE_RETURN_IF_ERROR(KeepPart(name, "subject", TextForms(token.subject, rules_)));
    }
    if (!token.payload.empty()) {
      LETHE_RETURN_IF_ERROR(KeepPart(name, "payload", TextForms(token.payload, rules_)));
    }
    LETHE_RETURN_IF_ERROR(KeepPart(name, "key", VectorForms(token.key, rules_)));
    if (!token.value.empty()) {
      LETHE_RETURN_IF_ERROR(KeepPart(name, "value", VectorForms(token.value, rules_)));
    }
    return absl::OkStatus();
  }

  ResidueThings Take() { return std::move(things_); }

 private:
  absl::Status KeepPart(absl::string_view token,
                        absl::string_view part,
                        absl::StatusOr<std::vector<TraceForm>> forms) {
    std::string name = absl::StrCat(token, " ", part);
    if (!forms.ok()) {
      things_.left_out.emplace_back(std::move(name), std::string(forms.status().message()));
      return absl::OkStatus();
    }
    return Keep({std::move(name), *std::move(forms)});
  }

  // Early, so that a large file does not take the memory first.
  absl::Status Keep(TraceThing thing) {
    if (thing.forms.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(thing.name, " has no form that is long enough; --allow-short takes it"));
    }
    for (const TraceForm& form : thing.forms) bytes_ += form.bytes().size();
    if (bytes_ > kMaxTraceFormBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("too much to look for at once, from ", thing.name, " on"));
    }
    things_.things.push_back(std::move(thing));
    return absl::OkStatus();
  }

  const TraceRules& rules_;
  ResidueThings things_;
  std::set<std::string> subjects_;
  size_t bytes_ = 0;
  size_t texts_ = 0;
  size_t vectors_ = 0;
  size_t tokens_ = 0;
};

}  // namespace

absl::StatusOr<ResidueThings> ReadResidueThings(const ResidueOptions& options) {
  Collector collector(options);
  for (const std::string& text : options.texts) {
    LETHE_RETURN_IF_ERROR(collector.AddText(text));
  }
  if (!options.texts_file.empty()) {
    LETHE_ASSIGN_OR_RETURN(const std::vector<std::string> lines, ReadLines(options.texts_file));
    for (const std::string& line : lines) LETHE_RETURN_IF_ERROR(collector.AddText(line));
  }
  for (const std::string& vector : options.vectors) {
    LETHE_RETURN_IF_ERROR(collector.AddVector(vector));
  }
  if (!options.vectors_file.empty()) {
    LETHE_ASSIGN_OR_RETURN(const std::vector<std::string> lines, ReadLines(options.vectors_file));
    for (const std::string& line : lines) LETHE_RETURN_IF_ERROR(collector.AddVector(line));
  }
  if (!options.tokens.path.empty()) {
    LETHE_RETURN_IF_ERROR(ReadTokens(options.tokens, [&](::lethe::cli::TokenSource::Item item) {
      return collector.AddToken(item);
    }));
  }
  ResidueThings things = collector.Take();
  if (things.things.empty()) {
    return absl::InvalidArgumentError(
        "nothing to look for: no token, or every part of every token would be met by chance");
  }
  return things;
}

}  // namespace lethe::audit::cli
