// The parser of `lethe` with all its verbs, and what runs what it parsed.
#ifndef LETHE_CLIENT_CLI_PROGRAM_H_
#define LETHE_CLIENT_CLI_PROGRAM_H_

#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "client/cli/commands.h"
#include "client/cli/context.h"

namespace lethe::cli {

class Program {
 public:
  Program(Io& io, const Connector& connector);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // For completion, the manual and tests that look at every verb.
  const CLI::App& app() const { return app_; }

  // Parses and runs; the exit status. Once.
  int Run(const std::vector<std::string>& arguments);

 private:
  bool AsksServer() const;
  // What the command line, the environment and the profile say together. Reports errors.
  int SettleGlobals();
  int CheckConnection();

  Io& io_;
  Context context_;
  Action action_;
  CLI::App app_;
  std::string output_ = "table";
  std::string tls_ = "off";
  std::string timeout_ = "60s";
};

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_PROGRAM_H_
