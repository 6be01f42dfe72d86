// One tenant: its memories, its store, its log of certificates.
//
// Writers. One at a time, behind a mutex. The order of every change: validate; apply to the state
// in RAM; one store transaction; publish the new state; answer. OK means durable. When the store
// fails the state in RAM is thrown away and made again from the stored rows before the next write;
// until then readers keep the old one. An erasure is answered OK only once its old bytes are out of
// the write-ahead log, the keys of its rows are destroyed and a `shredded` certificate says so
// (FinishErasures); what a failure or a crash leaves undone is done before the next such answer.
//
// Readers. Query, Describe without refit and everything that lists memories work on published,
// immutable states and never wait for a writer. Certificates are read through the store's one
// connection and therefore wait for their turn.
//
// Errors: INVALID_ARGUMENT names the field; NOT_FOUND for a memory or certificate; UNAVAILABLE when
// the outcome of a write is unknown (repeat it: writes are idempotent) or the store cannot be
// opened; RESOURCE_EXHAUSTED for a full disk; DATA_LOSS for damaged rows; INTERNAL for a state that
// fails its checks, which is never served. Threads: safe.
//
// A full disk does not keep an erasure from being done as long as there is a ballast (ballast.h): a
// step that meets it gives that up, opens the store again where its state is unknown, goes by what
// stands in the log, and is tried once more (MakeRoom).
#ifndef LETHE_SERVER_SERVICE_TENANT_H_
#define LETHE_SERVER_SERVICE_TENANT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "audit/certificate.h"
#include "audit/export.h"
#include "audit/signer.h"
#include "audit/witness.h"
#include "core/base/mutex.h"
#include "core/program/event_log.h"
#include "server/service/ballast.h"
#include "server/service/counters.h"
#include "server/service/encoder.h"
#include "server/service/erasure_agenda.h"
#include "server/service/erasure_records.h"
#include "server/service/erasure_types.h"
#include "server/service/job_types.h"
#include "server/service/jobs.h"
#include "server/service/memory_state.h"
#include "server/service/paging.h"
#include "server/service/published.h"
#include "server/service/quotas.h"
#include "server/service/requests.h"
#include "server/service/signing_keys.h"
#include "server/service/types.h"
#include "store/sqlite_tenant_store.h"
#include "store/tenant_store.h"

namespace lethe::service {

struct TenantOptions {
  // The folder of the tenants' keys (store/sqlite_tenant_store.h), and where their KEKs come from.
  std::string vault = {};
  store::KmsFactory kms = store::MakeFileKms;
  store::KeyStoreOptions keys = {};
  // Compare every erasure bit for bit with a cold refit; its verdict is then BIT_IDENTICAL.
  bool refit_on_forget = false;
  // Whose cosignatures of checkpoints are taken.
  std::vector<audit::WitnessKey> witnesses = {};
  // Required.
  program::EventLog* log = nullptr;
  // What an erasure that finds the disk full gives up; null for none.
  Ballast* ballast = nullptr;
  // Required.
  ServiceCounters* counters = UnreadCounters();
  // What erasure requests want of the server; null for nobody who asks.
  ErasureAgenda* agenda = nullptr;
  // The training jobs, which erasures are told to; null for none.
  Jobs* jobs = nullptr;
  ErasureOptions erasures = {};
  // Seams for tests: the clock, the independent check, the cold refit, what an eviction takes, a
  // core that cannot decide a state, a fault in what readers are given, a layer around each store
  // that is opened.
  std::function<absl::Time()> now = absl::Now;
  KktChecker checker = svdd::CheckKkt;
  std::function<std::shared_ptr<const svdd::Snapshot>(const svdd::ExactMemory&)> refit =
      &svdd::ExactMemory::Refit;
  std::function<svdd::EvictionPlan(const svdd::ExactMemory&, size_t budget)> planner =
      &svdd::ExactMemory::PlanEviction;
  UpdateFault update_fault;
  std::function<std::shared_ptr<const Published>(std::shared_ptr<const Published>)> publish_fault;
  std::function<std::unique_ptr<store::TenantStore>(std::unique_ptr<store::TenantStore>)>
      wrap_store;
};

class Tenant : public std::enable_shared_from_this<Tenant> {
 public:
  // Opens the tenant in `directory`, starts its log where it has no checkpoint yet, checks the
  // log's head with the key of `keys` that signs it, finishes what a crash left of erasures and of
  // its deletion, and loads every memory. `keys` must outlive the tenant. Cost: that of solving
  // them. Of a closed tenant nothing stays open.
  static absl::StatusOr<std::shared_ptr<Tenant>> Open(const std::string& directory,
                                                      const SigningKeys* keys,
                                                      const TenantOptions& options);
  Tenant(const Tenant&) = delete;
  Tenant& operator=(const Tenant&) = delete;

