// Tenant: what the server does about an erasure request.
//
// A request goes through its memories in the order of their names, and forgets each of its
// identities in each of them by the ordinary Forget. What it then knows of that (counts, the
// certificate) is written in the transaction of the erasure, so that it is certified once, whatever
// comes between. Between memories the writer's lock is given up. What stands in the store is true
// at every moment; the steps below read it anew each time.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "audit/encoding.h"
#include "audit/hash.h"
#include "core/base/status_macros.h"
#include "server/service/certificates.h"
#include "server/service/records.h"
#include "server/service/tenant.h"

namespace lethe::service {
namespace {

// Subjects that are hashed between two looks at whether anybody waits for it.
constexpr size_t kLookEvery = 4096;
constexpr absl::Duration kFirstCallbackRetry = absl::Minutes(1);
constexpr absl::Duration kLongestCallbackRetry = absl::Hours(6);

absl::Duration Backoff(absl::Duration first, absl::Duration longest, uint32_t attempts) {
  absl::Duration pause = first;
  for (uint32_t i = 1; i < attempts && pause < longest; ++i) pause *= 2;
  return std::min(pause, longest);
}

// Of each identity the subjects that it names and of which there are tokens, in order: one, unless
// somebody made a collision of hashes.
absl::StatusOr<std::vector<std::vector<std::string>>> SubjectsOf(
    const MemoryState& state,
    const std::vector<Identity>& identities,
    const CallOptions& call) {
  std::vector<std::vector<std::string>> subjects(identities.size());
  // By format and digest: whose it is.
  std::map<IdentityFormat, absl::flat_hash_map<std::string, size_t>> wanted;
  for (size_t i = 0; i < identities.size(); ++i) {
    const Identity& identity = identities[i];
    if (identity.format != IdentityFormat::kRaw) {
      wanted[identity.format].emplace(identity.value, i);
    } else if (state.CountOf(identity.value) > 0) {
      subjects[i].push_back(identity.value);
    }
  }
  if (wanted.empty()) return subjects;
  absl::Status stopped;
  size_t seen = 0;
  state.VisitSubjects([&](absl::string_view subject, uint64_t) {
    if (++seen % kLookEvery == 0 && call.still_wanted) stopped = call.still_wanted();
    for (const auto& [format, digests] : wanted) {
      const auto found = digests.find(HashOfSubject(format, subject));
      if (found != digests.end()) subjects[found->second].emplace_back(subject);
    }
    return stopped.ok();
  });
  LETHE_RETURN_IF_ERROR(stopped);
  for (std::vector<std::string>& of_one : subjects) std::ranges::sort(of_one);
  return subjects;
}

// Of each address the oldest change that it is owed.
std::vector<OwedCallback> Oldest(const std::vector<OwedCallback>& owed) {
  std::vector<OwedCallback> oldest;
  for (const OwedCallback& callback : owed) {  // in the order of sequences
    const bool there = std::ranges::any_of(
        oldest, [&](const OwedCallback& other) { return other.url == callback.url; });
    if (!there) oldest.push_back(callback);
  }
  return oldest;
}

void SetCallbackTime(store::CaseRecord& record, const std::vector<OwedCallback>& owed) {
  record.callback_micros.reset();
  for (const OwedCallback& callback : Oldest(owed)) {
    record.callback_micros =
        std::min(record.callback_micros.value_or(callback.next_micros), callback.next_micros);
  }
}

// That the request is in this state from now on, to be told to every address.
void ChangeState(store::CaseRecord& record,
                 RequestFacts& facts,
                 const std::optional<RequestPersonal>& personal,
                 ErasureState state,
                 int64_t now_micros) {
  record.state = static_cast<store::CaseState>(state);
  ++facts.changes;
  const size_t urls = personal.has_value() ? personal->callback_urls.size() : 0;
  for (uint32_t url = 0; url < urls; ++url) {
    facts.owed.push_back({.sequence = facts.changes,
                          .state = state,
                          .change_micros = now_micros,
                          .url = url,
                          .attempts = 0,
                          .next_micros = now_micros});
  }
}

absl::string_view NameOf(ErasureState state) {
  switch (state) {
    case ErasureState::kPending:
      return "pending";
    case ErasureState::kInProgress:
      return "in-progress";
    case ErasureState::kCompleted:
      return "completed";
    case ErasureState::kDenied:
      return "denied";
    case ErasureState::kCancelled:
      return "cancelled";
    case ErasureState::kFailed:
      return "failed";
  }
  return "";
}

}  // namespace

absl::Status Tenant::Write(Asked& asked, bool personal) {
  SetCallbackTime(asked.record, asked.facts.owed);
  asked.record.facts = EncodeFacts(asked.facts);
  store::CaseUpdate update{.record = asked.record};
  if (personal) update.personal = EncodePersonal(*asked.personal);
  LETHE_RETURN_IF_ERROR(
      WriteCase([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return store_->UpdateCase(update); }));
  Tell(asked.record);
  return absl::OkStatus();
}

absl::Status Tenant::End(Asked& asked, ErasureState state) {
  const int64_t now = NowMicros();
  ChangeState(asked.record, asked.facts, asked.personal, state, now);
  asked.facts.end_micros = now;
  // Who asked is not needed any more; receipts and callbacks are.
  const bool kept = asked.personal.has_value() &&
                    (!asked.facts.certificates.empty() || !asked.facts.owed.empty());
  if (kept) {
    asked.personal->identities.clear();
    asked.record.wake_micros = now + absl::ToInt64Microseconds(options_.erasures.retention);
    LETHE_RETURN_IF_ERROR(Write(asked, /*personal=*/true));
  } else {
    LETHE_RETURN_IF_ERROR(WriteEndOfPersonal(asked));
  }
  ++options_.counters->erasures_ended[static_cast<size_t>(state) -
                                      static_cast<size_t>(ErasureState::kCompleted)];
  // Nobody works on it any more, and the person is still there: somebody has to ask again.
  const bool failed = state == ErasureState::kFailed;
  options_.log->Write(failed ? program::LogLevel::kWarning : program::LogLevel::kInfo,
                      "erasure_request_ended",
                      {{"tenant", record_.name},
                       {"request", asked.record.id},
                       {"state", std::string(NameOf(state))},
                       {"erased", static_cast<int64_t>(asked.facts.erased)},
                       {"held", static_cast<int64_t>(asked.facts.held)}});
  return kept ? absl::OkStatus() : EndKey(asked);
}

absl::Status Tenant::EndPersonal(Asked& asked) {
  LETHE_RETURN_IF_ERROR(WriteEndOfPersonal(asked));
  return EndKey(asked);
}

absl::Status Tenant::WriteEndOfPersonal(Asked& asked) {
  if (!asked.facts.owed.empty()) {
    options_.log->Write(program::LogLevel::kWarning, "erasure_callbacks_given_up",
                        {{"tenant", record_.name},
                         {"request", asked.record.id},
                         {"callbacks", static_cast<int64_t>(asked.facts.owed.size())}});
    asked.facts.owed.clear();
  }
  asked.record.callback_micros.reset();
  asked.record.wake_micros = NowMicros();  // until the key is destroyed
  asked.record.facts = EncodeFacts(asked.facts);
  LETHE_RETURN_IF_ERROR(WriteCase([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return store_->UpdateCase({.record = asked.record, .personal = {}, .end_personal = true});
  }));
  asked.record.personal = false;
  asked.personal.reset();
  Tell(asked.record);
  return absl::OkStatus();
}

absl::Status Tenant::EndKey(Asked& asked) {
  LETHE_RETURN_IF_ERROR(DestroyEndedKeys());
  asked.record.wake_micros.reset();
  Tell(asked.record);
  return absl::OkStatus();
}

absl::Status Tenant::DestroyEndedKeys() {
  store::KeysDestroyed destroyed;
  LETHE_RETURN_IF_ERROR(WriteCase([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    absl::StatusOr<store::KeysDestroyed> result = store_->DestroyEndedKeys();
    if (result.ok()) destroyed = *std::move(result);
    return result.status();
  }));
  // As at the end of an erasure (Shred).
  const bool copies = absl::IsDataLoss(destroyed.evidence);
  if (copies) {
    const absl::StatusOr<store::KeysRewrapped> rewrapped = store_->RotateKeys();
    if (!rewrapped.ok()) return StoreFailed(nullptr, rewrapped.status());
    LogRewrapped(*rewrapped, destroyed.evidence.message());
    LETHE_RETURN_IF_ERROR(NameEpochs().status());
  } else if (!destroyed.evidence.ok()) {
    return StoreFailed(nullptr, absl::UnavailableError(destroyed.evidence.message()));
  }
  return WriteCase([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return store_->FinishEndedKeys(); });
}

absl::StatusOr<Tenant::Matches> Tenant::MatchesOf(const std::vector<Identity>& identities,
                                                  const CallOptions& call) {
  Matches matches;
  std::set<std::string> holds;
  const auto add_holds = [&](absl::string_view subject) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (const std::string* hold = HoldOn(subject)) holds.insert(*hold);
  };
  for (const Identity& identity : identities) {
    if (identity.format == IdentityFormat::kRaw) add_holds(identity.value);
  }
  std::vector<std::string> names;
  {
    MutexLock map_lock(map_mutex_);
    for (const auto& [name, memory] : memories_) names.push_back(name);
  }
  for (const std::string& name : names) {
    if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
    LETHE_ASSIGN_OR_RETURN(const MemoryPtr memory, WritableMemory(name));
    LETHE_ASSIGN_OR_RETURN(const std::vector<std::vector<std::string>> named,
                           SubjectsOf(*memory->state, identities, call));
    std::set<std::string> subjects;  // a subject that two identities name counts once
    for (size_t i = 0; i < named.size(); ++i) {
      if (!named[i].empty()) matches.found |= 1u << i;
      subjects.insert(named[i].begin(), named[i].end());
    }
    DiscoveryItem item{.memory = name, .tokens = 0};
    for (const std::string& subject : subjects) {
      const uint64_t tokens = memory->state->CountOf(subject);
      item.tokens += tokens;
      if (HoldOn(subject) != nullptr) matches.held += tokens;
      add_holds(subject);
    }
    if (item.tokens == 0) continue;
    matches.tokens += item.tokens;
    matches.memories.push_back(std::move(item));
  }
  matches.hold_ids.assign(holds.begin(), holds.end());
  return matches;
}

