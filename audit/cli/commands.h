// The commands of lethe-verify. Each returns the exit status. Threads: compatible.
#ifndef LETHE_AUDIT_CLI_COMMANDS_H_
#define LETHE_AUDIT_CLI_COMMANDS_H_

#include "audit/cli/options.h"

namespace lethe::audit::cli {

// One certificate, with its leaf and its proof when they are given.
int RunCertificate(const Options& options, const Pins& pins);
// A folder or a .tar.
int RunExport(const Options& options, const Pins& pins);
// A checkpoint by itself.
int RunCheckpoint(const Options& options, const Pins& pins);
// A memory, solved again. `pins` may be null without a certificate.
int RunState(const Options& options, const Pins* pins);
// Whether one log extends another.
int RunConsistency(const Options& options, const Pins& pins);

}  // namespace lethe::audit::cli

#endif  // LETHE_AUDIT_CLI_COMMANDS_H_
