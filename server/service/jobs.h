// Jobs: the training jobs of all tenants, what state each is in, and who may change it.
//
//   queued -> leased -> running -> succeeded | failed | cancelled        (docs/jobs.md)
//
// A worker takes a queued job with Lease and names the lease in every further call. A lease ends
// when its time is over by the clock of the server, when its job ends or starts over: from then on
// its name changes nothing (FAILED_PRECONDITION). Times are in RAM; after a start each lease that
// stands in the file has its whole length anew.
//
// No tenant is opened here. Tenants are known by uid, so that a namesake of a deleted one sees
// nothing of it; who calls has found out that the caller may know of the tenant. A tenant calls in
// here while it holds its writer's lock (BeforeErase, EndTenant); nothing here calls a tenant.
//
// Trouble with the file of jobs refuses calls about jobs (UNAVAILABLE) and nothing else: the file
// is tried again every few seconds. An erasure goes on without it, says so, and what it owes to the
// jobs is written down (job_debts.h) and paid before a job is given out again
// (docs/adr/0068-erasures-go-before-jobs.md). A tenant without jobs waits for nothing here.
//
// Errors: INVALID_ARGUMENT names the field; NOT_FOUND "job"; FAILED_PRECONDITION for what the state
// does not allow; RESOURCE_EXHAUSTED for quotas, full disks and too many that wait; UNAVAILABLE
// when the outcome of a change is not known or the file cannot be used; details go to the log.
// Threads: safe. Cost: a commit for each change, none for a heartbeat; lists O(jobs of the tenant),
// Lease O(queued jobs).
#ifndef LETHE_SERVER_SERVICE_JOBS_H_
#define LETHE_SERVER_SERVICE_JOBS_H_

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/jobs/job_config.h"
#include "core/program/event_log.h"
#include "server/service/ballast.h"
#include "server/service/counters.h"
#include "server/service/job_debts.h"
#include "server/service/job_records.h"
#include "server/service/job_types.h"
#include "server/service/paging.h"
#include "store/job_store.h"

namespace lethe::service {

struct JobLimits {
  absl::Duration lease = absl::Seconds(30);
  uint32_t attempts = 5;  // since the last checkpoint
  absl::Duration first_retry = absl::Seconds(5);
  absl::Duration longest_retry = absl::Minutes(5);
  uint64_t max_file_bytes = jobs::kMaxFileBytes;  // a checkpoint, an artefact
  uint64_t max_tenant_bytes = uint64_t{4} << 30;  // of a tenant's files together
  size_t max_waiting = 64;                        // calls of Lease that wait
  size_t max_watchers = 64;                       // of all tenants together
  size_t max_uploads = 16;                        // likewise; of a lease one
  absl::Duration reopen = absl::Seconds(5);       // between two tries to use the file again
};

struct JobCounts {
  std::array<uint64_t, kJobStates> jobs = {};  // by JobState, from kQueued
  uint64_t file_bytes = 0;
  // Since the start.
  uint64_t leases = 0;
  uint64_t leases_lost = 0;                        // whose time was over
  std::array<uint64_t, kJobFailures> failed = {};  // by JobFailure, from kWorkerLost
  // Erasures that went on though the jobs, or some of them, could not be told.
  uint64_t erasures_untold = 0;
  double oldest_queued_seconds = 0.0;  // since the one that waits longest may be given out
  bool usable = true;                  // false: the file cannot be read or written, for now
};

// What the jobs have to say to an erasure.
struct JobsTold {
  std::vector<std::string> artefacts;  // ids of jobs whose artefacts were made from erased tokens
  std::vector<std::string> doubtful;   // likewise, where what they read could not be determined
  // The file could not be read, or not be written: there may be more, and jobs that start over have
  // not done so durably.
  bool unknown = false;
  bool unfinished = false;  // checkpoints of jobs that started over are not shown to be gone
};

// Gives the next piece; nullopt is the end.
using ReceivePiece = absl::FunctionRef<absl::StatusOr<std::optional<std::string>>()>;
using SendPiece = absl::FunctionRef<absl::Status(absl::string_view piece)>;

class Jobs {
 public:
  struct Options {
    store::JobStore::Place place;
    std::string debts;                 // path of that file
    program::EventLog* log = nullptr;  // required
    Ballast* ballast = nullptr;        // null for none
    JobLimits limits = {};
    std::function<absl::Time()> now = absl::Now;
  };

