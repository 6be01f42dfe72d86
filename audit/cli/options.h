// What the command lines of lethe-verify share: pinned keys, policy, receipt. Threads: compatible.
#ifndef LETHE_AUDIT_CLI_OPTIONS_H_
#define LETHE_AUDIT_CLI_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "audit/cli/token_file.h"
#include "audit/signer.h"
#include "audit/verify_receipt.h"
#include "audit/witness.h"

namespace lethe::audit::cli {

// A memory's configuration and where its tokens are.
struct StateOptions {
  TokenFileOptions tokens;
  std::optional<std::string> kernel;  // rbf
  std::optional<double> gamma;
  std::optional<double> scale;
  std::optional<double> capacity;
  std::optional<double> box;
  std::string duplicates = "shared";
  std::optional<size_t> key_dimension;
  std::optional<size_t> value_dimension;
  std::string encoder;
  std::string digest;
  std::string certificate;
};

struct Options {
  StateOptions state;
  std::string path;
  std::string other;  // the second path of `consistency`
  std::vector<std::string> keys;
  std::string origin;
  std::string policy;
  std::string leaf;
  std::string proof;
  std::optional<uint64_t> first;
  std::optional<uint64_t> last;
  std::string receipt;
  std::string tenant;
  std::string request_id;
  std::string subject;
  int threads = 0;
  bool skip_report = false;
  std::string output = "text";
  bool quiet = false;

  bool json() const { return output == "json"; }
};

// --key, --origin, --policy, -o, -q.
void AddCommonOptions(CLI::App& command, Options& options);
// Everything of StateOptions.
void AddStateOptions(CLI::App& command, StateOptions& options);
// --receipt, --tenant, --request-id, --subject.
void AddReceiptOptions(CLI::App& command, Options& options);

// What the options name, read and parsed.
struct Pins {
  std::vector<VerificationKey> keys;  // at least one, all of one name, each once; as they were
                                      // given, then those of the policy
  std::optional<WitnessPolicy> policy;
  std::optional<std::string> origin;
  std::optional<Receipt> receipt;

  const WitnessPolicy* policy_or_null() const { return policy.has_value() ? &*policy : nullptr; }
};
// INVALID_ARGUMENT for wrong usage; UNAVAILABLE when a file cannot be read.
absl::StatusOr<Pins> ReadPins(const Options& options);

}  // namespace lethe::audit::cli

#endif  // LETHE_AUDIT_CLI_OPTIONS_H_
