// Completion scripts for shells: verbs, flags with their descriptions, and values where a word list
// or the file system has them. They ask no server.
//
// Threads: functions without state.
#ifndef LETHE_CORE_PROGRAM_COMPLETION_H_
#define LETHE_CORE_PROGRAM_COMPLETION_H_

#include <string>

#include "core/program/command_tree.h"

namespace lethe::program {

// For bash 4 and later, with or without the package bash-completion. The flags of the program
// itself are offered after every verb.
std::string BashCompletion(const CommandView& program);

// For zsh 5, to be a file `_<program>` in a folder of $fpath.
std::string ZshCompletion(const CommandView& program);

}  // namespace lethe::program

#endif  // LETHE_CORE_PROGRAM_COMPLETION_H_