  // Reads what there is; makes no file where there is none. Does what a crash left. Where it cannot
  // the log says so, and calls try again.
  static std::unique_ptr<Jobs> Open(Options options);
  ~Jobs();
  Jobs(const Jobs&) = delete;
  Jobs& operator=(const Jobs&) = delete;

  // --- Of tenants. `input.config` is checked. `open_quota`: jobs that have not ended; 0 for no
  // quota; a refusal is counted.
  static absl::Status Check(const JobInput& input);
  absl::StatusOr<JobInfo> Submit(const std::string& tenant_uid,
                                 const std::string& memory_uid,
                                 const MemoryConfig& memory_config,
                                 const JobInput& input,
                                 uint64_t open_quota,
                                 ServiceCounters* counters) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<JobInfo> Get(const std::string& tenant_uid, const std::string& id)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // In the order of arrival.
  absl::StatusOr<Page<JobInfo>> List(const std::string& tenant_uid,
                                     std::optional<JobState> state,
                                     const PageRequest& page) ABSL_LOCKS_EXCLUDED(mutex_);
  // At once where nobody works on it; otherwise the worker is told with its next heartbeat, and the
  // job is cancelled when it says so or its lease ends. Idempotent; FAILED_PRECONDITION once it has
  // ended otherwise.
  absl::StatusOr<JobInfo> Cancel(const std::string& tenant_uid, const std::string& id)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Of one that has ended: destroys its key and its files.
  absl::Status Delete(const std::string& tenant_uid, const std::string& id)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Calls `send` now and after each change, though no more often than some times a second, until
  // the job has ended; what `send` says ends it too.
  absl::Status Watch(const std::string& tenant_uid,
                     const std::string& id,
                     const CallOptions& call,
                     absl::FunctionRef<absl::Status(const JobInfo&)> send)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // `begin` is told what there is, before the first piece.
  absl::Status ReadArtefact(const std::string& tenant_uid,
                            const std::string& id,
                            absl::FunctionRef<absl::Status(const JobArtefact&)> begin,
                            SendPiece send) ABSL_LOCKS_EXCLUDED(mutex_);

  // --- Of workers.
  // nullopt when none came in time.
  absl::StatusOr<std::optional<LeaseOffer>> Lease(const LeaseInput& input, const CallOptions& call)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<HeartbeatReply> Heartbeat(const LeaseName& lease,
                                           const std::optional<JobProgress>& progress)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Whose tokens the lease may read.
  struct Reading {
    std::string tenant;
    std::string tenant_uid;
    std::string memory;
    std::string memory_uid;
    bool snapshot = false;  // has been taken
  };
  absl::StatusOr<Reading> BeginReading(const LeaseName& lease) ABSL_LOCKS_EXCLUDED(mutex_);
  // The tokens (increasing handles) that the job is to read, for good. To be called while nothing
  // can be erased from the memory.
  absl::Status TakeSnapshot(const LeaseName& lease, std::span<const uint64_t> handles)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::vector<uint64_t>> Snapshot(const LeaseName& lease)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The memory is gone: ends the job.
  absl::Status LoseMemory(const LeaseName& lease) ABSL_LOCKS_EXCLUDED(mutex_);
  // Durable on return; of two runs of a job only that with the lease leaves anything. The lease
  // lasts on while pieces come.
  absl::StatusOr<HeartbeatReply> PutCheckpoint(const LeaseName& lease,
                                               const JobProgress& progress,
                                               ReceivePiece receive) ABSL_LOCKS_EXCLUDED(mutex_);
  // The last one that is whole. NOT_FOUND without one.
  absl::Status GetCheckpoint(const LeaseName& lease,
                             absl::FunctionRef<absl::Status(const store::JobFile&)> begin,
                             SendPiece send) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<JobInfo> Complete(const LeaseName& lease,
                                   const std::string& manifest,
                                   const std::optional<JobProgress>& progress,
                                   ReceivePiece receive) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<JobInfo> Fail(const FailInput& input) ABSL_LOCKS_EXCLUDED(mutex_);

