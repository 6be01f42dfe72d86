#include "store/sqlite_tenant_store.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "audit/hash.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "store/certificate_log.h"
#include "store/schema.h"
#include "store/sqlite.h"
#include "store/token_table.h"
#include "store/validation.h"

namespace lethe::store {
namespace {

// Over the columns of a memory that never change.
Bytes32 MemoryRowCheck(const MemoryRecord& memory) {
  return audit::Sha256(absl::StrCat(absl::string_view("lethe-memory-row\0", 17), memory.uid,
                                    memory.create_time_micros, ",", memory.name.size(), ",",
                                    memory.name, memory.config));
}

class SqliteTenantStore final : public TenantStore {
 public:
  SqliteTenantStore(std::unique_ptr<Database> database,
                    StoredTenant tenant,
                    const SqliteTenantOptions& options)
      : database_(std::move(database)),
        tenant_(std::move(tenant.record)),
        options_(options),
        tokens_(database_.get(), tenant.index_secret),
        log_(database_.get(), tenant_.log_origin) {}

  absl::StatusOr<TenantRecord> GetTenant() override;
  absl::StatusOr<EraseResult> CloseTenant(const CertificateAppend& certificate) override;
  absl::Status CreateMemory(const MemoryRecord& memory) override;
  absl::StatusOr<MemoryRecord> GetMemory(absl::string_view uid) override;
  absl::StatusOr<MemoryRecord> GetMemoryByName(absl::string_view name) override;
  absl::StatusOr<std::vector<MemoryRecord>> ListMemories(absl::string_view after_name,
                                                         uint32_t limit) override;
  absl::StatusOr<uint64_t> CountMemories() override;
  absl::StatusOr<MemoryCounts> CountMemory(absl::string_view uid) override;
  absl::StatusOr<EraseResult> DeleteMemory(const DeleteMemoryRequest& request) override;
  absl::Status InsertTokens(absl::string_view memory_uid, std::span<const TokenRow> rows) override;
  absl::StatusOr<EraseResult> EraseTokens(const EraseRequest& request) override;
  absl::StatusOr<std::vector<IdLookup>> FindByIds(absl::string_view memory_uid,
                                                  std::span<const std::string> ids) override;
  absl::StatusOr<std::vector<uint64_t>> FindBySubject(absl::string_view memory_uid,
                                                      absl::string_view subject) override;
  absl::StatusOr<std::vector<TokenRow>> GetTokens(absl::string_view memory_uid,
                                                  std::span<const uint64_t> handles) override;
  absl::Status LoadTokens(absl::string_view memory_uid,
                          absl::FunctionRef<absl::Status(TokenRow&)> visit) override;
  absl::StatusOr<std::optional<RequestRecord>> FindRequest(absl::string_view request_id) override;
  absl::Status RecordRequest(const RequestRecord& request) override;
  absl::StatusOr<LogHead> GetLogHead() override;
  absl::Status StartLog(const LogStart& start) override;
  absl::Status AppendCertificate(const CertificateAppend& certificate) override;
  absl::StatusOr<std::vector<LogKey>> GetLogKeys() override;
  absl::StatusOr<std::vector<Bytes32>> GetLogNodes(int level,
                                                   uint64_t first,
                                                   uint32_t limit) override;
  absl::Status PutCosignature(const Cosignature& cosignature) override;
  absl::StatusOr<std::vector<Cosignature>> GetCosignatures() override;
  absl::StatusOr<CertificateRecord> GetCertificate(absl::string_view id) override;
  absl::StatusOr<std::vector<CertificateRecord>> ListCertificates(
      const CertificateQuery& query) override;
  absl::Status Checkpoint() override;
  absl::Status Health() const override { return database_->health(); }

 private:
  // What may be stopped by the quota; what may not; what a closed tenant's file takes as well.
  enum class Kind { kGrow, kErase, kStartLog };

  absl::Status Ready() const;
  // Runs `body` in a transaction and commits it; nothing of it remains after any error but an
  // indeterminate one. The quota holds for kGrow only.
  absl::Status Change(Kind kind, absl::FunctionRef<absl::Status()> body);
  absl::StatusOr<StoredMemory> FindMemory(absl::string_view column, absl::string_view value);
  absl::Status RunForMemory(absl::string_view sql, const StoredMemory& memory);
  absl::Status InsertRequest(const RequestRecord& request);
  // Inside a transaction.
  absl::Status InsertRows(const StoredMemory& memory, std::span<const TokenRow> rows);

