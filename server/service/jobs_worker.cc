// Jobs: what workers ask. Each change but the first is fenced by the name of a lease.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "audit/hash.h"
#include "audit/random.h"
#include "core/base/status_macros.h"
#include "server/service/certificates.h"
#include "server/service/jobs.h"
#include "server/service/names.h"
#include "server/service/retry_delay.h"
#include "server/service/validate.h"

namespace lethe::service {
namespace {

constexpr absl::Duration kLongestWait = absl::Seconds(30);
constexpr size_t kKeptCheckpoints = 2;

absl::Status CheckWorker(absl::string_view worker) {
  const bool good = !worker.empty() && worker.size() <= kMaxWorkerNameBytes &&
                    std::all_of(worker.begin(), worker.end(), [](char c) {
                      return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' ||
                             c == '_' || c == ':' || c == '-';
                    });
  if (good) return absl::OkStatus();
  return FieldError("worker", absl::StrCat("must be 1 to ", kMaxWorkerNameBytes,
                                           " characters of A-Z, a-z, 0-9, '.', '_', ':', '-'"));
}

absl::Status CheckProgress(const JobProgress& progress) {
  const auto check = [](const char* field, double value, double least) {
    if (std::isfinite(value) && value >= least) return absl::OkStatus();
    return FieldError(absl::StrCat("progress.", field), "must be a finite number in its range");
  };
  LETHE_RETURN_IF_ERROR(check("loss", progress.loss, -1e300));
  LETHE_RETURN_IF_ERROR(check("tokens_per_second", progress.tokens_per_second, 0.0));
  LETHE_RETURN_IF_ERROR(check("mask_churn", progress.mask_churn, 0.0));
  LETHE_RETURN_IF_ERROR(check("seconds_left", progress.seconds_left, 0.0));
  if (progress.steps != 0 && progress.step > progress.steps) {
    return FieldError("progress.step", "is above steps");
  }
  return absl::OkStatus();
}

absl::Status CheckProgress(const std::optional<JobProgress>& progress) {
  return progress.has_value() ? CheckProgress(*progress) : absl::OkStatus();
}

// The same for a lease that is over, one of another job, and a job that is not there.
absl::Status NotInForce() {
  return absl::FailedPreconditionError(
      "lease: is not in force; stop, and discard what this run has made");
}

}  // namespace

absl::StatusOr<Jobs::Job*> Jobs::Leased(const LeaseName& lease) {
  const absl::Status ready = Ready();
  const auto found = by_id_.find(lease.job);
  if (found == by_id_.end()) return ready.ok() ? NotInForce() : ready;
  Job& job = jobs_.at(found->second);
  const absl::Time now = options_.now();
  // One that is to start over is over, whether that could be written or not.
  if (!job.leased() || now >= job.lease_until || Owes(job) ||
      !audit::EqualInConstantTime(job.record.lease, lease.token)) {
    return NotInForce();
  }
  LETHE_RETURN_IF_ERROR(ready);
  job.lease_until = now + options_.limits.lease;
  if (!std::exchange(job.running, true)) {
    ++job.version;
    changed_.notify_all();
  }
  return &job;
}

// Of the tenant with the fewest jobs at work, the one that came first.
Jobs::Job* Jobs::NextFor(const LeaseInput& input, absl::Time now) {
  std::map<std::string, size_t> at_work;
  for (const uint64_t number : open_) {
    const Job& job = jobs_.at(number);
    if (job.leased()) ++at_work[job.record.tenant_uid];
  }
  const int64_t micros = absl::ToUnixMicros(now);
  Job* next = nullptr;
  size_t next_at_work = 0;
  for (const uint64_t number : open_) {
    Job& job = jobs_.at(number);
    if (job.leased() || job.facts.not_before_micros > micros) continue;
    if (!input.kinds.empty() &&
        std::ranges::find(input.kinds, KindOf(job.spec.config)) == input.kinds.end()) {
      continue;
    }
    const auto busy = at_work.find(job.record.tenant_uid);
    const size_t count = busy == at_work.end() ? 0 : busy->second;
    if (next != nullptr && count >= next_at_work) continue;
    next = &job;
    next_at_work = count;
  }
  return next;
}

absl::StatusOr<LeaseOffer> Jobs::OfferOf(const Job& job) const {
  LeaseOffer offer{.lease = {.job = job.record.id, .token = job.record.lease},
                   .length = options_.limits.lease,
                   .job = InfoOf(job),
                   .memory = job.spec.memory_config};
  for (const store::JobFile& file : job.files) {
    offer.checkpoint_bytes = file.bytes;
    offer.checkpoint_step = file.step;
  }
  return offer;
}

absl::StatusOr<LeaseOffer> Jobs::Give(Job& job, const LeaseInput& input) {
  Change change = ChangeOf(job);
  SetState(change, JobState::kLeased);
  change.record.lease = audit::RandomUid();
  if (change.facts.begin_micros == 0) {
    change.facts.begin_micros = absl::ToUnixMicros(options_.now());
  }
  ++change.facts.attempts;
  ++change.facts.leases;
  change.facts.worker = input.worker;
  change.facts.failure_message.clear();
  change.facts.from_worker = false;
  LETHE_RETURN_IF_ERROR(Put(job, std::move(change)));
  job.lease_until = options_.now() + options_.limits.lease;
  job.progress = job.facts.progress;
  ++leases_;
  options_.log->Write(program::LogLevel::kInfo, "job_leased",
                      {{"tenant", job.spec.tenant},
                       {"job", job.record.id},
                       {"worker", input.worker},
                       {"attempt", static_cast<int64_t>(job.facts.attempts)}});
  return OfferOf(job);
}

absl::StatusOr<std::optional<LeaseOffer>> Jobs::Lease(const LeaseInput& input,
                                                      const CallOptions& call) {
  LETHE_RETURN_IF_ERROR(CheckWorker(input.worker));
  if (input.wait < absl::ZeroDuration() || input.wait > kLongestWait) {
    return FieldError("wait_seconds", "must be 0 to 30");
  }
  MutexLock lock(mutex_);
  if (waiting_ >= options_.limits.max_waiting) {
    return WithRetryDelay(
        absl::ResourceExhaustedError("too many workers wait for a job; try again later"),
        absl::Seconds(1));
  }
  ++waiting_;
  const auto leave = absl::MakeCleanup([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { --waiting_; });
  const absl::Time end = absl::Now() + input.wait;
  while (true) {
    if (stopped_) return absl::UnavailableError("the server is stopping");
    if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
    LETHE_RETURN_IF_ERROR(Ready());
    if (Job* const job = NextFor(input, options_.now())) {
      LETHE_ASSIGN_OR_RETURN(LeaseOffer offer, Give(*job, input));
      return offer;
    }
    const absl::Duration left = end - absl::Now();
    if (left <= absl::ZeroDuration()) return std::nullopt;
    LETHE_RETURN_IF_ERROR(Wait(left, call));
  }
}

absl::StatusOr<HeartbeatReply> Jobs::Heartbeat(const LeaseName& lease,
                                               const std::optional<JobProgress>& progress) {
  LETHE_RETURN_IF_ERROR(CheckProgress(progress));
  MutexLock lock(mutex_);
  LETHE_ASSIGN_OR_RETURN(Job * job, Leased(lease));
  if (progress.has_value() && *progress != job->progress) {
    job->progress = *progress;
    ++job->version;
    changed_.notify_all();
  }
  return HeartbeatReply{.cancel = job->facts.cancel, .length = options_.limits.lease};
}

absl::StatusOr<Jobs::Reading> Jobs::BeginReading(const LeaseName& lease) {
  MutexLock lock(mutex_);
  LETHE_ASSIGN_OR_RETURN(const Job* job, Leased(lease));
  return Reading{.tenant = job->spec.tenant,
                 .tenant_uid = job->record.tenant_uid,
                 .memory = job->spec.memory,
                 .memory_uid = job->record.memory_uid,
                 .snapshot = job->facts.snapshot};
}

absl::Status Jobs::TakeSnapshot(const LeaseName& lease, std::span<const uint64_t> handles) {
  MutexLock lock(mutex_);
  LETHE_ASSIGN_OR_RETURN(Job * job, Leased(lease));
  if (job->facts.snapshot) return absl::OkStatus();
  Change change = ChangeOf(*job);
  change.facts.snapshot = true;
  change.record.handles = handles.size();
  if (!handles.empty()) {
    change.record.first_handle = handles.front();
    change.record.last_handle = handles.back();
  }
  absl::Status status = Encode(change);
  if (status.ok()) status = store_->UpdateWithSnapshot(change.record, handles);
  // Where nobody knows whether it is there, erasures reckon with it until the file says.
  if (status.ok() || store::IsIndeterminate(status)) Take(*job, std::move(change));
  return status.ok() ? status : Failed(status);
}

absl::StatusOr<std::vector<uint64_t>> Jobs::Snapshot(const LeaseName& lease) {
  MutexLock lock(mutex_);
  LETHE_ASSIGN_OR_RETURN(const Job* job, Leased(lease));
  absl::StatusOr<std::vector<uint64_t>> handles = store_->Snapshot(job->record.number);
  if (!handles.ok()) return Failed(handles.status());
  return handles;
}

absl::Status Jobs::LoseMemory(const LeaseName& lease) {
  MutexLock lock(mutex_);
  LETHE_ASSIGN_OR_RETURN(Job * job, Leased(lease));
  Change change = ChangeOf(*job);
  change.facts.failure = JobFailure::kMemoryGone;
  change.facts.from_worker = false;
  change.facts.failure_message =
      "the memory was deleted after the job was submitted; submit one for another memory";
  return End(*job, std::move(change), JobState::kFailed);
}

absl::StatusOr<Jobs::Upload> Jobs::BeginUpload(const LeaseName& lease, store::JobFileKind kind) {
  MutexLock lock(mutex_);
  LETHE_ASSIGN_OR_RETURN(Job * job, Leased(lease));
  if (uploads_.contains(lease.token)) {
    return absl::FailedPreconditionError("data: another file is being sent under this lease");
  }
  if (uploads_.size() >= options_.limits.max_uploads) {
    return WithRetryDelay(
        absl::ResourceExhaustedError("too many files of jobs are being sent; try again later"),
        absl::Seconds(1));
  }
  Upload upload;
  upload.store = store_;
  upload.file.job = job->record.number;
  upload.file.kind = kind;
  upload.file.sequence = job->record.next_file++;
  absl::StatusOr<std::unique_ptr<store::JobFileWriter>> writer =
      store_->NewFile(job->record, upload.file.sequence, SealsOf(ChangeOf(*job)));
  if (!writer.ok()) return Failed(writer.status());
  upload.writer = *std::move(writer);
  uploads_[lease.token] = {.tenant_uid = job->record.tenant_uid};
  upload.place = std::shared_ptr<void>(nullptr, [this, token = lease.token](void*) {
    MutexLock relock(mutex_);
    uploads_.erase(token);
  });
  return upload;
}

absl::Status Jobs::AdmitPiece(const LeaseName& lease, size_t bytes) {
  MutexLock lock(mutex_);
  Place& place = uploads_.at(lease.token);
  const uint64_t before = place.bytes;
  if (bytes > options_.limits.max_file_bytes - std::min(before, options_.limits.max_file_bytes)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("data: more than ", options_.limits.max_file_bytes, " bytes for one file"));
  }
  if (BytesOf(place.tenant_uid) + bytes > options_.limits.max_tenant_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("data: the files of the tenant's jobs would take more than ",
                     options_.limits.max_tenant_bytes, " bytes; delete jobs that have ended"));
  }
  if (options_.ballast != nullptr) LETHE_RETURN_IF_ERROR(options_.ballast->Admit(bytes));
  place.bytes += bytes;
  return absl::OkStatus();
}