absl::StatusOr<Tenant::Step> Tenant::DenyIfHeld(Asked& asked, const CallOptions& call) {
  const std::vector<Identity>& identities = asked.personal->identities;
  // A hash may be of a held subject, which only a look at all of them tells.
  const bool possible =
      !holds_.empty() &&
      std::ranges::any_of(identities, [&](const Identity& identity) ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return identity.format != IdentityFormat::kRaw || HoldOn(identity.value) != nullptr;
      });
  if (!possible) return Step::kGoOn;
  LETHE_ASSIGN_OR_RETURN(const Matches matches, MatchesOf(identities, call));
  if (matches.hold_ids.empty()) return Step::kGoOn;
  // What was erased before the hold came stays so, and is proven as far as it can be now.
  NoteDestruction(asked).IgnoreError();
  LETHE_RETURN_IF_ERROR(EnsureStore());
  asked.facts.hold_id = matches.hold_ids.front();
  asked.facts.held = matches.tokens;
  asked.facts.found |= matches.found;
  LETHE_RETURN_IF_ERROR(End(asked, ErasureState::kDenied));
  return Step::kDone;
}

absl::StatusOr<Tenant::Step> Tenant::BeginErasure(uint64_t number,
                                                  Walk& walk,
                                                  const CallOptions& call) {
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  absl::StatusOr<store::CaseRecord> record = store_->GetCaseByNumber(number);
  if (absl::IsNotFound(record.status())) {
    Tell({.number = number});
    return Step::kDone;
  }
  if (!record.ok()) return StoreFailed(nullptr, record.status());
  const int64_t now = NowMicros();
  if (record->wake_micros.value_or(now + 1) > now) {
    Tell(*record);  // it was changed meanwhile
    return Step::kDone;
  }
  if (!record->personal && store::HasEnded(record->state)) {
    LETHE_RETURN_IF_ERROR(DestroyEndedKeys());
    record->wake_micros.reset();
    Tell(*record);
    return Step::kDone;
  }
  LETHE_ASSIGN_OR_RETURN(Asked asked, Read(*std::move(record)));
  if (IsFinal(static_cast<ErasureState>(asked.record.state))) {
    LETHE_RETURN_IF_ERROR(EndPersonal(asked));
    return Step::kDone;
  }
  if (!asked.personal.has_value()) {
    return StoreFailed(nullptr, absl::DataLossError("an open erasure request names nobody"));
  }
  LETHE_ASSIGN_OR_RETURN(const Step step, DenyIfHeld(asked, call));
  if (step == Step::kDone) return step;
  walk.holds = holds_version_;
  if (asked.record.state == store::CaseState::kPending) {
    asked.facts.begin_micros = now;
    ChangeState(asked.record, asked.facts, asked.personal, ErasureState::kInProgress, now);
    LETHE_RETURN_IF_ERROR(Write(asked, /*personal=*/false));
    options_.log->Write(program::LogLevel::kInfo, "erasure_request_begun",
                        {{"tenant", record_.name}, {"request", asked.record.id}});
  }
  return Step::kGoOn;
}

