// What the service counts, as Prometheus gets it.
#include "server/metrics/metrics.h"

#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "tests/server/service_testing.h"

namespace lethe::metrics {
namespace {

using service::Harness;
using service::IsOk;
using testing::HasSubstr;
using testing::Not;

class MetricsTest : public testing::Test {
 protected:
  // The value of a series, written as it stands there; NaN when there is none.
  double Value(const std::string& series) {
    for (const absl::string_view line : absl::StrSplit(metrics_->Text(), '\n')) {
      double value = 0.0;
      if (absl::StartsWith(line, series + " ") &&
          absl::SimpleAtod(line.substr(series.size() + 1), &value)) {
        return value;
      }
    }
    return std::numeric_limits<double>::quiet_NaN();
  }
  void Start(size_t tenants = 0) {
    metrics_ = std::make_unique<Metrics>(&*service_, &log_, MetricsOptions{.tenants = tenants});
  }
  void SetUp() override { Start(); }

  Harness service_;
  program::EventLog log_{-1, program::LogLevel::kError};
  std::unique_ptr<Metrics> metrics_;
};

TEST_F(MetricsTest, FollowWhatIsDone) {
  service_.MakeMemory("m");
  const double before = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  service_.Insert("m", service::Spiral(12));
  service_.Forget("m", {"a0", "a1"});
  ASSERT_THAT(service_->Query({.tenant = "t", .memory = "m", .queries = {{0, 0}, {1, 1}}}, {}),
              IsOk());
  ASSERT_THAT(service_->Verify("t", "m", {}), IsOk());
  EXPECT_EQ(Value("lethe_tokens"), 10);
  EXPECT_EQ(Value("lethe_memories"), 1);
  EXPECT_EQ(Value("lethe_partition_tokens{set=\"margin\"}") +
                Value("lethe_partition_tokens{set=\"error\"}") +
                Value("lethe_partition_tokens{set=\"reserve\"}"),
            10);
  EXPECT_EQ(Value("lethe_tenants{state=\"open\"}"), 1);
  EXPECT_EQ(Value("lethe_tenants{state=\"quarantined\"}"), 0);
  EXPECT_EQ(Value("lethe_tokens_inserted_total"), 12);
  EXPECT_EQ(Value("lethe_tokens_erased_total"), 2);
  EXPECT_EQ(Value("lethe_queries_answered_total"), 2);
  EXPECT_EQ(Value("lethe_verdicts_total{verdict=\"proven\"}"), 1);
  EXPECT_EQ(Value("lethe_verdicts_total{verdict=\"bit_identical\"}"), 1);
  EXPECT_EQ(Value("lethe_verdicts_total{verdict=\"uncertified\"}"), 0);
  EXPECT_EQ(Value("lethe_failed_checks_total"), 0);
  // The erasure, its keys, the retrain-check.
  EXPECT_EQ(Value("lethe_certificates_appended_total"), 3);
  EXPECT_EQ(Value("lethe_certificates"), 3);
  EXPECT_GE(Value("lethe_last_certificate_timestamp_seconds"), before);
  EXPECT_GE(Value("lethe_solver_updates_total"), 2) << "a batch is one";
  EXPECT_GT(Value("lethe_solver_proofs_total"), 0);
  EXPECT_EQ(Value("lethe_writes_in_progress"), 0);
  EXPECT_GT(Value("lethe_disk_free_bytes{folder=\"data\"}"), 0);
  EXPECT_GT(Value("process_resident_memory_bytes"), 1 << 20);
  EXPECT_GT(Value("process_open_fds"), 2);
  EXPECT_GT(Value("process_threads"), 0);
  EXPECT_GT(Value("process_cpu_seconds_total"), 0);
  const double now = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  EXPECT_LT(Value("process_start_time_seconds"), now + 2);
  EXPECT_GT(Value("process_start_time_seconds"), now - 86400);
}

TEST_F(MetricsTest, AStateThatDiffersIsUncertifiedAndAFailedCheckCounts) {
  service_.MakeMemory("m");
  service_.options().tenant.publish_fault =
      [first = true](std::shared_ptr<const service::Published> state) mutable {
        if (state->tokens < 8 || !std::exchange(first, false)) return state;
        auto wrong = std::make_shared<service::Published>(*state);
        auto snapshot = std::make_shared<svdd::Snapshot>(*state->snapshot);
        snapshot->supports[0].alpha *= 0.5;
        wrong->snapshot = std::move(snapshot);
        return std::shared_ptr<const service::Published>(std::move(wrong));
      };
  service_.Restart();
  Start();
  service_.Insert("m", service::Spiral(8));
  const auto reply = service_->Verify("t", "m", {});
  ASSERT_THAT(reply, IsOk());
  ASSERT_FALSE(reply->bits_equal);
  EXPECT_EQ(Value("lethe_verdicts_total{verdict=\"uncertified\"}"), 1);
  EXPECT_EQ(Value("lethe_failed_checks_total"), 1);
}

TEST_F(MetricsTest, OpenErasureRequests) {
  EXPECT_EQ(Value("lethe_erasure_requests{state=\"pending\"}"), 0);
  EXPECT_EQ(Value("lethe_erasure_requests_overdue"), 0);
  // Due after thirty days; nobody works on them here.
  for (const auto& [days, number] : std::vector<std::pair<int, int>>{{1, 1}, {25, 2}, {40, 3}}) {
    const std::string subject = absl::StrCat("subject-", number);
    ASSERT_THAT(
        service_->CreateErasureRequest({.tenant = "t",
                                        .identities = {{.type = "customer_id", .value = subject}},
                                        .source = "form",
                                        .regulation = "gdpr",
                                        .received_time = absl::Now() - absl::Hours(24 * days)},
                                       {}),
        IsOk());
  }
  EXPECT_EQ(Value("lethe_erasure_requests{state=\"pending\"}"), 3);
  EXPECT_EQ(Value("lethe_erasure_requests{state=\"in_progress\"}"), 0);
  EXPECT_EQ(Value("lethe_erasure_requests_due_soon"), 1);
  EXPECT_EQ(Value("lethe_erasure_requests_overdue"), 1);
  EXPECT_EQ(Value("lethe_erasure_callbacks_owed"), 0);
  EXPECT_EQ(Value("lethe_erasure_tenants_unknown"), 0);
  EXPECT_THAT(metrics_->Text(), Not(HasSubstr("subject-")));
  EXPECT_EQ(Value("lethe_erasure_requests_ended_total{state=\"completed\"}"), 0);
  service_->RunDueErasures();
  EXPECT_EQ(Value("lethe_erasure_requests_ended_total{state=\"completed\"}"), 3);
  EXPECT_EQ(Value("lethe_erasure_requests_ended_total{state=\"failed\"}"), 0);
}

// Counters go on where a memory is solved anew, and never fall.
TEST_F(MetricsTest, TheSolversWorkOfAnOpeningIsAddedToTheRest) {
  service_.MakeMemory("m");
  service_.Insert("m", service::Spiral(12));
  const double updates = Value("lethe_solver_updates_total");
  service::FailOnce(service_, "InsertTokens", absl::UnavailableError("no"));
  EXPECT_FALSE(service_->Insert("t", "m", service::Spiral(1, "b"), {}).ok());
  EXPECT_GE(Value("lethe_solver_updates_total"), updates);
  service_.Insert("m", service::Spiral(1, "c"));  // loads the state again first
  EXPECT_GE(Value("lethe_solver_updates_total"), updates + 2);
}

TEST_F(MetricsTest, TenantsAreNamedOnlyOnRequestAndAtMostSoMany) {
  for (int i = 0; i < 5; ++i) {
    const std::string name = absl::StrCat("tenant-", i);
    ASSERT_THAT(service_->CreateTenant(name, {}), IsOk());
    ASSERT_THAT(service_->CreateMemory(name, "m", service::SmallConfig(), {}), IsOk());
    ASSERT_THAT(service_->Insert(name, "m", service::Spiral(i + 1), {}), IsOk());
  }
  EXPECT_THAT(metrics_->Text(), Not(HasSubstr("tenant-")));
  Start(2);
  EXPECT_EQ(Value("lethe_tenant_tokens{tenant=\"tenant-4\"}"), 5);
  EXPECT_EQ(Value("lethe_tenant_tokens{tenant=\"tenant-3\"}"), 4);
  EXPECT_GT(Value("lethe_tenant_bytes{tenant=\"tenant-4\"}"), 0);
  EXPECT_THAT(metrics_->Text(), Not(HasSubstr("tenant-2")));
}

TEST_F(MetricsTest, CallsByMethodAndCode) {
  service::MethodObserver* query = metrics_->ForMethod("lethe.v1.MemoryService", "Query", false);
  service::MethodObserver* stream =
      metrics_->ForMethod("lethe.v1.MemoryService", "InsertStream", true);
  query->Started();
  EXPECT_EQ(Value("lethe_rpc_in_flight{method=\"lethe.v1.MemoryService/Query\"}"), 1);
  query->Ended(absl::StatusCode::kOk, absl::Milliseconds(3));
  query->Started();
  query->Ended(absl::StatusCode::kNotFound, absl::Seconds(2));
  stream->Started();
  EXPECT_EQ(Value("lethe_rpc_in_flight{method=\"lethe.v1.MemoryService/Query\"}"), 0);
  EXPECT_EQ(Value("lethe_rpc_in_flight{method=\"lethe.v1.MemoryService/InsertStream\"}"), 1);
  const std::string labels = ",method=\"lethe.v1.MemoryService/Query\"}";
  EXPECT_EQ(Value("lethe_rpc_calls_total{code=\"OK\"" + labels), 1);
  EXPECT_EQ(Value("lethe_rpc_calls_total{code=\"NOT_FOUND\"" + labels), 1);
  const std::string duration =
      "lethe_rpc_duration_seconds_bucket{method=\"lethe.v1.MemoryService/Query\",le=";
  EXPECT_EQ(Value(duration + "\"0.0025\"}"), 0);
  EXPECT_EQ(Value(duration + "\"0.005\"}"), 1);
  EXPECT_EQ(Value(duration + "\"2.5\"}"), 2);
  EXPECT_THAT(metrics_->Text(), Not(HasSubstr("duration_seconds_count{method=\"lethe.v1."
                                              "MemoryService/InsertStream")));
}

TEST_F(MetricsTest, WhatTheProgramTells) {
  EXPECT_EQ(Value("lethe_serving"), 1);
  metrics_->SetServing(false);
  metrics_->SetFoldersWritable(false);
  metrics_->Reloaded(false);
  EXPECT_EQ(Value("lethe_serving"), 0);
  EXPECT_EQ(Value("lethe_folders_writable"), 0);
  EXPECT_EQ(Value("lethe_reload_succeeded"), 0);
  metrics_->Reloaded(true);
  EXPECT_EQ(Value("lethe_reload_succeeded"), 1);
  log_.Write(program::LogLevel::kWarning, "something");
  EXPECT_EQ(Value("lethe_log_lines_total{level=\"warning\"}"), 1);
}

TEST_F(MetricsTest, AFolderThatCannotBeWrittenIsFound) {
  EXPECT_THAT(service_->CheckFolders(), IsOk());
  std::filesystem::rename(service_.data(), service_.data() + ".away");
  EXPECT_THAT(service_->CheckFolders(), service::HasCode(absl::StatusCode::kUnavailable));
  std::filesystem::rename(service_.data() + ".away", service_.data());
  EXPECT_THAT(service_->CheckFolders(), IsOk());
}

}  // namespace
}  // namespace lethe::metrics