  // --- Of the tenants themselves.
  // Before tokens (increasing handles) of a memory are erased: open jobs that read one start over,
  // durably, with their checkpoints destroyed; where that cannot be, their leases end and the rest
  // is owed. To be called while nothing can read the memory for a job. O(1) for a tenant without
  // jobs.
  JobsTold BeforeErase(const std::string& tenant_uid,
                       const std::string& memory_uid,
                       std::span<const uint64_t> handles) ABSL_LOCKS_EXCLUDED(mutex_);
  // Open jobs start over, whatever they read; likewise.
  void StartOver(const std::string& tenant_uid) ABSL_LOCKS_EXCLUDED(mutex_);
  // Destroys every job of the tenant with keys and files; likewise. False where that is not shown
  // to be done. Idempotent.
  bool EndTenant(const std::string& tenant_uid) ABSL_LOCKS_EXCLUDED(mutex_);

  // Whoever waits here is sent away (UNAVAILABLE), now and from now on.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);
  JobCounts Counts() ABSL_LOCKS_EXCLUDED(mutex_);
  // Empties the write-ahead log, for an orderly stop.
  absl::Status Checkpoint() ABSL_LOCKS_EXCLUDED(mutex_);
  // Stop, and gives the file up: another one may open it, whatever streams are still open here.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Job {
    store::JobRecord record;
    JobSpec spec;
    JobFacts facts;
    std::vector<store::JobFile> files;  // in the order of sequences
    // In RAM only.
    bool running = false;
    absl::Time lease_until;
    JobProgress progress;
    uint64_t version = 0;

    JobState state() const;
    bool leased() const { return !record.lease.empty(); }
  };
  // What a change makes of a job.
  struct Change {
    store::JobRecord record;
    JobFacts facts;
  };

  // What is known of the rows.
  enum class Knowledge : uint8_t {
    kNone,     // there is no file
    kRows,     // jobs_ has them, whether the file can be used now or not
    kNothing,  // there is a file, and it could not be read
  };

