// lethe-verify: checks certificates, exports and checkpoints offline, against a pinned key.
#include <cstdint>
#include <cstdio>
#include <limits>

#include "audit/cli/command_line.h"
#include "audit/cli/commands.h"
#include "audit/cli/output.h"

namespace lethe::audit::cli {
namespace {

// A verdict that could not be written was not given.
int Flushed(int code) {
  if (std::fflush(stdout) == 0) return code;
  return Complain(absl::UnavailableError("cannot write to standard output"), kUnreadable);
}

int Main(int argc, char** argv) {
  CommandLine line;
  const Options& options = line.options;
  try {
    line.app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return line.app.exit(error) == 0 ? kVerified : kUsage;
  }
  if (options.first.value_or(0) > options.last.value_or(std::numeric_limits<uint64_t>::max())) {
    return Complain(absl::InvalidArgumentError("--first is behind --last"), kUsage);
  }
  // Nothing signed is looked at.
  if (line.residue->parsed()) return Flushed(RunResidue(line.residue_options));
  // The tokens are the tenant's own: a key is needed for a certificate only.
  if (line.state->parsed() && options.state.certificate.empty()) {
    return Flushed(RunState(options, nullptr));
  }
  const absl::StatusOr<Pins> pins = ReadPins(options);
  if (!pins.ok()) {
    return Complain(pins.status(), absl::IsInvalidArgument(pins.status()) ? kUsage : kUnreadable);
  }
  int code = kUsage;
  if (line.certificate->parsed()) code = RunCertificate(options, *pins);
  if (line.exported->parsed()) code = RunExport(options, *pins);
  if (line.checkpoint->parsed()) code = RunCheckpoint(options, *pins);
  if (line.state->parsed()) code = RunState(options, &*pins);
  if (line.consistency->parsed()) code = RunConsistency(options, *pins);
  return Flushed(code);
}

}  // namespace
}  // namespace lethe::audit::cli

int main(int argc, char** argv) { return lethe::audit::cli::Main(argc, argv); }
