// Runs `lethe` in this process against a FakeConnection.
#ifndef LETHE_TESTS_CLIENT_CLI_TESTING_H_
#define LETHE_TESTS_CLIENT_CLI_TESTING_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/cli.h"
#include "tests/client/fake_connection.h"

namespace lethe::cli {

struct CliResult {
  int status = 0;
  std::string out;
  std::string err;
};

class CliTest : public testing::Test {
 protected:
  CliTest() {
    for (const char* name :
         {"LETHE_ADDRESS", "LETHE_TENANT", "LETHE_MEMORY", "LETHE_PROFILE", "LETHE_TLS", "LETHE_CA",
          "LETHE_CLIENT_CERTIFICATE", "LETHE_CLIENT_KEY", "LETHE_SERVER_NAME", "LETHE_TOKEN",
          "LETHE_TOKEN_FILE"}) {
      unsetenv(name);
    }
    std::string pattern = (std::filesystem::temp_directory_path() / "lethe-cli-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    // No profile of whoever runs the tests.
    setenv("XDG_CONFIG_HOME", folder_.c_str(), 1);
  }
  ~CliTest() override { std::filesystem::remove_all(folder_); }

  CliResult Run(const std::vector<std::string>& arguments, const std::string& input = "") {
    std::istringstream in(input);
    std::ostringstream out;
    std::ostringstream err;
    Io io{.in = in,
          .out = out,
          .err = err,
          .in_is_terminal = terminal_,
          .err_is_terminal = terminal_};
    const int status = RunCli(arguments, io, [this](client::Options options) {
      connected_ = options;
      return server_;
    });
    return {status, out.str(), err.str()};
  }

  // With tenant t and memory m.
  CliResult RunIn(std::vector<std::string> arguments, const std::string& input = "") {
    arguments.insert(arguments.end(), {"-t", "t", "-m", "m"});
    return Run(arguments, input);
  }

  // Tenant t with memory m (keys of two numbers) that holds these ids, subjects s0 and s1 in turn.
  void Fill(const std::vector<std::string>& ids) {
    client::FakeConnection::State& state = server_->tenants["t"]["m"];
    state.config = {.kernel = client::Kernel::Rbf(0.5),
                    .capacity = 2,
                    .key_dimension = 2,
                    .value_dimension = 1};
    for (size_t i = 0; i < ids.size(); ++i) {
      state.tokens[ids[i]] = {
          .id = ids[i], .key = {1, 2}, .value = {3}, .subject = absl::StrCat("s", i % 2)};
    }
  }

  std::string WriteFile(const std::string& name, const std::string& content) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  static std::string ReadFile(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  std::shared_ptr<client::FakeConnection> server_ = std::make_shared<client::FakeConnection>();
  std::optional<client::Options> connected_;
  bool terminal_ = false;
  std::string folder_;
};

}  // namespace lethe::cli

#endif  // LETHE_TESTS_CLIENT_CLI_TESTING_H_