  explicit Jobs(Options options);
  // Opens the file where there is one, and goes by what it says.
  absl::Status Reopen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Adopt(store::JobStore::Opened opened) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A store that works and is owed nothing, or null where there is none yet. Another try costs
  // nothing until it is time for one.
  absl::Status MakeUsable() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Likewise; ends leases whose time is over.
  absl::Status Ready() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveStoreUp() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Destroys keys that are listed; what fails is tried again by a later call.
  absl::Status TryRemovals() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Keys of jobs of this tenant are listed, until TryRemovals is OK, unless the change has failed
  // for certain.
  void ListedAfter(const absl::Status& changed, const std::string& tenant_uid)
      ABSL_LOCKS_EXCLUDED(tenants_mutex_);
  // Whether such keys may wait, also where the file cannot be used.
  bool RemovalsPending(const std::string& tenant_uid) ABSL_LOCKS_EXCLUDED(tenants_mutex_);
  // Whether there is anything for TryRemovals, and a file to do it in.
  bool RemovalsPending() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) ABSL_LOCKS_EXCLUDED(tenants_mutex_);
  void Know(Knowledge knowledge) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the tenant may have jobs, or keys of some that wait to be destroyed, without waiting
  // for the file.
  bool MayHaveJobs(const std::string& tenant_uid) ABSL_LOCKS_EXCLUDED(mutex_, tenants_mutex_);
  void Sweep(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Expire(Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Failed(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Log(absl::string_view event, const absl::Status& status) const;

  // One try of BeforeErase: OK where what is told is durable.
  absl::Status Tell(const std::string& tenant_uid,
                    const std::string& memory_uid,
                    std::span<const uint64_t> handles,
                    JobsTold& told) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string NameOf(const std::string& tenant_uid) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Owes(const Job& job) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Writes down what is owed, as far as that is possible. `added` is what Add... said.
  void Owed(absl::Status added) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status PayDebts() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static bool HasRead(const Job& job) { return job.facts.snapshot || !job.files.empty(); }
  Change StartedOver(const Job& job) const;
  // Ends the leases of these in RAM: their file cannot be written.
  void EndLeases(std::span<Job* const> jobs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RemoveJobs(const std::vector<store::JobRecord>& records)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  static Change ChangeOf(const Job& job) { return {.record = job.record, .facts = job.facts}; }
  void SetState(Change& change, JobState state) const;
  // Back to the queue, after a pause that follows from its attempts.
  void SetQueued(Change& change, absl::Duration pause) const;
  absl::Duration PauseOf(const Change& change) const;
  // What its key may have sealed, at most.
  uint64_t SealsOf(const Change& change) const;
  // The bytes of its facts, with its texts sealed.
  absl::Status Encode(Change& change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Writes it and takes it over.
  absl::Status Put(Job& job, Change change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status PutAll(std::span<Job* const> jobs, std::vector<Change> changes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Likewise with an end that leaves nothing but the row.
  absl::Status End(Job& job, Change change, JobState state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Likewise of several, each of which loses snapshot, files and key.
  absl::Status Drop(std::span<Job* const> jobs, std::vector<Change> changes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Take(Job& job, Change change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Index(const Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::StatusOr<Job*> Find(const std::string& tenant_uid, const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The job of a lease that is in force, for its length anew.
  absl::StatusOr<Job*> Leased(const LeaseName& lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Job* NextFor(const LeaseInput& input, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<LeaseOffer> Give(Job& job, const LeaseInput& input)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<LeaseOffer> OfferOf(const Job& job) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  JobInfo InfoOf(const Job& job) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of the tenant's files, those that are being received included.
  uint64_t BytesOf(const std::string& tenant_uid) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A file that is received for the job of a lease: in its place at the end, without its row.
  struct Upload {
    std::shared_ptr<store::JobStore> store;
    std::unique_ptr<store::JobFileWriter> writer;
    store::JobFile file;
    // Gives the place among uploads back.
    std::shared_ptr<void> place;
  };
  absl::StatusOr<Upload> BeginUpload(const LeaseName& lease, store::JobFileKind kind)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Before a piece of the upload under this lease is taken.
  absl::Status AdmitPiece(const LeaseName& lease, size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  // All of it.
  absl::StatusOr<Upload> Receive(const LeaseName& lease,
                                 store::JobFileKind kind,
                                 ReceivePiece receive) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status FinishUpload(Job& job,
                            Change change,
                            Upload& upload,
                            const std::vector<uint64_t>& replaced)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives the mutex up for a moment, or until something changes. UNAVAILABLE when this stops, what
  // still_wanted says.
  absl::Status Wait(absl::Duration longest, const CallOptions& call)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  mutable Mutex mutex_;
  std::condition_variable changed_;
  Knowledge knowledge_ ABSL_GUARDED_BY(mutex_) = Knowledge::kNone;
  // Files are read and written beside everything else; a store that is given up is closed, and
  // lives on until they have noticed.
  std::shared_ptr<store::JobStore> store_ ABSL_GUARDED_BY(mutex_);
  JobDebts debts_ ABSL_GUARDED_BY(mutex_);
  bool debts_read_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time next_try_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Time next_removal_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  // For who must not wait for the file; never held while anything is read or written.
  Mutex tenants_mutex_ ABSL_ACQUIRED_AFTER(mutex_);
  Knowledge known_ ABSL_GUARDED_BY(tenants_mutex_) = Knowledge::kNone;
  absl::flat_hash_set<std::string> tenants_ ABSL_GUARDED_BY(tenants_mutex_);  // that have jobs
  // Whose keys are listed to be destroyed; and that an earlier process has listed some.
  absl::flat_hash_set<std::string> removals_of_ ABSL_GUARDED_BY(tenants_mutex_);
  bool removals_unnamed_ ABSL_GUARDED_BY(tenants_mutex_) = false;
  std::map<uint64_t, Job> jobs_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, uint64_t> by_id_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::set<uint64_t>> of_tenant_ ABSL_GUARDED_BY(mutex_);
  std::set<uint64_t> open_ ABSL_GUARDED_BY(mutex_);  // that have not ended
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t watchers_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t leases_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t leases_lost_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t untold_ ABSL_GUARDED_BY(mutex_) = 0;
  std::array<uint64_t, kJobFailures> failed_ ABSL_GUARDED_BY(mutex_) = {};
  // Bytes of each upload, by the lease that it is under.
  struct Place {
    std::string tenant_uid;
    uint64_t bytes = 0;
  };
  std::map<std::string, Place> uploads_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_JOBS_H_