  std::unique_ptr<Database> database_;
  TenantRecord tenant_;
  SqliteTenantOptions options_;
  TokenTable tokens_;
  CertificateLog log_;
  bool visiting_ = false;
};

absl::StatusOr<MemoryRecord> ReadMemory(const Database& database, const Statement& row) {
  MemoryRecord memory;
  memory.uid = std::string(row.ColumnText(1));
  memory.name = std::string(row.ColumnText(2));
  memory.config = std::string(row.ColumnBlob(3));
  memory.create_time_micros = row.ColumnInt(4);
  memory.next_handle = static_cast<uint64_t>(row.ColumnInt(6));
  if (row.ColumnBlob(5) != audit::AsBytes(MemoryRowCheck(memory))) {
    return absl::DataLossError(
        absl::StrCat(database.path(), ": table memories, row ", row.ColumnInt(0),
                     ": does not match its check value; restore the file from a backup"));
  }
  return memory;
}

constexpr absl::string_view kSelectMemory =
    "SELECT key, uid, name, config, create_time, row_check, next_handle FROM memories WHERE ";

absl::Status SqliteTenantStore::Ready() const {
  LETHE_CHECK(!visiting_);  // the visitor of LoadTokens must not call the store
  return database_->health();
}

absl::Status SqliteTenantStore::Change(Kind kind, absl::FunctionRef<absl::Status()> body) {
  LETHE_RETURN_IF_ERROR(Ready());
  if (tenant_.state == TenantState::kClosed && kind != Kind::kStartLog) {
    return absl::FailedPreconditionError("the tenant is closed: its log can be read, no more");
  }
  if (options_.max_bytes != 0) {
    LETHE_RETURN_IF_ERROR(database_->SetMaxBytes(kind == Kind::kGrow ? options_.max_bytes : 0));
  }
  {
    LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_.get()));
    LETHE_RETURN_IF_ERROR(body());
    LETHE_RETURN_IF_ERROR(transaction.Commit());
  }
  // What was committed stands in the log, so a checkpoint that fails here loses nothing: the next
  // commit tries again, and one that failed for an I/O error shows in Health().
  if (database_->wal_bytes() > options_.wal_checkpoint_bytes) {
    database_->CheckpointTruncate().IgnoreError();
  }
  return absl::OkStatus();
}

// --- The tenant

absl::StatusOr<TenantRecord> SqliteTenantStore::GetTenant() {
  LETHE_RETURN_IF_ERROR(Ready());
  return tenant_;
}

absl::StatusOr<EraseResult> SqliteTenantStore::CloseTenant(const CertificateAppend& certificate) {
  EraseResult result;
  auto body = [&]() -> absl::Status {
    LETHE_ASSIGN_OR_RETURN(const int64_t tokens,
                           database_->QueryInt("SELECT count(*) FROM tokens"));
    result.erased = static_cast<uint64_t>(tokens);
    LETHE_RETURN_IF_ERROR(
        database_->Execute("DELETE FROM tokens; DELETE FROM tombstones;"
                           "DELETE FROM memories; DELETE FROM requests;"
                           "UPDATE tenant SET state = 1, index_secret = zeroblob(32)"));
    return log_.Append(certificate);
  };
  LETHE_RETURN_IF_ERROR(Change(Kind::kErase, body));
  tenant_.state = TenantState::kClosed;
  result.checkpoint = database_->CheckpointTruncate();
  return result;
}

// --- Memories

absl::Status SqliteTenantStore::CreateMemory(const MemoryRecord& memory) {
  LETHE_RETURN_IF_ERROR(CheckHex("memory.uid", memory.uid, 32));
  LETHE_RETURN_IF_ERROR(CheckLength("memory.name", memory.name, 1, kMaxNameBytes));
  LETHE_RETURN_IF_ERROR(CheckLength("memory.config", memory.config, 0, kMaxBlobBytes));
  return Change(Kind::kGrow, [&]() -> absl::Status {
    LETHE_ASSIGN_OR_RETURN(
        Statement insert,
        database_->Prepare("INSERT INTO memories (uid, name, config, create_time, row_check,"
                           " next_handle) VALUES (?1, ?2, ?3, ?4, ?5, 1)"));
    insert.Text(1, memory.uid).Text(2, memory.name).Blob(3, memory.config);
    insert.Int(4, memory.create_time_micros).Blob(5, audit::AsBytes(MemoryRowCheck(memory)));
    absl::Status status = insert.Run();
    if (absl::IsAlreadyExists(status)) {
      return absl::AlreadyExistsError("memory.name: a memory with this name or uid exists");
    }
    return status;
  });
}

