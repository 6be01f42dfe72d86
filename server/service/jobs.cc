// Jobs: the file, and changes of state.
#include "server/service/jobs.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/disk_full.h"
#include "core/base/status_macros.h"

namespace lethe::service {
namespace {

// Who waits looks in between whether he is still waited for.
constexpr absl::Duration kLongestNap = absl::Milliseconds(200);

// From a counter, so that a test can tell it: jobs that were lost together do not come back
// together.
uint64_t Mixed(uint64_t number) {
  number += 0x9e3779b97f4a7c15;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return number ^ (number >> 31);
}

}  // namespace

JobState Jobs::Job::state() const {
  const auto stored = static_cast<JobState>(record.state);
  return stored == JobState::kLeased && running ? JobState::kRunning : stored;
}

Jobs::Jobs(Options options) : options_(std::move(options)) { LETHE_CHECK(options_.log != nullptr); }

Jobs::~Jobs() = default;

absl::StatusOr<std::unique_ptr<Jobs>> Jobs::Open(Options options) {
  std::unique_ptr<Jobs> jobs(new Jobs(std::move(options)));
  MutexLock lock(jobs->mutex_);
  LETHE_RETURN_IF_ERROR(jobs->Reopen());
  return jobs;
}

// --- The file

absl::Status Jobs::Reopen() {
  if (!store::JobStore::IsThere(options_.place)) return absl::OkStatus();
  LETHE_ASSIGN_OR_RETURN(store::JobStore::Opened opened, store::JobStore::Open(options_.place));
  if (opened.lost > 0) {
    options_.log->Write(LogLevel::kError, "jobs_without_keys",
                        {{"jobs", static_cast<int64_t>(opened.lost)}});
  }
  const std::map<uint64_t, Job> before = std::exchange(jobs_, {});
  return Adopt(std::move(opened), before);
}

absl::Status Jobs::Adopt(store::JobStore::Opened opened, const std::map<uint64_t, Job>& before) {
  by_id_.clear();
  of_tenant_.clear();
  open_.clear();
  for (store::JobRecord& record : opened.jobs) {
    Job job;
    const absl::StatusOr<JobSpec> spec = DecodeJobSpec(record.spec);
    const absl::StatusOr<JobFacts> facts = DecodeJobFacts(record.facts);
    const bool known = record.state >= static_cast<int>(JobState::kQueued) &&
                       record.state <= static_cast<int>(JobState::kCancelled);
    if (!spec.ok() || !facts.ok() || !known) {
      return absl::DataLossError(
          absl::StrCat(options_.place.database(),
                       ": a job in it is not what was written; put it and the folder"
                       " jobs of the vault back from copies of the same time, or move both away"));
    }
    job.spec = *spec;
    job.facts = *facts;
    job.progress = facts->progress;
    job.lease_until = options_.now() + options_.limits.lease;
    job.record = std::move(record);
    if (const auto old = before.find(job.record.number); old != before.end()) {
      job.version = old->second.version + 1;
      if (old->second.record.lease == job.record.lease) {
        job.running = old->second.running;
        job.lease_until = old->second.lease_until;
        job.progress = old->second.progress;
      }
    }
    Index(job);
    jobs_.emplace(job.record.number, std::move(job));
  }
  for (store::JobFile& file : opened.files) {
    const auto job = jobs_.find(file.job);
    if (job != jobs_.end()) job->second.files.push_back(std::move(file));
  }
  store_ = std::move(opened.store);
  changed_.notify_all();
  return absl::OkStatus();
}

absl::Status Jobs::Ready() {
  if (store_ != nullptr && !store_->Health().ok()) {
    options_.log->Write(LogLevel::kWarning, "jobs_reopened", {});
    store_.reset();
  }
  if (store_ == nullptr) {
    if (const absl::Status status = Reopen(); !status.ok()) return Failed(status);
  }
  Sweep(options_.now());
  return absl::OkStatus();
}

absl::Status Jobs::Failed(const absl::Status& status) {
  options_.log->Write(
      LogLevel::kError, "jobs_failed",
      {{"code", static_cast<int64_t>(status.code())}, {"message", std::string(status.message())}});
  if (IsDiskFull(status) || absl::IsResourceExhausted(status)) {
    const absl::Status full =
        absl::ResourceExhaustedError("the disk or a quota is full; nothing was changed");
    return IsDiskFull(status) ? MarkDiskFull(full) : full;
  }
  return absl::UnavailableError(
      "the file of jobs could not be written or read; the server's log says why; send the same"
      " request again");
}

// --- Changes

void Jobs::SetState(Change& change, JobState state) const {
  change.record.state = static_cast<int>(state);
  if (state != JobState::kLeased) change.record.lease.clear();
  if (HasEnded(state)) change.facts.end_micros = absl::ToUnixMicros(options_.now());
}

absl::Duration Jobs::PauseOf(const Change& change) const {
  absl::Duration pause = options_.limits.first_retry;
  for (uint32_t i = 1; i < change.facts.attempts && pause < options_.limits.longest_retry; ++i) {
    pause *= 2;
  }
  pause = std::min(pause, options_.limits.longest_retry);
  const uint64_t mixed = Mixed(change.record.number * 1000 + change.facts.leases);
  return pause + pause / 4 * (static_cast<double>(mixed >> 11) * 0x1p-53);
}

void Jobs::SetQueued(Change& change, absl::Duration pause) const {
  SetState(change, JobState::kQueued);
  change.facts.not_before_micros = absl::ToUnixMicros(options_.now() + pause);
}

absl::Status Jobs::Put(Job& job, Change change) {
  change.record.facts = EncodeJobFacts(change.facts);
  if (const absl::Status status = store_->Update(change.record); !status.ok()) {
    return Failed(status);
  }
  Take(job, std::move(change));
  return absl::OkStatus();
}

absl::Status Jobs::End(Job& job, Change change, JobState state) {
  SetState(change, state);
  Job* const one = &job;
  if (!job.files.empty() || job.facts.snapshot) return Drop({&one, 1}, {std::move(change)});
  return Put(job, std::move(change));
}

absl::Status Jobs::Drop(std::span<Job* const> jobs, std::vector<Change> changes) {
  std::vector<store::JobRecord> records;
  for (Change& change : changes) {
    change.record.first_handle = change.record.last_handle = change.record.handles = 0;
    change.facts.snapshot = false;
    change.facts.checkpoints = 0;
    change.record.facts = EncodeJobFacts(change.facts);
    records.push_back(change.record);
  }
  if (const absl::Status status = store_->UpdateWithout(records); !status.ok()) {
    return Failed(status);
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    changes[i].record = records[i];
    jobs[i]->files.clear();
    Take(*jobs[i], std::move(changes[i]));
  }
  const absl::Status finished = store_->FinishRemovals();
  return finished.ok() ? finished : Failed(finished);
}

void Jobs::Take(Job& job, Change change) {
  if (job.record.lease != change.record.lease) job.running = false;
  job.record = std::move(change.record);
  job.facts = std::move(change.facts);
  ++job.version;
  Index(job);
  changed_.notify_all();
}

void Jobs::Index(const Job& job) {
  by_id_[job.record.id] = job.record.number;
  of_tenant_[job.record.tenant_uid].insert(job.record.number);
  if (HasEnded(job.state())) {
    open_.erase(job.record.number);
  } else {
    open_.insert(job.record.number);
  }
}

void Jobs::Forget(const std::string& id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  const uint64_t number = found->second;
  by_id_.erase(found);
  open_.erase(number);
  const auto job = jobs_.find(number);
  const auto tenant = of_tenant_.find(job->second.record.tenant_uid);
  tenant->second.erase(number);
  if (tenant->second.empty()) of_tenant_.erase(tenant);
  jobs_.erase(job);
  changed_.notify_all();
}

void Jobs::Sweep(absl::Time now) {
  if (store_ == nullptr) return;
  std::vector<uint64_t> over;
  for (const uint64_t number : open_) {
    const Job& job = jobs_.at(number);
    if (job.leased() && job.lease_until <= now) over.push_back(number);
  }
  for (const uint64_t number : over) {
    // What cannot be written now is tried by the next call; the lease is over all the same.
    Job& job = jobs_.at(number);
    const absl::Status expired = Expire(job);
    if (job.leased()) {
      if (!expired.ok() && !store_->Health().ok()) return;
      continue;
    }
    ++leases_lost_;
    options_.log->Write(LogLevel::kWarning, "job_lease_lost",
                        {{"tenant", job.spec.tenant},
                         {"job", job.record.id},
                         {"attempts", static_cast<int64_t>(job.facts.attempts)}});
  }
}

absl::Status Jobs::Expire(Job& job) {
  Change change = ChangeOf(job);
  change.facts.progress = job.progress;
  if (change.facts.cancel) return End(job, std::move(change), JobState::kCancelled);
  if (change.facts.attempts < options_.limits.attempts) {
    SetQueued(change, PauseOf(change));
    return Put(job, std::move(change));
  }
  change.facts.failure = JobFailure::kWorkerLost;
  change.facts.failure_message = absl::StrCat(
      "the worker stopped answering in each of ", change.facts.attempts,
      " attempts without a new checkpoint, the last time at step ", change.facts.progress.step,
      "; see its log and its memory, then submit the job again");
  return End(job, std::move(change), JobState::kFailed);
}

absl::Status Jobs::Wait(absl::Duration longest, const CallOptions& call) {
  if (stopped_) return absl::UnavailableError("the server is stopping");
  if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
  std::unique_lock<std::mutex> lock(mutex_.native(), std::adopt_lock);
  changed_.wait_for(
      lock, absl::ToChronoMilliseconds(std::clamp(longest, absl::Milliseconds(1), kLongestNap)));
  lock.release();
  if (stopped_) return absl::UnavailableError("the server is stopping");
  return call.still_wanted ? call.still_wanted() : absl::OkStatus();
}

void Jobs::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

JobCounts Jobs::Counts() {
  MutexLock lock(mutex_);
  Sweep(options_.now());
  JobCounts counts{.leases = leases_, .leases_lost = leases_lost_};
  for (const auto& [number, job] : jobs_) {
    ++counts.jobs[static_cast<size_t>(job.state()) - 1];
    for (const store::JobFile& file : job.files) counts.file_bytes += file.bytes;
  }
  return counts;
}

absl::Status Jobs::Checkpoint() {
  MutexLock lock(mutex_);
  return store_ == nullptr ? absl::OkStatus() : store_->Checkpoint();
}

}  // namespace lethe::service
