// The command line of lethe-verify: its parser, and what it parsed. Threads: compatible.
#ifndef LETHE_AUDIT_CLI_COMMAND_LINE_H_
#define LETHE_AUDIT_CLI_COMMAND_LINE_H_

#include "CLI/CLI.hpp"
#include "audit/cli/options.h"
#include "audit/cli/residue.h"

namespace lethe::audit::cli {

// What the help of the program ends with, and that of every command but `residue`.
inline constexpr char kFooter[] =
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

// The parser writes into `options` and `residue_options`, so it stays where it was made.
struct CommandLine {
  CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  CLI::App app;
  Options options;
  ResidueOptions residue_options;
  // Of the commands, those that were given are parsed().
  CLI::App* certificate;
  CLI::App* exported;
  CLI::App* checkpoint;
  CLI::App* consistency;
  CLI::App* state;
  CLI::App* residue;
};

}  // namespace lethe::audit::cli

#endif  // LETHE_AUDIT_CLI_COMMAND_LINE_H_
