// lethed as a process: started, watched, signalled, spoken to.
#ifndef LETHE_TESTS_SERVER_LETHED_TESTING_H_
#define LETHE_TESTS_SERVER_LETHED_TESTING_H_

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "lethe/v1/memory_service.grpc.pb.h"
#include "lethe/v1/tenant_service.grpc.pb.h"
#include "tests/server/service_testing.h"

namespace lethe {

inline std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

// As fork, and the child is process 1 of a namespace of its own, as in a container. -1 where the
// kernel grants none.
inline pid_t ForkProcessOne() {
  const long pid = syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  return static_cast<pid_t>(pid >= 0 ? pid
                                     : syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWPID | SIGCHLD,
                                               nullptr, nullptr, nullptr, nullptr));
}

// Whether it does; says so where not.
inline bool ForksProcessOne() {
  const pid_t pid = ForkProcessOne();
  if (pid == 0) _exit(0);
  if (pid > 0) waitpid(pid, nullptr, 0);
  if (pid < 0) std::cerr << "no namespaces here: nothing is tried as process 1\n";
  return pid > 0;
}

// A running lethed; killed when it goes out of scope.
class Daemon {
 public:
  enum class As { kAnyProcess, kProcessOne, kIgnoresInterrupts };
  Daemon(const std::string& folder, std::vector<std::string> arguments, As as = As::kAnyProcess)
      : log_path_(absl::StrCat(folder, "/log")), port_path_(absl::StrCat(folder, "/port")) {
    unlink(port_path_.c_str());
    arguments.insert(arguments.begin(), LETHE_BINARY_DIR "/lethed");
    arguments.push_back("--port-file");
    arguments.push_back(port_path_);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = as == As::kProcessOne ? ForkProcessOne() : fork();
    if (pid_ == 0) {
      if (as == As::kIgnoresInterrupts) ::signal(SIGINT, SIG_IGN);
      const int log = open(log_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      dup2(log, STDOUT_FILENO);
      dup2(log, STDERR_FILENO);
      execv(argv[0], argv.data());
      _exit(127);
    }
  }
  ~Daemon() {
    if (pid_ > 0) {
      Signal(SIGKILL);
      Wait();
    }
  }

  // The port, once it listens; 0 when it ended or took too long.
  int Port() {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (absl::Now() < deadline) {
      const std::string text = ReadFile(port_path_);
      if (!text.empty()) return std::stoi(text);
      if (waitpid(pid_, &status_, WNOHANG) == pid_) {
        pid_ = 0;
        return 0;
      }
      absl::SleepFor(absl::Milliseconds(10));
    }
    return 0;
  }
  std::shared_ptr<grpc::Channel> Connect() {
    const int port = Port();
    EXPECT_NE(port, 0) << Log();
    return grpc::CreateChannel(absl::StrCat("127.0.0.1:", port),
                               grpc::InsecureChannelCredentials());
  }
  void Signal(int signal) { kill(pid_, signal); }
  // Whether it has a handler for the signal.
  bool Catches(int signal) const {
    const std::string status = ReadFile(absl::StrCat("/proc/", pid_, "/status"));
    const size_t line = status.find("\nSigCgt:");
    return line != std::string::npos &&
           (std::stoull(status.substr(line + 8), nullptr, 16) >> (signal - 1) & 1) != 0;
  }
  bool EndsWithin(absl::Duration limit) {
    const absl::Time deadline = absl::Now() + limit;
    while (pid_ > 0 && absl::Now() < deadline) {
      if (waitpid(pid_, &status_, WNOHANG) == pid_) pid_ = 0;
      absl::SleepFor(absl::Milliseconds(10));
    }
    return pid_ == 0;
  }
  std::ptrdiff_t Threads() const {
    return std::distance(std::filesystem::directory_iterator(absl::StrCat("/proc/", pid_, "/task")),
                         std::filesystem::directory_iterator());
  }
  std::ptrdiff_t OpenFiles() const {
    return std::distance(std::filesystem::directory_iterator(absl::StrCat("/proc/", pid_, "/fd")),
                         std::filesystem::directory_iterator());
  }
  // Sets how many files it may have open; the number before.
  rlim_t LimitFiles(rlim_t files) {
    rlimit before = {};
    EXPECT_EQ(prlimit(pid_, RLIMIT_NOFILE, nullptr, &before), 0);
    const rlimit after = {.rlim_cur = files, .rlim_max = before.rlim_max};
    EXPECT_EQ(prlimit(pid_, RLIMIT_NOFILE, &after, nullptr), 0);
    return before.rlim_cur;
  }
  // The exit code, or 128 + the signal.
  int Wait() {
    if (pid_ > 0) waitpid(pid_, &status_, 0);
    pid_ = 0;
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  }
  std::string Log() const { return ReadFile(log_path_); }
  // The lines of this event so far.
  std::vector<nlohmann::json> Lines(const std::string& event) const {
    std::vector<nlohmann::json> found;
    for (const absl::string_view line : absl::StrSplit(Log(), '\n', absl::SkipEmpty())) {
      nlohmann::json object = nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
      if (object.is_object() && object["event"] == event) found.push_back(std::move(object));
    }
    return found;
  }
  // Those lines once there are `count` of them; fewer after twenty seconds.
  std::vector<nlohmann::json> WaitForLines(const std::string& event, size_t count) const {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (Lines(event).size() < count && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(5));
    }
    return Lines(event);
  }

