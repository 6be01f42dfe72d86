#include "tests/integration/server_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace lethe::tests {

absl::Status ServerProcess::Start() {
  const std::string port_file = data_ + ".port";
  const std::string log = data_ + ".log";
  unlink(port_file.c_str());
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) return absl::InternalError("fork failed");
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(126);
    const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (out < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0) _exit(126);
    std::vector<std::string> arguments = {program_,      "--data",      data_,
                                          "--listen",    "127.0.0.1:0", "--insecure-loopback",
                                          "--port-file", port_file};
    arguments.insert(arguments.end(), more_.begin(), more_.end());
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    execv(program_.c_str(), argv.data());
    _exit(127);
  }
  const absl::Time deadline = absl::Now() + absl::Seconds(120);
  while (absl::Now() < deadline) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return absl::InternalError(absl::StrCat("lethed ended while starting; see ", log));
    }
    std::ifstream file(port_file);
    std::string port;
    if (std::getline(file, port) && !port.empty()) {
      address_ = absl::StrCat("127.0.0.1:", port);
      client::Client client = Connect({.max_attempts = 1});
      absl::Status answer = absl::OkStatus();
      for (const absl::StatusOr<client::Tenant>& tenant : client.ListTenants()) {
        answer = tenant.status();
        break;
      }
      if (answer.ok()) return answer;
    }
    absl::SleepFor(absl::Milliseconds(5));
  }
  Kill();
  return absl::DeadlineExceededError(absl::StrCat("lethed does not answer; see ", log));
}

void ServerProcess::Kill() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

absl::Status ServerProcess::Stop() {
  if (pid_ < 0) return absl::FailedPreconditionError("lethed does not run");
  kill(pid_, SIGTERM);
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return absl::InternalError(absl::StrCat("lethed ended with wait status ", status));
  }
  return absl::OkStatus();
}

client::Client ServerProcess::Connect(client::Options options) const {
  options.address = address_;
  return client::Client(client::MakeConnection(options));
}

}  // namespace lethe::tests
