// Help of programs with many options: one below the other, texts wrapped at 80 columns, which the
// formatter that ships with CLI11 does not do.
#ifndef LETHE_CORE_PROGRAM_HELP_FORMATTER_H_
#define LETHE_CORE_PROGRAM_HELP_FORMATTER_H_

#include <CLI/CLI.hpp>
#include <string>

namespace lethe::program {

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
};

}  // namespace lethe::program

#endif  // LETHE_CORE_PROGRAM_HELP_FORMATTER_H_
