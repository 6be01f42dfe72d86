// Jobs: changes of state.
#include "server/service/jobs.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace lethe::service {
namespace {

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

uint64_t Jobs::SealsOf(const Change& change) const {
  // As if each file had been as large as one may be, and each lease had changed the job often.
  const uint64_t pieces = options_.limits.max_file_bytes / store::kJobPieceBytes + 2;
  return change.record.next_file * pieces + uint64_t{change.facts.leases} * 16 + 16;
}

absl::Status Jobs::Encode(Change& change) {
  std::string sealed;
  if (const std::string texts = EncodeJobTexts(change.facts); !texts.empty()) {
    LETHE_ASSIGN_OR_RETURN(sealed, store_->SealText(change.record, SealsOf(change), texts));
  }
  change.record.facts = EncodeJobFacts(change.facts, sealed);
  return absl::OkStatus();
}

absl::Status Jobs::Put(Job& job, Change change) {
  Job* const one = &job;
  return PutAll({&one, 1}, {std::move(change)});
}

absl::Status Jobs::PutAll(std::span<Job* const> jobs, std::vector<Change> changes) {
  std::vector<store::JobRecord> records;
  for (Change& change : changes) {
    if (const absl::Status status = Encode(change); !status.ok()) return Failed(status);
    records.push_back(change.record);
  }
  if (const absl::Status status = store_->Update(records); !status.ok()) return Failed(status);
  for (size_t i = 0; i < jobs.size(); ++i) Take(*jobs[i], std::move(changes[i]));
  return absl::OkStatus();
}

absl::Status Jobs::End(Job& job, Change change, JobState state) {
  SetState(change, state);
  const JobFailure failure = change.facts.failure;
  Job* const one = &job;
  LETHE_RETURN_IF_ERROR(HasRead(job) ? Drop({&one, 1}, {std::move(change)})
                                     : PutAll({&one, 1}, {std::move(change)}));
  if (state == JobState::kFailed) ++failed_[static_cast<size_t>(failure) - 1];
  return absl::OkStatus();
}

absl::Status Jobs::Drop(std::span<Job* const> jobs, std::vector<Change> changes) {
  std::vector<store::JobRecord> records;
  for (Change& change : changes) {
    change.record.first_handle = change.record.last_handle = change.record.handles = 0;
    change.facts.snapshot = false;
    change.facts.checkpoints = 0;
    records.push_back(change.record);
  }
  const absl::Status status =
      store_->UpdateWithout(records, [&](size_t i) ABSL_NO_THREAD_SAFETY_ANALYSIS -> absl::Status {
        changes[i].record.slot = records[i].slot;
        LETHE_RETURN_IF_ERROR(Encode(changes[i]));
        records[i].facts = changes[i].record.facts;
        return absl::OkStatus();
      });
  for (const Job* job : jobs) ListedAfter(status, job->record.tenant_uid);
  if (!status.ok()) return Failed(status);
  for (size_t i = 0; i < jobs.size(); ++i) {
    jobs[i]->files.clear();
    Take(*jobs[i], std::move(changes[i]));
  }
  // They have started over, or ended, whether their old keys can be destroyed now or later.
  TryRemovals().IgnoreError();
  return absl::OkStatus();
}

void Jobs::Take(Job& job, Change change) {
  if (job.record.lease != change.record.lease) job.running = false;
  job.record = std::move(change.record);
  // Made anew with the next change.
  job.record.facts.clear();
  job.facts = std::move(change.facts);
  ++job.version;
  Index(job);
  changed_.notify_all();
}

void Jobs::Index(const Job& job) {
  by_id_[job.record.id] = job.record.number;
  if (of_tenant_[job.record.tenant_uid].insert(job.record.number).second) {
    MutexLock lock(tenants_mutex_);
    tenants_.insert(job.record.tenant_uid);
  }
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
  if (tenant->second.empty()) {
    MutexLock lock(tenants_mutex_);
    tenants_.erase(tenant->first);
    of_tenant_.erase(tenant);
  }
  jobs_.erase(job);
  changed_.notify_all();
}

void Jobs::Sweep(absl::Time now) {
  std::vector<uint64_t> over;
  for (const uint64_t number : open_) {
    const Job& job = jobs_.at(number);
    if (job.leased() && job.lease_until <= now) over.push_back(number);
  }
  for (const uint64_t number : over) {
    // What cannot be written now is tried by the next call; the lease is over all the same.
    Job& job = jobs_.at(number);
    const absl::Status expired = Expire(job);
    if (!expired.ok()) {
      if (!store_->Health().ok()) return;
      continue;
    }
    ++leases_lost_;
    options_.log->Write(program::LogLevel::kWarning, "job_lease_lost",
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
  change.facts.from_worker = false;
  change.facts.failure_message = absl::StrCat(
      "the worker stopped answering in each of ", change.facts.attempts,
      " attempts without a new checkpoint, the last time at step ", change.facts.progress.step,
      "; see its log and its memory, then submit the job again");
  return End(job, std::move(change), JobState::kFailed);
}

absl::Status Jobs::Wait(absl::Duration longest, const CallOptions& call) {
  // Who waits looks in between whether he is still waited for.
  constexpr absl::Duration kLongestNap = absl::Milliseconds(200);
  if (stopped_) return absl::UnavailableError("the server is stopping");
  if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
  std::unique_lock<std::mutex> lock(mutex_.native(), std::adopt_lock);
  changed_.wait_for(
      lock, absl::ToChronoMilliseconds(std::clamp(longest, absl::Milliseconds(1), kLongestNap)));
  lock.release();
  if (stopped_) return absl::UnavailableError("the server is stopping");
  return call.still_wanted ? call.still_wanted() : absl::OkStatus();
}

JobCounts Jobs::Counts() {
  MutexLock lock(mutex_);
  JobCounts counts;
  counts.usable = Ready().ok();
  counts.leases = leases_;
  counts.leases_lost = leases_lost_;
  counts.failed = failed_;
  counts.erasures_untold = untold_;
  const int64_t now = absl::ToUnixMicros(options_.now());
  int64_t oldest = now;
  for (const auto& [number, job] : jobs_) {
    ++counts.jobs[static_cast<size_t>(job.state()) - 1];
    for (const store::JobFile& file : job.files) counts.file_bytes += file.bytes;
    if (job.state() == JobState::kQueued) oldest = std::min(oldest, job.facts.not_before_micros);
  }
  counts.oldest_queued_seconds = static_cast<double>(now - oldest) / 1e6;
  return counts;
}

}  // namespace lethe::service