 private:
  const std::string log_path_;
  const std::string port_path_;
  pid_t pid_ = 0;
  int status_ = 0;
};

class LethedTest : public testing::Test {
 protected:
  std::vector<std::string> Arguments() const {
    return {"--data", folder_.path() + "/data", "--listen", "127.0.0.1:0", "--insecure-loopback"};
  }

  static void MakeMemory(const std::shared_ptr<grpc::Channel>& channel) {
    v1::CreateTenantRequest tenant;
    tenant.set_name("t");
    v1::Tenant made_tenant;
    grpc::ClientContext tenant_context;
    ASSERT_TRUE(v1::TenantService::NewStub(channel)
                    ->CreateTenant(&tenant_context, tenant, &made_tenant)
                    .ok());
    v1::CreateMemoryRequest memory;
    memory.set_tenant("t");
    memory.set_name("m");
    memory.mutable_config()->mutable_kernel()->mutable_rbf()->set_gamma(0.5);
    memory.mutable_config()->set_capacity(3);
    memory.mutable_config()->set_key_dimension(2);
    memory.mutable_config()->set_value_dimension(1);
    v1::Memory made;
    grpc::ClientContext memory_context;
    ASSERT_TRUE(
        v1::MemoryService::NewStub(channel)->CreateMemory(&memory_context, memory, &made).ok());
  }

  static bool Insert(v1::MemoryService::Stub& stub, int number, bool* inserted = nullptr) {
    v1::InsertRequest request;
    request.set_tenant("t");
    request.set_memory("m");
    const service::TokenInput token = service::Spiral(number + 1).back();
    v1::Token* added = request.add_tokens();
    added->set_id(token.id);
    added->mutable_key()->Add(token.key.begin(), token.key.end());
    added->mutable_value()->Add(token.value.begin(), token.value.end());
    v1::InsertResponse response;
    grpc::ClientContext context;
    const bool ok = stub.Insert(&context, request, &response).ok();
    if (inserted != nullptr) *inserted = response.inserted() == 1;
    return ok;
  }

  static v1::DescribeResponse Describe(const std::shared_ptr<grpc::Channel>& channel) {
    v1::DescribeRequest request;
    request.set_tenant("t");
    request.set_memory("m");
    v1::DescribeResponse response;
    grpc::ClientContext context;
    EXPECT_TRUE(v1::MemoryService::NewStub(channel)->Describe(&context, request, &response).ok());
    return response;
  }

  service::TempDir folder_;
};

}  // namespace lethe

#endif  // LETHE_TESTS_SERVER_LETHED_TESTING_H_