absl::StatusOr<Jobs::Upload> Jobs::Receive(const LeaseName& lease,
                                           store::JobFileKind kind,
                                           ReceivePiece receive) {
  LETHE_ASSIGN_OR_RETURN(Upload upload, BeginUpload(lease, kind));
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const std::optional<std::string> piece, receive());
    if (piece.has_value()) LETHE_RETURN_IF_ERROR(AdmitPiece(lease, piece->size()));
    const absl::Status written =
        piece.has_value() ? upload.writer->Append(*piece) : upload.writer->Commit();
    MutexLock lock(mutex_);
    // What failed because the job has another key by now is a lease that is over.
    LETHE_RETURN_IF_ERROR(Leased(lease).status());
    if (upload.store != store_) {
      return absl::UnavailableError("the file of jobs was opened again; send it once more");
    }
    if (absl::IsInvalidArgument(written)) return written;
    if (!written.ok()) return Failed(written);
    if (!piece.has_value()) break;
  }
  upload.file.bytes = upload.writer->bytes();
  upload.file.sha256 = upload.writer->sha256();
  return upload;
}

absl::Status Jobs::FinishUpload(Job& job,
                                Change change,
                                Upload& upload,
                                const std::vector<uint64_t>& replaced) {
  absl::Status status = Encode(change);
  if (status.ok()) status = store_->UpdateWithFile(change.record, upload.file, replaced);
  // Where nobody knows whether the row is there the file stays; the next opening goes by the row.
  if (status.ok() || store::IsIndeterminate(status)) upload.writer->Keep();
  if (!status.ok()) return Failed(status);
  for (const uint64_t sequence : replaced) {
    store_->RemoveFile(job.record.id, sequence);
    std::erase_if(job.files, [&](const store::JobFile& file) { return file.sequence == sequence; });
  }
  job.files.push_back(upload.file);
  Take(job, std::move(change));
  return absl::OkStatus();
}

