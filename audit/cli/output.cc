#include "audit/cli/output.h"

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "audit/encoding.h"

namespace lethe::audit::cli {

int ExitCode(Failure failure) {
  switch (ClassOf(failure)) {
    case FailureClass::kNone:
      return kVerified;
    case FailureClass::kMalformed:
      return kMalformed;
    case FailureClass::kSignature:
      return kSignature;
    case FailureClass::kChain:
      return kChain;
    case FailureClass::kFork:
      return kFork;
    case FailureClass::kOwn:
      return kOwn;
  }
  return kMalformed;
}

void Print(absl::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void PrintJson(const Json& json) {
  const absl::StatusOr<std::string> text = SerializeJson(json);
  Print(absl::StrCat(text.ok() ? *text : std::string("{}"), "\n"));
}

int Complain(const absl::Status& status, int code) {
  const std::string line = absl::StrCat("lethe-verify: ", status.message(), "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
  return code;
}

int ReadFailure(const absl::Status& status) {
  const bool malformed = absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status);
  return Complain(status, malformed ? kMalformed : kUnreadable);
}

std::string Field(absl::string_view label, absl::string_view value) {
  return absl::StrFormat("  %-12s%s\n", label, value);
}

std::string DescribeCheckpoint(const Checkpoint& checkpoint,
                               const std::vector<Cosignature>& cosignatures) {
  std::string out = Field("log", checkpoint.origin);
  absl::StrAppend(&out, Field("size", absl::StrCat(checkpoint.size)),
                  Field("tree root", Hex(checkpoint.root)));
  for (const Cosignature& one : cosignatures) {
    absl::StrAppend(&out, Field("cosigned", absl::StrCat("by ", one.witness, " at ", one.unix_time,
                                                         " seconds since 1970")));
  }
  return out;
}

Json CheckpointJson(const Checkpoint& checkpoint) {
  Json json = Json::MakeObject();
  json.Set("origin", Json::String(checkpoint.origin));
  json.Set("root", Json::String(Hex(checkpoint.root)));
  json.Set("size", Json::Integer(checkpoint.size));
  return json;
}

Json CosignaturesJson(const std::vector<Cosignature>& cosignatures) {
  Json array = Json::MakeArray();
  for (const Cosignature& one : cosignatures) {
    Json json = Json::MakeObject();
    json.Set("time", Json::Integer(static_cast<uint64_t>(one.unix_time)));
    json.Set("witness", Json::String(one.witness));
    array.Append(std::move(json));
  }
  return array;
}

}  // namespace lethe::audit::cli
