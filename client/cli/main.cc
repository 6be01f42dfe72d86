#include <unistd.h>

#include <iostream>
#include <memory>

#include "client/cli/cli.h"
#include "client/connection.h"

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  const std::unique_ptr<lethe::cli::Terminal> terminal = lethe::cli::OpenTerminal();
  lethe::cli::Io io{.in = std::cin,
                    .out = std::cout,
                    .err = std::cerr,
                    .in_is_terminal = ::isatty(STDIN_FILENO) == 1,
                    .err_is_terminal = ::isatty(STDERR_FILENO) == 1,
                    .terminal = terminal.get()};
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return lethe::cli::RunCli(arguments, io, [](lethe::client::Options options) {
    return lethe::client::MakeConnection(std::move(options));
  });
}