  TenantInfo Info() const;
  const std::string& uid() const { return record_.uid; }
  // True when the log was closed: the folder waits to be moved away.
  bool closed() const { return closed_.load(); }
  // True from the moment that the rows are gone: callers are told that there is no such tenant.
  bool gone() const { return gone_.load(); }

  // RESOURCE_EXHAUSTED where the tenant has as many memories as these quotas allow.
  absl::StatusOr<MemoryInfo> CreateMemory(const std::string& name,
                                          MemoryConfig config,
                                          const CallOptions& call,
                                          const TenantQuotas& quotas = {});
  absl::StatusOr<MemoryInfo> GetMemory(absl::string_view name) const;
  absl::StatusOr<Page<MemoryInfo>> ListMemories(const PageRequest& page) const;
  absl::StatusOr<DeleteMemoryReply> DeleteMemory(absl::string_view name, const CallOptions& call);

  // Applies the batches in order and commits them in one transaction; a reply a batch. Requires 1
  // to 10,000 tokens a batch and no more than 10,000 together. RESOURCE_EXHAUSTED, and nothing has
  // changed, where the tokens that are new would not fit the quotas of the tenant: that on bytes
  // looks at what is stored now and at the content of what is new.
  absl::StatusOr<std::vector<InsertReply>> Insert(absl::string_view memory,
                                                  std::vector<std::vector<TokenInput>> batches,
                                                  const CallOptions& call,
                                                  const TenantQuotas& quotas = {});

  absl::StatusOr<QueryReply> Query(const QueryInput& input, const CallOptions& call) const;

  absl::StatusOr<ForgetReply> Forget(const ForgetInput& input, const CallOptions& call);
  absl::StatusOr<EvictReply> Evict(const EvictInput& input, const CallOptions& call);
  absl::StatusOr<EditReply> Edit(EditInput input, const CallOptions& call);

  // --- Erasure requests (docs/erasure_requests.md): promises to erase a person from every memory,
  // kept by WorkOnErasure. They take their turn with the writer. An id that there is not is
  // NOT_FOUND.
  // Answers once the request is durable. ALREADY_EXISTS for a key that was used for another one;
  // RESOURCE_EXHAUSTED when too many are open.
  absl::StatusOr<ErasureRequestInfo> CreateErasureRequest(const ErasureRequestInput& input,
                                                          const CallOptions& call);
  absl::StatusOr<ErasureRequestInfo> GetErasureRequest(absl::string_view id);
  absl::StatusOr<ErasureRequestInfo> FindErasureRequest(absl::string_view idempotency_key);
  // In the order of arrival, without what is personal.
  absl::StatusOr<Page<ErasureRequestInfo>> ListErasureRequests(std::optional<ErasureState> state,
                                                               const PageRequest& page);
  // FAILED_PRECONDITION unless it is pending, or was cancelled already.
  absl::StatusOr<ErasureRequestInfo> CancelErasureRequest(absl::string_view id);
  // FAILED_PRECONDITION once it has ended.
  absl::StatusOr<ErasureRequestInfo> ExtendErasureRequest(absl::string_view id,
                                                          absl::Time due,
                                                          const std::string& reason);
  // The same ones each time, until they are discarded or the personal part ends otherwise:
  // FAILED_PRECONDITION from then on, and before the request has ended.
  absl::StatusOr<std::vector<ErasureReceipt>> TakeErasureReceipts(absl::string_view id,
                                                                  bool discard);
  // What a request would find now. Cost O(memories), with hashed identities O(subjects).
  absl::StatusOr<DiscoveryReply> Discover(const std::vector<Identity>& identities,
                                          const CallOptions& call);
  // Does what the request wants now: erases, memory by memory, giving the writer's lock up between
  // them; ends it; ends its personal part. OK also where it is to be tried again later, which then
  // stands in the store. Otherwise nothing could be written down, or still_wanted said no.
  absl::Status WorkOnErasure(uint64_t number, const CallOptions& call);
  // The callbacks of a request whose time has come: for each address the oldest that it is owed.
  absl::StatusOr<std::vector<CallbackDelivery>> DueCallbacks(uint64_t number);
  absl::Status SettleCallback(absl::string_view id,
                              uint32_t sequence,
                              uint32_t url_index,
                              CallbackOutcome outcome);

