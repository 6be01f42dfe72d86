#include "store/sqlite_tenant.h"

#include <algorithm>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "audit/hash.h"
#include "core/base/status_macros.h"
#include "store/validation.h"

namespace lethe::store {
// --- Memories

absl::Status SqliteTenant::CreateMemory(const MemoryRecord& memory, absl::string_view encoder) {
  LETHE_RETURN_IF_ERROR(CheckHex("memory.uid", memory.uid, 32));
  LETHE_RETURN_IF_ERROR(CheckLength("memory.name", memory.name, 1, kMaxNameBytes));
  LETHE_RETURN_IF_ERROR(CheckLength("memory.config", memory.config, 0, kMaxBlobBytes));
  LETHE_RETURN_IF_ERROR(CheckLength("encoder", encoder, 0, kMaxEncoderBytes));
  return Change(Kind::kGrow, [&]() -> absl::Status {
    LETHE_RETURN_IF_ERROR(memories_.Create(memory));
    if (encoder.empty()) return absl::OkStatus();
    LETHE_ASSIGN_OR_RETURN(const StoredMemory stored, FindMemory("uid", memory.uid));
    LETHE_ASSIGN_OR_RETURN(SlotTaker taker,
                           SlotTaker::Begin(database_.get(), keys(), SlotUse::kInsert));
    LETHE_RETURN_IF_ERROR(encoders_.Create(stored, encoder, taker));
    return taker.Finish();
  });
}

absl::StatusOr<std::string> SqliteTenant::GetEncoder(absl::string_view memory_uid) {
  LETHE_ASSIGN_OR_RETURN(const StoredMemory memory, FindMemory("uid", memory_uid));
  LETHE_RETURN_IF_ERROR(CheckState(Kind::kErase));
  return encoders_.Get(memory);
}

absl::StatusOr<StoredMemory> SqliteTenant::FindMemory(absl::string_view column,
                                                      absl::string_view value) {
  LETHE_RETURN_IF_ERROR(Ready());
  return memories_.Find(column, value);
}

absl::StatusOr<MemoryRecord> SqliteTenant::GetMemory(absl::string_view uid) {
  LETHE_ASSIGN_OR_RETURN(StoredMemory memory, FindMemory("uid", uid));
  return std::move(memory.record);
}

absl::StatusOr<MemoryRecord> SqliteTenant::GetMemoryByName(absl::string_view name) {
  LETHE_ASSIGN_OR_RETURN(StoredMemory memory, FindMemory("name", name));
  return std::move(memory.record);
}

absl::StatusOr<std::vector<MemoryRecord>> SqliteTenant::ListMemories(absl::string_view after_name,
                                                                     uint32_t limit) {
  LETHE_RETURN_IF_ERROR(Ready());
  LETHE_RETURN_IF_ERROR(CheckPageSize("limit", limit));
  LETHE_ASSIGN_OR_RETURN(std::vector<StoredMemory> stored, memories_.List(after_name, limit));
  std::vector<MemoryRecord> memories;
  memories.reserve(stored.size());
  for (StoredMemory& memory : stored) memories.push_back(std::move(memory.record));
  return memories;
}

absl::StatusOr<uint64_t> SqliteTenant::CountMemories() {
  LETHE_RETURN_IF_ERROR(Ready());
  return memories_.Count();
}

absl::StatusOr<MemoryCounts> SqliteTenant::CountMemory(absl::string_view uid) {
  LETHE_ASSIGN_OR_RETURN(const StoredMemory memory, FindMemory("uid", uid));
  return tokens_.Count(memory);
}

absl::StatusOr<EraseResult> SqliteTenant::DeleteMemory(const DeleteMemoryRequest& request) {
  EraseResult result;
  auto body = [&]() -> absl::Status {
    LETHE_ASSIGN_OR_RETURN(const StoredMemory memory, FindMemory("uid", request.memory_uid));
    LETHE_ASSIGN_OR_RETURN(const TokenTable::ErasedMemory erased, tokens_.EraseMemory(memory));
    result.erased = erased.rows;
    if (result.erased != 0 && !request.certificate.has_value()) {
      return absl::InvalidArgumentError("certificate: required, since the memory holds tokens");
    }
    LETHE_RETURN_IF_ERROR(encoders_.End(memory));
    LETHE_RETURN_IF_ERROR(memories_.Remove(memory));
    if (request.certificate.has_value()) {
      LETHE_RETURN_IF_ERROR(log_.Append(*request.certificate));
      const ErasedTokens gone{request.memory_uid, true, {}};
      LETHE_RETURN_IF_ERROR(outbox_.Add(request.certificate->record.sequence, erased.slots, gone));
    }
    if (request.request.has_value()) return InsertRequest(*request.request);
    return absl::OkStatus();
  };
  LETHE_RETURN_IF_ERROR(request.certificate.has_value()
                            ? ChangeWith(Kind::kErase, *request.certificate, body)
                            : Change(Kind::kErase, body));
  result.checkpoint = database_->CheckpointTruncate();
  return result;
}

// --- Tokens

absl::Status SqliteTenant::InsertTokens(absl::string_view memory_uid,
                                        std::span<const TokenRow> rows) {
  if (rows.empty() || rows.size() > kMaxInsertRows) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokens: ", rows.size(), " rows, must be 1 to ", kMaxInsertRows));
  }
  std::future<void> ahead;  // joined when all is done
  return Change(Kind::kGrow, [&]() -> absl::Status {
    LETHE_ASSIGN_OR_RETURN(const StoredMemory memory, FindMemory("uid", memory_uid));
    LETHE_ASSIGN_OR_RETURN(SlotTaker taker,
                           SlotTaker::Begin(database_.get(), keys(), SlotUse::kInsert));
    LETHE_RETURN_IF_ERROR(InsertRows(memory, rows, taker));
    LETHE_RETURN_IF_ERROR(taker.Finish());
    ahead = taker.MakeAhead();
    return absl::OkStatus();
  });
}

