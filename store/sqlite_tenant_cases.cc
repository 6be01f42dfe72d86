// SqliteTenant: erasure requests, legal holds, and the keys that end without a certificate.
#include <utility>

#include "core/base/status_macros.h"
#include "store/sqlite_tenant.h"
#include "store/validation.h"

namespace lethe::store {

absl::StatusOr<CaseRecord> SqliteTenant::CreateCase(const CaseCreation& creation) {
  CaseRecord record;
  CaseCounts counts;
  const auto body = [&]() -> absl::Status {
    LETHE_ASSIGN_OR_RETURN(SlotTaker taker,
                           SlotTaker::Begin(database_.get(), keys(), SlotUse::kErase));
    LETHE_ASSIGN_OR_RETURN(record, cases_.Create(creation, taker));
    LETHE_RETURN_IF_ERROR(taker.Finish());
    LETHE_ASSIGN_OR_RETURN(counts, CaseTable::Count(*database_));
    if (creation.request.has_value()) return InsertRequest(*creation.request);
    return absl::OkStatus();
  };
  LETHE_RETURN_IF_ERROR(Change(Kind::kErase, body));
  const absl::Status status = vault_->anchor()->RaiseCases(counts);
  if (!status.ok()) return FellBehind(status);
  return record;
}

absl::Status SqliteTenant::UpdateCase(const CaseUpdate& update) {
  const bool ended = HasEnded(update.record.state);
  CaseRecord stored;
  const auto body = [&]() -> absl::Status {
    LETHE_RETURN_IF_ERROR(cases_.Update(update));
    if (!ended) return absl::OkStatus();
    LETHE_ASSIGN_OR_RETURN(stored, cases_.GetById(update.record.id));
    return absl::OkStatus();
  };
  LETHE_RETURN_IF_ERROR(Change(Kind::kErase, body));
  if (!ended) return absl::OkStatus();
  // Before its key can be destroyed, so that from now on no copy brings it back.
  const absl::Status status = vault_->anchor()->PutEnded(stored);
  return status.ok() ? status : FellBehind(status);
}

absl::StatusOr<CaseRecord> SqliteTenant::GetCase(absl::string_view id) {
  LETHE_RETURN_IF_ERROR(Ready());
  return cases_.GetById(id);
}

absl::StatusOr<CaseRecord> SqliteTenant::GetCaseByNumber(uint64_t number) {
  LETHE_RETURN_IF_ERROR(Ready());
  return cases_.GetByNumber(number);
}

absl::StatusOr<std::string> SqliteTenant::GetCasePersonal(absl::string_view id) {
  LETHE_RETURN_IF_ERROR(Ready());
  LETHE_RETURN_IF_ERROR(CheckState(Kind::kErase));
  return cases_.Personal(id);
}

absl::StatusOr<std::vector<CaseRecord>> SqliteTenant::ListCases(const CaseQuery& query) {
  LETHE_RETURN_IF_ERROR(Ready());
  return cases_.List(query);
}

absl::StatusOr<std::vector<OpenCase>> SqliteTenant::ListOpenCases() {
  LETHE_RETURN_IF_ERROR(Ready());
  return cases_.ListOpen();
}

absl::StatusOr<std::vector<uint64_t>> SqliteTenant::EndedSlots() {
  LETHE_ASSIGN_OR_RETURN(std::vector<uint64_t> slots, cases_.EndedSlots());
  LETHE_ASSIGN_OR_RETURN(const std::vector<uint64_t> encoders, encoders_.EndedSlots());
  slots.insert(slots.end(), encoders.begin(), encoders.end());
  return slots;
}

absl::StatusOr<KeysDestroyed> SqliteTenant::DestroyEndedKeys() {
  LETHE_RETURN_IF_ERROR(Ready());
  LETHE_RETURN_IF_ERROR(CheckState(Kind::kErase));
  LETHE_ASSIGN_OR_RETURN(const std::vector<uint64_t> slots, EndedSlots());
  KeysDestroyed result;
  LETHE_ASSIGN_OR_RETURN(result.epoch, vault_->Epoch());
  if (slots.empty()) return result;
  LETHE_ASSIGN_OR_RETURN(DestroyResult destroyed, keys()->Destroy(slots));
  result.destroyed = destroyed.destroyed;
  result.already_destroyed = destroyed.already_destroyed;
  result.evidence = std::move(destroyed.evidence);
  result.bytes_read = destroyed.bytes_read;
  result.rewritten = destroyed.rewritten;
  return result;
}

absl::Status SqliteTenant::FinishEndedKeys() {
  LETHE_RETURN_IF_ERROR(Ready());
  LETHE_RETURN_IF_ERROR(CheckState(Kind::kErase));
  LETHE_ASSIGN_OR_RETURN(const std::vector<uint64_t> slots, EndedSlots());
  std::vector<uint64_t> destroyed;
  for (const uint64_t slot : slots) {
    LETHE_ASSIGN_OR_RETURN(const SlotState state, keys()->State(slot));
    if (state == SlotState::kDestroyed) destroyed.push_back(slot);
  }
  if (destroyed.empty()) return absl::OkStatus();
  std::vector<std::string> ids;
  const auto body = [&]() -> absl::Status {
    LETHE_ASSIGN_OR_RETURN(ids, cases_.Forget(destroyed));
    LETHE_RETURN_IF_ERROR(encoders_.Forget(destroyed));
    LETHE_ASSIGN_OR_RETURN(Statement count,
                           database_->Prepare("UPDATE tenant SET keys_ended = keys_ended + ?1"));
    return count.Int(1, ClampToInt64(destroyed.size())).Run();
  };
  LETHE_RETURN_IF_ERROR(Change(Kind::kErase, body));
  const absl::Status status = vault_->anchor()->DropEnded(ids);
  return status.ok() ? status : FellBehind(status);
}

absl::StatusOr<std::vector<HeldSubject>> SqliteTenant::ListHeldSubjects() {
  LETHE_RETURN_IF_ERROR(Ready());
  return cases_.Held();
}

HoldKey SqliteTenant::HoldKeyOf(absl::string_view subject) const {
  return cases_.HoldKeyOf(subject);
}

}  // namespace lethe::store