absl::Status Tenant::EraseSubject(Asked& asked,
                                  const Memory& memory,
                                  uint32_t identity,
                                  const std::string& subject,
                                  const CallOptions& call) {
  uint32_t round = 0;  // of this identity in this memory
  for (const RequestCertificate& made : asked.facts.certificates) {
    if (made.memory_uid != memory.uid || made.identity != identity) continue;
    round = std::max(round, made.round + 1);
  }
  Asked after;
  const ForRequest for_request{
      .seed = SeedOf(asked.personal->secret, memory.uid, identity, round),
      .update = [&](uint64_t erased, const store::CertificateRecord& certificate) {
        after = asked;
        after.facts.erased += erased;
        after.facts.attempts = 0;
        after.facts.certificates.push_back(
            {.certificate = {.id = certificate.id,
                             .memory = memory.name,
                             .sha256 = audit::Hex(audit::Sha256(certificate.envelope)),
                             .shredded_id = {}},
             .memory_uid = memory.uid,
             .identity = identity,
             .round = round});
        after.record.facts = EncodeFacts(after.facts);
        return store::CaseUpdate{.record = after.record};
      }};
  LETHE_ASSIGN_OR_RETURN(const ForgetReply reply,
                         ForgetHere({.tenant = record_.name,
                                     .memory = memory.name,
                                     .target = ForgetSubject{subject},
                                     .request_id = for_request.seed.request_id},
                                    &for_request, call));
  if (reply.certificate_id.empty() || reply.replayed) {
    return absl::InternalError("an erasure for a request took nothing");
  }
  asked = std::move(after);
  if (reply.destruction.has_value()) {
    asked.facts.certificates.back().certificate.shredded_id = reply.destruction->certificate_id;
    asked.facts.stores = reply.destruction->stores;
  }
  return absl::OkStatus();
}