absl::Status SqliteTenant::InsertRows(const StoredMemory& memory,
                                      std::span<const TokenRow> rows,
                                      SlotTaker& taker) {
  LETHE_RETURN_IF_ERROR(tokens_.Insert(memory, rows, taker));
  const uint64_t next_handle = rows.back().handle + 1;
  LETHE_RETURN_IF_ERROR(memories_.SetNextHandle(memory, next_handle));
  return vault_->anchor()->RaiseHandles(next_handle);
}

absl::StatusOr<EraseResult> SqliteTenant::EraseTokens(const EraseRequest& request) {
  if (request.handles.empty()) return absl::InvalidArgumentError("handles: must name a token");
  if (request.replacements.size() > kMaxInsertRows) {
    return absl::InvalidArgumentError(absl::StrCat("replacements: ", request.replacements.size(),
                                                   " rows, must be at most ", kMaxInsertRows));
  }
  if (request.update.has_value() && HasEnded(request.update->record.state)) {
    return absl::InvalidArgumentError("update.state: a request does not end with an erasure");
  }
  const bool grows = !request.replacements.empty();
  ErasedTokens erased{
      .memory_uid = request.memory_uid, .whole_memory = false, .handles = request.handles};
  std::ranges::sort(erased.handles);
  auto body = [&]() -> absl::Status {
    LETHE_ASSIGN_OR_RETURN(const StoredMemory memory, FindMemory("uid", request.memory_uid));
    LETHE_ASSIGN_OR_RETURN(
        SlotTaker taker,
        SlotTaker::Begin(database_.get(), keys(), grows ? SlotUse::kInsert : SlotUse::kErase));
    LETHE_ASSIGN_OR_RETURN(const std::vector<uint64_t> slots,
                           tokens_.Erase(memory, request.handles, taker));
    if (grows) LETHE_RETURN_IF_ERROR(InsertRows(memory, request.replacements, taker));
    LETHE_RETURN_IF_ERROR(taker.Finish());
    LETHE_RETURN_IF_ERROR(log_.Append(request.certificate));
    LETHE_RETURN_IF_ERROR(outbox_.Add(request.certificate.record.sequence, slots, erased));
    if (request.update.has_value()) LETHE_RETURN_IF_ERROR(cases_.Update(*request.update));
    if (request.request.has_value()) return InsertRequest(*request.request);
    return absl::OkStatus();
  };
  LETHE_RETURN_IF_ERROR(ChangeWith(grows ? Kind::kGrow : Kind::kErase, request.certificate, body));
  return EraseResult{request.handles.size(), database_->CheckpointTruncate()};
}

