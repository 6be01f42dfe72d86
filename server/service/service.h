// Service: every tenant of one data folder, without any idea of how a request arrived.
//
// Start-up looks at every tenant's file and opens none that was closed in order; a tenant is opened
// by the first call that needs it and unloaded again beyond the limits (tenant_registry.h,
// docs/adr/0034). One that cannot be opened (damaged, of a newer release) is quarantined: its calls
// return UNAVAILABLE, a log line says why, and everyone else is served.
//
// Names are checked here (INVALID_ARGUMENT names "tenant", "memory" or "name"); an unknown tenant
// or memory is NOT_FOUND. Writes that would wait behind too many others are refused with
// RESOURCE_EXHAUSTED, so that waiting writers can never use up the threads that readers need, and
// those of one tenant not the places of the others.
// Threads: safe.
#ifndef LETHE_SERVER_SERVICE_SERVICE_H_
#define LETHE_SERVER_SERVICE_SERVICE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/backup_manifest.h"
#include "audit/export.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "server/service/ballast.h"
#include "server/service/counters.h"
#include "server/service/erasure_agenda.h"
#include "server/service/erasure_types.h"
#include "server/service/job_types.h"
#include "server/service/jobs.h"
#include "server/service/paging.h"
#include "server/service/quotas.h"
#include "server/service/signing_keys.h"
#include "server/service/tenant.h"
#include "server/service/tenant_registry.h"
#include "server/service/types.h"
#include "server/service/write_ticket.h"
#include "store/data_directory.h"
#include "store/tenant_restore.h"

namespace lethe::service {

inline constexpr size_t kBackupPieceBytes = size_t{1} << 20;

struct ServiceOptions {
  std::string data;        // the data folder
  std::string vault = {};  // the folder of the tenants' keys; empty for <data>/vault
  std::string origin;      // first part of the names of new logs; "<origin>/log/<16 hex digits>"
  TenantOptions tenant;
  RotationFault rotation_fault = {};  // a seam for tests
  // Bytes on the disk that are kept for erasures (ballast.h); 0 for none.
  uint64_t ballast_bytes = 0;
  BallastDisk* ballast_disk = SystemDisk();  // a seam for tests
  // Calls that take a turn with a tenant's writer, and may run or wait at a time: of all tenants
  // together, an eighth of them erasures alone; and of one (write_ticket.h).
  int max_waiting_writes = 256;
  int max_waiting_for_tenant = 64;
  RegistryLimits limits = {};
  QuotaSettings quotas = {};
  JobLimits jobs = {};
};

// What there is now, for whoever shows it.
struct ServiceStats {
  TenantRegistry::Stats tenants;
  RegistryLimits limits;
  int writes = 0;  // that run or wait
  int max_writes = 0;
  Ballast::State ballast;
  JobCounts jobs;
};

class Service {
 public:
  // Makes the data folder and the signing key where they are missing; looks at every tenant and
  // finishes what a crash left (an erasure, a deletion); goes on with a rotation of the key that
  // was interrupted. FAILED_PRECONDITION when the key or the vault is gone though tenants exist.
  // Cost: a fraction of a millisecond a tenant that was closed in order and whose vault agrees, the
  // opening of its log otherwise. Starts no thread.
  static absl::StatusOr<std::unique_ptr<Service>> Open(const ServiceOptions& options);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  absl::StatusOr<TenantInfo> CreateTenant(const std::string& name, const CallOptions& call);
  // Neither this nor ListTenants opens a tenant that is not open: they say how it was closed.
  absl::StatusOr<TenantInfo> GetTenant(const std::string& name, const CallOptions& call = {});
  // In the order of names, those that the caller sees. A quarantined tenant is listed with its name
  // alone.
  absl::StatusOr<Page<TenantInfo>> ListTenants(const PageRequest& page,
                                               const CallOptions& call = {});
  absl::StatusOr<DeleteTenantReply> DeleteTenant(const std::string& name, const CallOptions& call);

  absl::StatusOr<MemoryInfo> CreateMemory(const std::string& tenant,
                                          const std::string& name,
                                          const MemoryConfig& config,
                                          const CallOptions& call);
  absl::StatusOr<MemoryInfo> GetMemory(const std::string& tenant,
                                       const std::string& name,
                                       const CallOptions& call = {});
  absl::StatusOr<Page<MemoryInfo>> ListMemories(const std::string& tenant,
                                                const PageRequest& page,
                                                const CallOptions& call = {});
  absl::StatusOr<DeleteMemoryReply> DeleteMemory(const std::string& tenant,
                                                 const std::string& name,
                                                 const CallOptions& call);

