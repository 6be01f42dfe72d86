// Exit statuses of lethe-verify, and what it prints. Threads: compatible.
#ifndef LETHE_AUDIT_CLI_OUTPUT_H_
#define LETHE_AUDIT_CLI_OUTPUT_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "audit/checkpoint.h"
#include "audit/json.h"
#include "audit/verify.h"
#include "audit/witness.h"

namespace lethe::audit::cli {

inline constexpr int kVerified = 0;
inline constexpr int kUsage = 1;
inline constexpr int kUnreadable = 2;
inline constexpr int kMalformed = 3;
inline constexpr int kSignature = 4;
inline constexpr int kChain = 5;
inline constexpr int kFork = 6;
inline constexpr int kOwn = 7;

int ExitCode(Failure failure);

void Print(absl::string_view text);
void PrintJson(const Json& json);

// A line on standard error; returns `code`.
int Complain(const absl::Status& status, int code);
// Of a file that is the input itself: one that is too long is as malformed as one of the wrong
// form.
int ReadFailure(const absl::Status& status);

// "  label       value", in the columns of the other fields.
std::string Field(absl::string_view label, absl::string_view value);
// Size, root and cosignatures of a checkpoint, as fields and as members.
std::string DescribeCheckpoint(const Checkpoint& checkpoint,
                               const std::vector<Cosignature>& cosignatures);
Json CheckpointJson(const Checkpoint& checkpoint);
Json CosignaturesJson(const std::vector<Cosignature>& cosignatures);

}  // namespace lethe::audit::cli

#endif  // LETHE_AUDIT_CLI_OUTPUT_H_