absl::StatusOr<Tenant::Step> Tenant::EraseInMemory(Asked& asked,
                                                   const std::string& name,
                                                   Walk& walk,
                                                   const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(MemoryPtr memory, WritableMemory(name));
  LETHE_ASSIGN_OR_RETURN(const std::vector<std::vector<std::string>> named,
                         SubjectsOf(*memory->state, asked.personal->identities, call));
  uint32_t found = 0;
  for (size_t i = 0; i < named.size(); ++i) {
    if (!named[i].empty()) found |= 1u << i;
  }
  if (found == 0) return Step::kGoOn;
  asked.facts.found |= found;
  for (uint32_t i = 0; i < named.size(); ++i) {
    for (const std::string& subject : named[i]) {
      if (memory->state->CountOf(subject) == 0) continue;  // another identity named it too
      if (HoldOn(subject) != nullptr) return DenyIfHeld(asked, call);
      const absl::Status status = EraseSubject(asked, *memory, i, subject, call);
      if (status.ok()) continue;
      if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
      walk.failed.Update(status);
      // It may have been committed all the same.
      LETHE_RETURN_IF_ERROR(EnsureStore());
      absl::StatusOr<store::CaseRecord> record = store_->GetCase(asked.record.id);
      if (!record.ok()) return StoreFailed(nullptr, record.status());
      LETHE_ASSIGN_OR_RETURN(asked, Read(*std::move(record)));
      asked.facts.found |= found;
      LETHE_ASSIGN_OR_RETURN(memory, WritableMemory(name));
    }
  }
  if (walk.failed.ok()) asked.facts.cursor = name;
  LETHE_RETURN_IF_ERROR(Write(asked, /*personal=*/false));
  return Step::kGoOn;
}