absl::StatusOr<StoredMemory> SqliteTenantStore::FindMemory(absl::string_view column,
                                                           absl::string_view value) {
  LETHE_RETURN_IF_ERROR(Ready());
  LETHE_ASSIGN_OR_RETURN(Statement select,
                         database_->Prepare(absl::StrCat(kSelectMemory, column, " = ?1")));
  select.Text(1, value);
  LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
  if (!row) return absl::NotFoundError(absl::StrCat("no memory with this ", column));
  StoredMemory memory;
  memory.key = select.ColumnInt(0);
  LETHE_ASSIGN_OR_RETURN(memory.record, ReadMemory(*database_, select));
  return memory;
}

absl::StatusOr<MemoryRecord> SqliteTenantStore::GetMemory(absl::string_view uid) {
  LETHE_ASSIGN_OR_RETURN(StoredMemory memory, FindMemory("uid", uid));
  return std::move(memory.record);
}

absl::StatusOr<MemoryRecord> SqliteTenantStore::GetMemoryByName(absl::string_view name) {
  LETHE_ASSIGN_OR_RETURN(StoredMemory memory, FindMemory("name", name));
  return std::move(memory.record);
}

absl::StatusOr<std::vector<MemoryRecord>> SqliteTenantStore::ListMemories(
    absl::string_view after_name,
    uint32_t limit) {
  LETHE_RETURN_IF_ERROR(Ready());
  LETHE_RETURN_IF_ERROR(CheckPageSize("limit", limit));
  LETHE_ASSIGN_OR_RETURN(Statement select, database_->Prepare(absl::StrCat(
                                               kSelectMemory, "name > ?1 ORDER BY name LIMIT ?2")));
  select.Text(1, after_name).Int(2, limit);
  std::vector<MemoryRecord> memories;
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return memories;
    LETHE_ASSIGN_OR_RETURN(MemoryRecord memory, ReadMemory(*database_, select));
    memories.push_back(std::move(memory));
  }
}

absl::StatusOr<uint64_t> SqliteTenantStore::CountMemories() {
  LETHE_RETURN_IF_ERROR(Ready());
  LETHE_ASSIGN_OR_RETURN(const int64_t count, database_->QueryInt("SELECT count(*) FROM memories"));
  return static_cast<uint64_t>(count);
}

absl::StatusOr<MemoryCounts> SqliteTenantStore::CountMemory(absl::string_view uid) {
  LETHE_ASSIGN_OR_RETURN(const StoredMemory memory, FindMemory("uid", uid));
  return tokens_.Count(memory);
}

absl::Status SqliteTenantStore::RunForMemory(absl::string_view sql, const StoredMemory& memory) {
  LETHE_ASSIGN_OR_RETURN(Statement statement, database_->Prepare(sql));
  return statement.Int(1, memory.key).Run();
}

absl::StatusOr<EraseResult> SqliteTenantStore::DeleteMemory(const DeleteMemoryRequest& request) {
  EraseResult result;
  auto body = [&]() -> absl::Status {
    LETHE_ASSIGN_OR_RETURN(const StoredMemory memory, FindMemory("uid", request.memory_uid));
    LETHE_ASSIGN_OR_RETURN(result.erased, tokens_.EraseMemory(memory));
    if (result.erased != 0 && !request.certificate.has_value()) {
      return absl::InvalidArgumentError("certificate: required, since the memory holds tokens");
    }
    LETHE_RETURN_IF_ERROR(RunForMemory("DELETE FROM memories WHERE key = ?1", memory));
    if (request.certificate.has_value()) {
      LETHE_RETURN_IF_ERROR(log_.Append(*request.certificate));
    }
    if (request.request.has_value()) return InsertRequest(*request.request);
    return absl::OkStatus();
  };
  LETHE_RETURN_IF_ERROR(Change(Kind::kErase, body));
  result.checkpoint = database_->CheckpointTruncate();
  return result;
}

// --- Tokens

absl::Status SqliteTenantStore::InsertTokens(absl::string_view memory_uid,
                                             std::span<const TokenRow> rows) {
  if (rows.empty() || rows.size() > kMaxInsertRows) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokens: ", rows.size(), " rows, must be 1 to ", kMaxInsertRows));
  }
  return Change(Kind::kGrow, [&]() -> absl::Status {
    LETHE_ASSIGN_OR_RETURN(const StoredMemory memory, FindMemory("uid", memory_uid));
    return InsertRows(memory, rows);
  });
}

