// Jobs: what becomes of them when tokens and tenants go, and what is owed to them where their file
// cannot be used.
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/disk_full.h"
#include "core/base/status_macros.h"
#include "server/service/jobs.h"

namespace lethe::service {
namespace {

// The second with a file that was opened again.
constexpr int kTries = 2;

// What a worker said may be of what is erased.
void ForgetMessage(JobFacts& facts) {
  facts.failure_message.clear();
  facts.from_worker = false;
}

// Nobody knows any more what it had read when its worker said why it failed.
template <typename Job>
bool HasMessageOnly(const Job& job) {
  return job.facts.from_worker && !job.facts.snapshot && job.files.empty() && !job.leased();
}

}  // namespace

bool Jobs::Owes(const Job& job) const {
  const store::JobRecord& record = job.record;
  return debts_.Ended(record.tenant_uid) ||
         (record.handles > 0 && debts_.Erased(record.tenant_uid, record.memory_uid)) ||
         (HasRead(job) && !HasEnded(job.state()) && debts_.Restored(record.tenant_uid));
}

void Jobs::Owed(absl::Status added) {
  // What is owed is part of the erasure, for which the ballast is there.
  if (IsDiskFull(added) && options_.ballast != nullptr && options_.ballast->Release("")) {
    added = debts_.Flush();
  }
  // It is owed in RAM all the same, and written as soon as it can be.
  if (!added.ok()) Log("job_debt_not_written", added);
  // Those who wait are told what there is to say.
  changed_.notify_all();
}

Jobs::Change Jobs::StartedOver(const Job& job) const {
  Change change = ChangeOf(job);
  change.facts.attempts = 0;
  ++change.facts.restarts;
  change.facts.progress = {};
  ForgetMessage(change.facts);
  SetQueued(change, absl::ZeroDuration());
  if (change.facts.cancel) SetState(change, JobState::kCancelled);
  return change;
}

void Jobs::EndLeases(std::span<Job* const> jobs) {
  for (Job* const job : jobs) {
    job->record.lease.clear();
    if (!HasEnded(job->state())) job->record.state = static_cast<int>(JobState::kQueued);
    job->running = false;
    ++job->version;
  }
  changed_.notify_all();
}

JobsTold Jobs::BeforeErase(const std::string& tenant_uid,
                           const std::string& memory_uid,
                           std::span<const uint64_t> handles) {
  JobsTold told;
  if (handles.empty() || !MayHaveJobs(tenant_uid)) return told;
  MutexLock lock(mutex_);
  // Where it says no the erasure goes on with what is known.
  const bool usable = MakeUsable().ok();
  if (knowledge_ == Knowledge::kNone) return told;
  absl::Status durable = absl::UnavailableError("the jobs are not known");
  if (knowledge_ == Knowledge::kRows) {
    durable = Tell(tenant_uid, memory_uid, handles, told);
    if (!durable.ok() && usable) {
      if (IsDiskFull(durable) && options_.ballast != nullptr) {
        options_.ballast->Release(NameOf(tenant_uid));
      }
      MakeUsable().IgnoreError();
      durable = Tell(tenant_uid, memory_uid, handles, told);
    }
    told.unfinished = RemovalsPending(tenant_uid);
  }
  if (!durable.ok()) {
    told.unknown = true;
    ++untold_;
    Owed(debts_.AddErased(tenant_uid, memory_uid));
  }
  return told;
}

std::string Jobs::NameOf(const std::string& tenant_uid) const {
  const auto of_tenant = of_tenant_.find(tenant_uid);
  return of_tenant == of_tenant_.end() ? std::string()
                                       : jobs_.at(*of_tenant->second.begin()).spec.tenant;
}

absl::Status Jobs::Tell(const std::string& tenant_uid,
                        const std::string& memory_uid,
                        std::span<const uint64_t> handles,
                        JobsTold& told) {
  const bool works = store_ != nullptr && store_->Health().ok();
  // A removal that an earlier erasure could not finish is finished with this one.
  if (works && RemovalsPending() && options_.now() >= next_removal_) TryRemovals().IgnoreError();
  const auto of_tenant = of_tenant_.find(tenant_uid);
  if (of_tenant == of_tenant_.end()) return absl::OkStatus();
  std::vector<Job*> asked;
  std::vector<uint64_t> numbers;
  std::vector<Job*> open, ended;
  std::vector<Change> starts, marks;
  const auto mark = [&](Job& job, Change change) {
    ended.push_back(&job);
    marks.push_back(std::move(change));
  };
  for (const uint64_t number : of_tenant->second) {
    Job& job = jobs_.at(number);
    const store::JobRecord& record = job.record;
    if (record.memory_uid != memory_uid) continue;
    if (record.handles != 0 && record.last_handle >= handles.front() &&
        record.first_handle <= handles.back()) {
      asked.push_back(&job);
      numbers.push_back(number);
    } else if (HasMessageOnly(job)) {
      Change change = ChangeOf(job);
      ForgetMessage(change.facts);
      mark(job, std::move(change));
    }
  }
  using Holding = store::JobStore::Holding;
  const std::vector<Holding> holding =
      works ? store_->SnapshotsThatHold(numbers, handles)
            : std::vector<Holding>(numbers.size(), Holding::kUnknown);
  told.artefacts.clear();
  told.doubtful.clear();
  for (size_t i = 0; i < asked.size(); ++i) {
    // What cannot be read counts as holding.
    if (holding[i] == Holding::kNo) continue;
    Job& job = *asked[i];
    if (!HasEnded(job.state())) {
      open.push_back(&job);
      starts.push_back(StartedOver(job));
      continue;
    }
    (holding[i] == Holding::kYes ? told.artefacts : told.doubtful).push_back(job.record.id);
    if (job.facts.erased_since) continue;
    Change change = ChangeOf(job);
    change.facts.erased_since = true;
    mark(job, std::move(change));
  }
  if (open.empty() && ended.empty()) return absl::OkStatus();
  absl::Status written = works ? absl::OkStatus() : absl::UnavailableError("the file is not open");
  if (written.ok() && !ended.empty()) written = PutAll(ended, std::move(marks));
  if (written.ok() && !open.empty()) written = Drop(open, std::move(starts));
  if (!written.ok()) {
    EndLeases(open);
    return written;
  }
  for (const Job* job : open) {
    options_.log->Write(program::LogLevel::kInfo, "job_starts_over",
                        {{"tenant", job->spec.tenant}, {"job", job->record.id}});
  }
  return absl::OkStatus();
}

void Jobs::StartOver(const std::string& tenant_uid) {
  if (!MayHaveJobs(tenant_uid)) return;
  MutexLock lock(mutex_);
  for (int i = 0; i < kTries; ++i) {
    const bool usable = MakeUsable().ok();
    if (knowledge_ == Knowledge::kNone) return;
    if (!usable) break;
    const auto of_tenant = of_tenant_.find(tenant_uid);
    if (of_tenant == of_tenant_.end()) return;
    std::vector<Job*> open;
    std::vector<Change> changes;
    for (const uint64_t number : of_tenant->second) {
      Job& job = jobs_.at(number);
      if (HasEnded(job.state()) || !HasRead(job)) continue;
      open.push_back(&job);
      changes.push_back(StartedOver(job));
    }
    if (open.empty() || Drop(open, std::move(changes)).ok()) return;
    EndLeases(open);
  }
  Owed(debts_.AddRestored(tenant_uid));
}

absl::Status Jobs::RemoveJobs(const std::vector<store::JobRecord>& records) {
  if (records.empty()) return absl::OkStatus();
  const absl::Status status = store_->Remove(records);
  for (const store::JobRecord& record : records) ListedAfter(status, record.tenant_uid);
  if (!status.ok()) return Failed(status);
  for (const store::JobRecord& record : records) Forget(record.id);
  return absl::OkStatus();
}

bool Jobs::EndTenant(const std::string& tenant_uid) {
  if (!MayHaveJobs(tenant_uid)) return true;
  MutexLock lock(mutex_);
  for (int i = 0; i < kTries; ++i) {
    const bool usable = MakeUsable().ok();
    if (knowledge_ == Knowledge::kNone) return true;
    const auto of_tenant = of_tenant_.find(tenant_uid);
    const bool has = of_tenant != of_tenant_.end();
    if (knowledge_ == Knowledge::kRows && !has && !debts_.Ended(tenant_uid)) {
      // An earlier call of this end may have left keys.
      if (RemovalsPending()) TryRemovals().IgnoreError();
      return !RemovalsPending(tenant_uid);
    }
    if (!usable) break;
    std::vector<store::JobRecord> records;
    if (has) {
      for (const uint64_t number : of_tenant->second) records.push_back(jobs_.at(number).record);
    }
    if (const absl::Status removed = RemoveJobs(records); !removed.ok()) {
      if (IsDiskFull(removed) && options_.ballast != nullptr) {
        options_.ballast->Release(NameOf(tenant_uid));
      }
      continue;
    }
    TryRemovals().IgnoreError();
    return !RemovalsPending(tenant_uid);
  }
  ++untold_;
  Owed(debts_.AddEnded(tenant_uid));
  return false;
}

absl::Status Jobs::PayDebts() {
  std::vector<store::JobRecord> gone;
  std::vector<Job*> open, ended;
  std::vector<Change> starts, marks;
  for (auto& [number, job] : jobs_) {
    const bool erased = debts_.Erased(job.record.tenant_uid, job.record.memory_uid);
    Change change = ChangeOf(job);
    if (debts_.Ended(job.record.tenant_uid)) {
      gone.push_back(job.record);
      continue;
    }
    if (erased && HasMessageOnly(job)) {
      ForgetMessage(change.facts);
    } else if (!Owes(job)) {
      continue;
    } else if (!HasEnded(job.state())) {
      open.push_back(&job);
      starts.push_back(StartedOver(job));
      continue;
    } else {
      change.facts.erased_since = true;
    }
    ended.push_back(&job);
    marks.push_back(std::move(change));
  }
  if (!ended.empty()) LETHE_RETURN_IF_ERROR(PutAll(ended, std::move(marks)));
  if (!open.empty()) LETHE_RETURN_IF_ERROR(Drop(open, std::move(starts)));
  options_.log->Write(program::LogLevel::kWarning, "job_debts_paid",
                      {{"started_over", static_cast<int64_t>(open.size())},
                       {"marked", static_cast<int64_t>(ended.size())},
                       {"removed", static_cast<int64_t>(gone.size())}});
  LETHE_RETURN_IF_ERROR(RemoveJobs(gone));
  if (RemovalsPending()) TryRemovals().IgnoreError();
  if (const absl::Status cleared = debts_.Clear(); !cleared.ok()) return Failed(cleared);
  return absl::OkStatus();
}

}  // namespace lethe::service
