// The C++ client of Lethe.
//
//     lethe::client::Client client(lethe::client::MakeConnection({.address = "127.0.0.1:7421"}));
//     const lethe::client::MemoryName visits{"clinic", "visits"};
//     auto forgotten = client.Forget({.name = visits, .subject = "patient-7"});
//     if (!forgotten.ok()) std::cerr << forgotten.status() << "\n";
//
// Every call returns absl::StatusOr; nothing throws. Success of a mutating call means durable.
// Which calls are repeated after a lost connection is said in client/retry.h. A Client is cheap to
// copy; copies share the connection. Threads: safe. Calls that do not wait: client/async_client.h.
// client/examples/quick.cc is a whole program.
#ifndef LETHE_CLIENT_CLIENT_H_
#define LETHE_CLIENT_CLIENT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/connection.h"
#include "client/insert_writer.h"
#include "client/query_stream.h"
#include "client/stream_range.h"
#include "client/types.h"

namespace lethe::client {

class Client {
 public:
  // `connection` must not be null.
  explicit Client(std::shared_ptr<Connection> connection);

  // The same client with other options, for some calls:
  //     client.With({.deadline = absl::Milliseconds(200)}).Query(visits, key);
  Client With(const CallOptions& call) const;

  // ALREADY_EXISTS when the tenant is there.
  absl::StatusOr<Tenant> CreateTenant(const std::string& tenant);
  absl::StatusOr<Tenant> GetTenant(const std::string& tenant);
  StreamRange<Tenant> ListTenants();
  // Erases every memory and closes the log of certificates. Keep the answer: it alone has the
  // closing certificate and its proof. After a lost one a repetition is NOT_FOUND
  // (docs/operations.md, "A deleted tenant").
  absl::StatusOr<TenantDeletion> DeleteTenant(const std::string& tenant);

  absl::StatusOr<Memory> CreateMemory(const MemoryName& name, const MemoryConfig& config);
  absl::StatusOr<Memory> GetMemory(const MemoryName& name);
  StreamRange<Memory> ListMemories(const std::string& tenant);
  // Erases every token with a certificate, then removes the memory.
  absl::StatusOr<MemoryDeletion> DeleteMemory(const MemoryName& name);

  // One batch, 1 to 10,000 tokens. Idempotent by id; a bad token is rejected alone: look at
  // InsertResult::rejected.
  absl::StatusOr<InsertResult> Insert(const MemoryName& name, const std::vector<Token>& tokens);
  // For more: a stream with bounded memory that survives lost connections.
  std::unique_ptr<InsertWriter> WriteTokens(const MemoryName& name,
                                            InsertWriterOptions options = {});

  absl::StatusOr<QueryResult> Query(const QueryRequest& request);
  // One query; the answer alone.
  absl::StatusOr<QueryAnswer> Query(const MemoryName& name, std::vector<double> key);

  // Many queries in a stream: asks `next` for a request until it returns nothing, and calls `visit`
  // with each result, in order, in this thread; some requests are under way at a time. Resumed
  // after a lost connection without repeating what was visited. The first error of `visit` ends it.
  absl::Status QueryStreamed(const std::function<std::optional<QueryRequest>()>& next,
                             const std::function<absl::Status(const QueryResult&)>& visit,
                             QueryStreamOptions options = {});

  // Takes tokens out so that the state equals, bit for bit, that of a memory that never saw them.
  absl::StatusOr<ForgetResult> Forget(const ForgetRequest& request);

  // Takes out tokens that no query reads now; certified, with the scope of that promise.
  absl::StatusOr<EvictResult> Evict(const EvictRequest& request);

  // Replaces the content of tokens under their ids, exactly, with one certificate.
  absl::StatusOr<EditResult> Edit(const EditRequest& request);

  // With `refit`, the server also solves from scratch and compares bit for bit.
  absl::StatusOr<Description> Describe(const MemoryName& name, bool refit = false);

  // A cold refit on the server, compared bit for bit and written to the log. Each call appends a
  // certificate.
  absl::StatusOr<Verification> Verify(const MemoryName& name);

  absl::StatusOr<Certificate> GetCertificate(const std::string& tenant, const std::string& id);
  // In the order of the log; of one memory, or of all when `memory` is empty.
  StreamRange<Certificate> ListCertificates(const std::string& tenant,
                                            const std::string& memory = "");