  absl::StatusOr<InsertReply> Insert(const std::string& tenant,
                                     const std::string& memory,
                                     std::vector<TokenInput> tokens,
                                     const CallOptions& call);
  // Several batches in one transaction, a reply each (Tenant::Insert).
  absl::StatusOr<std::vector<InsertReply>> InsertBatches(
      const std::string& tenant,
      const std::string& memory,
      std::vector<std::vector<TokenInput>> batches,
      const CallOptions& call);

  absl::StatusOr<QueryReply> Query(const QueryInput& input, const CallOptions& call);
  absl::StatusOr<ForgetReply> Forget(const ForgetInput& input, const CallOptions& call);
  absl::StatusOr<EvictReply> Evict(const EvictInput& input, const CallOptions& call);
  absl::StatusOr<EditReply> Edit(EditInput input, const CallOptions& call);
  absl::StatusOr<DescribeReply> Describe(const std::string& tenant,
                                         const std::string& memory,
                                         bool refit,
                                         const CallOptions& call);

  absl::StatusOr<VerifyReply> Verify(const std::string& tenant,
                                     const std::string& memory,
                                     const CallOptions& call);

  // This one and OpenLog: with kLog the memories of a tenant that is not open are not solved for
  // it.
  absl::StatusOr<CheckpointInfo> GetCheckpoint(
      const std::string& tenant,
      TenantRegistry::Depth depth = TenantRegistry::Depth::kMemories,
      const CallOptions& call = {});
  absl::StatusOr<InclusionProofReply> GetInclusionProof(const std::string& tenant,
                                                        const CertificateName& which,
                                                        uint64_t size,
                                                        const CallOptions& call = {});
  absl::StatusOr<ConsistencyProofReply> GetConsistencyProof(const std::string& tenant,
                                                            uint64_t old_size,
                                                            uint64_t new_size,
                                                            const CallOptions& call = {});
  absl::StatusOr<CheckpointInfo> AddCosignature(const std::string& tenant,
                                                const std::string& line,
                                                const CallOptions& call = {});
  // Writes the log as it is now into `sink` (audit/export.h). Holds no lock while it writes, so a
  // sink may be slow.
  absl::Status Export(const std::string& tenant,
                      const audit::ExportRange& range,
                      audit::ExportSink& sink,
                      const CallOptions& call = {});
  // The log as it is now, for reading piece by piece. Keeps the tenant open; must not outlive the
  // service. With kLog for a short reading only: calls that need the memories wait for its end.
  absl::StatusOr<std::unique_ptr<audit::LogSource>> OpenLog(
      const std::string& tenant,
      TenantRegistry::Depth depth = TenantRegistry::Depth::kMemories,
      const CallOptions& call = {});
  // A copy of the tenant, given out piece by piece (at most kBackupPieceBytes, in order, with the
  // size of the whole file), and its signed manifest (audit/backup_manifest.h), which is the
  // answer. Writers wait while the copy is made, in a file without a name in the data folder; no
  // lock is held while it is given out, so that `send` may be slow. Its first error ends the call.
  // Who starts backups bounds their number.
  absl::StatusOr<std::string> Backup(
      const std::string& tenant,
      const CallOptions& call,
      absl::FunctionRef<absl::Status(absl::string_view piece, uint64_t file_bytes)> send);
  // Puts a tenant back from a copy, which `receive` gives piece by piece; nullopt is its end. The
  // erasures that the copy does not know of are done again first (store/tenant_restore.h). Until
  // all is done nobody sees any of it; calls for the tenant wait, and tenants are neither made nor
  // deleted meanwhile. Checked before anything changes: the size and SHA-256 that the manifest
  // states, its signature by a key of the log, that the copy is of the tenant that it names.
  // INVALID_ARGUMENT for a manifest or a file that is wrong; FAILED_PRECONDITION for a tenant that
  // is served (unless input.replace), one of the same name that is another, a signature of no key
  // of the log, and what the store refuses; RESOURCE_EXHAUSTED where the disk has no room. After
  // any error a restore can be begun again.
  absl::StatusOr<RestoreReply> Restore(
      const RestoreInput& input,
      const CallOptions& call,
      absl::FunctionRef<absl::StatusOr<std::optional<std::string>>()> receive);

