// Jobs: what tenants ask.
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "audit/hash.h"
#include "audit/random.h"
#include "core/base/status_macros.h"
#include "server/service/certificates.h"
#include "server/service/job_config.h"
#include "server/service/jobs.h"
#include "server/service/names.h"
#include "server/service/quotas.h"
#include "server/service/retry_delay.h"
#include "store/sqlite.h"

namespace lethe::service {
namespace {

// Between two answers of a watch.
constexpr absl::Duration kWatchPause = absl::Milliseconds(200);

absl::Status NoSuchJob() { return absl::NotFoundError("job: there is none with this id"); }

std::string RequestKeyOf(const std::string& request_id) {
  if (request_id.empty()) return {};
  const audit::Digest digest =
      audit::Sha256(absl::StrCat(absl::string_view("lethe-job-request\0", 18), request_id));
  return std::string(audit::AsBytes(digest));
}

std::string TimeOf(int64_t micros) { return micros == 0 ? std::string() : FormatMicros(micros); }

}  // namespace

absl::Status Jobs::Check(const JobInput& input) {
  LETHE_RETURN_IF_ERROR(CheckName("memory", input.memory));
  LETHE_RETURN_IF_ERROR(CheckRequestId("request_id", input.request_id));
  if (!input.config.has_value()) {
    return FieldError("config", "set calibrate, train_encoder or train_lm");
  }
  return jobs::CheckFields(*input.config);
}

absl::StatusOr<JobInfo> Jobs::Submit(const std::string& tenant_uid,
                                     const std::string& memory_uid,
                                     const MemoryConfig& memory_config,
                                     const JobInput& input,
                                     uint64_t open_quota,
                                     ServiceCounters* counters) {
  LETHE_RETURN_IF_ERROR(Check(input));
  LETHE_RETURN_IF_ERROR(
      CheckJobConfig(*input.config, memory_config, options_.limits.max_file_bytes));
  MutexLock lock(mutex_);
  if (stopped_) return absl::UnavailableError("the server is stopping");
  LETHE_RETURN_IF_ERROR(Ready());
  if (knowledge_ == Knowledge::kNone) {
    const absl::Status made = store::JobStore::Create(options_.place);
    // There already: an earlier call made it, and could not end as it should have.
    if (!made.ok() && !absl::IsAlreadyExists(made)) return Failed(made);
    Know(Knowledge::kRows);
    LETHE_RETURN_IF_ERROR(Ready());
  }
  store::JobRecord record;
  record.request_key = RequestKeyOf(input.request_id);
  record.memory_uid = memory_uid;
  record.spec = EncodeJobSpec({.tenant = input.tenant,
                               .memory = input.memory,
                               .config = *input.config,
                               .memory_config = memory_config});
  uint64_t open = 0;
  const auto of_tenant = of_tenant_.find(tenant_uid);
  if (of_tenant != of_tenant_.end()) {
    for (const uint64_t number : of_tenant->second) {
      const Job& job = jobs_.at(number);
      if (!HasEnded(job.state())) ++open;
      if (record.request_key.empty() || job.record.request_key != record.request_key) continue;
      if (job.record.spec != record.spec || job.record.memory_uid != memory_uid) {
        return absl::AlreadyExistsError("request_id: was used for another job");
      }
      JobInfo info = InfoOf(job);
      info.replayed = true;
      return info;
    }
    if (of_tenant->second.size() >= kMaxKeptJobs) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the tenant has ", kMaxKeptJobs, " jobs; delete some that have ended"));
    }
  }
  if (open_quota != 0 && open >= open_quota) {
    return QuotaExceeded(Quota::kJobs, open_quota, counters);
  }
  if (open >= kMaxOpenJobs) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the tenant has ", kMaxOpenJobs, " jobs that have not ended"));
  }
  Job job;
  job.spec = *DecodeJobSpec(record.spec);
  job.facts.submit_micros = absl::ToUnixMicros(options_.now());
  job.facts.not_before_micros = job.facts.submit_micros;
  record.id = audit::RandomUid();
  record.tenant_uid = tenant_uid;
  record.state = static_cast<int>(JobState::kQueued);
  record.facts = EncodeJobFacts(job.facts, "");
  absl::StatusOr<store::JobRecord> stored = store_->Create(std::move(record));
  if (!stored.ok()) {
    if (store::IsIndeterminate(stored.status())) {
      // It may be there, whose end must not be missed.
      MutexLock tenants(tenants_mutex_);
      tenants_.insert(tenant_uid);
    }
    return Failed(stored.status());
  }
  job.record = *std::move(stored);
  Index(job);
  const uint64_t number = job.record.number;
  const Job& kept = jobs_.emplace(number, std::move(job)).first->second;
  changed_.notify_all();
  options_.log->Write(program::LogLevel::kInfo, "job_submitted",
                      {{"tenant", input.tenant},
                       {"memory", input.memory},
                       {"job", kept.record.id},
                       {"kind", std::string(JobKindName(KindOf(kept.spec.config)))}});
  return InfoOf(kept);
}

