// The verbs of `lethe`. Each function adds one to the parser; when the command line names it,
// `action` is set to what it does, to be run after parsing.
#ifndef LETHE_CLIENT_CLI_COMMANDS_H_
#define LETHE_CLIENT_CLI_COMMANDS_H_

#include <functional>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "client/cli/context.h"

namespace lethe::cli {

// Returns the exit status.
using Action = std::function<int()>;

void AddTenantCommands(CLI::App& app, Context& context, Action& action);
void AddMemoryCommands(CLI::App& app, Context& context, Action& action);
void AddInsertCommand(CLI::App& app, Context& context, Action& action);
void AddQueryCommand(CLI::App& app, Context& context, Action& action);
void AddForgetCommand(CLI::App& app, Context& context, Action& action);
void AddEvictCommand(CLI::App& app, Context& context, Action& action);
void AddEditCommand(CLI::App& app, Context& context, Action& action);
// `lethe erasure` and `lethe hold`.
void AddErasureCommands(CLI::App& app, Context& context, Action& action);
// `lethe job`.
void AddJobCommands(CLI::App& app, Context& context, Action& action);
void AddCertificateCommands(CLI::App& app, Context& context, Action& action);
void AddBackupCommands(CLI::App& app, Context& context, Action& action);
void AddExportCommand(CLI::App& app, Context& context, Action& action);
// `lethe log`, `lethe key` and `lethe verify`.
void AddLogCommands(CLI::App& app, Context& context, Action& action);
void AddSolveCommand(CLI::App& app, Context& context, Action& action);
void AddWitnessCommands(CLI::App& app, Context& context, Action& action);
void AddVersionCommand(CLI::App& app, Context& context, Action& action);

// `lethe access`.
void AddAccessCommands(CLI::App& app, Context& context, Action& action);
// `lethe profile` and `lethe completion`.
void AddProfileCommands(CLI::App& app, Context& context, Action& action);
void AddCompletionCommand(CLI::App& app, Context& context, Action& action);
void AddDoctorCommand(CLI::App& app, Context& context, Action& action);
void AddHealthCommand(CLI::App& app, Context& context, Action& action);
void AddTopCommand(CLI::App& app, Context& context, Action& action);

// Takes one of these words, which help and completion show.
CLI::Option* TakesWords(CLI::Option* option, std::vector<std::string> words);

// What the help of every verb ends with.
inline constexpr char kGlobalHint[] = "Global options such as --tenant and --output: lethe --help";

// A subcommand with the habits that all of ours share. `footer` ends its help.
CLI::App* AddVerb(CLI::App& parent,
                  const char* name,
                  const char* description,
                  const std::string& footer = "");
// A group of verbs, of which one must be named.
CLI::App* AddGroup(CLI::App& parent, const char* name, const char* description);

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_COMMANDS_H_
