// Random sequences of what tenants and workers do, against a model of the states.
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/server/job_testing.h"

namespace lethe::service {
namespace {

// What must be true of a job, whatever happens to it.
struct ModelJob {
  std::string token;  // of the lease that is in force; empty: none
  JobState state = JobState::kQueued;
  bool cancel = false;
  bool snapshot = false;
  std::vector<uint64_t> checkpoints;  // steps
  uint64_t best = 0;                  // since it began, or started over
  uint32_t attempts = 0;
  std::string artefact;
};

class JobModel {
 public:
  explicit JobModel(uint64_t seed) : random_(seed) {
    service_.options().jobs.reopen = absl::ZeroDuration();
    service_.Restart();
    service_.Insert("m", Spiral(30));
  }

  void Step() {
    switch (random_() % 14) {
      case 0:
      case 1:
        if (jobs_.size() < 12) jobs_[service_.Submit()] = {};
        break;
      case 2:
      case 3:
        Lease();
        break;
      case 4:
        Heartbeat();
        break;
      case 5:
      case 6:
        Checkpoint();
        break;
      case 7:
        Complete();
        break;
      case 8:
        Fail();
        break;
      case 9:
        Cancel();
        break;
      case 10:
        Read();
        break;
      case 11:
        Erase();
        break;
      case 12:
        service_.Pass(absl::Seconds(31));
        Expire();
        service_.Pass(absl::Minutes(10));
        break;
      case 13:
        if (random_() % 4 == 0) service_.Restart();
        break;
    }
    Compare();
  }

 private:
  using Entry = std::pair<const std::string, ModelJob>;