  // Begins a rotation of the signing key, or goes on with one that was interrupted: a new key, a
  // hand-over in every log, the old key destroyed. Logs that cannot hand over keep the old key
  // alive and are named; everything else uses the new one already. A deletion that stopped on the
  // way is finished. Tenants are neither made nor deleted meanwhile. Stops, with what still_wanted
  // says, where nobody waits for it any more.
  absl::StatusOr<RotateKeyReply> RotateKey(const CallOptions& call);
  // A new key-encryption key for the tenant's rows (Tenant::Rewrap). Loads no memories.
  absl::StatusOr<RewrapReply> RewrapKeys(const std::string& tenant, const CallOptions& call);

  // --- Erasure requests and legal holds (docs/erasure_requests.md), as Tenant has them.
  absl::StatusOr<ErasureRequestInfo> CreateErasureRequest(const ErasureRequestInput& input,
                                                          const CallOptions& call);
  absl::StatusOr<ErasureRequestInfo> GetErasureRequest(const std::string& tenant,
                                                       const std::string& id,
                                                       const CallOptions& call = {});
  absl::StatusOr<ErasureRequestInfo> FindErasureRequest(const std::string& tenant,
                                                        const std::string& idempotency_key,
                                                        const CallOptions& call = {});
  absl::StatusOr<Page<ErasureRequestInfo>> ListErasureRequests(const std::string& tenant,
                                                               std::optional<ErasureState> state,
                                                               const PageRequest& page,
                                                               const CallOptions& call = {});
  absl::StatusOr<ErasureRequestInfo> CancelErasureRequest(const std::string& tenant,
                                                          const std::string& id,
                                                          const CallOptions& call = {});
  absl::StatusOr<ErasureRequestInfo> ExtendErasureRequest(const std::string& tenant,
                                                          const std::string& id,
                                                          absl::Time due,
                                                          const std::string& reason,
                                                          const CallOptions& call = {});
  absl::StatusOr<std::vector<ErasureReceipt>> TakeErasureReceipts(const std::string& tenant,
                                                                  const std::string& id,
                                                                  bool discard,
                                                                  const CallOptions& call = {});
  absl::StatusOr<DiscoveryReply> Discover(const std::string& tenant,
                                          const std::vector<Identity>& identities,
                                          const CallOptions& call);
  absl::StatusOr<HoldInfo> PlaceHold(const HoldInput& input, const CallOptions& call);
  absl::StatusOr<HoldInfo> ReleaseHold(const std::string& tenant,
                                       const std::string& id,
                                       const CallOptions& call = {});
  absl::StatusOr<Page<HoldInfo>> ListHolds(const std::string& tenant,
                                           bool released_too,
                                           const PageRequest& page,
                                           const CallOptions& call = {});
  // Of all tenants, open or not. Cost O(open requests), no tenant is opened.
  OpenErasureCounts ErasureCounts() const;

  // --- Training jobs (docs/jobs.md), as Jobs has them. Those of a tenant open it to submit alone.
  absl::StatusOr<JobInfo> SubmitJob(const JobInput& input, const CallOptions& call);
  absl::StatusOr<JobInfo> GetJob(const std::string& tenant,
                                 const std::string& id,
                                 const CallOptions& call = {});
  absl::StatusOr<Page<JobInfo>> ListJobs(const std::string& tenant,
                                         std::optional<JobState> state,
                                         const PageRequest& page,
                                         const CallOptions& call = {});
  absl::StatusOr<JobInfo> CancelJob(const std::string& tenant,
                                    const std::string& id,
                                    const CallOptions& call = {});
  absl::Status DeleteJob(const std::string& tenant,
                         const std::string& id,
                         const CallOptions& call = {});
  absl::Status WatchJob(const std::string& tenant,
                        const std::string& id,
                        const CallOptions& call,
                        absl::FunctionRef<absl::Status(const JobInfo&)> send);
  absl::Status ReadArtefact(const std::string& tenant,
                            const std::string& id,
                            const CallOptions& call,
                            absl::FunctionRef<absl::Status(const JobArtefact&)> begin,
                            SendPiece send);
  // For workers, who name a lease and no tenant.
  Jobs& jobs() { return *jobs_; }
  // Gives the tokens of the job's snapshot, page by page, in the order of insertion; `begin` is
  // told how many there are. A tenant that is not open is opened.
  absl::Status ReadTrainingTokens(
      const LeaseName& lease,
      const CallOptions& call,
      absl::FunctionRef<absl::Status(uint64_t tokens)> begin,
      absl::FunctionRef<absl::Status(std::vector<TrainingToken> tokens)> send);

