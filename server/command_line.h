// How lethed is told its settings. For each option (options.h) the first of these that has it
// counts:
//   1. the flag                                 --ballast 1GiB
//   2. the environment variable, if not empty   LETHE_BALLAST=1GiB
//   3. the settings file, if one is named       ballast = "1GiB"
//   4. the default
// The file is named by --config or LETHE_CONFIG; none is looked for.
//
// Threads: reads the environment of the process.
#ifndef LETHE_SERVER_COMMAND_LINE_H_
#define LETHE_SERVER_COMMAND_LINE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/config.h"

namespace lethe::server {

struct CommandLine {
  enum class Action {
    kServe,
    kCheck,  // see whether a server would start with these settings, without touching its data;
             // then print `text`
    kPrint,  // print `text`, nothing else
  };
  Action action = Action::kServe;
  Config config;
  std::string text;
  // Sentences about what was left out of account, for the log.
  std::vector<std::string> warnings;
  // By the option's name, where its value comes from: "--listen", "LETHE_LISTEN",
  // "lethed.toml:3: listen", "default".
  std::map<std::string, std::string> origins;
};

// Parses the arguments after the program's name, the environment of the process and the settings
// file. INVALID_ARGUMENT begins with the flag, the variable, or file:line and key; errors of the
// file are core/program/toml_file.h's. The result has passed Validate.
absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments);

// `status` with the origin of the value in place of the flag that its message begins with, so that
// a check of a Config names the line to change.
absl::Status AtOrigin(const absl::Status& status, const CommandLine& command_line);

// The settings as a settings file, each line with its origin: the file says the same again.
std::string PrintConfig(const CommandLine& command_line);

// lethed(8), from the same options as the help.
std::string ManualPage();

}  // namespace lethe::server

#endif  // LETHE_SERVER_COMMAND_LINE_H_