absl::StatusOr<Jobs::Job*> Jobs::Find(const std::string& tenant_uid, const std::string& id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return NoSuchJob();
  Job& job = jobs_.at(found->second);
  if (job.record.tenant_uid != tenant_uid) return NoSuchJob();
  return &job;
}

absl::StatusOr<JobInfo> Jobs::Get(const std::string& tenant_uid, const std::string& id) {
  MutexLock lock(mutex_);
  LETHE_RETURN_IF_ERROR(Ready());
  LETHE_ASSIGN_OR_RETURN(const Job* job, Find(tenant_uid, id));
  return InfoOf(*job);
}

absl::StatusOr<Page<JobInfo>> Jobs::List(const std::string& tenant_uid,
                                         std::optional<JobState> state,
                                         const PageRequest& page) {
  const std::string scope =
      absl::StrCat("jobs ", tenant_uid, " ", state.has_value() ? static_cast<int>(*state) : 0);
  LETHE_ASSIGN_OR_RETURN(const size_t size, PageSize(page.size));
  LETHE_ASSIGN_OR_RETURN(const std::string cursor, DecodePageToken(scope, page.token));
  uint64_t after = 0;
  if (!cursor.empty() && !absl::SimpleAtoi(cursor, &after)) {
    return FieldError("page_token", "is not one of this list");
  }
  MutexLock lock(mutex_);
  LETHE_RETURN_IF_ERROR(Ready());
  Page<JobInfo> result;
  const auto of_tenant = of_tenant_.find(tenant_uid);
  if (of_tenant == of_tenant_.end()) return result;
  uint64_t last = 0;
  for (auto number = of_tenant->second.upper_bound(after); number != of_tenant->second.end();
       ++number) {
    const Job& job = jobs_.at(*number);
    if (state.has_value() && job.state() != *state) continue;
    if (result.items.size() == size) {
      result.next_page_token = EncodePageToken(scope, absl::StrCat(last));
      break;
    }
    result.items.push_back(InfoOf(job));
    last = *number;
  }
  return result;
}

absl::StatusOr<JobInfo> Jobs::Cancel(const std::string& tenant_uid, const std::string& id) {
  MutexLock lock(mutex_);
  LETHE_RETURN_IF_ERROR(Ready());
  LETHE_ASSIGN_OR_RETURN(Job * job, Find(tenant_uid, id));
  if (job->state() == JobState::kCancelled || job->facts.cancel) return InfoOf(*job);
  if (HasEnded(job->state())) {
    return absl::FailedPreconditionError(
        absl::StrCat("job: has ended: ", JobStateName(job->state())));
  }
  Change change = ChangeOf(*job);
  change.facts.cancel = true;
  if (job->leased()) {
    LETHE_RETURN_IF_ERROR(Put(*job, std::move(change)));
  } else {
    LETHE_RETURN_IF_ERROR(End(*job, std::move(change), JobState::kCancelled));
  }
  return InfoOf(*job);
}

absl::Status Jobs::Delete(const std::string& tenant_uid, const std::string& id) {
  MutexLock lock(mutex_);
  LETHE_RETURN_IF_ERROR(Ready());
  const absl::StatusOr<Job*> job = Find(tenant_uid, id);
  if (job.ok()) {
    if (!HasEnded((*job)->state())) {
      return absl::FailedPreconditionError("job: has not ended; cancel it first");
    }
    const absl::Status status = store_->Remove({&(*job)->record, 1});
    ListedAfter(status, tenant_uid);
    if (!status.ok()) return Failed(status);
    Forget(id);
  } else if (store_ == nullptr || !RemovalsPending(tenant_uid)) {
    return job.status();
  }
  // Also of an earlier call that could not finish: the repetition is NOT_FOUND once it is done.
  if (const absl::Status status = TryRemovals(); !status.ok()) return Failed(status);
  return job.status();
}

