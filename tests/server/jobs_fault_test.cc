// The end of a tenant's jobs where any one call of SQLite fails, its COMMITs among them: what it
// says is true of the file, and what it could not do is done later.
#include <sqlite3.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/service/jobs.h"
#include "tests/server/job_testing.h"
#include "tests/store/fault_vfs.h"

namespace lethe::service {
namespace {

using store::FaultKind;
using ::testing::IsEmpty;

// The first column of all rows; none without a file.
std::set<std::string> Column(const std::string& path, const std::string& sql) {
  std::set<std::string> found;
  if (!std::filesystem::exists(path)) return found;
  sqlite3* database = nullptr;
  EXPECT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(database, "PRAGMA locking_mode = EXCLUSIVE", nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_stmt* select = nullptr;
  EXPECT_EQ(sqlite3_prepare_v2(database, sql.c_str(), -1, &select, nullptr), SQLITE_OK);
  while (sqlite3_step(select) == SQLITE_ROW) {
    found.insert(reinterpret_cast<const char*>(sqlite3_column_text(select, 0)));
  }
  sqlite3_finalize(select);
  sqlite3_close(database);
  return found;
}

class JobsFaultTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { store::InstallFaultVfs(); }

  std::unique_ptr<Jobs> Open(const TempDir& folder) {
    return Jobs::Open(
        {.place = {
             .folder = folder.path() + "/jobs",
             .vault = folder.path() + "/vault",
             .new_path = [&folder, this] { return absl::StrCat(folder.path(), "/", ++made_); },
             .kms = [this](store::KmsUse use, const std::string& path,
                           const std::string& uid) -> absl::StatusOr<std::unique_ptr<store::Kms>> {
               absl::StatusOr<std::unique_ptr<store::Kms>> kms = store::MakeFileKms(use, path, uid);
               if (!kms.ok()) return kms;
               return std::make_unique<TroubledKms>(*std::move(kms), trouble_);
             }},
         .debts = folder.path() + "/owed",
         .log = &log_,
         .now = [this] { return now_; }});
  }
  absl::StatusOr<JobInfo> Submit(Jobs& jobs, const std::string& tenant) {
    return jobs.Submit(tenant, std::string(32, 'c'), SmallConfig(),
                       {.tenant = tenant.substr(0, 1),
                        .memory = "m",
                        .config = TrainEncoderConfig{.steps = 10},
                        .request_id = "r"},
                       0, &counters_);
  }

  // Two tenants with a job each, whose keys cannot be ended for now, end, one of them first. How
  // many calls of the kind there were.
  uint64_t Live(FaultKind kind, uint64_t at, bool second_first) {
    const TempDir folder;
    const std::string database = folder.path() + "/jobs/jobs.db";
    store::StartFaults({.kind = kind, .at = at, .seed = 1});
    trouble_->ends = false;
    std::unique_ptr<Jobs> jobs = Open(folder);
    absl::StatusOr<JobInfo> first = Submit(*jobs, kFirst);
    for (int tries = 0; tries < 4 && !first.ok(); ++tries) {
      now_ += absl::Seconds(6);
      first = Submit(*jobs, kFirst);
    }
    EXPECT_THAT(first, IsOk());
    // Once: it may be there all the same.
    Submit(*jobs, kSecond).IgnoreError();
    trouble_->ends = true;
    bool second_ended = second_first && jobs->EndTenant(kSecond);
    const bool first_ended = jobs->EndTenant(kFirst);
    if (!second_first) second_ended = jobs->EndTenant(kSecond);
    jobs.reset();
    const uint64_t calls = store::Settle();
    SCOPED_TRACE(absl::StrCat("struck: ", store::Struck(), " at ", at));

    const std::set<std::string> tenants = Column(database, "SELECT tenant_uid FROM jobs");
    std::set<std::string> waiting = Column(database, "SELECT id FROM removals");
    EXPECT_FALSE(first_ended) << "its key cannot be ended";
    if (first.ok()) waiting.erase(first->id);
    if (second_ended) {
      EXPECT_EQ(tenants.count(kSecond), 0u);
      EXPECT_THAT(waiting, IsEmpty()) << "keys of the second one";
    }

    // Nothing is in the way any more.
    trouble_->ends = false;
    now_ += absl::Minutes(2);
    jobs = Open(folder);
    EXPECT_EQ(jobs->Lease({.worker = "w", .kinds = {}, .wait = {}}, {})->has_value(), false);
    jobs.reset();
    EXPECT_THAT(Column(database, "SELECT tenant_uid FROM jobs"), IsEmpty());
    EXPECT_THAT(Column(database, "SELECT id FROM removals"), IsEmpty());
    return calls;
  }

  const std::string kFirst = std::string(32, 'a');
  const std::string kSecond = std::string(32, 'b');
  program::EventLog log_{-1, program::LogLevel::kError};
  std::shared_ptr<KmsTrouble> trouble_ = std::make_shared<KmsTrouble>();
  ServiceCounters counters_;
  absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
  uint64_t made_ = 0;
};

TEST_F(JobsFaultTest, TheEndOfATenantSaysWhatIsSo) {
  for (const FaultKind kind : {FaultKind::kError, FaultKind::kLostSync}) {
    for (const bool second_first : {false, true}) {
      const uint64_t calls = Live(kind, 0, second_first);
      ASSERT_GT(calls, 20u);
      for (uint64_t at = 1; at <= calls && !HasFailure(); ++at) Live(kind, at, second_first);
    }
  }
}

}  // namespace
}  // namespace lethe::service