absl::StatusOr<Tenant::Step> Tenant::EraseInNext(uint64_t number,
                                                 Walk& walk,
                                                 const CallOptions& call) {
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  absl::StatusOr<store::CaseRecord> record = store_->GetCaseByNumber(number);
  if (!record.ok()) return StoreFailed(nullptr, record.status());
  LETHE_ASSIGN_OR_RETURN(Asked asked, Read(*std::move(record)));
  if (asked.record.state != store::CaseState::kInProgress) return Step::kDone;
  if (walk.holds != holds_version_) {
    // One may have been placed since, on a subject that is erased from another memory only.
    LETHE_ASSIGN_OR_RETURN(const Step step, DenyIfHeld(asked, call));
    if (step == Step::kDone) return step;
    walk.holds = holds_version_;
  }
  walk.cursor = std::max(walk.cursor, asked.facts.cursor);
  {
    MutexLock map_lock(map_mutex_);
    const auto next = memories_.upper_bound(walk.cursor);
    if (next == memories_.end()) return Step::kDone;
    walk.cursor = next->first;
  }
  const absl::StatusOr<Step> step = EraseInMemory(asked, walk.cursor, walk, call);
  if (step.ok()) return step;
  if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
  walk.failed.Update(step.status());
  return Step::kGoOn;
}

absl::Status Tenant::NoteDestruction(Asked& asked) {
  for (RequestCertificate& made : asked.facts.certificates) {
    if (!made.certificate.shredded_id.empty()) continue;
    LETHE_RETURN_IF_ERROR(FinishErasures());
    LETHE_ASSIGN_OR_RETURN(Destruction destruction, DestructionOf(made.certificate.id));
    made.certificate.shredded_id = std::move(destruction.certificate_id);
    asked.facts.stores = std::move(destruction.stores);
  }
  return absl::OkStatus();
}

absl::Status Tenant::CompleteErasure(uint64_t number) {
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  absl::StatusOr<store::CaseRecord> record = store_->GetCaseByNumber(number);
  if (!record.ok()) return StoreFailed(nullptr, record.status());
  if (record->state != store::CaseState::kInProgress) return absl::OkStatus();
  LETHE_ASSIGN_OR_RETURN(Asked asked, Read(*std::move(record)));
  LETHE_RETURN_IF_ERROR(NoteDestruction(asked));
  return End(asked, ErasureState::kCompleted);
}

absl::StatusOr<Tenant::Asked> Tenant::ReadWhatIsLeft(store::CaseRecord record) {
  absl::StatusOr<Asked> asked = Read(record);
  if (!absl::IsDataLoss(asked.status())) return asked;
  absl::StatusOr<RequestFacts> facts = DecodeRequestFacts(record.facts);
  Asked left{.record = std::move(record), .facts = {}, .personal = std::nullopt};
  if (facts.ok()) {
    left.facts = *std::move(facts);  // the personal part alone cannot be opened
  } else {
    left.facts.failure = "data_loss";
  }
  return left;
}

absl::Status Tenant::NoteFailure(uint64_t number, const absl::Status& failure) {
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  absl::StatusOr<store::CaseRecord> record = store_->GetCaseByNumber(number);
  if (!record.ok()) return StoreFailed(nullptr, record.status());
  if (record->kind == store::CaseKind::kHold) return failure;  // its key is tried again later
  LETHE_ASSIGN_OR_RETURN(Asked asked, ReadWhatIsLeft(*std::move(record)));
  // What failed may have been written down all the same: then nothing is due now.
  const int64_t now = NowMicros();
  if (asked.record.wake_micros.value_or(now + 1) > now) {
    Tell(asked.record);
    return absl::OkStatus();
  }
  ++asked.facts.attempts;
  options_.log->Write(program::LogLevel::kWarning, "erasure_request_failed",
                      {{"tenant", record_.name},
                       {"request", asked.record.id},
                       {"attempts", static_cast<int64_t>(asked.facts.attempts)},
                       {"code", static_cast<int64_t>(failure.code())}});
  const bool ended = IsFinal(static_cast<ErasureState>(asked.record.state));
  // What was kept of it beyond its end cannot be opened, and its time is over.
  if (ended && !asked.personal.has_value()) return EndPersonal(asked);
  const bool spent = asked.facts.attempts >= static_cast<uint32_t>(options_.erasures.attempts);
  if (!ended && (spent || !asked.facts.failure.empty())) {
    asked.facts.failure = absl::AsciiStrToLower(absl::StatusCodeToString(failure.code()));
    NoteDestruction(asked).IgnoreError();
    LETHE_RETURN_IF_ERROR(EnsureStore());
    return End(asked, ErasureState::kFailed);
  }
  asked.record.wake_micros = now + absl::ToInt64Microseconds(Backoff(
                                       options_.erasures.first_retry,
                                       options_.erasures.longest_retry, asked.facts.attempts));
  return Write(asked, /*personal=*/false);
}

