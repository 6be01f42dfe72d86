// Prints lethe-verify(1); run by the build.
#include <cstdio>
#include <string>

#include "audit/cli/command_line.h"
#include "core/program/manual_page.h"

int main() {
  const lethe::audit::cli::CommandLine line;
  const lethe::program::CommandView view =
      lethe::program::ViewOf(line.app, lethe::audit::cli::kFooter);
  const lethe::program::ManualPage page = {
      .section = 1,
      .version = LETHE_VERSION,
      .summary = "check Lethe's certificates of forgetting, offline",
      .description =
          {"lethe-verify reads the named files and nothing else, and sends nothing anywhere. It "
           "needs no server and no account: an auditor runs it on what lethe export wrote, with a "
           "key that was pinned before.",
           "Pin a key that you have from the owner of the log, never one from the export itself. "
           "Give several oldest first. A checkpoint, a proof or a range does not show that a key "
           "was retired: whoever holds an old key that you pin can sign one. Pin the newest key "
           "alone where it is enough."},
      .sections = {
          {"Exit status",
           {{"0", "Verified; of residue: nothing found."},
            {"1", "Wrong usage."},
            {"2", "A file cannot be read."},
            {"3", "Malformed input."},
            {"4", "A wrong key or signature, or witnesses are missing."},
            {"5", "Well signed, but not the log or file that was expected."},
            {"6", "The log forked or shrank."},
            {"7", "The receipt or the tokens say otherwise."},
            {"8",
             "Of residue: something was found; with --expect-found and --control, "
             "something was not."},
            {"9",
             "Of residue: nothing was found, but not everything could be read, or files "
             "changed meanwhile."}}},
          {"Examples",
           {{"lethe-verify export acme.tar --key \"$KEY\"", "A whole log."},
            {"lethe-verify certificate 000007.envelope.json --proof 000007.tlog-proof --key "
             "\"$KEY\"",
             "One certificate and its place in the log."},
            {"lethe-verify consistency last-year.tar today.tar --key \"$KEY\"",
             "That the log only grew."}}},
          {"See also", {{"", "lethe(1), lethed(8)"}}},
      }};
  return std::fputs(lethe::program::RenderManualPage(page, view).c_str(), stdout) < 0 ? 1 : 0;
}