absl::StatusOr<std::vector<IdLookup>> SqliteTenant::FindByIds(absl::string_view memory_uid,
                                                              std::span<const std::string> ids) {
  LETHE_ASSIGN_OR_RETURN(const StoredMemory memory, FindMemory("uid", memory_uid));
  return tokens_.FindByIds(memory, ids);
}

absl::StatusOr<std::vector<uint64_t>> SqliteTenant::FindBySubject(absl::string_view memory_uid,
                                                                  absl::string_view subject) {
  LETHE_ASSIGN_OR_RETURN(const StoredMemory memory, FindMemory("uid", memory_uid));
  return tokens_.FindBySubject(memory, subject);
}

absl::StatusOr<std::vector<TokenRow>> SqliteTenant::GetTokens(absl::string_view memory_uid,
                                                              std::span<const uint64_t> handles) {
  LETHE_ASSIGN_OR_RETURN(const StoredMemory memory, FindMemory("uid", memory_uid));
  return tokens_.Get(memory, handles);
}

absl::Status SqliteTenant::LoadTokens(absl::string_view memory_uid,
                                      absl::FunctionRef<absl::Status(TokenRow&)> visit) {
  LETHE_ASSIGN_OR_RETURN(const StoredMemory memory, FindMemory("uid", memory_uid));
  visiting_ = true;
  absl::Status status = tokens_.Load(memory, visit);
  visiting_ = false;
  return status;
}

// --- Requests

absl::StatusOr<std::optional<RequestRecord>> SqliteTenant::FindRequest(
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

absl::Status SqliteTenant::InsertRequest(const RequestRecord& request) {
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

absl::Status SqliteTenant::RecordRequest(const RequestRecord& request) {
  return Change(Kind::kGrow, [&] { return InsertRequest(request); });
}

// --- The log of certificates

absl::StatusOr<LogHead> SqliteTenant::GetLogHead() {
  LETHE_RETURN_IF_ERROR(Ready());
  return log_.Head();
}

absl::Status SqliteTenant::StartLog(const LogStart& start) {
  return Change(Kind::kStartLog, [&] { return log_.Start(start); });
}

absl::Status SqliteTenant::AppendCertificate(const CertificateAppend& certificate) {
  return ChangeWith(Kind::kAppend, certificate, [&] { return log_.Append(certificate); });
}

absl::StatusOr<std::vector<LogKey>> SqliteTenant::GetLogKeys() {
  LETHE_RETURN_IF_ERROR(Ready());
  return log_.Keys();
}

absl::StatusOr<std::vector<Bytes32>> SqliteTenant::GetLogNodes(int level,
                                                               uint64_t first,
                                                               uint32_t limit) {
  LETHE_RETURN_IF_ERROR(Ready());
  return log_.Nodes(level, first, limit);
}

absl::Status SqliteTenant::PutCosignature(const Cosignature& cosignature) {
  return Change(Kind::kGrow, [&] { return log_.PutCosignature(cosignature); });
}

absl::StatusOr<std::vector<Cosignature>> SqliteTenant::GetCosignatures() {
  LETHE_RETURN_IF_ERROR(Ready());
  return log_.Cosignatures();
}

absl::StatusOr<CertificateRecord> SqliteTenant::GetCertificate(absl::string_view id) {
  LETHE_RETURN_IF_ERROR(Ready());
  return log_.Get(id);
}

absl::StatusOr<std::vector<CertificateRecord>> SqliteTenant::ListCertificates(
    const CertificateQuery& query) {
  LETHE_RETURN_IF_ERROR(Ready());
  return log_.List(query);
}

}  // namespace lethe::store
