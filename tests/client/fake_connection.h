// A Connection to a server that lives in this process: tenants, memories and tokens in maps, and
// certificates that a real key signed. Solves nothing: every token is in the margin, and an
// eviction takes those with the last ids as surplus. The log has no certificates about keys, though
// each erasure names one.
#ifndef LETHE_TESTS_CLIENT_FAKE_CONNECTION_H_
#define LETHE_TESTS_CLIENT_FAKE_CONNECTION_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "audit/certificate.h"
#include "client/connection.h"

namespace lethe::client {

class FakeConnection : public Connection, public std::enable_shared_from_this<FakeConnection> {
 public:
  struct State {
    MemoryConfig config;
    std::map<std::string, Token> tokens;
    std::map<std::string, bool> erased;
  };

  FakeConnection();

  // What tests look at and turn.
  std::map<std::string, std::map<std::string, State>> tenants;
  std::vector<Certificate> log;  // of all tenants; the tests have one
  std::vector<std::string> calls;
  std::map<std::string, absl::Status> failures;  // by the name of a call
  std::string rejected_id = "rejected";          // InsertStream refuses this token
  // What Verify finds, and what RotateKey cannot hand over.
  bool refit_differs = false;
  std::vector<std::string> pending;
  std::string cosignatures;  // lines of the present checkpoint
  // Stands between Export and its visitor: a piece can be changed, and false ends the stream.
  std::function<bool(ExportPiece&)> export_filter = [](ExportPiece&) { return true; };
  std::string vkey() const { return signer_.verification_key().vkey(); }