absl::Status Tenant::WorkOnErasure(uint64_t number, const CallOptions& call) {
  const auto wanted = [&call] {
    return call.still_wanted ? call.still_wanted() : absl::OkStatus();
  };
  const auto work = [&]() -> absl::Status {
    Walk walk;
    LETHE_ASSIGN_OR_RETURN(Step step, BeginErasure(number, walk, call));
    if (step == Step::kDone) return absl::OkStatus();
    while (step == Step::kGoOn) {
      LETHE_RETURN_IF_ERROR(wanted());
      LETHE_ASSIGN_OR_RETURN(step, EraseInNext(number, walk, call));
    }
    LETHE_RETURN_IF_ERROR(walk.failed);
    return CompleteErasure(number);
  };
  const absl::Status status = work();
  if (status.ok() || gone()) return absl::OkStatus();
  // Stopped, and not failed: it goes on where it is.
  LETHE_RETURN_IF_ERROR(wanted());
  return NoteFailure(number, status);
}

absl::StatusOr<std::vector<CallbackDelivery>> Tenant::DueCallbacks(uint64_t number) {
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  std::vector<CallbackDelivery> due;
  absl::StatusOr<store::CaseRecord> record = store_->GetCaseByNumber(number);
  if (absl::IsNotFound(record.status())) return due;
  if (!record.ok()) return StoreFailed(nullptr, record.status());
  if (!record->personal) return due;
  LETHE_ASSIGN_OR_RETURN(const Asked asked, Read(*std::move(record)));
  const int64_t now = NowMicros();
  for (const OwedCallback& owed : Oldest(asked.facts.owed)) {
    if (owed.next_micros > now || owed.url >= asked.personal->callback_urls.size()) continue;
    const std::vector<std::string>& authorizations = asked.personal->callback_authorizations;
    due.push_back({.url = asked.personal->callback_urls[owed.url],
                   .authorization =
                       owed.url < authorizations.size() ? authorizations[owed.url] : std::string(),
                   .url_index = owed.url,
                   .sequence = owed.sequence,
                   .attempts = owed.attempts,
                   .state = owed.state,
                   .change_time = FormatMicros(owed.change_micros),
                   .request = InfoOf(asked),
                   .number = number});
  }
  return due;
}

absl::Status Tenant::SettleCallback(absl::string_view id,
                                    uint32_t sequence,
                                    uint32_t url_index,
                                    CallbackOutcome outcome) {
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  LETHE_ASSIGN_OR_RETURN(Asked asked, ReadAsked(id));
  RequestFacts& facts = asked.facts;
  const auto owed = std::ranges::find_if(facts.owed, [&](const OwedCallback& callback) {
    return callback.sequence == sequence && callback.url == url_index;
  });
  if (owed == facts.owed.end() || !asked.personal.has_value()) return absl::OkStatus();
  if (outcome == CallbackOutcome::kFailed) {
    ++owed->attempts;
    owed->next_micros =
        NowMicros() + absl::ToInt64Microseconds(
                          Backoff(kFirstCallbackRetry, kLongestCallbackRetry, owed->attempts));
  } else {
    facts.owed.erase(owed);
  }
  const bool settled = IsFinal(static_cast<ErasureState>(asked.record.state)) &&
                       facts.owed.empty() && (facts.certificates.empty() || facts.receipts_taken);
  return settled ? EndPersonal(asked) : Write(asked, /*personal=*/false);
}

}  // namespace lethe::service