absl::Status SqliteTenantStore::InsertRows(const StoredMemory& memory,
                                           std::span<const TokenRow> rows) {
  LETHE_RETURN_IF_ERROR(tokens_.Insert(memory, rows));
  LETHE_ASSIGN_OR_RETURN(Statement advance,
                         database_->Prepare("UPDATE memories SET next_handle = ?2 WHERE key = ?1"));
  advance.Int(1, memory.key).Int(2, static_cast<int64_t>(rows.back().handle) + 1);
  return advance.Run();
}

absl::StatusOr<EraseResult> SqliteTenantStore::EraseTokens(const EraseRequest& request) {
  if (request.handles.empty()) return absl::InvalidArgumentError("handles: must name a token");
  if (request.replacements.size() > kMaxInsertRows) {
    return absl::InvalidArgumentError(absl::StrCat("replacements: ", request.replacements.size(),
                                                   " rows, must be at most ", kMaxInsertRows));
  }
  auto body = [&]() -> absl::Status {
    LETHE_ASSIGN_OR_RETURN(const StoredMemory memory, FindMemory("uid", request.memory_uid));
    LETHE_RETURN_IF_ERROR(tokens_.Erase(memory, request.handles));
    if (!request.replacements.empty()) {
      LETHE_RETURN_IF_ERROR(InsertRows(memory, request.replacements));
    }
    LETHE_RETURN_IF_ERROR(log_.Append(request.certificate));
    if (request.request.has_value()) return InsertRequest(*request.request);
    return absl::OkStatus();
  };
  LETHE_RETURN_IF_ERROR(Change(request.replacements.empty() ? Kind::kErase : Kind::kGrow, body));
  return EraseResult{request.handles.size(), database_->CheckpointTruncate()};
}

absl::StatusOr<std::vector<IdLookup>> SqliteTenantStore::FindByIds(
    absl::string_view memory_uid,
    std::span<const std::string> ids) {
  LETHE_ASSIGN_OR_RETURN(const StoredMemory memory, FindMemory("uid", memory_uid));
  return tokens_.FindByIds(memory, ids);
}

absl::StatusOr<std::vector<uint64_t>> SqliteTenantStore::FindBySubject(absl::string_view memory_uid,
                                                                       absl::string_view subject) {
  LETHE_ASSIGN_OR_RETURN(const StoredMemory memory, FindMemory("uid", memory_uid));
  return tokens_.FindBySubject(memory, subject);
}

absl::StatusOr<std::vector<TokenRow>> SqliteTenantStore::GetTokens(
    absl::string_view memory_uid,
    std::span<const uint64_t> handles) {
  LETHE_ASSIGN_OR_RETURN(const StoredMemory memory, FindMemory("uid", memory_uid));
  return tokens_.Get(memory, handles);
}

absl::Status SqliteTenantStore::LoadTokens(absl::string_view memory_uid,
                                           absl::FunctionRef<absl::Status(TokenRow&)> visit) {
  LETHE_ASSIGN_OR_RETURN(const StoredMemory memory, FindMemory("uid", memory_uid));
  visiting_ = true;
  absl::Status status = tokens_.Load(memory, visit);
  visiting_ = false;
  return status;
}

// --- Requests

absl::StatusOr<std::optional<RequestRecord>> SqliteTenantStore::FindRequest(
    absl::string_view request_id) {
  LETHE_RETURN_IF_ERROR(Ready());
  LETHE_ASSIGN_OR_RETURN(Statement select,
                         database_->Prepare("SELECT fingerprint, answer, create_time FROM requests"
                                            " WHERE request_id = ?1"));
  select.Text(1, request_id);
  LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
  std::optional<RequestRecord> found;
  if (!row) return found;
  RequestRecord request;
  request.request_id = std::string(request_id);
  LETHE_ASSIGN_OR_RETURN(request.fingerprint, ReadHash(select.ColumnBlob(0)));
  request.answer = std::string(select.ColumnBlob(1));
  request.create_time_micros = select.ColumnInt(2);
  found = std::move(request);
  return found;
}

absl::Status SqliteTenantStore::InsertRequest(const RequestRecord& request) {
  LETHE_RETURN_IF_ERROR(
      CheckLength("request.request_id", request.request_id, 1, kMaxRequestIdBytes));
  LETHE_RETURN_IF_ERROR(CheckLength("request.answer", request.answer, 0, kMaxBlobBytes));
  LETHE_ASSIGN_OR_RETURN(
      Statement insert,
      database_->Prepare("INSERT INTO requests (request_id, fingerprint, answer, create_time)"
                         " VALUES (?1, ?2, ?3, ?4)"));
  insert.Text(1, request.request_id)
      .Blob(2, audit::AsBytes(request.fingerprint))
      .Blob(3, request.answer);
  absl::Status status = insert.Int(4, request.create_time_micros).Run();
  if (absl::IsAlreadyExists(status)) {
    return absl::AlreadyExistsError("request.request_id: was answered before");
  }
  return status;
}

