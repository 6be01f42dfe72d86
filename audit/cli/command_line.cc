#include "audit/cli/command_line.h"

#include <cstdint>
#include <string>

#include "absl/strings/numbers.h"

namespace lethe::audit::cli {
namespace {

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

}  // namespace

CommandLine::CommandLine()
    : app("Checks Lethe's certificates of forgetting, offline.", "lethe-verify") {
  app.set_version_flag("--version", "lethe-verify " LETHE_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);

  certificate = app.add_subcommand("certificate", "Check one certificate");
  certificate->add_option("FILE", options.path, "The DSSE envelope; - for standard input")
      ->required();
  certificate->add_option("--leaf", options.leaf, "Its log entry, compared with the envelope")
      ->type_name("FILE");
  certificate->add_option("--proof", options.proof, "Its .tlog-proof or .sigstore.json")
      ->type_name("FILE");
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
  exported = app.add_subcommand("export", "Check an export and everything in it");
  exported->add_option("PATH", options.path, "The export: a folder or a .tar")->required();
  exported->add_option("--first", options.first, "First certificate of a range")
      ->check(digits)
      ->type_name("N");
  exported->add_option("--last", options.last, "Last certificate of a range")
      ->check(digits)
      ->type_name("N");
  exported->add_option("--threads", options.threads, "How many at once (default: by processors)")
      ->check(CLI::Range(1, 64).description(""))
      ->type_name("N");
  exported->add_flag("--skip-report", options.skip_report,
                     "Leave report.html alone: another version made it");
  AddReceiptOptions(*exported, options);
  AddCommonOptions(*exported, options);
  exported->footer(std::string(kExportFooter) + kFooter);

  checkpoint = app.add_subcommand("checkpoint", "Check a checkpoint and its witnesses");
  checkpoint->add_option("FILE", options.path, "The note, or an export; - for standard input")
      ->required();
  AddCommonOptions(*checkpoint, options);
  checkpoint->footer(kFooter);

  consistency = app.add_subcommand("consistency", "Check that a log extends what it was before");
  consistency->add_option("OLD", options.path, "The older export or checkpoint")->required();
  consistency->add_option("NEW", options.other, "The newer export or checkpoint")->required();
  consistency->add_option("--proof", options.proof, "Consistency proof, for two checkpoints")
      ->type_name("FILE");
  AddCommonOptions(*consistency, options);
  consistency->footer(std::string(kConsistencyFooter) + kFooter);

  state = app.add_subcommand("state", "Solve a memory again from its tokens");
  AddStateOptions(*state, options.state);
  AddCommonOptions(*state, options);
  state->footer(std::string(kStateFooter) + kFooter);

  residue = app.add_subcommand("residue", "Look for traces of what must be gone");
  AddResidueOptions(*residue, residue_options);
}

}  // namespace lethe::audit::cli