  // --- Legal holds. While one is in force on a subject no call takes out a token of it.
  absl::StatusOr<HoldInfo> PlaceHold(const HoldInput& input, const CallOptions& call);
  // Idempotent.
  absl::StatusOr<HoldInfo> ReleaseHold(absl::string_view id);
  absl::StatusOr<Page<HoldInfo>> ListHolds(bool released_too, const PageRequest& page);

  // With `refit` under the writer's lock: the refit reads the writer's tokens.
  absl::StatusOr<DescribeReply> Describe(absl::string_view memory,
                                         bool refit,
                                         const CallOptions& call);

  // A cold refit now, compared bit for bit with what readers are given and with the writer's
  // state; appended to the log as a retrain-check, equal or not. A state that differs is first
  // replaced by one solved from the stored tokens; then the certificate and the answer say so. When
  // that one cannot be had (INTERNAL when it fails its checks) the certificate says that the memory
  // is not served, and Query and Describe are UNAVAILABLE until a write, Verify or start loads it.
  // Equal bits that fail the independent check refute the refit as well, and the format knows no
  // such certificate: INTERNAL without one, and the memory is loaded anew or not served.
  absl::StatusOr<VerifyReply> Verify(absl::string_view memory, const CallOptions& call);

  // --- Training jobs (tenant_jobs.cc). Require options.jobs.
  absl::StatusOr<JobInfo> SubmitJob(const JobInput& input, const TenantQuotas& quotas);
  // The next tokens of the snapshot of the lease's job, in the order of handles, a MiB of them or
  // little more; none at its end. The first call of all takes the snapshot.
  struct JobReader {
    Jobs::Reading reading;
    std::optional<std::vector<uint64_t>> snapshot = {};  // set by the first call
    size_t next = 0;                                     // index in it
  };
  absl::StatusOr<std::vector<TrainingToken>> ReadForJob(const LeaseName& lease, JobReader& reader);

  // --- The log. These take their turn with the writer, as certificates do.
  absl::StatusOr<CheckpointInfo> GetCheckpoint();
  absl::StatusOr<InclusionProofReply> GetInclusionProof(const CertificateName& which,
                                                        uint64_t size);
  absl::StatusOr<ConsistencyProofReply> GetConsistencyProof(uint64_t old_size, uint64_t new_size);
  absl::StatusOr<CheckpointInfo> AddCosignature(absl::string_view line, const CallOptions& call);
  // The log as it is now, for an export: reads in blocks, between the writer's changes. Holds the
  // tenant; NOT_FOUND from its calls once the tenant is closed.
  absl::StatusOr<std::unique_ptr<audit::LogSource>> OpenLogView();
  // Appends a key-handover to the newest key; false when the log is signed with it already.
  absl::StatusOr<bool> HandOver();

  absl::StatusOr<CertificateInfo> GetCertificate(absl::string_view id);
  absl::StatusOr<Page<CertificateInfo>> ListCertificates(const std::string& memory,
                                                         const PageRequest& page);

  // Wraps the keys of all rows under a new key-encryption key and destroys the old one, with a
  // certificate that names its epoch; what an earlier call left is finished first. Older copies of
  // the file of keys are worthless afterwards. UNAVAILABLE when it stopped on the way: this call,
  // or the next opening, goes on. Cost: that of TenantStore::RotateKeys; writers wait meanwhile.
  absl::StatusOr<RewrapReply> Rewrap(const CallOptions& call);

