// Jobs: the file, when it is opened, given up and tried again.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/disk_full.h"
#include "core/base/status_macros.h"
#include "server/service/jobs.h"
#include "server/service/retry_delay.h"
#include "store/sqlite.h"

namespace lethe::service {
namespace {

// Between two tries to destroy keys that are listed.
constexpr absl::Duration kRemovalPause = absl::Seconds(30);

}  // namespace

Jobs::Jobs(Options options) : options_(std::move(options)), debts_(options_.debts) {
  LETHE_CHECK(options_.log != nullptr);
}

Jobs::~Jobs() { Close(); }

std::unique_ptr<Jobs> Jobs::Open(Options options) {
  std::unique_ptr<Jobs> jobs(new Jobs(std::move(options)));
  MutexLock lock(jobs->mutex_);
  // Until it is known that there is none.
  jobs->Know(Knowledge::kNothing);
  // Is in the log, and tried again.
  jobs->MakeUsable().IgnoreError();
  return jobs;
}

void Jobs::Know(Knowledge knowledge) {
  knowledge_ = knowledge;
  MutexLock lock(tenants_mutex_);
  known_ = knowledge;
}

bool Jobs::MayHaveJobs(const std::string& tenant_uid) {
  MutexLock lock(tenants_mutex_);
  return known_ == Knowledge::kNothing || tenants_.contains(tenant_uid) || removals_unnamed_ ||
         removals_of_.contains(tenant_uid);
}

void Jobs::ListedAfter(const absl::Status& changed, const std::string& tenant_uid) {
  if (!changed.ok() && !store::IsIndeterminate(changed)) return;
  MutexLock lock(tenants_mutex_);
  removals_of_.insert(tenant_uid);
}

bool Jobs::RemovalsPending(const std::string& tenant_uid) {
  MutexLock lock(tenants_mutex_);
  return removals_unnamed_ || removals_of_.contains(tenant_uid);
}

bool Jobs::RemovalsPending() {
  if (store_ == nullptr) return false;
  MutexLock lock(tenants_mutex_);
  return store_->removals_pending() || removals_unnamed_ || !removals_of_.empty();
}

absl::Status Jobs::Reopen() {
  if (!debts_read_) {
    LETHE_RETURN_IF_ERROR(debts_.Load());
    debts_read_ = true;
  }
  LETHE_ASSIGN_OR_RETURN(const bool there, store::JobStore::IsThere(options_.place));
  if (!there) {
    if (knowledge_ == Knowledge::kRows) {
      return absl::DataLossError(absl::StrCat(options_.place.database(),
                                              ": was taken away while the server ran; put it back,"
                                              " or start the server again without it"));
    }
    Know(Knowledge::kNone);
    return absl::OkStatus();
  }
  LETHE_ASSIGN_OR_RETURN(store::JobStore::Opened opened, store::JobStore::Open(options_.place));
  if (opened.lost > 0) {
    options_.log->Write(program::LogLevel::kError, "jobs_without_keys",
                        {{"jobs", static_cast<int64_t>(opened.lost)}});
  }
  if (!opened.tidied.ok()) Log("jobs_not_tidied", opened.tidied);
  return Adopt(std::move(opened));
}

absl::Status Jobs::Adopt(store::JobStore::Opened opened) {
  std::map<uint64_t, Job> jobs;
  uint64_t without_texts = 0;
  for (store::JobRecord& record : opened.jobs) {
    Job job;
    absl::StatusOr<JobSpec> spec = DecodeJobSpec(record.spec);
    absl::StatusOr<StoredJobFacts> stored = DecodeJobFacts(record.facts);
    const bool known = record.state >= static_cast<int>(JobState::kQueued) &&
                       record.state <= static_cast<int>(JobState::kCancelled);
    if (!spec.ok() || !stored.ok() || !known) {
      return absl::DataLossError(
          absl::StrCat(options_.place.database(),
                       ": a job in it is not what was written; put it and the folder"
                       " jobs of the vault back from copies of the same time, or move both away"));
    }
    job.spec = *std::move(spec);
    job.facts = std::move(stored->facts);
    if (!stored->sealed_texts.empty()) {
      const absl::StatusOr<std::string> texts =
          opened.store->OpenText(record, stored->sealed_texts);
      // A key that cannot be had just now is no reason to write the job without them.
      if (!texts.ok() && !absl::IsDataLoss(texts.status())) return texts.status();
      if (!texts.ok() || !DecodeJobTexts(*texts, job.facts).ok()) ++without_texts;
    }
    job.progress = job.facts.progress;
    job.lease_until = options_.now() + options_.limits.lease;
    job.record = std::move(record);
    if (const auto old = jobs_.find(job.record.number); old != jobs_.end()) {
      job.version = old->second.version + 1;
      if (old->second.record.lease == job.record.lease) {
        job.running = old->second.running;
        job.lease_until = old->second.lease_until;
        job.progress = old->second.progress;
      }
    }
    jobs.emplace(job.record.number, std::move(job));
  }
  for (store::JobFile& file : opened.files) {
    const auto job = jobs.find(file.job);
    if (job != jobs.end()) job->second.files.push_back(std::move(file));
  }
  if (without_texts > 0) {
    options_.log->Write(program::LogLevel::kError, "jobs_without_texts",
                        {{"jobs", static_cast<int64_t>(without_texts)}});
  }
  jobs_ = std::move(jobs);
  by_id_.clear();
  of_tenant_.clear();
  open_.clear();
  absl::flat_hash_set<std::string> tenants;
  for (const auto& [number, job] : jobs_) tenants.insert(job.record.tenant_uid);
  {
    // In one step: who asks meanwhile must not be told that a tenant has none.
    MutexLock lock(tenants_mutex_);
    tenants_ = std::move(tenants);
    if (!opened.store->removals_pending()) {
      removals_of_.clear();
      removals_unnamed_ = false;
    } else if (removals_of_.empty()) {
      removals_unnamed_ = true;
    }
  }
  for (const auto& [number, job] : jobs_) Index(job);
  store_ = std::move(opened.store);
  Know(Knowledge::kRows);
  changed_.notify_all();
  return absl::OkStatus();
}

void Jobs::GiveStoreUp() {
  if (store_ == nullptr) return;
  store_->Close();
  store_.reset();
}

absl::Status Jobs::MakeUsable() {
  if (closed_) return absl::UnavailableError("the server is stopping");
  if (knowledge_ == Knowledge::kNone) return absl::OkStatus();
  const bool works = store_ != nullptr && store_->Health().ok();
  if (works && debts_read_ && debts_.none()) return absl::OkStatus();
  const absl::Time now = options_.now();
  if (now < next_try_) {
    return WithRetryDelay(
        absl::UnavailableError("the file of jobs cannot be used, and calls about training jobs are"
                               " refused until it can; the server's log says why (jobs_failed)"),
        next_try_ - now);
  }
  next_try_ = now + options_.limits.reopen;
  if (const absl::Status flushed = debts_.Flush(); !flushed.ok()) {
    Log("job_debt_not_written", flushed);
  }
  if (!works) {
    if (store_ != nullptr) options_.log->Write(program::LogLevel::kWarning, "jobs_reopened", {});
    GiveStoreUp();
    if (const absl::Status status = Reopen(); !status.ok()) return Failed(status);
  }
  if (knowledge_ == Knowledge::kRows && !debts_.none()) LETHE_RETURN_IF_ERROR(PayDebts());
  next_try_ = absl::InfinitePast();
  return absl::OkStatus();
}

absl::Status Jobs::Ready() {
  LETHE_RETURN_IF_ERROR(MakeUsable());
  if (store_ == nullptr) return absl::OkStatus();
  const absl::Time now = options_.now();
  if (RemovalsPending() && now >= next_removal_) TryRemovals().IgnoreError();
  Sweep(now);
  return absl::OkStatus();
}

absl::Status Jobs::TryRemovals() {
  const absl::Status status = store_->FinishRemovals();
  if (!status.ok()) {
    next_removal_ = options_.now() + kRemovalPause;
    Log("job_keys_not_destroyed", status);
    return status;
  }
  MutexLock lock(tenants_mutex_);
  removals_of_.clear();
  removals_unnamed_ = false;
  return absl::OkStatus();
}

void Jobs::Log(absl::string_view event, const absl::Status& status) const {
  options_.log->Write(
      program::LogLevel::kError, event,
      {{"code", static_cast<int64_t>(status.code())}, {"message", std::string(status.message())}});
}

absl::Status Jobs::Failed(const absl::Status& status) {
  Log("jobs_failed", status);
  if (IsDiskFull(status) || absl::IsResourceExhausted(status)) {
    const absl::Status full =
        absl::ResourceExhaustedError("the disk or a quota is full; nothing was changed");
    return IsDiskFull(status) ? MarkDiskFull(full) : full;
  }
  return absl::UnavailableError(
      "the file of jobs could not be written or read; the server's log says why (jobs_failed);"
      " send the same request again");
}

void Jobs::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

absl::Status Jobs::Checkpoint() {
  MutexLock lock(mutex_);
  return store_ == nullptr ? absl::OkStatus() : store_->Checkpoint();
}

void Jobs::Close() {
  Stop();
  MutexLock lock(mutex_);
  closed_ = true;
  GiveStoreUp();
}

}  // namespace lethe::service
