// What manual pages and completion want to know of a CLI11 parser, in one place.
//
// Threads: functions without state over a parser that does not change meanwhile.
#ifndef LETHE_CORE_PROGRAM_COMMAND_TREE_H_
#define LETHE_CORE_PROGRAM_COMMAND_TREE_H_

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace lethe::program {

// What can stand for an option's value, or for an argument.
enum class ValueKind {
  kNone,  // a flag
  kAny,
  kFile,    // placeholder FILE or PATH
  kFolder,  // placeholder DIR
  kWords,   // placeholder "table|json|jsonl"
};

struct OptionView {
  std::vector<std::string> names;  // "-t", "--tenant"; of an argument, its name
  std::string placeholder;         // "NAME"; empty for a flag
  std::string description;
  ValueKind value = ValueKind::kNone;
  std::vector<std::string> words;  // of kWords
  bool required = false;
  bool repeated = false;
};

struct CommandView {
  std::string name;  // "create"; of the program, its own
  std::string description;
  std::string footer;  // what the help ends with
  std::vector<OptionView> options;
  std::vector<OptionView> arguments;
  std::vector<CommandView> commands;  // in the order of the help
};

// `app` and all below it; what is hidden (without a group) is left out. A footer's part from
// `inherited_footer` on is left out too.
CommandView ViewOf(const CLI::App& app, const std::string& inherited_footer = "");

}  // namespace lethe::program

#endif  // LETHE_CORE_PROGRAM_COMMAND_TREE_H_
