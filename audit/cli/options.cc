#include "audit/cli/options.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "audit/cli/input.h"
#include "core/base/status_macros.h"

namespace lethe::audit::cli {
namespace {

constexpr size_t kMaxReceiptFile = size_t{1} << 20;

absl::StatusOr<Receipt> ReadReceipt(const Options& options) {
  LETHE_ASSIGN_OR_RETURN(const std::string text, ReadFile(options.receipt, kMaxReceiptFile));
  absl::StatusOr<Receipt> receipt = ParseReceipt(text);
  if (!receipt.ok()) return InFile(options.receipt, receipt.status());
  receipt->tenant = options.tenant;
  if (!options.request_id.empty()) receipt->request_id = options.request_id;
  if (!options.subject.empty()) receipt->subject = options.subject;
  if (receipt->tenant.empty() || receipt->request_id.empty()) {
    return absl::InvalidArgumentError("--receipt needs --tenant and --request-id");
  }
  return receipt;
}

}  // namespace

void AddCommonOptions(CLI::App& command, Options& options) {
  command.add_option("--key", options.keys, "Key to pin; may be repeated, oldest first")
      ->allow_extra_args(false)
      ->type_name("VKEY");
  command.add_option("--origin", options.origin, "The log it must belong to (default: the key's)")
      ->type_name("NAME");
  command
      .add_option("--policy", options.policy, "File that names witnesses, perhaps the log's key")
      ->type_name("FILE");
  command.add_option("-o,--output", options.output, "text or json")
      ->check(CLI::IsMember({"text", "json"}).description(""))
      ->type_name("text|json");
  command.add_flag("-q,--quiet", options.quiet, "Print the verdict alone");
}

void AddReceiptOptions(CLI::App& command, Options& options) {
  command.add_option("--receipt", options.receipt, "The JSON answer to an erasure, with its salts")
      ->type_name("FILE");
  command.add_option("--tenant", options.tenant, "The tenant, for the receipt")->type_name("NAME");
  command.add_option("--request-id", options.request_id, "The request's id, for the receipt")
      ->type_name("ID");
  command.add_option("--subject", options.subject, "The person, for the receipt")
      ->type_name("TEXT");
}

void AddStateOptions(CLI::App& command, StateOptions& options) {
  AddTokenFileOptions(command, options.tokens, "The tokens, in the order of insertion")->required();
  command.add_option("--kernel", options.kernel, "rbf, laplacian or exp_dot (default rbf)")
      ->check(CLI::IsMember({"rbf", "laplacian", "exp_dot"}).description(""))
      ->type_name("rbf|laplacian|exp_dot");
  command.add_option("--gamma", options.gamma, "Of rbf and laplacian")->type_name("NUMBER");
  command.add_option("--scale", options.scale, "Of exp_dot")->type_name("NUMBER");
  command.add_option("--capacity", options.capacity, "As the memory was created")
      ->type_name("NUMBER");
  command.add_option("--box", options.box, "As the memory was created")->type_name("NUMBER");
  command.add_option("--duplicates", options.duplicates, "shared, oldest-first, newest-first")
      ->check(CLI::IsMember({"shared", "oldest-first", "newest-first"}).description(""))
      ->type_name("shared|oldest-first|newest-first");
  command.add_option("--key-dimension", options.key_dimension, "When there is no token")
      ->check(CLI::Range(1, 4096).description(""))
      ->type_name("N");
  command.add_option("--value-dimension", options.value_dimension, "When there is no token")
      ->check(CLI::Range(1, 4096).description(""))
      ->type_name("N");
  command.add_option("--encoder", options.encoder, "Artefact that the memory was created with")
      ->type_name("FILE");
  command.add_option("--digest", options.digest, "State digest that the server gave")
      ->type_name("HEX");
  command.add_option("--certificate", options.certificate, "Certificate of the state, with --key")
      ->type_name("FILE");
}

absl::StatusOr<Pins> ReadPins(const Options& options) {
  Pins pins;
  for (const std::string& text : options.keys) {
    LETHE_ASSIGN_OR_RETURN(VerificationKey key, VerificationKey::Parse(text));
    for (const VerificationKey& before : pins.keys) {
      if (before.vkey() == key.vkey()) {
        return absl::InvalidArgumentError("--key: a key for the second time");
      }
    }
    pins.keys.push_back(std::move(key));
  }
  if (!options.policy.empty()) {
    LETHE_ASSIGN_OR_RETURN(const std::string text, ReadFile(options.policy, kMaxPolicyBytes));
    absl::StatusOr<WitnessPolicy> policy = ParsePolicy(text);
    if (!policy.ok()) return InFile(options.policy, policy.status());
    // A policy may be of many logs. With --key it adds those of the same name.
    for (const VerificationKey& log : policy->logs) {
      const bool there = std::any_of(pins.keys.begin(), pins.keys.end(),
                                     [&](const auto& key) { return key.vkey() == log.vkey(); });
      if (!there && (pins.keys.empty() || log.name() == pins.keys.front().name())) {
        pins.keys.push_back(log);
      }
    }
    pins.policy = *std::move(policy);
  }
  if (pins.keys.empty()) {
    return absl::InvalidArgumentError("a key to pin is needed: --key, or `log` in --policy");
  }
  for (const VerificationKey& key : pins.keys) {
    if (key.name() != pins.keys.front().name()) {
      return absl::InvalidArgumentError("the keys are of two logs");
    }
  }
  if (!options.origin.empty()) pins.origin = options.origin;
  if (!options.receipt.empty()) {
    LETHE_ASSIGN_OR_RETURN(pins.receipt, ReadReceipt(options));
  }
  return pins;
}

}  // namespace lethe::audit::cli