absl::StatusOr<HeartbeatReply> Jobs::PutCheckpoint(const LeaseName& lease,
                                                   const JobProgress& progress,
                                                   ReceivePiece receive) {
  LETHE_RETURN_IF_ERROR(CheckProgress(progress));
  LETHE_ASSIGN_OR_RETURN(Upload upload, Receive(lease, store::JobFileKind::kCheckpoint, receive));
  MutexLock lock(mutex_);
  LETHE_ASSIGN_OR_RETURN(Job * leased, Leased(lease));
  if (upload.store != store_) return NotInForce();
  Job& job = *leased;
  upload.file.step = progress.step;
  Change change = ChangeOf(job);
  change.facts.progress = progress;
  ++change.facts.checkpoints;
  if (job.files.empty() || progress.step > job.files.back().step) change.facts.attempts = 0;
  std::vector<uint64_t> replaced;
  for (size_t i = 0; i + kKeptCheckpoints <= job.files.size(); ++i) {
    replaced.push_back(job.files[i].sequence);
  }
  LETHE_RETURN_IF_ERROR(FinishUpload(job, std::move(change), upload, replaced));
  job.progress = progress;
  return HeartbeatReply{.cancel = job.facts.cancel, .length = options_.limits.lease};
}

absl::Status Jobs::GetCheckpoint(const LeaseName& lease,
                                 absl::FunctionRef<absl::Status(const store::JobFile&)> begin,
                                 SendPiece send) {
  while (true) {
    store::JobRecord record;
    store::JobFile file;
    std::shared_ptr<store::JobStore> store;
    {
      MutexLock lock(mutex_);
      LETHE_ASSIGN_OR_RETURN(const Job* job, Leased(lease));
      if (job->files.empty()) return absl::NotFoundError("checkpoint: there is none");
      record = job->record;
      file = job->files.back();
      store = store_;
    }
    const auto in_force = [&]() -> absl::Status {
      MutexLock lock(mutex_);
      LETHE_RETURN_IF_ERROR(Leased(lease).status());
      return store == store_ ? absl::OkStatus()
                             : absl::UnavailableError("the file of jobs was opened again");
    };
    // Read once to the end before anything is sent: a worker is given whole ones alone.
    absl::Status status =
        store->ReadFile(record, file, [&](absl::string_view) { return in_force(); });
    if (status.ok()) {
      LETHE_RETURN_IF_ERROR(begin(file));
      absl::Status sending;
      status = store->ReadFile(record, file, [&](absl::string_view piece) {
        sending = in_force();
        if (sending.ok()) sending = send(piece);
        return sending;
      });
      if (status.ok() || !sending.ok()) return status;
    }
    LETHE_RETURN_IF_ERROR(in_force());
    MutexLock lock(mutex_);
    const absl::Status failed = Failed(status);
    if (!absl::IsDataLoss(status) && !absl::IsNotFound(status)) return failed;
    // Torn: that before it counts.
    LETHE_ASSIGN_OR_RETURN(Job * job, Leased(lease));
    if (const absl::Status dropped = store_->DropFile(file.job, file.sequence); !dropped.ok()) {
      return Failed(dropped);
    }
    store_->RemoveFile(record.id, file.sequence);
    std::erase_if(job->files,
                  [&](const store::JobFile& other) { return other.sequence == file.sequence; });
  }
}

