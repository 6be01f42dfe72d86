// A lethed of a test's own: started on a loopback port that the kernel chooses, killed or stopped
// when the test wants, and killed with the test. Linux. Threads: compatible; Start from the main
// thread, since the kernel ends the server together with the thread that started it.
#ifndef LETHE_TESTS_INTEGRATION_SERVER_PROCESS_H_
#define LETHE_TESTS_INTEGRATION_SERVER_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/client.h"

namespace lethe::tests {

class ServerProcess {
 public:
  // `program`: the path of lethed; `data`: its folder; its log goes to `data`.log. `more`: further
  // arguments.
  ServerProcess(std::string program, std::string data, std::vector<std::string> more = {})
      : program_(std::move(program)), data_(std::move(data)), more_(std::move(more)) {}
  ~ServerProcess() { Kill(); }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // Requires that it does not run. Returns once it answers calls.
  absl::Status Start();
  // kill -9, and waits for the end. Without effect when it does not run.
  void Kill();
  // SIGTERM, and waits. INTERNAL unless it ends by itself with status 0.
  absl::Status Stop();

  // All require that it runs.
  const std::string& address() const { return address_; }
  pid_t pid() const { return pid_; }
  client::Client Connect(client::Options options = {}) const;

 private:
  std::string program_;
  std::string data_;
  std::vector<std::string> more_;
  std::string address_;
  pid_t pid_ = -1;
};

}  // namespace lethe::tests

#endif  // LETHE_TESTS_INTEGRATION_SERVER_PROCESS_H_