  // Erases every memory, destroys every key of the tenant, appends the closing certificate, the
  // last, and closes the store. From the erasure on every other call returns NOT_FOUND; when the
  // rest fails (UNAVAILABLE) this call, or the next start, goes on with it.
  absl::StatusOr<DeleteTenantReply> Close(const CallOptions& call);

  // A copy of the database as it is now, in a new file (store::TenantStore::CopyTo). The writer
  // waits while it is made.
  struct Copy {
    store::TenantCopy made;
    std::string vkey;  // of the key that signs the log
    int64_t time_micros = 0;
  };
  absl::StatusOr<Copy> CopyTo(const std::string& path, const CallOptions& call);

  // Empties the write-ahead log, for an orderly stop.
  absl::Status Checkpoint();

  // --- For whoever opens and unloads tenants (tenant_registry.h).
  // As Open, without the memories: finishes what a crash left in the file and can hand over the
  // log's key (HandOver). It answers no calls about memories.
  static absl::StatusOr<std::shared_ptr<Tenant>> OpenLogOnly(const std::string& directory,
                                                             const SigningKeys* keys,
                                                             const TenantOptions& options);
  // Info with the memories counted in the store; also of a tenant that OpenLogOnly opened.
  absl::StatusOr<TenantInfo> InfoFromStore();
  // Tokens of all memories, and an estimate of the bytes that the loaded tenant takes: documented
  // sizes of the core and of what stands beside it, times the counts of the published states. Cost
  // O(memories); waits for no writer.
  struct Size {
    // Of a tenant without memories: a connection, its schema, some of its page cache.
    static constexpr uint64_t kEmptyBytes = uint64_t{512} << 10;
    uint64_t tokens = 0;
    uint64_t bytes = 0;
    uint64_t memories = 0;
    svdd::PartitionCounts partition;  // of the memories that are solved by their tokens' weights
  };
  Size EstimateSize() const;
  uint64_t certificate_count() const { return certificate_count_.load(); }

 private:
  struct Memory {
    Memory(std::string memory_uid,
           std::string memory_name,
           const MemoryConfig& memory_config,
           const svdd::MemoryOptions& memory_options,
           EncoderPtr memory_encoder,
           int64_t create_time_micros);

    const std::string uid;
    const std::string name;
    const MemoryConfig config;
    const svdd::MemoryOptions options;
    const EncoderPtr encoder;  // null: what comes is kept as it is
    const std::string create_time;
    PublishedSlot published;
    // The writer's side: used only while writer_ is held. A null state has to be loaded first.
    std::unique_ptr<MemoryState> state;
    uint64_t next_handle = 1;
    uint64_t version = 0;
  };
  using MemoryPtr = std::shared_ptr<Memory>;
  // `input` as the memory keeps it: behind its encoder.
  static absl::StatusOr<QueryReply> QueryKept(const Memory& memory,
                                              const QueryInput& input,
                                              const CallOptions& call);
  static audit::Digest DigestOf(const Memory& memory) {
    return ConfigDigestOf(memory.options, memory.config.encoder_info);
  }

  // An erasure request, for one of the erasures that it wants: what the certificate is made of, and
  // what is known of the request once it is committed, which is in the same transaction.
  struct ForRequest {
    ForgetSeed seed;
    std::function<store::CaseUpdate(uint64_t erased, const store::CertificateRecord&)> update;
  };
  // A set of tokens to erase, what takes their place, and what the certificate says besides the
  // state.
  struct Erasure {
    audit::CertificateKind kind = audit::CertificateKind::kForget;
    std::vector<svdd::TokenHandle> handles;   // increasing
    std::vector<AcceptedToken> replacements;  // of an edit, in order
    audit::ErasureCounts counts;
    std::string request_id;
    std::optional<std::string> subject;
    std::function<absl::Status()> still_wanted = {};  // asked once more before the commit
    std::optional<audit::Selection> selection;        // of an eviction
    // Null: of nobody who keeps its salts, which are random then.
    const ForRequest* for_request = nullptr;
    // What the training jobs had to say (TellJobs).
    std::vector<std::string> exceptions = {};
  };
  struct PreparedErasure {
    store::CertificateAppend certificate;
    svdd::PartitionCounts before;
    Verdict verdict = Verdict::kProven;
    Receipt receipt;
    std::shared_ptr<const Published> after;
  };
  struct EditPlan {
    std::vector<svdd::TokenHandle> handles;  // of the old content, increasing
    std::vector<AcceptedToken> replacements;
    uint64_t unchanged = 0;
  };
  // The answer to a request, to be kept, of an erasure that is about to be committed.
  using MakeAnswer = absl::FunctionRef<Answer(const PreparedErasure&)>;
  struct Resolved {
    std::vector<svdd::TokenHandle> handles;  // increasing
    uint64_t not_found = 0;
    uint64_t already_erased = 0;
  };

