// Prints lethe(1); run by the build.
#include <iostream>

#include "client/cli/program.h"
#include "core/program/manual_page.h"

int main() {
  lethe::cli::Io io{.in = std::cin, .out = std::cout, .err = std::cerr};
  const lethe::cli::Program program(io, nullptr);
  const lethe::program::CommandView view =
      lethe::program::ViewOf(program.app(), lethe::cli::kGlobalHint);
  lethe::program::ManualPage::Section environment{.title = "Environment", .entries = {}};
  for (const CLI::Option* option : program.app().get_options()) {
    if (option->get_envname().empty()) continue;
    environment.entries.emplace_back(option->get_envname(),
                                     "As --" + option->get_lnames()[0] + ", which wins over it.");
  }
  const lethe::program::ManualPage page = {
      .section = 1,
      .version = LETHE_VERSION,
      .summary = "command line of Lethe, a memory that can prove it has forgotten",
      .description =
          {"lethe talks to a server, lethed(8). Data goes to standard output, everything else to "
           "standard error. Destructive commands show what they would do; --yes does it, or an "
           "answer "
           "at a terminal.",
           "Options before or after the command are the same. Those under OPTIONS can be given to "
           "every command."},
      .sections = {
          environment,
          {"Files",
           {{"$XDG_CONFIG_HOME/lethe/config.toml, ~/.config/lethe/config.toml",
             "Profiles, named sets of the options that take a value; see lethe profile. Flags and "
             "environment variables win over them."}}},
          {"Exit status",
           {{"0", "Done."},
            {"1", "Wrong usage, or a destructive command without consent."},
            {"2", "A file cannot be read or written, or its content is bad."},
            {"3", "A certificate or a backup did not verify."},
            {"4", "The doctor found what is not in order."},
            {"5", "A job that was watched failed or was cancelled."},
            {"64 + n",
             "The server answered with gRPC status n: 67 INVALID_ARGUMENT, 68 DEADLINE_EXCEEDED, "
             "69 "
             "NOT_FOUND, 70 ALREADY_EXISTS, 71 PERMISSION_DENIED, 72 RESOURCE_EXHAUSTED, 73 "
             "FAILED_PRECONDITION, 74 ABORTED, 77 INTERNAL, 78 UNAVAILABLE, 79 DATA_LOSS, 80 "
             "UNAUTHENTICATED."}}},
          {"See also", {{"", "lethed(8), lethe-verify(1)"}}},
      }};
  std::cout << lethe::program::RenderManualPage(page, view) << std::flush;
  return std::cout ? 0 : 1;
}
