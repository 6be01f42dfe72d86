// What a Client talks through. Users who test their own code mock this interface
// (client/mocks/mock_connection.h); everyone else calls MakeConnection.
//
// Errors: the server's status, with its words; UNAVAILABLE when no server answered. Threads: every
// method may be called from any thread; an InsertStream belongs to one writer and one reader.
#ifndef LETHE_CLIENT_CONNECTION_H_
#define LETHE_CLIENT_CONNECTION_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/erasure_types.h"
#include "client/job_types.h"
#include "client/options.h"
#include "client/retry.h"
#include "client/types.h"

namespace lethe::client {

// A message of an insert stream, and its acknowledgement.
struct InsertBatch {
  uint64_t sequence = 0;  // strictly increasing
  std::vector<Token> tokens;
};
struct InsertAck {
  uint64_t acknowledged_sequence = 0;  // everything up to it is durable or was rejected by name
  uint64_t inserted = 0;               // since the last acknowledgement of this stream
  uint64_t unchanged = 0;
  uint64_t rejected = 0;
  struct Rejection {
    uint64_t sequence = 0;
    uint32_t index = 0;
    std::string id;
    ItemError error;
  };
  std::vector<Rejection> rejections;
  StateAfter state;
};

// One attempt of an insert stream, without retrying: InsertWriter (client/insert_writer.h) does
// that. Write and WritesDone from one thread, Read from one other, Cancel from any, Finish once,
// after Read returned nothing and the last Write returned.
class InsertStream {
 public:
  virtual ~InsertStream() = default;
  // False: the stream is broken; Finish says why.
  virtual bool Write(const InsertBatch& batch) = 0;
  virtual void WritesDone() = 0;
  // Nothing: the stream is over; Finish says why.
  virtual std::optional<InsertAck> Read() = 0;
  virtual absl::Status Finish() = 0;
  virtual void Cancel() = 0;
};

// One attempt of a query stream: a result a request, in order. As InsertStream; QueryStreamed
// (client/query_stream.h) retries.
class QueryStream {
 public:
  virtual ~QueryStream() = default;
  virtual bool Write(const QueryRequest& request) = 0;
  virtual void WritesDone() = 0;
  virtual std::optional<QueryResult> Read() = 0;
  virtual absl::Status Finish() = 0;
  virtual void Cancel() = 0;
};

class Connection {
 public:
  virtual ~Connection() = default;

  virtual const Options& options() const = 0;
  // The same connection with other options; cheap. Never null.
  virtual std::shared_ptr<Connection> With(const CallOptions& call) = 0;

  virtual absl::StatusOr<Tenant> CreateTenant(const std::string& tenant) = 0;
  virtual absl::StatusOr<Tenant> GetTenant(const std::string& tenant) = 0;
  virtual absl::StatusOr<Page<Tenant>> ListTenants(const PageRequest& page) = 0;
  virtual absl::StatusOr<TenantDeletion> DeleteTenant(const std::string& tenant) = 0;

  virtual absl::StatusOr<Memory> CreateMemory(const MemoryName& name,
                                              const MemoryConfig& config) = 0;
  virtual absl::StatusOr<Memory> GetMemory(const MemoryName& name) = 0;
  virtual absl::StatusOr<Page<Memory>> ListMemories(const std::string& tenant,
                                                    const PageRequest& page) = 0;
  virtual absl::StatusOr<MemoryDeletion> DeleteMemory(const MemoryName& name) = 0;

  virtual absl::StatusOr<InsertResult> Insert(const MemoryName& name,
                                              const std::vector<Token>& tokens) = 0;
  // Never null. A connection that cannot open it returns a stream that is over.
  virtual std::unique_ptr<InsertStream> OpenInsertStream(const MemoryName& name) = 0;
  virtual absl::StatusOr<QueryResult> Query(const QueryRequest& request) = 0;
  // Never null. A connection that cannot open it returns a stream that is over.
  virtual std::unique_ptr<QueryStream> OpenQueryStream() = 0;
  virtual absl::StatusOr<ForgetResult> Forget(const ForgetRequest& request) = 0;
  virtual absl::StatusOr<EvictResult> Evict(const EvictRequest& request) = 0;
  virtual absl::StatusOr<EditResult> Edit(const EditRequest& request) = 0;
  virtual absl::StatusOr<Description> Describe(const MemoryName& name, bool refit) = 0;

  virtual absl::StatusOr<Verification> Verify(const MemoryName& name) = 0;