  // An erasure request as it is stored.
  struct Asked {
    store::CaseRecord record;
    RequestFacts facts;
    std::optional<RequestPersonal> personal;
  };
  // What a set of identities finds in all memories.
  struct Matches {
    std::vector<DiscoveryItem> memories;  // those with tokens
    uint64_t tokens = 0;
    uint64_t held = 0;                  // of them, by holds on their subjects
    uint32_t found = 0;                 // a bit for each identity of which there is a token
    std::vector<std::string> hold_ids;  // on these identities, whether there are tokens or not
  };
  // Handles without those that holds keep.
  struct Unheld {
    std::vector<svdd::TokenHandle> handles;
    uint64_t held = 0;
  };

  // What an eviction takes.
  struct Choice {
    svdd::EvictionPlan plan;
    uint64_t held = 0;  // would have been taken
  };

  class LogView;

  Tenant(std::string directory,
         const SigningKeys* keys,
         TenantOptions options,
         store::TenantRecord record,
         std::unique_ptr<store::TenantStore> store);

  MemoryPtr FindMemory(absl::string_view name) const ABSL_LOCKS_EXCLUDED(map_mutex_);
  MemoryInfo InfoOf(const Memory& memory) const;
  int64_t NowMicros() const { return absl::ToUnixMicros(options_.now()); }

