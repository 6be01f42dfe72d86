// lethe-verify: checks certificates and whole logs offline, against a key that the caller pins.
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "audit/certificate.h"
#include "audit/cli/input.h"
#include "audit/dsse.h"
#include "audit/encoding.h"
#include "audit/report.h"
#include "audit/verify.h"

namespace lethe::audit::cli {
namespace {

constexpr int kVerified = 0;
constexpr int kUsage = 1;
constexpr int kUnreadable = 2;
constexpr int kMalformed = 3;
constexpr int kSignature = 4;
constexpr int kChain = 5;

constexpr char kFooter[] =
    R"(Nothing is read but the named files, and nothing is sent anywhere. Pin a key
that you have from the owner of the log, never one from the export itself.

Exit status
  0 verified             3 malformed input
  1 wrong usage          4 wrong key or signature
  2 unreadable file      5 valid certificates, but not the expected log

Examples
  lethe-verify certificate c.json --leaf c.leaf.json --key "$KEY"
  lethe-verify chain log.jsonl --key "$KEY" --count 12)";

constexpr char kChainFooter[] =
    R"(PATH is a JSON Lines file (- for standard input) with an object a line,
  {"sequence":0,"envelope":"base64","leaf":"base64"}
or a folder with such a file named chain.jsonl, as `lethe certificate export`
writes it, or with the files N.envelope.json and N.leaf.json for N = 0, 1, ...

)";

struct Options {
  std::string path;
  std::string key;
  std::string leaf;
  std::string origin;
  std::string head;
  std::optional<uint64_t> count;
  std::string output = "text";
  bool quiet = false;

  bool json() const { return output == "json"; }
};

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

// An input that is too long is as malformed as one of the wrong form.
int ReadFailure(const absl::Status& status) {
  const bool malformed = absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status);
  return Complain(status, malformed ? kMalformed : kUnreadable);
}

int RunCertificate(const Options& options, const VerificationKey& key) {
  const absl::StatusOr<std::string> envelope = ReadFile(options.path, kMaxEnvelopeBytes);
  if (!envelope.ok()) return ReadFailure(envelope.status());
  std::optional<std::string> leaf;
  if (!options.leaf.empty()) {
    absl::StatusOr<std::string> bytes = ReadFile(options.leaf, kMaxLeafBytes);
    if (!bytes.ok()) return ReadFailure(bytes.status());
    leaf = *std::move(bytes);
  }
  std::optional<absl::string_view> leaf_view;
  if (leaf.has_value()) leaf_view = *leaf;
  std::optional<absl::string_view> origin;
  if (!options.origin.empty()) origin = options.origin;

  const CertificateResult result = VerifyCertificate(*envelope, leaf_view, key, origin);
  if (options.json()) {
    PrintJson(ReportJson(result));
    return ExitCode(result.failure);
  }
  if (!options.quiet) Print(DescribeChecks(result, leaf.has_value()));
  if (!result.ok()) {
    Print(DescribeFailure(Name(result.failure), result.message));
    return ExitCode(result.failure);
  }
  Print(absl::StrCat("VERIFIED  ", result.id, "\n"));
  if (!options.quiet) {
    Print(DescribeBody(*result.body));
    Print(absl::StrCat("  leaf hash   ", Hex(result.leaf_hash), "\n"));
  }
  return kVerified;
}

int RunChain(const Options& options, const VerificationKey& key) {
  ChainExpectations expectations;
  if (!options.origin.empty()) expectations.origin = options.origin;
  expectations.size = options.count;
  if (!options.head.empty()) {
    const absl::StatusOr<Digest> head = DecodeDigest(options.head);
    if (!head.ok())
      return Complain(absl::InvalidArgumentError("--head: not 64 hex digits"), kUsage);
    expectations.last_leaf_hash = *head;
  }
  const bool anchored = options.count.has_value() || !options.head.empty();

  ChainVerifier verifier(key, std::move(expectations));
  const absl::Status read = ReadChain(options.path, [&](const OwnedEntry& entry) {
    const CertificateResult result = verifier.Add({entry.envelope, entry.leaf, entry.sequence});
    if (result.ok() && !options.json() && !options.quiet) {
      Print(absl::StrCat("  ok  ", DescribeInOneLine(*result.body), "\n"));
    }
    return result.ok();
  });
  if (!read.ok()) return ReadFailure(read);
  const ChainResult result = verifier.Finish();
  if (options.json()) {
    PrintJson(ReportJson(result));
    return ExitCode(result.failure);
  }
  if (!result.ok()) {
    Print(DescribeFailure(FailureWords(result), result.message));
    return ExitCode(result.failure);
  }
  Print(absl::StrCat("VERIFIED  ", result.verified, " certificates, from the first on\n",
                     "  log         ", key.name(), "\n", "  last leaf   ",
                     Hex(result.last_leaf_hash), "\n", "  tree root   ", Hex(result.root), "\n"));
  if (!anchored) {
    Print(
        "  note        Without --count or --head nothing here shows whether later\n"
        "              certificates were left out.\n");
  }
  return kVerified;
}

int Main(int argc, char** argv) {
  CLI::App app("Checks Lethe's certificates of forgetting, offline.", "lethe-verify");
  app.set_version_flag("--version", "lethe-verify " LETHE_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);
  Options options;

  const auto add_common = [&](CLI::App* command) {
    command->add_option("--key", options.key, "Verification key to pin: name+hex8+base64")
        ->required();
    command->add_option("--origin", options.origin,
                        "The log it must belong to (default: the key's)");
    command->add_option("-o,--output", options.output, "text or json")
        ->check(CLI::IsMember({"text", "json"}));
    command->add_flag("-q,--quiet", options.quiet, "Print the verdict alone");
  };
  CLI::App* certificate = app.add_subcommand("certificate", "Check one certificate");
  certificate->add_option("FILE", options.path, "The DSSE envelope; - for standard input")
      ->required();
  certificate->add_option("--leaf", options.leaf, "Its log entry, compared with the envelope");
  add_common(certificate);
  certificate->footer(kFooter);

  CLI::App* chain = app.add_subcommand("chain", "Check a whole log from its first certificate on");
  chain->add_option("PATH", options.path, "The log: a file or a folder, see below")->required();
  chain->add_option("--count", options.count, "How many certificates the log must have");
  chain->add_option("--head", options.head, "Leaf hash (hex) of the last certificate");
  add_common(chain);
  chain->footer(absl::StrCat(kChainFooter, kFooter));

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kVerified : kUsage;
  }
  const absl::StatusOr<VerificationKey> key = VerificationKey::Parse(options.key);
  if (!key.ok()) return Complain(key.status(), kUsage);
  const int code = certificate->parsed() ? RunCertificate(options, *key) : RunChain(options, *key);
  // A verdict that could not be written was not given.
  if (std::fflush(stdout) != 0) {
    return Complain(absl::UnavailableError("cannot write to standard output"), kUnreadable);
  }
  return code;
}

}  // namespace
}  // namespace lethe::audit::cli

int main(int argc, char** argv) { return lethe::audit::cli::Main(argc, argv); }