absl::StatusOr<JobInfo> Jobs::Complete(const LeaseName& lease,
                                       const std::string& manifest,
                                       const std::optional<JobProgress>& progress,
                                       ReceivePiece receive) {
  LETHE_RETURN_IF_ERROR(CheckProgress(progress));
  {
    MutexLock lock(mutex_);
    LETHE_ASSIGN_OR_RETURN(const Job* job, Leased(lease));
    // Before anything is received: what is wrong with it is known by then.
    LETHE_RETURN_IF_ERROR(MakeManifest(job->spec, LongestManifestFacts(), manifest).status());
  }
  LETHE_ASSIGN_OR_RETURN(Upload upload, Receive(lease, store::JobFileKind::kArtefact, receive));
  MutexLock lock(mutex_);
  LETHE_ASSIGN_OR_RETURN(Job * leased, Leased(lease));
  if (upload.store != store_) return NotInForce();
  Job& job = *leased;
  if (job.facts.cancel) {
    LETHE_RETURN_IF_ERROR(End(job, ChangeOf(job), JobState::kCancelled));
    return absl::FailedPreconditionError("lease: the job was cancelled");
  }
  Change change = ChangeOf(job);
  change.facts.progress = progress.value_or(job.progress);
  SetState(change, JobState::kSucceeded);
  LETHE_ASSIGN_OR_RETURN(change.facts.manifest,
                         MakeManifest(job.spec,
                                      {.job = job.record.id,
                                       .memory_uid = job.record.memory_uid,
                                       .sha256 = upload.file.sha256,
                                       .bytes = upload.file.bytes,
                                       .tokens = job.record.handles,
                                       .restarts = job.facts.restarts,
                                       .leases = job.facts.leases,
                                       .end_time = FormatMicros(change.facts.end_micros)},
                                      manifest));
  std::vector<uint64_t> replaced;
  for (const store::JobFile& file : job.files) replaced.push_back(file.sequence);
  LETHE_RETURN_IF_ERROR(FinishUpload(job, std::move(change), upload, replaced));
  options_.log->Write(program::LogLevel::kInfo, "job_succeeded",
                      {{"tenant", job.spec.tenant},
                       {"job", job.record.id},
                       {"bytes", static_cast<int64_t>(upload.file.bytes)}});
  return InfoOf(job);
}