  // Starts the thread that works on erasure requests, one for all tenants, at a low priority.
  void StartErasures();
  // Lets it come to the next point where it can stop (between memories, or before a commit begins)
  // and waits for it. To be called before the service goes; the destructor does it too. What it was
  // at is taken up by the next start.
  void StopErasures();
  // Works on what is due now, on this thread, until nothing is; as the thread does, and for tests.
  void RunDueErasures();

  // For whoever delivers callbacks, one look at a time: at most about `limit` that are due now.
  // Opens their tenants. Each is settled or postponed before the next look, or it comes again. What
  // cannot be read now comes later.
  // While one waits for its tenant to be opened `call.still_wanted` is asked; a tenant that is not
  // waited for comes later too.
  std::vector<CallbackDelivery> DueCallbacks(size_t limit, const CallOptions& call = {});
  // It does not come for so long, unless its request changes meanwhile. Nothing is written.
  void PostponeCallback(const CallbackDelivery& delivery, absl::Duration pause);
  // Idempotent. A failed one comes again, after a minute first and six hours at most, until the
  // personal part of its request ends (ErasureOptions::retention).
  absl::Status SettleCallback(const CallbackDelivery& delivery,
                              CallbackOutcome outcome,
                              const CallOptions& call = {});

  absl::StatusOr<CertificateInfo> GetCertificate(const std::string& tenant,
                                                 const std::string& id,
                                                 const CallOptions& call = {});
  // Of one memory (also a deleted one), or of all for an empty name.
  absl::StatusOr<Page<CertificateInfo>> ListCertificates(const std::string& tenant,
                                                         const std::string& memory,
                                                         const PageRequest& page,
                                                         const CallOptions& call = {});

  // Empties the write-ahead log of every open tenant, for an orderly stop; the first error, after
  // trying all.
  absl::Status Checkpoint();

  // Cost O(tenants); opens none.
  ServiceStats Stats(size_t largest_tenants);
  const ServiceCounters& counters() const { return counters_; }
  // To be set anew, and for streams.
  Quotas& quotas() { return quotas_; }
  // Whether files can be written in the data folder and the vault. A full disk is no failure here:
  // queries and erasures go on. UNAVAILABLE says what failed, for the log. Cost: a file is made,
  // written, synced and gone.
  absl::Status CheckFolders() const;

  // Gives up the room that is kept for erasures, for what has to be written beside them. True when
  // there may be room now (ballast.h).
  bool MakeRoom() { return ballast_->Release(""); }

  // How many tenants are open, and what they take.
  TenantRegistry::Counts OpenTenantCounts() const { return registry_.counts(); }

