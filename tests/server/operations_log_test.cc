// The operations log, and the gate that writes it.
#include "server/access/operations_log.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/access/gate.h"
#include "tests/server/access_testing.h"
#include "tests/server/service_testing.h"

namespace lethe::access {
namespace {

using nlohmann::json;
using service::HasCode;
using service::IsOk;

class OperationsLogTest : public testing::Test {
 protected:
  std::string log_path() const { return folder_.path() + "/operations.log"; }
  std::unique_ptr<OperationsLog> Open(OperationsLogOptions options = {}) {
    options.path = log_path();
    options.now = [this] { return now_; };
    auto log = OperationsLog::Open(std::move(options));
    EXPECT_THAT(log, IsOk());
    return *std::move(log);
  }
  static std::vector<json> LinesOf(const std::string& path) {
    std::vector<json> lines;
    for (const absl::string_view line : absl::StrSplit(ReadFile(path), '\n', absl::SkipEmpty())) {
      lines.push_back(json::parse(line.begin(), line.end(), nullptr, false));
      EXPECT_TRUE(lines.back().is_object()) << std::string(line);
    }
    return lines;
  }
  const Operation operation_{.request_id = "r1",
                             .method = "/lethe.v1.MemoryService/Forget",
                             .caller = "app-1",
                             .tenant = "clinic",
                             .memory = "visits",
                             .destroys = true};
  service::TempDir folder_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(24 * 20000);
};

TEST_F(OperationsLogTest, EachEventIsALine) {
  {
    const auto log = Open();
    EXPECT_THAT(log->Intent(operation_), IsOk());
    EXPECT_THAT(log->Outcome(operation_, "OK", "abc"), IsOk());
    EXPECT_THAT(log->Denied({.request_id = "r2",
                             .method = "m",
                             .tenant = "Not a name",
                             .memory = "somebody@example.org"},
                            "UNAUTHENTICATED", "token: expired"),
                IsOk());
  }
  const std::vector<json> lines = LinesOf(log_path());
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], (json{{"time", "2024-10-04T00:00:00.000Z"},
                            {"event", "intent"},
                            {"request_id", "r1"},
                            {"method", "/lethe.v1.MemoryService/Forget"},
                            {"caller", "app-1"},
                            {"tenant", "clinic"},
                            {"memory", "visits"}}));
  EXPECT_EQ(lines[1]["event"], "outcome");
  EXPECT_EQ(lines[1]["code"], "OK");
  EXPECT_EQ(lines[1]["certificate"], "abc");
  EXPECT_EQ(lines[2], (json{{"time", "2024-10-04T00:00:00.000Z"},
                            {"event", "denied"},
                            {"request_id", "r2"},
                            {"method", "m"},
                            {"caller", ""},
                            {"code", "UNAUTHENTICATED"},
                            {"reason", "token: expired"}}))
      << "what is no name is left out";
  struct stat status = {};
  ASSERT_EQ(stat(log_path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(OperationsLogTest, AFloodOfRefusalsIsCounted) {
  {
    const auto log = Open();
    for (int i = 0; i < 1000; ++i) {
      EXPECT_THAT(log->Denied({.caller = "app-1"}, "PERMISSION_DENIED", "role"), IsOk());
    }
    EXPECT_THAT(log->Denied({.caller = "app-2"}, "PERMISSION_DENIED", "role"), IsOk());
    EXPECT_EQ(LinesOf(log_path()).size(), kDeniedLines + 1) << "each caller for himself";
    now_ += absl::Minutes(1);
    EXPECT_THAT(log->Intent(operation_), IsOk());
    const std::vector<json> lines = LinesOf(log_path());
    ASSERT_EQ(lines.size(), kDeniedLines + 3);
    EXPECT_EQ(lines[kDeniedLines + 1]["event"], "denied-more");
    EXPECT_EQ(lines[kDeniedLines + 1]["caller"], "app-1");
    EXPECT_EQ(lines[kDeniedLines + 1]["count"], 990);
    EXPECT_EQ(lines.back()["event"], "intent");
    for (int i = 0; i < 12; ++i) log->Denied({.caller = "app-1"}, "NOT_FOUND", "x").IgnoreError();
  }
  EXPECT_EQ(LinesOf(log_path()).back()["count"], 2) << "written when the log is closed";
  // As many callers as somebody can think of.
  const auto log = Open();
  const size_t before = LinesOf(log_path()).size();
  for (int i = 0; i < 3000; ++i) {
    log->Denied({.caller = absl::StrCat("login#", i)}, "NOT_FOUND", "x").IgnoreError();
  }
  EXPECT_EQ(LinesOf(log_path()).size(), before + 3000);
}

TEST_F(OperationsLogTest, FilesAreBoundedInSizeAndNumber) {
  {
    const auto log = Open({.max_bytes = 2000, .max_files = 3});
    for (int i = 0; i < 200; ++i) EXPECT_THAT(log->Outcome(operation_, "OK", ""), IsOk());
  }
  size_t lines = 0;
  for (const char* end : {"", ".1", ".2", ".3"}) {
    const std::string text = ReadFile(log_path() + end);
    EXPECT_LE(text.size(), 2000u);
    EXPECT_GT(text.size(), 0u) << end;
    lines += LinesOf(log_path() + end).size();
  }
  EXPECT_LT(lines, 200u);
  EXPECT_NE(::access(absl::StrCat(log_path(), ".4").c_str(), F_OK), 0);
  // It goes on where it was.
  const size_t before = LinesOf(log_path()).size();
  EXPECT_THAT(Open()->Intent(operation_), IsOk());
  EXPECT_EQ(LinesOf(log_path()).size(), before + 1);
}

TEST_F(OperationsLogTest, WithoutANextFileNoOldLineIsLost) {
  const auto log = Open({.max_bytes = 700, .max_files = 3});
  const auto everything = [this] {
    std::string text;
    for (const char* end : {".3", ".2", ".1", ""}) text += ReadFile(log_path() + end);
    return text;
  };
  while (::access((log_path() + ".2").c_str(), F_OK) != 0) {
    ASSERT_THAT(log->Outcome(operation_, "OK", ""), IsOk());
  }
  // The present one is full.
  while (ReadFile(log_path()).size() < 500) {
    ASSERT_THAT(log->Outcome(operation_, "OK", ""), IsOk());
  }
  const std::string before = everything();
  // No descriptor is left.
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  rlimit low = limit;
  low.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  std::vector<absl::Status> refused;
  for (int i = 0; i < 20; ++i) refused.push_back(log->Intent(operation_));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  for (const absl::Status& status : refused) {
    EXPECT_THAT(status, HasCode(absl::StatusCode::kUnavailable));
  }
  EXPECT_EQ(everything(), before);
  // Something in the way of the files that are moved up: all of them stay.
  ASSERT_EQ(rename((log_path() + ".2").c_str(), (log_path() + ".kept").c_str()), 0);
  ASSERT_EQ(mkdir((log_path() + ".2").c_str(), 0700), 0);
  ASSERT_EQ(mkdir((log_path() + ".3").c_str(), 0700), 0);
  ASSERT_EQ(mkdir((log_path() + ".3/full").c_str(), 0700), 0);
  const std::string first = ReadFile(log_path() + ".1");
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(log->Intent(operation_).ok());
  EXPECT_EQ(ReadFile(log_path() + ".1"), first);
  ASSERT_EQ(rmdir((log_path() + ".3/full").c_str()), 0);
  ASSERT_EQ(rmdir((log_path() + ".3").c_str()), 0);
  ASSERT_EQ(rmdir((log_path() + ".2").c_str()), 0);
  ASSERT_EQ(rename((log_path() + ".kept").c_str(), (log_path() + ".2").c_str()), 0);
  EXPECT_EQ(everything(), before);
  // It goes on, and what a crash may have left of a change is no hindrance.
  WriteFile(log_path() + ".next", "left behind");
  EXPECT_THAT(log->Intent(operation_), IsOk());
  EXPECT_EQ(everything().substr(0, before.size()), before);
  EXPECT_EQ(LinesOf(log_path()).size(), 1u);
}

TEST_F(OperationsLogTest, ATornLineIsEndedByTheNext) {
  WriteFile(log_path(), "{\"event\":\"inte");
  EXPECT_THAT(Open()->Intent(operation_), IsOk());
  const std::vector<std::string> lines = absl::StrSplit(ReadFile(log_path()), '\n');
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(json::parse(lines[1])["event"], "intent");
}

TEST_F(OperationsLogTest, AFileOfOthersIsRefused) {
  WriteFile(log_path(), "", 0644);
  EXPECT_THAT(OperationsLog::Open({.path = log_path()}),
              HasCode(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(OperationsLog::Open({.path = folder_.path() + "/absent/log"}),
              HasCode(absl::StatusCode::kNotFound));
  const std::string link = folder_.path() + "/link";
  ASSERT_EQ(symlink(log_path().c_str(), link.c_str()), 0);
  EXPECT_THAT(OperationsLog::Open({.path = link}), HasCode(absl::StatusCode::kFailedPrecondition));
}

TEST_F(OperationsLogTest, AFullDiskAsksForRoomOnce) {
  // /dev/full is no regular file, so the log's own descriptor is put in its place.
  int asked = 0;
  const auto log = Open({.make_room = [&asked] { return ++asked > 1; }});
  int descriptor = -1;
  for (int fd = 3; fd < 256; ++fd) {
    char target[4096] = {};
    const ssize_t size =
        readlink(absl::StrCat("/proc/self/fd/", fd).c_str(), target, sizeof(target) - 1);
    if (size > 0 && log_path() == target) descriptor = fd;
  }
  ASSERT_GE(descriptor, 0);
  const int kept = dup(descriptor);
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  ASSERT_GE(dup2(full, descriptor), 0);
  EXPECT_THAT(log->Intent(operation_), HasCode(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(asked, 1);
  EXPECT_THAT(log->Intent(operation_), HasCode(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(asked, 2) << "tried again, in vain";
  EXPECT_THAT(log->Intent({.method = "m"}), HasCode(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(asked, 2) << "the room is kept for erasures";
  ASSERT_GE(dup2(kept, descriptor), 0);
  EXPECT_THAT(log->Intent(operation_), IsOk());
  EXPECT_EQ(LinesOf(log_path()).size(), 1u);
  close(kept);
  close(full);
}

// --- The gate

TEST_F(OperationsLogTest, TheGateRefusesWhatCannotBeRecorded) {
  program::EventLog events(-1, program::LogLevel::kError);
  const auto log = Open({.max_bytes = 1, .max_files = 1});  // each line opens a new file
  const Gate gate(nullptr, log.get(), &events);
  const Method* forget = FindMethod("/lethe.v1.MemoryService/Forget");
  const Method* query = FindMethod("/lethe.v1.MemoryService/Query");
  const auto none = [] { return Credentials{}; };
  {
    Call call(gate, forget, forget->name, "r", none);
    ASSERT_THAT(call.Enter(), IsOk());
    ASSERT_THAT(call.Admit("t", "m"), IsOk());
    call.Finish(absl::OkStatus(), "certificate");
  }
  // A folder in the way of the next file.
  ASSERT_EQ(unlink((log_path() + ".1").c_str()), 0);
  ASSERT_EQ(mkdir((log_path() + ".1").c_str(), 0700), 0);
  {
    Call call(gate, forget, forget->name, "r", none);
    ASSERT_THAT(call.Enter(), IsOk());
    const absl::Status refused = call.Admit("t", "m");
    EXPECT_THAT(refused, HasCode(absl::StatusCode::kUnavailable));
    EXPECT_EQ(std::string(refused.message()).rfind("operations log:", 0), 0u);
  }
  Call call(gate, query, query->name, "r", none);
  ASSERT_THAT(call.Enter(), IsOk());
  EXPECT_THAT(call.Admit("t", "m"), IsOk()) << "what is not recorded goes on";
}

TEST_F(OperationsLogTest, AnOutcomeThatNobodyToldIsUnknown) {
  const auto log = Open();
  const Gate gate(nullptr, log.get(), nullptr);
  const Method* forget = FindMethod("/lethe.v1.MemoryService/Forget");
  {
    Call call(gate, forget, forget->name, "r", [] { return Credentials{}; });
    ASSERT_THAT(call.Enter(), IsOk());
    ASSERT_THAT(call.Admit("t", "m"), IsOk());
    ASSERT_THAT(call.Admit("t", "m"), IsOk());
  }
  const std::vector<json> lines = LinesOf(log_path());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1]["code"], "UNKNOWN");
}

}  // namespace
}  // namespace lethe::access