  // Every write begins here: a store that is open, healthy and not closed.
  absl::Status EnsureStore() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  absl::Status Reopen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // After a step of an erasure failed and StoreFailed or Unfinished was told why. True: the disk
  // was full, and there is room now; the step may be tried once more, behind EnsureStore.
  bool MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // With a store just opened: checks the log and finishes what a crash left of erasures. A tenant
  // that was being closed is gone and waits for FinishClosing, unless its log is closed already.
  absl::Status Begin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // Starts the log if need be, finds its key, checks checkpoint and last certificate. A closed log
  // is signed no more: it is checked with the key that it names last, whose private half may be
  // gone.
  absl::Status OpenLog(bool closed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  absl::Status StartLog(const store::LogHead& head) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  void SetSigner(audit::Signer signer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  absl::StatusOr<CheckpointInfo> ReadCheckpoint() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  absl::StatusOr<store::LogHead> ReadHead() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // Signs a certificate about no change of tokens and appends it. `next` as SignForStore.
  absl::StatusOr<store::CertificateRecord> AppendAlone(audit::CertificateBody body,
                                                       const store::LogHead& head,
                                                       const audit::Signer* next,
                                                       const Memory* memory,
                                                       int64_t time_micros)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // Makes the map of memories agree with the store, loading what is new or has lost its state.
  absl::Status SyncMemories() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // The memory with a loaded state; NOT_FOUND.
  absl::StatusOr<MemoryPtr> WritableMemory(absl::string_view name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  absl::Status Load(Memory& memory) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // The state of the stored tokens but these (increasing handles), solved afresh.
  absl::StatusOr<std::unique_ptr<MemoryState>> ReadState(const Memory& memory,
                                                         std::span<const svdd::TokenHandle> without)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // In the place of a state that is wrong: solves the stored tokens afresh, checks and publishes.
  // When that fails the memory is not served until a later Load succeeds.
  absl::Status Renew(Memory& memory) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  void PublishNext(Memory& memory) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // One more certificate is in the log.
  void CountAppend();
  // Whether so many more tokens fit.
  absl::Status CheckRoom(const std::vector<AcceptedToken>& tokens, const TenantQuotas& quotas)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // The quota of bytes, for what is about to be added.
  absl::Status CheckBytes(uint64_t bytes, const TenantQuotas& quotas)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // What a caller is told of a store that failed; the details, which name files, go to the server's
  // log alone. Drops the state of `memory`, if any, in RAM.
  absl::Status StoreFailed(Memory* memory, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);

  // Forget, with the lock taken and the input checked.
  absl::StatusOr<ForgetReply> ForgetHere(const ForgetInput& input,
                                         const ForRequest* for_request,
                                         const CallOptions& call)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  absl::StatusOr<Resolved> Resolve(const Memory& memory, const ForgetInput& input)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // Judges the tokens of an edit; `leaves` are theirs. The first that is bad or not there is named.
  absl::StatusOr<EditPlan> PlanEdit(const Memory& memory,
                                    std::vector<TokenInput> tokens,
                                    const std::vector<audit::Digest>& leaves)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // For dry runs. The cost of an erasure that is not committed; of a cold solve for an edit.
  absl::StatusOr<MemoryState::Foreseen> Foresee(Memory& memory,
                                                std::span<const svdd::TokenHandle> handles)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  absl::StatusOr<MemoryState::Foreseen> ForeseeEdit(const Memory& memory, const EditPlan& plan)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // Requires an open store. The stored answer to this request, if there is one.
  absl::StatusOr<std::optional<Answer>> Replay(const Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // Keeps the answer to a request that changed nothing, if it has an id. "Nothing left to erase" is
  // not said while the write-ahead log may hold what was erased: UNAVAILABLE then.
  absl::Status AnswerWithoutChange(const Memory& memory,
                                   const Request& request,
                                   const Answer& answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // The whole of an erasure, which must name a token: in RAM, checked, certified, committed,
  // published, its keys destroyed. When it fails before the commit nothing has changed.
  struct Erased {
    Receipt receipt;
    Destruction destruction;
  };
  absl::StatusOr<Erased> Erase(Memory& memory,
                               Erasure& erasure,
                               const Request& request,
                               MakeAnswer make_answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // From a state in RAM to the commit; nothing of it remains when it fails, unless the outcome is
  // unknown.
  absl::StatusOr<store::EraseResult> Commit(Memory& memory,
                                            const Erasure& erasure,
                                            const Request& request,
                                            MakeAnswer make_answer,
                                            PreparedErasure& prepared)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // Commit once more, after MakeRoom, unless the log has the first one's certificate.
  absl::StatusOr<store::EraseResult> CommitAgain(Memory& memory,
                                                 const Erasure& erasure,
                                                 const Request& request,
                                                 MakeAnswer make_answer,
                                                 PreparedErasure& prepared)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // The deletion of a memory, in the same two steps. The erasure is absent when it holds no token.
  absl::StatusOr<store::EraseResult> CommitDeletion(Memory& memory,
                                                    const std::optional<Erasure>& erasure,
                                                    std::string& certificate_id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  absl::StatusOr<store::EraseResult> CommitDeletionAgain(Memory& memory,
                                                         const std::optional<Erasure>& erasure,
                                                         std::string& certificate_id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // Erases in RAM, checks the result and signs what happened; nothing is stored or published yet.
  // When it fails the state has been dropped.
  absl::StatusOr<PreparedErasure> Prepare(Memory& memory, const Erasure& erasure)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  absl::Status ApplyAndCheck(Memory& memory,
                             const Erasure& erasure,
                             std::optional<audit::RefitComparison>* refit)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // Tells the jobs what is about to be erased. What the certificate says of artefacts that were
  // made from it.
  std::vector<std::string> TellJobs(const Memory& memory,
                                    std::span<const svdd::TokenHandle> handles)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  void LogFailedCheck(const Memory& memory) const;
  absl::Status CompareWithRefit(Memory& memory, std::optional<audit::RefitComparison>* refit)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // What a committed erasure still needs: the write-ahead log emptied, the keys of the erased rows
  // destroyed and found gone, a `shredded` certificate about it. OK when nothing is left to do;
  // otherwise UNAVAILABLE, and the erasure may not be called done. Cost: nothing when it is known
  // that nothing is pending; else that of TenantStore::DestroyPendingKeys and an append.
  absl::Status FinishErasures() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  absl::Status FinishErasuresOnce() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // Empties the write-ahead log unless it is known to hold no erased bytes. UNAVAILABLE.
  absl::Status CleanLog() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // Destroys the keys of these, which are pending, and appends the certificate.
  absl::Status Shred(std::span<const store::PendingErasure> pending)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // Finishes a change of the key-encryption key that was interrupted, and names the epochs that
  // ended and that no certificate names yet in one of their own. OK with nothing to do.
  absl::Status FinishRotation() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // The certificate, and its id; empty when every epoch that ended is named.
  absl::StatusOr<std::string> NameEpochs() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // The epochs that ended and that no certificate names, increasing, as many as one takes. Reads
  // the log back to the last that names any, where a crash may have come behind it.
  absl::StatusOr<std::vector<uint64_t>> UnnamedEpochs() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  absl::StatusOr<uint64_t> LastNamedEpoch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // After the certificate that names these.
  void EpochsNamed(const std::vector<uint64_t>& epochs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  void LogRewrapped(const store::KeysRewrapped& rewrapped, absl::string_view reason) const;
  // What the log says about the keys of an erasure that is finished.
  absl::StatusOr<Destruction> DestructionOf(absl::string_view certificate_id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // What a caller is told of an erasure that is committed and not finished.
  absl::Status Unfinished(absl::string_view event, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // From the rows' end to the closing certificate, from wherever an earlier try stopped. The store
  // is given up, and the tenant closed, when it succeeds.
  absl::StatusOr<DeleteTenantReply> FinishClosing() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  absl::StatusOr<DeleteTenantReply> FinishClosingOnce() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);

  Choice Choose(const Memory& memory, size_t budget) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);

  // --- tenant_holds.cc
  absl::Status LoadHolds() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // The first hold on the subject; null for none. Cost: nothing while there is no hold at all,
  // else a keyed hash.
  const std::string* HoldOn(absl::string_view subject) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  Unheld WithoutHeld(const Memory& memory, std::span<const svdd::TokenHandle> handles) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // FAILED_PRECONDITION when holds keep tokens of the memory, of all for null.
  absl::Status CheckNothingHeld(const Memory* memory, absl::string_view field)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  absl::StatusOr<HoldInfo> HoldInfoOf(const store::CaseRecord& record)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);

  // --- tenant_requests.cc, tenant_request_work.cc
  // Writes to the store, once more where a ballast made room for it. A second try that finds what
  // the first one wrote is for `write` to see.
  absl::Status WriteCase(absl::FunctionRef<absl::Status()> write)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  absl::StatusOr<store::CaseRecord> CreateCase(const store::CaseCreation& creation)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // The case that was made under this key, if there is one.
  absl::StatusOr<std::optional<std::string>> FindByKey(absl::string_view domain,
                                                       absl::string_view key,
                                                       const std::string* content)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // What keeps the case under its key; nullopt without one.
  std::optional<store::RequestRecord> KeyRecord(absl::string_view domain,
                                                absl::string_view key,
                                                const std::string& content,
                                                const store::CaseRecord& record) const;
  // A page of what the query says, and the token of the next one.
  absl::StatusOr<std::vector<store::CaseRecord>> ListCases(const std::string& scope,
                                                           store::CaseQuery query,
                                                           const PageRequest& page,
                                                           std::string& next_page_token)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  absl::StatusOr<store::CaseRecord> ReadCase(absl::string_view id, store::CaseKind kind)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  absl::StatusOr<Asked> Read(store::CaseRecord record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  absl::StatusOr<Asked> ReadAsked(absl::string_view id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // Writes it, with the personal part where `personal` says so, and tells the agenda.
  absl::Status Write(Asked& asked, bool personal) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // Ends the request in this state: what is written, whom it is owed, what is kept of it.
  absl::Status End(Asked& asked, ErasureState state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // Ends the personal part, in two steps: that it has ended is durable, and the worker knows that
  // its key waits; the key is destroyed.
  absl::Status EndPersonal(Asked& asked) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  absl::Status WriteEndOfPersonal(Asked& asked) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  absl::Status EndKey(Asked& asked) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  absl::Status DestroyEndedKeys() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  void Tell(const store::CaseRecord& record) const;
  ErasureRequestInfo InfoOf(const Asked& asked) const;
  absl::StatusOr<Matches> MatchesOf(const std::vector<Identity>& identities,
                                    const CallOptions& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);

  enum class Step : uint8_t { kGoOn, kDone };
  // One way through all memories.
  struct Walk {
    std::string cursor;   // the memory that was looked at last
    uint64_t holds = 0;   // holds_version_ when none of them was on the request
    absl::Status failed;  // the first erasure that did
  };
  absl::StatusOr<Step> BeginErasure(uint64_t number, Walk& walk, const CallOptions& call);
  // In the next memory, by name; kDone behind the last one. What fails there is noted in `walk`, so
  // that it keeps nobody in the others.
  absl::StatusOr<Step> EraseInNext(uint64_t number, Walk& walk, const CallOptions& call);
  absl::StatusOr<Step> EraseInMemory(Asked& asked,
                                     const std::string& name,
                                     Walk& walk,
                                     const CallOptions& call)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // By a Forget, with what the request then knows of it.
  absl::Status EraseSubject(Asked& asked,
                            const Memory& memory,
                            uint32_t identity,
                            const std::string& subject,
                            const CallOptions& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // Finishes the erasures of the request and notes the certificates that say so.
  absl::Status NoteDestruction(Asked& asked) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // Ends it where a hold is on one of its subjects: kDone.
  absl::StatusOr<Step> DenyIfHeld(Asked& asked, const CallOptions& call)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  absl::Status CompleteErasure(uint64_t number);
  // Of a request of which something is damaged: with `failure` set where it can only be ended.
  absl::StatusOr<Asked> ReadWhatIsLeft(store::CaseRecord record)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // After a failure: when it is tried again, or that it is given up.
  absl::Status NoteFailure(uint64_t number, const absl::Status& failure);

  const std::string directory_;
  const TenantOptions options_;
  const store::TenantRecord record_;
  const SigningKeys* const keys_;

  mutable Mutex writer_;
  // The key that signs the log; set by OpenLog unless the log is closed.
  std::optional<audit::Signer> signer_ ABSL_GUARDED_BY(writer_);
  std::unique_ptr<store::TenantStore> store_ ABSL_GUARDED_BY(writer_);
  // The write-ahead log may hold bytes that were erased: a checkpoint failed, or the log was found
  // at opening and a crash may have come between an erasure and its checkpoint.
  bool log_unclean_ ABSL_GUARDED_BY(writer_) = true;
  // Keys of erased rows may wait to be destroyed, for the same two reasons.
  bool keys_pending_ ABSL_GUARDED_BY(writer_) = true;
  bool encoder_keys_pending_ ABSL_GUARDED_BY(writer_) = true;  // of memories that were deleted
  // The holds in force, by the keyed hash of their subject; and how often they may have changed.
  std::map<store::HoldKey, std::vector<std::string>> holds_ ABSL_GUARDED_BY(writer_);
  uint64_t holds_version_ ABSL_GUARDED_BY(writer_) = 0;
  // A step failed because the disk was full, since the last EnsureStore.
  bool disk_full_ ABSL_GUARDED_BY(writer_) = false;
  // The largest epoch that a certificate names, as far as it matters; not known after an opening.
  std::optional<uint64_t> named_epoch_ ABSL_GUARDED_BY(writer_);

  mutable Mutex map_mutex_;
  std::map<std::string, MemoryPtr> memories_ ABSL_GUARDED_BY(map_mutex_);
  std::string vkey_ ABSL_GUARDED_BY(map_mutex_);  // of signer_

  std::atomic<uint64_t> certificate_count_{0};
  std::atomic<bool> gone_{false};
  std::atomic<bool> closed_{false};
};

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_TENANT_H_