  const Options& options() const override { return options_; }
  // Itself, with these options for all.
  std::shared_ptr<Connection> With(const CallOptions& call) override {
    options_ = client::With(options_, call);
    return shared_from_this();
  }
  absl::StatusOr<Tenant> CreateTenant(const std::string& tenant) override;
  absl::StatusOr<Tenant> GetTenant(const std::string& tenant) override;
  absl::StatusOr<Page<Tenant>> ListTenants(const PageRequest& page) override;
  absl::StatusOr<TenantDeletion> DeleteTenant(const std::string& tenant) override;
  absl::StatusOr<Memory> CreateMemory(const MemoryName& name, const MemoryConfig& config) override;
  absl::StatusOr<Memory> GetMemory(const MemoryName& name) override;
  absl::StatusOr<Page<Memory>> ListMemories(const std::string& tenant,
                                            const PageRequest& page) override;
  absl::StatusOr<MemoryDeletion> DeleteMemory(const MemoryName& name) override;
  absl::StatusOr<InsertResult> Insert(const MemoryName& name,
                                      const std::vector<Token>& tokens) override;
  std::unique_ptr<InsertStream> OpenInsertStream(const MemoryName& name) override;
  absl::StatusOr<QueryResult> Query(const QueryRequest& request) override;
  std::optional<LocalChunk> chunk;  // of the last query
  std::unique_ptr<QueryStream> OpenQueryStream() override;
  absl::StatusOr<ForgetResult> Forget(const ForgetRequest& request) override;
  absl::StatusOr<EvictResult> Evict(const EvictRequest& request) override;
  absl::StatusOr<EditResult> Edit(const EditRequest& request) override;
  absl::StatusOr<Description> Describe(const MemoryName& name, bool refit) override;
  absl::StatusOr<Certificate> GetCertificate(const std::string& tenant,
                                             const std::string& id) override;
  absl::StatusOr<Page<Certificate>> ListCertificates(const MemoryName& name,
                                                     const PageRequest& page) override;
  absl::StatusOr<Verification> Verify(const MemoryName& name) override;
  absl::StatusOr<Checkpoint> GetCheckpoint(const std::string& tenant) override;
  absl::StatusOr<InclusionProof> GetInclusionProof(const InclusionProofRequest& request) override;
  // Applied to every proof before it is returned: a server that lies.
  std::function<void(TenantDeletion&)> bend_deletion;
  std::function<void(InclusionProof&)> bend_inclusion;
  std::function<void(ConsistencyProof&)> bend_consistency;
  absl::StatusOr<ConsistencyProof> GetConsistencyProof(const std::string& tenant,
                                                       uint64_t old_size,
                                                       uint64_t new_size) override;
  absl::StatusOr<Checkpoint> AddCosignature(const std::string& tenant,
                                            const std::string& line) override;
  absl::StatusOr<ExportSummary> Export(
      const ExportRequest& request,
      const std::function<absl::Status(const ExportPiece&)>& visit) override;
  absl::StatusOr<KeyRotation> RotateKey() override;
  // A backup of any tenant that there is: this file, a manifest of its own, in pieces of 1,000
  // bytes that a test can change or (false) make the last one.
  std::string backup_file;
  std::function<bool(BackupPiece&)> backup_filter = [](BackupPiece&) { return true; };
  std::function<void(std::string& manifest)> bend_manifest;
  struct Restored {
    RestoreRequest request;
    std::string file;
  };
  std::vector<Restored> restored;
  absl::StatusOr<std::string> CreateBackup(
      const std::string& tenant,
      const std::function<absl::Status(const BackupPiece&)>& visit) override;
  absl::StatusOr<RestoreResult> RestoreBackup(
      const RestoreRequest& request,
      const std::function<absl::StatusOr<std::string>()>& next) override;
  absl::StatusOr<KeyRewrap> RewrapKeys(const std::string& tenant) override;
  // One request and one hold, whatever is asked; the calls are noted. What they do is tested over a
  // real server (tests/server/rpc_erasure_test.cc).
  absl::StatusOr<ErasureRequest> CreateErasureRequest(const NewErasureRequest& request) override;
  absl::StatusOr<ErasureRequest> GetErasureRequest(const std::string& tenant,
                                                   const std::string& id) override;
  absl::StatusOr<Page<ErasureRequest>> ListErasureRequests(const std::string& tenant,
                                                           std::optional<ErasureState> state,
                                                           const PageRequest& page) override;
  absl::StatusOr<ErasureRequest> CancelErasureRequest(const std::string& tenant,
                                                      const std::string& id) override;
  absl::StatusOr<ErasureRequest> ExtendErasureRequest(const std::string& tenant,
                                                      const std::string& id,
                                                      const std::string& due_time,
                                                      const std::string& reason) override;
  absl::StatusOr<std::vector<ErasureReceipt>> TakeErasureReceipts(const std::string& tenant,
                                                                  const std::string& id,
                                                                  bool discard) override;
  absl::StatusOr<Discovery> Discover(const std::string& tenant,
                                     const std::vector<Identity>& identities) override;
  absl::StatusOr<Hold> PlaceHold(const NewHold& hold) override;
  absl::StatusOr<Hold> ReleaseHold(const std::string& tenant, const std::string& id) override;
  absl::StatusOr<Page<Hold>> ListHolds(const std::string& tenant,
                                       bool released_too,
                                       const PageRequest& page) override;
  // One job, `job`, whatever is asked; the calls are noted. What jobs do is tested over a real
  // server. `watched` is what WatchJob shows, `artefact_pieces` what GetArtefact gives.
  Job job;
  NewJob submitted;
  std::vector<Job> watched;
  std::vector<std::string> artefact_pieces = {"arte", "fact"};
  absl::StatusOr<Job> SubmitJob(const NewJob& job) override;
  absl::StatusOr<Job> GetJob(const std::string& tenant, const std::string& id) override;
  absl::StatusOr<Page<Job>> ListJobs(const std::string& tenant,
                                     std::optional<JobState> state,
                                     const PageRequest& page) override;
  absl::StatusOr<Job> CancelJob(const std::string& tenant, const std::string& id) override;
  absl::Status DeleteJob(const std::string& tenant, const std::string& id) override;
  absl::Status WatchJob(const std::string& tenant,
                        const std::string& id,
                        const std::function<absl::Status(const Job&)>& visit) override;
  absl::StatusOr<JobArtefact> GetArtefact(
      const std::string& tenant,
      const std::string& id,
      const std::function<absl::Status(absl::string_view piece)>& visit) override;

 private:
  absl::StatusOr<Job> Worked(const std::string& call, const std::string& tenant);
  absl::StatusOr<ErasureRequest> Asked(const std::string& call, const std::string& tenant);
  absl::StatusOr<Hold> Held(const std::string& call, const std::string& tenant);
  friend class FakeInsertStream;
  absl::Status Called(const std::string& call);
  std::vector<audit::Digest> LeafHashes() const;
  absl::StatusOr<State*> Find(const MemoryName& name);
  Memory View(const MemoryName& name, const State& state) const;
  std::string Certify(audit::CertificateKind kind,
                      const std::string& memory,
                      const Partition& before,
                      const Partition& after,
                      const audit::ErasureCounts& counts,
                      std::optional<audit::Selection> selection = {});

  Options options_;
  audit::Signer signer_;
  std::optional<audit::Digest> last_leaf_hash_;
};

}  // namespace lethe::client

#endif  // LETHE_TESTS_CLIENT_FAKE_CONNECTION_H_