  // The signed size and root of the log. Verify it with audit::VerifyCheckpoint and a pinned key.
  absl::StatusOr<Checkpoint> GetCheckpoint(const std::string& tenant);
  absl::StatusOr<InclusionProof> GetInclusionProof(const InclusionProofRequest& request);
  // From `old_size`, at least 1, to `new_size`, 0 for the present one.
  absl::StatusOr<ConsistencyProof> GetConsistencyProof(const std::string& tenant,
                                                       uint64_t old_size,
                                                       uint64_t new_size = 0);
  // A configured witness's signature line of the present checkpoint. FAILED_PRECONDITION when the
  // log has grown meanwhile.
  absl::StatusOr<Checkpoint> AddCosignature(const std::string& tenant, const std::string& line);
  // The files of an export, piece by piece. DATA_LOSS when not all arrived that the server sent.
  absl::StatusOr<ExportSummary> Export(
      const ExportRequest& request,
      const std::function<absl::Status(const ExportPiece&)>& visit);
  // A new key for the logs of all tenants, or the rest of a rotation that was interrupted. Not
  // repeated after a lost connection: look at the checkpoint's keys first.
  absl::StatusOr<KeyRotation> RotateKey();
  // A new key-encryption key for the tenant's rows; the old one is destroyed, and with it every
  // older copy of the file of keys. Not repeated after a lost connection: it would make another
  // one.
  absl::StatusOr<KeyRewrap> RewrapKeys(const std::string& tenant);

  // A copy of a tenant, piece by piece, and its signed manifest. DATA_LOSS when not all arrived
  // that the server sent. Verify it with audit::VerifyBackupManifest and a pinned key.
  absl::StatusOr<std::string> CreateBackup(
      const std::string& tenant,
      const std::function<absl::Status(const BackupPiece&)>& visit);
  // Puts a tenant back from a copy, which `next` gives piece by piece (at most 1 MiB, empty: the
  // end). Erasures that the copy does not know of are done again by the server.
  absl::StatusOr<RestoreResult> RestoreBackup(
      const RestoreRequest& request,
      const std::function<absl::StatusOr<std::string>()>& next);

  // --- Erasure requests: promises that the server keeps by itself, in every memory of the tenant.
  // OK means durable. A request without an idempotency key gets one here.
  absl::StatusOr<ErasureRequest> CreateErasureRequest(const NewErasureRequest& request);
  absl::StatusOr<ErasureRequest> GetErasureRequest(const std::string& tenant,
                                                   const std::string& id);
  // In the order of arrival, without certificates and what is personal.
  StreamRange<ErasureRequest> ListErasureRequests(const std::string& tenant,
                                                  std::optional<ErasureState> state = std::nullopt);
  // FAILED_PRECONDITION unless it is pending.
  absl::StatusOr<ErasureRequest> CancelErasureRequest(const std::string& tenant,
                                                      const std::string& id);
  absl::StatusOr<ErasureRequest> ExtendErasureRequest(const std::string& tenant,
                                                      const std::string& id,
                                                      const std::string& due_time,
                                                      const std::string& reason);
  // `discard` once they are stored: the server then destroys what they follow from.
  absl::StatusOr<std::vector<ErasureReceipt>> TakeErasureReceipts(const std::string& tenant,
                                                                  const std::string& id,
                                                                  bool discard = false);
  absl::StatusOr<Discovery> Discover(const std::string& tenant,
                                     const std::vector<Identity>& identities);

  // --- Legal holds: no call takes out a token of a subject while one is on it.
  absl::StatusOr<Hold> PlaceHold(const NewHold& hold);
  absl::StatusOr<Hold> ReleaseHold(const std::string& tenant, const std::string& id);
  StreamRange<Hold> ListHolds(const std::string& tenant, bool released_too = false);

  // --- Training jobs, which workers of the server run (docs/jobs.md). No artefact carries a
  // deletion certificate. OK means durable. A job without a request id gets one here.
  absl::StatusOr<Job> SubmitJob(const NewJob& job);
  absl::StatusOr<Job> GetJob(const std::string& tenant, const std::string& id);
  // In the order of arrival.
  StreamRange<Job> ListJobs(const std::string& tenant,
                            std::optional<JobState> state = std::nullopt);
  // FAILED_PRECONDITION once it has ended otherwise.
  absl::StatusOr<Job> CancelJob(const std::string& tenant, const std::string& id);
  // Of a job that has ended, with its artefact; for good.
  absl::Status DeleteJob(const std::string& tenant, const std::string& id);
  // The job as it ended. Calls `visit` with it now and after each change, across lost connections;
  // its first error ends the call.
  absl::StatusOr<Job> WatchJob(const std::string& tenant,
                               const std::string& id,
                               const std::function<absl::Status(const Job&)>& visit);
  // The artefact of a job that has succeeded, piece by piece. DATA_LOSS when what came is not what
  // the server says it is, by size or SHA-256: what was visited is then of no use.
  absl::StatusOr<JobArtefact> GetArtefact(
      const std::string& tenant,
      const std::string& id,
      const std::function<absl::Status(absl::string_view piece)>& visit);

 private:
  template <typename Request>
  Request WithRequestId(Request request) const;

  std::shared_ptr<Connection> connection_;
};

}  // namespace lethe::client

#endif  // LETHE_CLIENT_CLIENT_H_