  virtual absl::StatusOr<Certificate> GetCertificate(const std::string& tenant,
                                                     const std::string& id) = 0;
  // `memory` empty: of all memories.
  virtual absl::StatusOr<Page<Certificate>> ListCertificates(const MemoryName& name,
                                                             const PageRequest& page) = 0;
  virtual absl::StatusOr<Checkpoint> GetCheckpoint(const std::string& tenant) = 0;
  virtual absl::StatusOr<InclusionProof> GetInclusionProof(
      const InclusionProofRequest& request) = 0;
  virtual absl::StatusOr<ConsistencyProof> GetConsistencyProof(const std::string& tenant,
                                                               uint64_t old_size,
                                                               uint64_t new_size) = 0;
  virtual absl::StatusOr<Checkpoint> AddCosignature(const std::string& tenant,
                                                    const std::string& line) = 0;
  // Calls `visit` for each piece; its first error ends the call. Not repeated after a lost
  // connection. OK only after the server said that this was all; what it said is returned.
  virtual absl::StatusOr<ExportSummary> Export(
      const ExportRequest& request,
      const std::function<absl::Status(const ExportPiece&)>& visit) = 0;
  virtual absl::StatusOr<KeyRotation> RotateKey() = 0;
  // Calls `visit` for each piece; its first error ends the call. The signed manifest, which comes
  // last. Not repeated after a lost connection.
  virtual absl::StatusOr<std::string> CreateBackup(
      const std::string& tenant,
      const std::function<absl::Status(const BackupPiece&)>& visit) = 0;
  // Sends what `next` gives, at most 1 MiB at a time, until it is empty. Its error ends the call.
  // Not repeated after a lost connection: look at the tenant first.
  virtual absl::StatusOr<RestoreResult> RestoreBackup(
      const RestoreRequest& request,
      const std::function<absl::StatusOr<std::string>()>& next) = 0;
  virtual absl::StatusOr<KeyRewrap> RewrapKeys(const std::string& tenant) = 0;

  virtual absl::StatusOr<ErasureRequest> CreateErasureRequest(const NewErasureRequest& request) = 0;
  virtual absl::StatusOr<ErasureRequest> GetErasureRequest(const std::string& tenant,
                                                           const std::string& id) = 0;
  virtual absl::StatusOr<Page<ErasureRequest>> ListErasureRequests(
      const std::string& tenant,
      std::optional<ErasureState> state,
      const PageRequest& page) = 0;
  virtual absl::StatusOr<ErasureRequest> CancelErasureRequest(const std::string& tenant,
                                                              const std::string& id) = 0;
  virtual absl::StatusOr<ErasureRequest> ExtendErasureRequest(const std::string& tenant,
                                                              const std::string& id,
                                                              const std::string& due_time,
                                                              const std::string& reason) = 0;
  virtual absl::StatusOr<std::vector<ErasureReceipt>> TakeErasureReceipts(const std::string& tenant,
                                                                          const std::string& id,
                                                                          bool discard) = 0;
  virtual absl::StatusOr<Discovery> Discover(const std::string& tenant,
                                             const std::vector<Identity>& identities) = 0;
  virtual absl::StatusOr<Hold> PlaceHold(const NewHold& hold) = 0;
  virtual absl::StatusOr<Hold> ReleaseHold(const std::string& tenant, const std::string& id) = 0;
  virtual absl::StatusOr<Page<Hold>> ListHolds(const std::string& tenant,
                                               bool released_too,
                                               const PageRequest& page) = 0;

  virtual absl::StatusOr<Job> SubmitJob(const NewJob& job) = 0;
  virtual absl::StatusOr<Job> GetJob(const std::string& tenant, const std::string& id) = 0;
  virtual absl::StatusOr<Page<Job>> ListJobs(const std::string& tenant,
                                             std::optional<JobState> state,
                                             const PageRequest& page) = 0;
  virtual absl::StatusOr<Job> CancelJob(const std::string& tenant, const std::string& id) = 0;
  virtual absl::Status DeleteJob(const std::string& tenant, const std::string& id) = 0;
  // Calls `visit` with the job now and after each change, until it has ended or `visit` says an
  // error. Watches on after a lost connection.
  virtual absl::Status WatchJob(const std::string& tenant,
                                const std::string& id,
                                const std::function<absl::Status(const Job&)>& visit) = 0;
  // Calls `visit` for each piece; its first error ends the call. What the server says of the whole;
  // whether the pieces are it is not looked at. Not repeated after a lost connection.
  virtual absl::StatusOr<JobArtefact> GetArtefact(
      const std::string& tenant,
      const std::string& id,
      const std::function<absl::Status(absl::string_view piece)>& visit) = 0;
};

// Over gRPC, with the retry rules of client/retry.h. Never null and does not wait for
// the server: an invalid option or an unreachable server shows in the first call.
std::shared_ptr<Connection> MakeConnection(Options options = {});

// The same with time and chance of the caller's choice.
std::shared_ptr<Connection> MakeConnection(Options options, Environment environment);

}  // namespace lethe::client

#endif  // LETHE_CLIENT_CONNECTION_H_
