// lethe-verify: checks certificates, exports and checkpoints offline, against a pinned key.
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "audit/cli/commands.h"
#include "audit/cli/options.h"
#include "audit/cli/output.h"
#include "audit/cli/residue.h"

namespace lethe::audit::cli {
namespace {

constexpr char kFooter[] =
    R"(Nothing is read but the named files, and nothing is sent anywhere. Pin a key
that you have from the owner of the log, never one from the export itself. Give
several oldest first. A checkpoint, a proof or a range does not show that a key
was retired: whoever holds an old key that you pin can sign one. Pin the newest
key alone where it is enough.

Exit status
  0 verified             4 wrong key or signature, or witnesses missing
  1 wrong usage          5 well signed, but not the log or file expected
  2 unreadable file      6 the log forked or shrank
  3 malformed input      7 receipt or tokens say otherwise
                         8 and 9 are explained by `residue --help`

Examples
  lethe-verify export acme.tar --key "$KEY"
  lethe-verify certificate 000007.envelope.json --proof 000007.tlog-proof \
      --key "$KEY"
  lethe-verify consistency last-year.tar today.tar --key "$KEY")";

constexpr char kExportFooter[] =
    R"(PATH is a folder or a .tar that `lethe export` wrote. Everything in it is
checked: the tree, each certificate, proof and bundle, the summaries, the
report. Without --first and --last it must be the whole log.

)";

constexpr char kConsistencyFooter[] =
    R"(OLD and NEW are exports (a folder, a .tar) or files with a checkpoint. A whole
export as NEW is verified too. Of two checkpoints of different sizes --proof
must name a file with the consistency proof, a base64 hash a line.

)";

constexpr char kStateFooter[] =
    R"(For the tenant, who has the tokens: they are solved from scratch and the digest
of the state is compared with the one of `lethe memory describe`; with
--certificate also configuration and partition with what was certified. The
file is one for `lethe insert`, in the order in which the tokens went in.

)";

// A verdict that could not be written was not given.
int Flushed(int code) {
  if (std::fflush(stdout) == 0) return code;
  return Complain(absl::UnavailableError("cannot write to standard output"), kUnreadable);
}

int Main(int argc, char** argv) {
  CLI::App app("Checks Lethe's certificates of forgetting, offline.", "lethe-verify");
  app.set_version_flag("--version", "lethe-verify " LETHE_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);
  Options options;

  CLI::App* certificate = app.add_subcommand("certificate", "Check one certificate");
  certificate->add_option("FILE", options.path, "The DSSE envelope; - for standard input")
      ->required();
  certificate->add_option("--leaf", options.leaf, "Its log entry, compared with the envelope");
  certificate->add_option("--proof", options.proof, "Its .tlog-proof or .sigstore.json");
  AddReceiptOptions(*certificate, options);
  AddCommonOptions(*certificate, options);
  certificate->footer(kFooter);

  // CLI11 takes -1 for the largest number.
  const auto digits = [](const std::string& text) {
    uint64_t number = 0;
    const bool good = text.find_first_not_of("0123456789") == std::string::npos &&
                      absl::SimpleAtoi(text, &number);
    return good ? std::string() : "not a number from 0 on: " + text;
  };
  CLI::App* exported = app.add_subcommand("export", "Check an export and everything in it");
  exported->add_option("PATH", options.path, "The export: a folder or a .tar")->required();
  exported->add_option("--first", options.first, "First certificate of a range")->check(digits);
  exported->add_option("--last", options.last, "Last certificate of a range")->check(digits);
  exported->add_option("--threads", options.threads, "How many at once (default: by processors)")
      ->check(CLI::Range(1, 64));
  exported->add_flag("--skip-report", options.skip_report,
                     "Leave report.html alone: another version made it");
  AddReceiptOptions(*exported, options);
  AddCommonOptions(*exported, options);
  exported->footer(std::string(kExportFooter) + kFooter);

  CLI::App* checkpoint = app.add_subcommand("checkpoint", "Check a checkpoint and its witnesses");
  checkpoint->add_option("FILE", options.path, "The note, or an export; - for standard input")
      ->required();
  AddCommonOptions(*checkpoint, options);
  checkpoint->footer(kFooter);

  CLI::App* consistency =
      app.add_subcommand("consistency", "Check that a log extends what it was before");
  consistency->add_option("OLD", options.path, "The older export or checkpoint")->required();
  consistency->add_option("NEW", options.other, "The newer export or checkpoint")->required();
  consistency->add_option("--proof", options.proof, "Consistency proof, for two checkpoints");
  AddCommonOptions(*consistency, options);
  consistency->footer(std::string(kConsistencyFooter) + kFooter);

  CLI::App* state = app.add_subcommand("state", "Solve a memory again from its tokens");
  AddStateOptions(*state, options.state);
  AddCommonOptions(*state, options);
  state->footer(std::string(kStateFooter) + kFooter);

  CLI::App* residue = app.add_subcommand("residue", "Look for traces of what must be gone");
  ResidueOptions residue_options;
  AddResidueOptions(*residue, residue_options);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kVerified : kUsage;
  }
  if (options.first.value_or(0) > options.last.value_or(std::numeric_limits<uint64_t>::max())) {
    return Complain(absl::InvalidArgumentError("--first is behind --last"), kUsage);
  }
  // Nothing signed is looked at.
  if (residue->parsed()) return Flushed(RunResidue(residue_options));
  // The tokens are the tenant's own: a key is needed for a certificate only.
  if (state->parsed() && options.state.certificate.empty()) {
    return Flushed(RunState(options, nullptr));
  }
  const absl::StatusOr<Pins> pins = ReadPins(options);
  if (!pins.ok()) {
    return Complain(pins.status(), absl::IsInvalidArgument(pins.status()) ? kUsage : kUnreadable);
  }
  int code = kUsage;
  if (certificate->parsed()) code = RunCertificate(options, *pins);
  if (exported->parsed()) code = RunExport(options, *pins);
  if (checkpoint->parsed()) code = RunCheckpoint(options, *pins);
  if (state->parsed()) code = RunState(options, &*pins);
  if (consistency->parsed()) code = RunConsistency(options, *pins);
  return Flushed(code);
}

}  // namespace
}  // namespace lethe::audit::cli

int main(int argc, char** argv) { return lethe::audit::cli::Main(argc, argv); }
