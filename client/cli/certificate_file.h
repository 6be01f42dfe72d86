// Certificates in files: what `certificate export` writes and `certificate verify FILE` reads.
#ifndef LETHE_CLIENT_CLI_CERTIFICATE_FILE_H_
#define LETHE_CLIENT_CLI_CERTIFICATE_FILE_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/verify.h"
#include "client/types.h"

namespace lethe::cli {

// A line of chain.jsonl: {"sequence":n,"envelope":"base64","leaf":"base64"}.
std::string ChainLine(const client::Certificate& certificate);

// "<sequence>-<first 8 digits of the id>.json". INVALID_ARGUMENT when the id is no SHA-256 in hex:
// it comes from a server and becomes part of a path.
absl::StatusOr<std::string> EnvelopeFileName(const client::Certificate& certificate);

// The whole file. NOT_FOUND, or RESOURCE_EXHAUSTED above 16 MiB.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path);

// Writes beside it and renames, so that no reader sees half a file.
absl::Status WriteFile(const std::string& path, absl::string_view content);

// Verifies a chain.jsonl entry by entry in bounded memory. A status for a file that is no such file
// (naming the line); otherwise what the verifier said.
absl::StatusOr<audit::ChainResult> VerifyChainFile(const std::string& path,
                                                   const audit::VerificationKey& key,
                                                   audit::ChainExpectations expectations);

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_CERTIFICATE_FILE_H_