absl::Status SqliteTenantStore::RecordRequest(const RequestRecord& request) {
  return Change(Kind::kGrow, [&] { return InsertRequest(request); });
}

// --- The log of certificates

absl::StatusOr<LogHead> SqliteTenantStore::GetLogHead() {
  LETHE_RETURN_IF_ERROR(Ready());
  return log_.Head();
}

absl::Status SqliteTenantStore::StartLog(const LogStart& start) {
  return Change(Kind::kStartLog, [&] { return log_.Start(start); });
}

absl::Status SqliteTenantStore::AppendCertificate(const CertificateAppend& certificate) {
  return Change(Kind::kErase, [&] { return log_.Append(certificate); });
}

absl::StatusOr<std::vector<LogKey>> SqliteTenantStore::GetLogKeys() {
  LETHE_RETURN_IF_ERROR(Ready());
  return log_.Keys();
}

absl::StatusOr<std::vector<Bytes32>> SqliteTenantStore::GetLogNodes(int level,
                                                                    uint64_t first,
                                                                    uint32_t limit) {
  LETHE_RETURN_IF_ERROR(Ready());
  return log_.Nodes(level, first, limit);
}

absl::Status SqliteTenantStore::PutCosignature(const Cosignature& cosignature) {
  return Change(Kind::kGrow, [&] { return log_.PutCosignature(cosignature); });
}

absl::StatusOr<std::vector<Cosignature>> SqliteTenantStore::GetCosignatures() {
  LETHE_RETURN_IF_ERROR(Ready());
  return log_.Cosignatures();
}

absl::StatusOr<CertificateRecord> SqliteTenantStore::GetCertificate(absl::string_view id) {
  LETHE_RETURN_IF_ERROR(Ready());
  return log_.Get(id);
}

absl::StatusOr<std::vector<CertificateRecord>> SqliteTenantStore::ListCertificates(
    const CertificateQuery& query) {
  LETHE_RETURN_IF_ERROR(Ready());
  return log_.List(query);
}

absl::Status SqliteTenantStore::Checkpoint() {
  LETHE_RETURN_IF_ERROR(Ready());
  return database_->CheckpointTruncate();
}

std::string FileOf(const std::string& dir) { return absl::StrCat(dir, "/tenant.db"); }

}  // namespace

absl::StatusOr<std::unique_ptr<TenantStore>> CreateTenantStore(const std::string& dir,
                                                               const TenantRecord& tenant,
                                                               const SqliteTenantOptions& options) {
  LETHE_RETURN_IF_ERROR(CheckLength("tenant.name", tenant.name, 1, kMaxNameBytes));
  LETHE_RETURN_IF_ERROR(CheckHex("tenant.uid", tenant.uid, 32));
  LETHE_RETURN_IF_ERROR(CheckLength("tenant.log_origin", tenant.log_origin, 1, 1024));
  if (tenant.state != TenantState::kOpen) {
    return absl::InvalidArgumentError("tenant.state: must be open");
  }
  LETHE_ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                         Database::Open(FileOf(dir), Database::Mode::kCreate, kTenantIdentity));
  LETHE_RETURN_IF_ERROR(CreateSchema(*database, tenant));
  LETHE_ASSIGN_OR_RETURN(StoredTenant stored, ReadTenant(*database));
  return std::make_unique<SqliteTenantStore>(std::move(database), std::move(stored), options);
}

absl::StatusOr<std::unique_ptr<TenantStore>> OpenTenantStore(const std::string& dir,
                                                             const SqliteTenantOptions& options) {
  LETHE_ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                         Database::Open(FileOf(dir), Database::Mode::kOpen, kTenantIdentity));
  LETHE_RETURN_IF_ERROR(MigrateSchema(*database));
  LETHE_ASSIGN_OR_RETURN(StoredTenant tenant, ReadTenant(*database));
  LETHE_RETURN_IF_ERROR(CertificateLog(database.get(), tenant.record.log_origin).CheckWhole());
  return std::make_unique<SqliteTenantStore>(std::move(database), std::move(tenant), options);
}

}  // namespace lethe::store