 private:
  Service(ServiceOptions options,
          std::unique_ptr<store::DataDirectory> directory,
          std::unique_ptr<Ballast> ballast,
          std::unique_ptr<ErasureAgenda> agenda,
          std::unique_ptr<Jobs> jobs);
  // Of a tenant that there is; one of which nothing is known is opened.
  absl::StatusOr<std::string> UidOf(const std::string& tenant, const CallOptions& call);
  absl::Status OpenKeys();
  int64_t NowMicros() const { return absl::ToUnixMicros(options_.tenant.now()); }
  // A tenant for a call that takes a turn with its writer, with a place among those who wait.
  struct Turn {
    WriteTicket ticket;
    TenantHold tenant;
  };
  absl::StatusOr<Turn> TakeTurn(WriteTickets::Use kind,
                                const std::string& tenant,
                                TenantRegistry::Use use,
                                const CallOptions& call);
  // One that is due, if there is one.
  bool WorkOnNextErasure();
  absl::StatusOr<std::string> MakeBackup(
      const std::string& tenant,
      const CallOptions& call,
      absl::FunctionRef<absl::Status(absl::string_view piece, uint64_t file_bytes)> send,
      audit::BackupManifest& manifest);
  // Whether a restore may begin; asked before the file is received.
  absl::Status MayRestore(const audit::BackupManifest& manifest,
                          bool replace,
                          const CallOptions& call);
  absl::StatusOr<RestoreReply> RestoreFrom(
      const RestoreInput& input,
      const audit::BackupManifest& manifest,
      const CallOptions& call,
      absl::FunctionRef<absl::StatusOr<std::optional<std::string>>()> receive);
  // Puts the file at `copy` in the tenant's place. Requires that nothing of the tenant is open, and
  // directory_mutex_.
  absl::StatusOr<RestoreReply> PutBack(const audit::BackupManifest& manifest,
                                       const std::string& copy);
  // That a key of the tenant's log signed the manifest. Opens the tenant's anchor.
  absl::Status CheckSignature(const std::string& note, const audit::BackupManifest& manifest) const;
  absl::StatusOr<store::CertificateAppend> CertifyRestore(
      const audit::BackupManifest& manifest,
      const store::RestoreReport& report,
      const store::LogHead& head,
      std::span<const store::LogKey> keys) const;
  absl::StatusOr<RotateKeyReply> ContinueRotation(const CallOptions& call)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(directory_mutex_);
  absl::Status ListTenantsAtStart() ABSL_EXCLUSIVE_LOCKS_REQUIRED(directory_mutex_);
  // What the file of a tenant that is not open says, checked against our keys; nullopt when it has
  // to be opened to say more.
  // Tells the agenda of its cases.
  std::optional<TenantFacts> LookAt(const std::string& name) const;
  absl::StatusOr<TenantHold> Find(absl::string_view field,
                                  const std::string& name,
                                  TenantRegistry::Use use,
                                  const CallOptions& call,
                                  TenantRegistry::Depth depth = TenantRegistry::Depth::kMemories);
  absl::StatusOr<std::shared_ptr<Tenant>> MakeTenant(const std::string& name);
  // After a CreateTenant that failed: a folder that is there all the same may hold a log that needs
  // the present key, so the tenant is registered as quarantined. What the caller is told.
  absl::Status CreateFailed(const std::string& name, const absl::Status& status);
  // Whether tenants/ has a folder of this name; when nobody can tell, the worse is assumed: yes.
  bool FolderIsThere(const std::string& name) const;
  // Moves the folder of a tenant that was deleted to closed/ and frees its name; nothing to do for
  // others. False, with a line in the log, when the folder stays; the tenant stays registered then,
  // as deleted.
  bool MoveAway(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(directory_mutex_);

  // Takes from a tenant's rate; of a name that no tenant has, nothing.
  absl::Status TakeRate(Quota rate, const std::string& tenant, uint64_t amount);
  // Takes it and calls `body`. What fails costs nothing, unless its caller gave it up: by then it
  // may have computed as long as any other.
  template <typename Call>
  auto AtRate(Quota rate, const std::string& tenant, uint64_t amount, const Call& body)
      -> decltype(body()) {
    LETHE_RETURN_IF_ERROR(TakeRate(rate, tenant, amount));
    auto reply = body();
    const bool given_up =
        absl::IsCancelled(reply.status()) || absl::IsDeadlineExceeded(reply.status());
    if (!reply.ok() && !given_up) quotas_.GiveBack(rate, tenant, amount);
    return reply;
  }

  const ServiceOptions options_;
  ServiceCounters counters_;  // tenants refer to it
  Quotas quotas_{options_.quotas, &counters_, options_.tenant.now};
  WriteTickets writes_{options_.max_waiting_writes, options_.max_waiting_for_tenant};
  const std::unique_ptr<Ballast> ballast_;       // tenants refer to it
  const std::unique_ptr<ErasureAgenda> agenda_;  // and to it

  // Serialises the making and closing of tenants and rotations of the key.
  Mutex directory_mutex_;
  const std::unique_ptr<store::DataDirectory> directory_;
  // Tenants refer to it.
  const std::unique_ptr<Jobs> jobs_;
  std::unique_ptr<SigningKeys> keys_;  // set by Open, before any tenant

  TenantRegistry registry_;

  std::thread erasures_;
};

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_SERVICE_H_