  // A lease that was given once, in force or not.
  LeaseName AnyLease() { return leases_[random_() % leases_.size()]; }
  bool InForce(const LeaseName& lease) {
    const auto job = jobs_.find(lease.job);
    return job != jobs_.end() && job->second.token == lease.token;
  }
  void End(ModelJob& job, JobState state) {
    job.state = state;
    job.token.clear();
    job.checkpoints.clear();
    if (state != JobState::kSucceeded) job.snapshot = false;
  }
  void Queue(ModelJob& job) {
    job.state = JobState::kQueued;
    job.token.clear();
  }
  void Expire() {
    for (auto& [id, job] : jobs_) {
      if (job.token.empty()) continue;
      if (job.cancel) {
        End(job, JobState::kCancelled);
      } else if (job.attempts >= 5) {
        End(job, JobState::kFailed);
      } else {
        Queue(job);
      }
    }
  }
  void Lease() {
    const std::optional<LeaseOffer> offer = service_.TryLease();
    bool queued = false;
    for (const auto& [id, job] : jobs_) queued = queued || job.state == JobState::kQueued;
    if (!offer.has_value()) return;  // one may have to wait for its pause
    ASSERT_TRUE(queued);
    ModelJob& job = jobs_.at(offer->lease.job);
    ASSERT_EQ(job.state, JobState::kQueued);
    EXPECT_EQ(offer->checkpoint_step, job.checkpoints.empty() ? 0 : job.checkpoints.back());
    job.token = offer->lease.token;
    job.state = JobState::kLeased;
    ++job.attempts;
    leases_.push_back(offer->lease);
  }
  void Said(const LeaseName& lease) { jobs_.at(lease.job).state = JobState::kRunning; }
  void Heartbeat() {
    if (leases_.empty()) return;
    const LeaseName lease = AnyLease();
    const auto reply = service_.jobs().Heartbeat(lease, std::nullopt);
    ASSERT_EQ(reply.ok(), InForce(lease));
    if (!reply.ok()) return;
    EXPECT_EQ(reply->cancel, jobs_.at(lease.job).cancel);
    Said(lease);
  }
  void Checkpoint() {
    if (leases_.empty()) return;
    const LeaseName lease = AnyLease();
    const uint64_t step = random_() % 100;
    const absl::Status status = service_.Checkpoint(lease, step, absl::StrCat("step ", step));
    ASSERT_EQ(status.ok(), InForce(lease)) << status.message();
    if (!status.ok()) return;
    ModelJob& job = jobs_.at(lease.job);
    Said(lease);
    if (job.checkpoints.empty() || step > job.checkpoints.back()) job.attempts = 0;
    job.checkpoints.push_back(step);
    ASSERT_EQ(*service_.ReadCheckpoint(lease), absl::StrCat("step ", step));
  }
  void Complete() {
    if (leases_.empty()) return;
    const LeaseName lease = AnyLease();
    const bool in_force = InForce(lease);
    const std::string artefact = absl::StrCat("artefact ", random_());
    const absl::Status status = service_.Complete(lease, artefact);
    ASSERT_EQ(status.ok(), in_force && !jobs_.at(lease.job).cancel) << status.message();
    if (!in_force) return;
    ModelJob& job = jobs_.at(lease.job);
    if (status.ok()) job.artefact = artefact;
    End(job, status.ok() ? JobState::kSucceeded : JobState::kCancelled);
  }
  void Fail() {
    if (leases_.empty()) return;
    const LeaseName lease = AnyLease();
    const auto end = static_cast<WorkerEnd>(1 + random_() % 3);
    const auto reply = service_.jobs().Fail({.lease = lease, .end = end, .message = "no"});
    ASSERT_EQ(reply.ok(), InForce(lease));
    if (!reply.ok()) return;
    ModelJob& job = jobs_.at(lease.job);
    if (job.cancel) {
      End(job, JobState::kCancelled);
    } else if (end == WorkerEnd::kStopping) {
      if (job.attempts > 0) --job.attempts;
      Queue(job);
    } else if (end == WorkerEnd::kRetry && job.attempts < 5) {
      Queue(job);
    } else {
      End(job, JobState::kFailed);
    }
  }
  void Cancel() {
    if (jobs_.empty()) return;
    auto chosen = jobs_.begin();
    std::advance(chosen, random_() % jobs_.size());
    auto& [id, job] = *chosen;
    const auto reply = service_->CancelJob("t", id);
    ASSERT_EQ(reply.ok(), !HasEnded(job.state) || job.state == JobState::kCancelled);
    if (!reply.ok() || HasEnded(job.state)) return;
    job.cancel = true;
    if (job.token.empty()) End(job, JobState::kCancelled);
  }
  void Read() {
    if (leases_.empty()) return;
    const LeaseName lease = AnyLease();
    const auto tokens = service_.Read(lease);
    ASSERT_EQ(tokens.ok(), InForce(lease)) << tokens.status().message();
    if (!tokens.ok()) return;
    Said(lease);
    jobs_.at(lease.job).snapshot = true;
  }
  // Every token is in every snapshot. Where jobs cannot start over now they have, all the same,
  // once they can, whether by this process or the next one.
  void Erase() {
    if (erased_ >= 12) return;
    service_.trouble().wraps = random_() % 2 == 0;
    service_.Forget("m", {absl::StrCat("a", erased_++)});
    if (service_.trouble().wraps && random_() % 2 == 0) service_.Restart();
    service_.trouble().wraps = false;
    for (auto& [id, job] : jobs_) {
      if (!job.snapshot || HasEnded(job.state)) continue;
      Queue(job);
      job.snapshot = false;
      job.checkpoints.clear();
      job.attempts = 0;
      if (job.cancel) job.state = JobState::kCancelled;
    }
  }
  void Compare() {
    const auto page = service_->ListJobs("t", std::nullopt, {});
    ASSERT_THAT(page, IsOk());
    ASSERT_EQ(page->items.size(), jobs_.size());
    size_t files = 0;
    for (const JobInfo& seen : page->items) {
      const ModelJob& job = jobs_.at(seen.id);
      // After a restart of the server a worker has said nothing yet.
      const bool same = seen.state == job.state ||
                        (seen.state == JobState::kLeased && job.state == JobState::kRunning);
      ASSERT_TRUE(same) << std::string(JobStateName(seen.state)) << ", not "
                        << std::string(JobStateName(job.state));
      ASSERT_EQ(seen.attempts, job.attempts);
      if (job.state == JobState::kSucceeded) {
        ASSERT_EQ(*service_.Artefact(seen.id), job.artefact);
        ++files;
      } else {
        ASSERT_FALSE(seen.artefact.has_value());
        files += std::min<size_t>(2, job.checkpoints.size());
      }
    }
    ASSERT_EQ(service_.Files(), files);
  }

  std::mt19937_64 random_;
  JobHarness service_;
  std::map<std::string, ModelJob> jobs_;
  std::vector<LeaseName> leases_;
  int erased_ = 0;
};

TEST(JobsModelTest, RandomSequencesFollowTheModel) {
  const char* fixed = std::getenv("LETHE_TEST_SEED");
  const uint64_t seed =
      fixed != nullptr ? std::strtoull(fixed, nullptr, 10) : std::random_device{}();
  std::cout << "LETHE_TEST_SEED=" << seed << std::endl;
  for (uint64_t run = 0; run < 5 && !HasFailure(); ++run) {
    JobModel model(seed + run);
    for (int step = 0; step < 120 && !HasFailure(); ++step) {
      SCOPED_TRACE(absl::StrCat("run ", run, ", step ", step));
      model.Step();
    }
  }
}

}  // namespace
}  // namespace lethe::service
