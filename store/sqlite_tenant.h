// The class behind sqlite_tenant_store.h, internal to the store: what is in sqlite_tenant_store.cc
// is the tenant's life (making, opening, checking, closing) and its keys; what is in
// sqlite_tenant.cc are memories, tokens, requests and the log, in sqlite_tenant_cases.cc cases.
#ifndef LETHE_STORE_SQLITE_TENANT_H_
#define LETHE_STORE_SQLITE_TENANT_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/anchor.h"
#include "store/case_table.h"
#include "store/certificate_log.h"
#include "store/encoder_table.h"
#include "store/memory_table.h"
#include "store/outbox.h"
#include "store/row_keys.h"
#include "store/schema.h"
#include "store/sqlite.h"
#include "store/sqlite_tenant_store.h"
#include "store/tenant_store.h"
#include "store/tenant_vault.h"
#include "store/token_table.h"

namespace lethe::store {

// INVALID_ARGUMENT for what is missing.
absl::Status CheckOptions(const SqliteTenantOptions& options);
TenantVault::Place PlaceOf(const SqliteTenantOptions& options, const TenantRecord& tenant);

// `<dir>/tenant.db` with the checks that need no vault: that it is ours, of the expected name, and
// that its log is whole.
struct TenantFile {
  std::unique_ptr<Database> database;
  StoredTenant tenant;
};
absl::StatusOr<TenantFile> OpenTenantFile(const std::string& dir,
                                          const SqliteTenantOptions& options);
// The slots that a row, a case, an encoder or a pending erasure has, and the tenant's own;
// increasing. Cost O(tokens).
absl::StatusOr<std::vector<uint64_t>> NeededSlots(Database& database);
// That the vault has every key that rows have taken.
absl::Status CheckTaken(const Database& database, const StoredTenant& tenant, const KeyStore& keys);

class SqliteTenant final : public TenantStore {
 public:
  // `vault` is null for a tenant that is not open.
  SqliteTenant(std::unique_ptr<Database> database,
               std::unique_ptr<TenantVault> vault,
               const StoredTenant& tenant,
               const SecretBytes& index_secret,
               const SqliteTenantOptions& options);

  absl::StatusOr<TenantRecord> GetTenant() override;
  absl::StatusOr<EraseResult> BeginClose() override;
  absl::StatusOr<KeysDestroyed> DestroyAllKeys() override;
  absl::Status FinishClose(const CertificateAppend& certificate) override;
  absl::Status CreateMemory(const MemoryRecord& memory, absl::string_view encoder) override;
  absl::StatusOr<std::string> GetEncoder(absl::string_view memory_uid) override;
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
  absl::StatusOr<std::vector<PendingErasure>> PendingErasures() override;
  absl::StatusOr<KeysDestroyed> DestroyPendingKeys(uint64_t through_sequence) override;
  absl::Status AppendShredded(const CertificateAppend& certificate,
                              uint64_t through_sequence) override;
  absl::StatusOr<KeysRewrapped> RotateKeys() override;
  absl::StatusOr<KeysRewrapped> FinishRotation() override;
  absl::StatusOr<std::vector<uint32_t>> EndedEpochs() override;
  absl::Status ForgetEndedEpochs(uint32_t through) override;
  absl::StatusOr<std::optional<RequestRecord>> FindRequest(absl::string_view request_id) override;
  absl::Status RecordRequest(const RequestRecord& request) override;
  absl::StatusOr<CaseRecord> CreateCase(const CaseCreation& creation) override;
  absl::Status UpdateCase(const CaseUpdate& update) override;
  absl::StatusOr<CaseRecord> GetCase(absl::string_view id) override;
  absl::StatusOr<CaseRecord> GetCaseByNumber(uint64_t number) override;
  absl::StatusOr<std::string> GetCasePersonal(absl::string_view id) override;
  absl::StatusOr<std::vector<CaseRecord>> ListCases(const CaseQuery& query) override;
  absl::StatusOr<std::vector<OpenCase>> ListOpenCases() override;
  absl::StatusOr<KeysDestroyed> DestroyEndedKeys() override;
  absl::Status FinishEndedKeys() override;
  absl::StatusOr<std::vector<HeldSubject>> ListHeldSubjects() override;
  HoldKey HoldKeyOf(absl::string_view subject) const override;
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
  absl::StatusOr<TenantCopy> CopyTo(const std::string& path) override;
  absl::StatusOr<uint64_t> UsedBytes() override;
  absl::Status Checkpoint() override;
  absl::Status Health() const override;

 private:
  // What may be stopped by the quota; what may not; what a closing tenant's log takes as well; what
  // a closed one's takes; a step of closing, which looks at the state itself.
  enum class Kind { kGrow, kErase, kAppend, kStartLog, kClose };

  absl::Status Ready() const;
  absl::Status CheckState(Kind kind) const;
  // Runs `body` in a transaction and commits it; nothing of it remains after any error but an
  // indeterminate one. The quota holds for kGrow only.
  absl::Status Change(Kind kind, absl::FunctionRef<absl::Status()> body);
  absl::StatusOr<StoredMemory> FindMemory(absl::string_view column, absl::string_view value);
  absl::Status InsertRequest(const RequestRecord& request);
  // Of cases and encoders that have ended.
  absl::StatusOr<std::vector<uint64_t>> EndedSlots();
  // Inside a transaction.
  absl::Status InsertRows(const StoredMemory& memory,
                          std::span<const TokenRow> rows,
                          SlotTaker& taker);
  // Change, which appends this certificate, and then its entry in the anchor. When that fails, the
  // certificate is in the log and nobody may be told yet: indeterminate, as a failed COMMIT is.
  absl::Status ChangeWith(Kind kind,
                          const CertificateAppend& certificate,
                          absl::FunctionRef<absl::Status()> body);
  // What is answered, and from then on, when the anchor could not follow what was committed.
  absl::Status FellBehind(const absl::Status& status);
  KeyStore* keys() { return vault_ == nullptr ? nullptr : vault_->keys(); }
  TenantVault::Place place() const;

  std::unique_ptr<Database> database_;
  std::unique_ptr<TenantVault> vault_;
  TenantRecord tenant_;
  bool keys_destroyed_;
  SqliteTenantOptions options_;
  MemoryTable memories_;
  TokenTable tokens_;
  CaseTable cases_;
  EncoderTable encoders_;
  Outbox outbox_;
  CertificateLog log_;
  absl::Status behind_;  // not OK: the anchor lacks what the log has
  bool visiting_ = false;
};

}  // namespace lethe::store

#endif  // LETHE_STORE_SQLITE_TENANT_H_