absl::Status Jobs::Watch(const std::string& tenant_uid,
                         const std::string& id,
                         const CallOptions& call,
                         absl::FunctionRef<absl::Status(const JobInfo&)> send) {
  JobInfo info;
  std::optional<uint64_t> sent;
  {
    MutexLock lock(mutex_);
    if (watchers_ >= options_.limits.max_watchers) {
      return WithRetryDelay(
          absl::ResourceExhaustedError("too many jobs are being watched; try again later"),
          absl::Seconds(1));
    }
    ++watchers_;
  }
  const auto leave = absl::MakeCleanup([this] {
    MutexLock lock(mutex_);
    --watchers_;
  });
  while (true) {
    {
      MutexLock lock(mutex_);
      const absl::Time begin = absl::Now();
      while (true) {
        LETHE_RETURN_IF_ERROR(Ready());
        LETHE_ASSIGN_OR_RETURN(const Job* job, Find(tenant_uid, id));
        const bool due =
            !sent.has_value() || HasEnded(job->state()) || absl::Now() - begin >= kWatchPause;
        if (due && sent != job->version) {
          sent = job->version;
          info = InfoOf(*job);
          break;
        }
        LETHE_RETURN_IF_ERROR(Wait(kWatchPause, call));
      }
    }
    LETHE_RETURN_IF_ERROR(send(info));
    if (HasEnded(info.state)) return absl::OkStatus();
  }
}

absl::Status Jobs::ReadArtefact(const std::string& tenant_uid,
                                const std::string& id,
                                absl::FunctionRef<absl::Status(const JobArtefact&)> begin,
                                SendPiece send) {
  store::JobRecord record;
  store::JobFile file;
  JobArtefact artefact;
  std::shared_ptr<store::JobStore> store;
  {
    MutexLock lock(mutex_);
    LETHE_RETURN_IF_ERROR(Ready());
    LETHE_ASSIGN_OR_RETURN(const Job* job, Find(tenant_uid, id));
    if (job->state() != JobState::kSucceeded) {
      return absl::FailedPreconditionError(
          absl::StrCat("job: has no artefact: it is ", JobStateName(job->state())));
    }
    record = job->record;
    file = job->files.back();
    artefact = *InfoOf(*job).artefact;
    store = store_;
  }
  LETHE_RETURN_IF_ERROR(begin(artefact));
  absl::Status sending;
  const absl::Status status =
      store->ReadFile(record, file, [&](absl::string_view piece) -> absl::Status {
        {
          MutexLock lock(mutex_);
          if (store != store_) {
            sending = absl::UnavailableError("the file of jobs is being opened again; try again");
          }
        }
        if (sending.ok()) sending = send(piece);
        return sending;
      });
  if (status.ok() || !sending.ok()) return sending;
  if (absl::IsNotFound(status)) return NoSuchJob();
  MutexLock lock(mutex_);
  const absl::Status failed = Failed(status);
  if (!absl::IsDataLoss(status)) return failed;
  return absl::DataLossError("the artefact is not what was written; run the job again");
}

JobInfo Jobs::InfoOf(const Job& job) const {
  const JobFacts& facts = job.facts;
  JobInfo info;
  info.tenant = job.spec.tenant;
  info.memory = job.spec.memory;
  info.id = job.record.id;
  info.config = job.spec.config;
  info.state = job.state();
  info.cancel_requested = facts.cancel;
  info.submit_time = TimeOf(facts.submit_micros);
  info.begin_time = TimeOf(facts.begin_micros);
  info.end_time = TimeOf(facts.end_micros);
  if (info.state == JobState::kQueued && facts.leases > 0) {
    info.next_time = TimeOf(facts.not_before_micros);
  }
  info.progress = job.leased() ? job.progress : facts.progress;
  info.worker = facts.worker;
  info.attempts = facts.attempts;
  info.leases = facts.leases;
  info.restarts = facts.restarts;
  info.tokens = job.record.handles;
  info.checkpoints = facts.checkpoints;
  info.failure = facts.failure;
  info.failure_message = facts.failure_message;
  info.erased_since = facts.erased_since;
  for (const store::JobFile& file : job.files) {
    if (file.kind == store::JobFileKind::kCheckpoint) {
      info.checkpoint_step = file.step;
    } else {
      info.artefact =
          JobArtefact{.bytes = file.bytes, .sha256 = file.sha256, .manifest = facts.manifest};
    }
  }
  return info;
}

uint64_t Jobs::BytesOf(const std::string& tenant_uid) const {
  const auto of_tenant = of_tenant_.find(tenant_uid);
  if (of_tenant == of_tenant_.end()) return 0;
  uint64_t bytes = 0;
  for (const uint64_t number : of_tenant->second) {
    for (const store::JobFile& file : jobs_.at(number).files) bytes += file.bytes;
  }
  for (const auto& [lease, place] : uploads_) {
    if (place.tenant_uid == tenant_uid) bytes += place.bytes;
  }
  return bytes;
}

}  // namespace lethe::service
