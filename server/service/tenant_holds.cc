// Tenant: legal holds, and what they keep.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/random.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "server/service/certificates.h"
#include "server/service/names.h"
#include "server/service/tenant.h"

namespace lethe::service {
namespace {

constexpr absl::string_view kHoldDomain("\0lethe/hold\0", 12);

absl::Status CheckHold(const HoldInput& input) {
  if (input.subject.empty()) return FieldError("subject", "is empty");
  LETHE_RETURN_IF_ERROR(CheckSubject("subject", input.subject));
  LETHE_RETURN_IF_ERROR(CheckReason("reason", input.reason));
  return CheckRequestId("idempotency_key", input.idempotency_key);
}

}  // namespace

absl::Status Tenant::LoadHolds() {
  LETHE_ASSIGN_OR_RETURN(std::vector<store::HeldSubject> held, store_->ListHeldSubjects());
  ++holds_version_;
  holds_.clear();
  for (store::HeldSubject& subject : held) {
    holds_[subject.key].push_back(std::move(subject.hold_id));
  }
  return absl::OkStatus();
}

const std::string* Tenant::HoldOn(absl::string_view subject) const {
  if (holds_.empty() || subject.empty()) return nullptr;
  const auto found = holds_.find(store_->HoldKeyOf(subject));
  return found == holds_.end() ? nullptr : &found->second.front();
}

Tenant::Unheld Tenant::WithoutHeld(const Memory& memory,
                                   std::span<const svdd::TokenHandle> handles) const {
  Unheld unheld;
  if (holds_.empty()) {
    unheld.handles.assign(handles.begin(), handles.end());
    return unheld;
  }
  for (const svdd::TokenHandle handle : handles) {
    if (HoldOn(memory.state->SubjectOf(handle)) != nullptr) {
      ++unheld.held;
    } else {
      unheld.handles.push_back(handle);
    }
  }
  return unheld;
}

absl::Status Tenant::CheckNothingHeld(const Memory* memory, absl::string_view field) {
  if (holds_.empty()) return absl::OkStatus();
  std::vector<std::string> names;
  if (memory != nullptr) {
    names.push_back(memory->name);
  } else {
    MutexLock map_lock(map_mutex_);
    for (const auto& [name, entry] : memories_) names.push_back(name);
  }
  uint64_t held = 0;
  std::set<store::HoldKey> keys;
  for (const std::string& name : names) {
    LETHE_ASSIGN_OR_RETURN(const MemoryPtr loaded, WritableMemory(name));
    const auto count = [&](absl::string_view subject, uint64_t tokens)
                           ABSL_NO_THREAD_SAFETY_ANALYSIS {
                             if (HoldOn(subject) == nullptr) return true;
                             held += tokens;
                             keys.insert(store_->HoldKeyOf(subject));
                             return true;
                           };
    loaded->state->VisitSubjects(count);
  }
  if (held == 0) return absl::OkStatus();
  size_t holds = 0;
  for (const store::HoldKey& key : keys) holds += holds_.at(key).size();
  return absl::FailedPreconditionError(
      absl::StrCat(field, ": ", holds, holds == 1 ? " legal hold keeps " : " legal holds keep ",
                   held, held == 1 ? " token" : " tokens", "; it can go once they are released"));
}

absl::StatusOr<HoldInfo> Tenant::HoldInfoOf(const store::CaseRecord& record) {
  absl::StatusOr<HoldFacts> facts = DecodeHoldFacts(record.facts);
  if (!facts.ok()) return StoreFailed(nullptr, facts.status());
  HoldInfo info{.tenant = record_.name,
                .id = record.id,
                .in_force = record.state == store::CaseState::kHeld,
                .place_time = FormatMicros(record.received_micros)};
  if (facts->release_micros != 0) info.release_time = FormatMicros(facts->release_micros);
  if (!record.personal) return info;
  absl::StatusOr<std::string> sealed = store_->GetCasePersonal(record.id);
  if (!sealed.ok()) return StoreFailed(nullptr, sealed.status());
  absl::StatusOr<HoldPersonal> personal = DecodeHoldPersonal(*sealed);
  if (!personal.ok()) return StoreFailed(nullptr, personal.status());
  info.subject = std::move(personal->subject);
  info.reason = std::move(personal->reason);
  return info;
}

absl::StatusOr<HoldInfo> Tenant::PlaceHold(const HoldInput& input, const CallOptions& call) {
  LETHE_RETURN_IF_ERROR(CheckHold(input));
  const std::string content = ContentOf(input);
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  LETHE_ASSIGN_OR_RETURN(const std::optional<std::string> earlier,
                         FindByKey(kHoldDomain, input.idempotency_key, &content));
  if (earlier.has_value()) {
    LETHE_ASSIGN_OR_RETURN(const store::CaseRecord record,
                           ReadCase(*earlier, store::CaseKind::kHold));
    LETHE_ASSIGN_OR_RETURN(HoldInfo info, HoldInfoOf(record));
    info.replayed = true;
    return info;
  }
  size_t in_force = 0;
  for (const auto& [key, ids] : holds_) in_force += ids.size();
  if (in_force >= kMaxHolds) {
    return absl::ResourceExhaustedError(
        absl::StrCat("subject: the tenant has ", kMaxHolds, " holds in force, no more can be"));
  }
  if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
  store::CaseCreation creation;
  creation.record.id = audit::RandomUid();
  creation.record.kind = store::CaseKind::kHold;
  creation.record.state = store::CaseState::kHeld;
  creation.record.received_micros = NowMicros();
  creation.record.facts = EncodeFacts(HoldFacts{});
  creation.personal = EncodePersonal(HoldPersonal{input.subject, input.reason});
  creation.subject = input.subject;
  creation.request = KeyRecord(kHoldDomain, input.idempotency_key, content, creation.record);
  LETHE_ASSIGN_OR_RETURN(const store::CaseRecord record, CreateCase(creation));
  ++holds_version_;
  std::vector<std::string>& of_subject = holds_[store_->HoldKeyOf(input.subject)];
  // Where the store was opened again on the way it is there.
  if (std::ranges::find(of_subject, record.id) == of_subject.end()) of_subject.push_back(record.id);
  options_.log->Write(program::LogLevel::kInfo, "hold_placed",
                      {{"tenant", record_.name}, {"hold", record.id}});
  return HoldInfoOf(record);
}

absl::StatusOr<HoldInfo> Tenant::ReleaseHold(absl::string_view id) {
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  LETHE_ASSIGN_OR_RETURN(store::CaseRecord record, ReadCase(id, store::CaseKind::kHold));
  if (record.state == store::CaseState::kHeld) {
    record.state = store::CaseState::kReleased;
    record.wake_micros = NowMicros();  // until the key is destroyed
    record.facts = EncodeFacts(HoldFacts{.release_micros = NowMicros()});
    LETHE_RETURN_IF_ERROR(WriteCase([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return store_->UpdateCase({.record = record, .personal = {}, .end_personal = true});
    }));
    record.personal = false;
    Tell(record);
    if (const absl::Status loaded = LoadHolds(); !loaded.ok()) return StoreFailed(nullptr, loaded);
    options_.log->Write(program::LogLevel::kInfo, "hold_released",
                        {{"tenant", record_.name}, {"hold", record.id}});
  }
  // Also what an earlier call left; what this one leaves the worker does.
  LETHE_RETURN_IF_ERROR(DestroyEndedKeys());
  record.wake_micros.reset();
  Tell(record);
  return HoldInfoOf(record);
}

absl::StatusOr<Page<HoldInfo>> Tenant::ListHolds(bool released_too, const PageRequest& page) {
  const std::string scope = absl::StrCat("holds/", record_.uid, released_too ? "/all" : "");
  store::CaseQuery query{.kind = store::CaseKind::kHold, .state = store::CaseState::kHeld};
  if (released_too) query.state.reset();
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  Page<HoldInfo> result;
  LETHE_ASSIGN_OR_RETURN(const std::vector<store::CaseRecord> records,
                         ListCases(scope, query, page, result.next_page_token));
  for (const store::CaseRecord& record : records) {
    LETHE_ASSIGN_OR_RETURN(HoldInfo info, HoldInfoOf(record));
    result.items.push_back(std::move(info));
  }
  return result;
}

}  // namespace lethe::service
