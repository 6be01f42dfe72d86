// A Connection whose every method is a gmock expectation, for tests of programs that use Lethe.
#ifndef LETHE_CLIENT_MOCKS_MOCK_CONNECTION_H_
#define LETHE_CLIENT_MOCKS_MOCK_CONNECTION_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/connection.h"
#include "gmock/gmock.h"

namespace lethe::client {

class MockConnection : public Connection {
 public:
  MOCK_METHOD(const Options&, options, (), (const, override));
  MOCK_METHOD(std::shared_ptr<Connection>, With, (const CallOptions&), (override));
  MOCK_METHOD(absl::StatusOr<Tenant>, CreateTenant, (const std::string&), (override));
  MOCK_METHOD(absl::StatusOr<Tenant>, GetTenant, (const std::string&), (override));
  MOCK_METHOD(absl::StatusOr<Page<Tenant>>, ListTenants, (const PageRequest&), (override));
  MOCK_METHOD(absl::StatusOr<TenantDeletion>, DeleteTenant, (const std::string&), (override));
  MOCK_METHOD(absl::StatusOr<Memory>,
              CreateMemory,
              (const MemoryName&, const MemoryConfig&),
              (override));
  MOCK_METHOD(absl::StatusOr<Memory>, GetMemory, (const MemoryName&), (override));
  MOCK_METHOD(absl::StatusOr<Page<Memory>>,
              ListMemories,
              (const std::string&, const PageRequest&),
              (override));
  MOCK_METHOD(absl::StatusOr<MemoryDeletion>, DeleteMemory, (const MemoryName&), (override));
  MOCK_METHOD(absl::StatusOr<InsertResult>,
              Insert,
              (const MemoryName&, const std::vector<Token>&),
              (override));
  MOCK_METHOD(std::unique_ptr<InsertStream>, OpenInsertStream, (const MemoryName&), (override));
  MOCK_METHOD(absl::StatusOr<QueryResult>, Query, (const QueryRequest&), (override));
  MOCK_METHOD(std::unique_ptr<QueryStream>, OpenQueryStream, (), (override));
  MOCK_METHOD(absl::StatusOr<ForgetResult>, Forget, (const ForgetRequest&), (override));
  MOCK_METHOD(absl::StatusOr<EvictResult>, Evict, (const EvictRequest&), (override));
  MOCK_METHOD(absl::StatusOr<EditResult>, Edit, (const EditRequest&), (override));
  MOCK_METHOD(absl::StatusOr<Description>, Describe, (const MemoryName&, bool), (override));
  MOCK_METHOD(absl::StatusOr<Verification>, Verify, (const MemoryName&), (override));
  MOCK_METHOD(absl::StatusOr<Certificate>,
              GetCertificate,
              (const std::string&, const std::string&),
              (override));
  MOCK_METHOD(absl::StatusOr<Page<Certificate>>,
              ListCertificates,
              (const MemoryName&, const PageRequest&),
              (override));
  MOCK_METHOD(absl::StatusOr<Checkpoint>, GetCheckpoint, (const std::string&), (override));
  MOCK_METHOD(absl::StatusOr<InclusionProof>,
              GetInclusionProof,
              (const InclusionProofRequest&),
              (override));
  MOCK_METHOD(absl::StatusOr<ConsistencyProof>,
              GetConsistencyProof,
              (const std::string&, uint64_t, uint64_t),
              (override));
  MOCK_METHOD(absl::StatusOr<Checkpoint>,
              AddCosignature,
              (const std::string&, const std::string&),
              (override));
  MOCK_METHOD(absl::StatusOr<ExportSummary>,
              Export,
              (const ExportRequest&, const std::function<absl::Status(const ExportPiece&)>&),
              (override));
  MOCK_METHOD(absl::StatusOr<KeyRotation>, RotateKey, (), (override));
  MOCK_METHOD(absl::StatusOr<std::string>,
              CreateBackup,
              (const std::string&, const std::function<absl::Status(const BackupPiece&)>&),
              (override));
  MOCK_METHOD(absl::StatusOr<RestoreResult>,
              RestoreBackup,
              (const RestoreRequest&, const std::function<absl::StatusOr<std::string>()>&),
              (override));
  MOCK_METHOD(absl::StatusOr<KeyRewrap>, RewrapKeys, (const std::string&), (override));
  MOCK_METHOD(absl::StatusOr<ErasureRequest>,
              CreateErasureRequest,
              (const NewErasureRequest&),
              (override));
  MOCK_METHOD(absl::StatusOr<ErasureRequest>,
              GetErasureRequest,
              (const std::string&, const std::string&),
              (override));
  MOCK_METHOD(absl::StatusOr<Page<ErasureRequest>>,
              ListErasureRequests,
              (const std::string&, std::optional<ErasureState>, const PageRequest&),
              (override));
  MOCK_METHOD(absl::StatusOr<ErasureRequest>,
              CancelErasureRequest,
              (const std::string&, const std::string&),
              (override));
  MOCK_METHOD(absl::StatusOr<ErasureRequest>,
              ExtendErasureRequest,
              (const std::string&, const std::string&, const std::string&, const std::string&),
              (override));
  MOCK_METHOD(absl::StatusOr<std::vector<ErasureReceipt>>,
              TakeErasureReceipts,
              (const std::string&, const std::string&, bool),
              (override));
  MOCK_METHOD(absl::StatusOr<Discovery>,
              Discover,
              (const std::string&, const std::vector<Identity>&),
              (override));
  MOCK_METHOD(absl::StatusOr<Hold>, PlaceHold, (const NewHold&), (override));
  MOCK_METHOD(absl::StatusOr<Hold>,
              ReleaseHold,
              (const std::string&, const std::string&),
              (override));
  MOCK_METHOD(absl::StatusOr<Page<Hold>>,
              ListHolds,
              (const std::string&, bool, const PageRequest&),
              (override));
  MOCK_METHOD(absl::StatusOr<Job>, SubmitJob, (const NewJob&), (override));
  MOCK_METHOD(absl::StatusOr<Job>, GetJob, (const std::string&, const std::string&), (override));
  MOCK_METHOD(absl::StatusOr<Page<Job>>,
              ListJobs,
              (const std::string&, std::optional<JobState>, const PageRequest&),
              (override));
  MOCK_METHOD(absl::StatusOr<Job>, CancelJob, (const std::string&, const std::string&), (override));
  MOCK_METHOD(absl::Status, DeleteJob, (const std::string&, const std::string&), (override));
  MOCK_METHOD(absl::Status,
              WatchJob,
              (const std::string&,
               const std::string&,
               const std::function<absl::Status(const Job&)>&),
              (override));
  MOCK_METHOD(absl::StatusOr<JobArtefact>,
              GetArtefact,
              (const std::string&,
               const std::string&,
               const std::function<absl::Status(absl::string_view)>&),
              (override));
};

class MockInsertStream : public InsertStream {
 public:
  MOCK_METHOD(bool, Write, (const InsertBatch&), (override));
  MOCK_METHOD(void, WritesDone, (), (override));
  MOCK_METHOD(std::optional<InsertAck>, Read, (), (override));
  MOCK_METHOD(absl::Status, Finish, (), (override));
  MOCK_METHOD(void, Cancel, (), (override));
};

class MockQueryStream : public QueryStream {
 public:
  MOCK_METHOD(bool, Write, (const QueryRequest&), (override));
  MOCK_METHOD(void, WritesDone, (), (override));
  MOCK_METHOD(std::optional<QueryResult>, Read, (), (override));
  MOCK_METHOD(absl::Status, Finish, (), (override));
  MOCK_METHOD(void, Cancel, (), (override));
};

}  // namespace lethe::client

#endif  // LETHE_CLIENT_MOCKS_MOCK_CONNECTION_H_
