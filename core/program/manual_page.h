// Manual pages in the man(7) macros, from the same parser as the help.
//
// Threads: functions without state.
#ifndef LETHE_CORE_PROGRAM_MANUAL_PAGE_H_
#define LETHE_CORE_PROGRAM_MANUAL_PAGE_H_

#include <string>
#include <utility>
#include <vector>

#include "core/program/command_tree.h"

namespace lethe::program {

struct ManualPage {
  int section = 1;
  std::string version;  // "0.1.0"
  std::string summary;  // after the dash of NAME: no capital, no full stop
  // Paragraphs of DESCRIPTION.
  std::vector<std::string> description;
  // Sections after the options, in order: title, then entries. An entry with an empty term is a
  // paragraph.
  struct Section {
    std::string title;
    std::vector<std::pair<std::string, std::string>> entries;
  };
  std::vector<Section> sections;
};

// NAME, SYNOPSIS, DESCRIPTION, OPTIONS, COMMANDS (each verb with its flags), then the sections.
std::string RenderManualPage(const ManualPage& page, const CommandView& program);

}  // namespace lethe::program

#endif  // LETHE_CORE_PROGRAM_MANUAL_PAGE_H_