absl::StatusOr<JobInfo> Jobs::Fail(const FailInput& input) {
  LETHE_RETURN_IF_ERROR(CheckProgress(input.progress));
  LETHE_RETURN_IF_ERROR(CheckReason("message", input.message));
  MutexLock lock(mutex_);
  LETHE_ASSIGN_OR_RETURN(Job * job, Leased(input.lease));
  Change change = ChangeOf(*job);
  change.facts.progress = input.progress.value_or(job->progress);
  change.facts.failure_message = input.message;
  change.facts.from_worker = !input.message.empty();
  absl::Status status;
  if (change.facts.cancel) {
    change.facts.failure_message.clear();
    change.facts.from_worker = false;
    status = End(*job, std::move(change), JobState::kCancelled);
  } else if (input.end == WorkerEnd::kCancelled) {
    return FieldError("end", "nobody has cancelled this job");
  } else if (input.end == WorkerEnd::kStopping) {
    if (change.facts.attempts > 0) --change.facts.attempts;
    change.facts.failure_message.clear();
    change.facts.from_worker = false;
    SetQueued(change, absl::ZeroDuration());
    status = Put(*job, std::move(change));
  } else if (input.end == WorkerEnd::kRetry && change.facts.attempts < options_.limits.attempts) {
    SetQueued(change, PauseOf(change));
    status = Put(*job, std::move(change));
  } else {
    change.facts.failure =
        input.end == WorkerEnd::kFinal ? JobFailure::kBadInput : JobFailure::kWorkerError;
    status = End(*job, std::move(change), JobState::kFailed);
  }
  LETHE_RETURN_IF_ERROR(status);
  options_.log->Write(program::LogLevel::kWarning, "job_given_up",
                      {{"tenant", job->spec.tenant},
                       {"job", job->record.id},
                       {"state", std::string(JobStateName(job->state()))}});
  return InfoOf(*job);
}

}  // namespace lethe::service
