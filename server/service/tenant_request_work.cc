// Tenant: what the server does about an erasure request.
//
// A request goes through its memories in the order of their names, and forgets each of its
// identities in each of them once, by the ordinary Forget. The Forget's request id follows from the
// secret of the request (SeedOf), so that one which a crash cut off is found again with its answer,
// and is not done twice. Between memories the writer's lock is given up. What stands in the store
// is true at every moment; the steps below read it anew each time.
#include <algorithm>
#include <set>
#include <utility>

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

// Subjects of one memory that one identity names: one, unless somebody made a collision of hashes.
constexpr uint32_t kMaxRounds = 64;
constexpr absl::Duration kFirstCallbackRetry = absl::Minutes(1);
constexpr absl::Duration kLongestCallbackRetry = absl::Hours(6);

absl::Duration Backoff(absl::Duration first, absl::Duration longest, uint32_t attempts) {
  absl::Duration pause = first;
  for (uint32_t i = 1; i < attempts && pause < longest; ++i) pause *= 2;
  return std::min(pause, longest);
}

// A subject of which there are tokens and which the identity names; the least of them.
std::optional<std::string> Match(const MemoryState& state, const Identity& identity) {
  std::optional<std::string> match;
  if (identity.format == IdentityFormat::kRaw) {
    if (state.CountOf(identity.value) > 0) match = identity.value;
    return match;
  }
  state.VisitSubjects([&](absl::string_view subject, uint64_t) {
    if (Names(identity, subject) && (!match.has_value() || subject < *match)) {
      match = std::string(subject);
    }
    return true;
  });
  return match;
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
  LETHE_RETURN_IF_ERROR(WriteCase([&] { return store_->UpdateCase(update); }));
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
  absl::Status status;
  if (kept) {
    asked.personal->identities.clear();
    asked.record.wake_micros = now + absl::ToInt64Microseconds(options_.erasures.retention);
    status = Write(asked, /*personal=*/true);
  } else {
    status = EndPersonal(asked);
  }
  // Its key may be left to the worker; the end is written down then all the same.
  if (!status.ok() && asked.record.personal) return status;
  options_.log->Write(LogLevel::kInfo, "erasure_request_ended",
                      {{"tenant", record_.name},
                       {"request", asked.record.id},
                       {"state", std::string(NameOf(state))},
                       {"erased", static_cast<int64_t>(asked.facts.erased)},
                       {"held", static_cast<int64_t>(asked.facts.held)}});
  return status;
}

absl::Status Tenant::EndPersonal(Asked& asked) {
  if (!asked.facts.owed.empty()) {
    options_.log->Write(LogLevel::kWarning, "erasure_callbacks_given_up",
                        {{"tenant", record_.name},
                         {"request", asked.record.id},
                         {"callbacks", static_cast<int64_t>(asked.facts.owed.size())}});
    asked.facts.owed.clear();
  }
  asked.record.callback_micros.reset();
  asked.record.wake_micros = NowMicros();  // until the key is destroyed
  asked.record.facts = EncodeFacts(asked.facts);
  LETHE_RETURN_IF_ERROR(WriteCase([&] {
    return store_->UpdateCase({.record = asked.record, .personal = {}, .end_personal = true});
  }));
  asked.record.personal = false;
  asked.personal.reset();
  Tell(asked.record);
  LETHE_RETURN_IF_ERROR(DestroyCaseKeys());
  asked.record.wake_micros.reset();
  Tell(asked.record);
  return absl::OkStatus();
}

absl::Status Tenant::DestroyCaseKeys() {
  LETHE_ASSIGN_OR_RETURN(const store::KeysDestroyed destroyed,
                         [&]() -> absl::StatusOr<store::KeysDestroyed> {
                           absl::StatusOr<store::KeysDestroyed> result;
                           LETHE_RETURN_IF_ERROR(WriteCase([&] {
                             result = store_->DestroyCaseKeys();
                             return result.status();
                           }));
                           return result;
                         }());
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
  return WriteCase([&] { return store_->FinishCaseKeys(); });
}

absl::StatusOr<Tenant::Matches> Tenant::MatchesOf(const std::vector<Identity>& identities,
                                                  const CallOptions& call) {
  Matches matches;
  std::set<std::string> holds;
  const auto add_holds = [&](absl::string_view subject) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (const std::string* hold = HoldOn(subject)) holds.insert(*hold);
  };
  bool hashed = false;
  for (const Identity& identity : identities) {
    hashed = hashed || identity.format != IdentityFormat::kRaw;
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
    std::set<std::string> subjects;  // a subject that two identities name counts once
    for (size_t i = 0; i < identities.size(); ++i) {
      if (identities[i].format == IdentityFormat::kRaw &&
          memory->state->CountOf(identities[i].value) > 0) {
        matches.found |= 1u << i;
        subjects.insert(identities[i].value);
      }
    }
    if (hashed) {
      memory->state->VisitSubjects([&](absl::string_view subject, uint64_t) {
        for (size_t i = 0; i < identities.size(); ++i) {
          if (identities[i].format == IdentityFormat::kRaw || !Names(identities[i], subject)) {
            continue;
          }
          matches.found |= 1u << i;
          subjects.insert(std::string(subject));
        }
        return true;
      });
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

absl::Status Tenant::Deny(Asked& asked, const Matches& matches) {
  asked.facts.hold_id = matches.hold_ids.front();
  asked.facts.held = matches.tokens;
  asked.facts.found |= matches.found;
  return End(asked, ErasureState::kDenied);
}

absl::StatusOr<Tenant::Step> Tenant::BeginErasure(uint64_t number, const CallOptions& call) {
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  absl::StatusOr<store::CaseRecord> record = store_->GetCaseByNumber(number);
  if (absl::IsNotFound(record.status())) {
    Tell({.number = number});
    return Step::kDone;
  }
  if (!record.ok()) return StoreFailed(nullptr, record.status());
  LETHE_ASSIGN_OR_RETURN(Asked asked, Read(*std::move(record)));
  const int64_t now = NowMicros();
  if (asked.record.wake_micros.value_or(now + 1) > now) {
    Tell(asked.record);  // it was changed meanwhile
    return Step::kDone;
  }
  if (IsFinal(static_cast<ErasureState>(asked.record.state))) {
    if (asked.record.personal) {
      LETHE_RETURN_IF_ERROR(EndPersonal(asked));
      return Step::kDone;
    }
    LETHE_RETURN_IF_ERROR(DestroyCaseKeys());
    asked.record.wake_micros.reset();
    Tell(asked.record);
    return Step::kDone;
  }
  if (!asked.personal.has_value()) {
    return StoreFailed(nullptr, absl::DataLossError("an open erasure request names nobody"));
  }
  if (!holds_.empty()) {
    LETHE_ASSIGN_OR_RETURN(const Matches matches, MatchesOf(asked.personal->identities, call));
    if (!matches.hold_ids.empty()) {
      LETHE_RETURN_IF_ERROR(Deny(asked, matches));
      return Step::kDone;
    }
  }
  if (asked.record.state == store::CaseState::kPending) {
    asked.facts.begin_micros = now;
    ChangeState(asked.record, asked.facts, asked.personal, ErasureState::kInProgress, now);
    LETHE_RETURN_IF_ERROR(Write(asked, /*personal=*/false));
    options_.log->Write(LogLevel::kInfo, "erasure_request_begun",
                        {{"tenant", record_.name}, {"request", asked.record.id}});
  }
  return Step::kGoOn;
}

absl::Status Tenant::AddForgotten(Asked& asked,
                                  const std::string& memory,
                                  const std::string& memory_uid,
                                  uint32_t identity,
                                  uint32_t round,
                                  const ForgetReply& reply) {
  asked.facts.found |= 1u << identity;
  asked.facts.erased += reply.erased;
  if (reply.certificate_id.empty()) return absl::OkStatus();
  const absl::StatusOr<store::CertificateRecord> stored =
      store_->GetCertificate(reply.certificate_id);
  if (!stored.ok()) return StoreFailed(nullptr, stored.status());
  RequestCertificate made{.certificate = {.id = reply.certificate_id,
                                          .memory = memory,
                                          .sha256 = audit::Hex(audit::Sha256(stored->envelope)),
                                          .shredded_id = {}},
                          .memory_uid = memory_uid,
                          .identity = identity,
                          .round = round};
  if (reply.destruction.has_value()) {
    made.certificate.shredded_id = reply.destruction->certificate_id;
    asked.facts.stores = reply.destruction->stores;
  }
  asked.facts.certificates.push_back(std::move(made));
  return absl::OkStatus();
}

absl::StatusOr<Tenant::Step> Tenant::EraseIdentity(Asked& asked,
                                                   const std::string& memory_name,
                                                   uint32_t identity,
                                                   const CallOptions& call,
                                                   bool& changed) {
  LETHE_ASSIGN_OR_RETURN(const MemoryPtr memory, WritableMemory(memory_name));
  for (uint32_t round = 0; round < kMaxRounds; ++round) {
    const bool known =
        std::ranges::any_of(asked.facts.certificates, [&](const RequestCertificate& made) {
          return made.memory_uid == memory->uid && made.identity == identity && made.round == round;
        });
    if (known) continue;
    const ForgetSeed seed = SeedOf(asked.personal->secret, memory->uid, identity, round);
    const absl::StatusOr<std::optional<store::RequestRecord>> earlier =
        store_->FindRequest(RequestKey(seed.request_id));
    if (!earlier.ok()) return StoreFailed(nullptr, earlier.status());
    ForgetReply reply;
    if (earlier->has_value()) {
      // A crash came between that and what is written down here.
      LETHE_RETURN_IF_ERROR(FinishErasures());
      absl::StatusOr<StoredAnswer> answer = DecodeAnswer((*earlier)->answer);
      if (!answer.ok()) return StoreFailed(nullptr, answer.status());
      reply = std::get<ForgetReply>(answer->reply);
      if (!reply.certificate_id.empty()) {
        LETHE_ASSIGN_OR_RETURN(reply.destruction, DestructionOf(reply.certificate_id));
      }
    } else {
      const std::optional<std::string> subject =
          Match(*memory->state, asked.personal->identities[identity]);
      if (!subject.has_value()) break;
      if (HoldOn(*subject) != nullptr) {
        LETHE_ASSIGN_OR_RETURN(const Matches matches, MatchesOf(asked.personal->identities, call));
        LETHE_RETURN_IF_ERROR(Deny(asked, matches));
        return Step::kDone;
      }
      LETHE_ASSIGN_OR_RETURN(reply, ForgetHere({.tenant = record_.name,
                                                .memory = memory_name,
                                                .target = ForgetSubject{*subject},
                                                .request_id = seed.request_id},
                                               seed, call));
    }
    LETHE_RETURN_IF_ERROR(AddForgotten(asked, memory_name, memory->uid, identity, round, reply));
    changed = true;
  }
  return Step::kGoOn;
}

absl::StatusOr<Tenant::Step> Tenant::EraseInNext(uint64_t number,
                                                 std::string& cursor,
                                                 const CallOptions& call) {
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  absl::StatusOr<store::CaseRecord> record = store_->GetCaseByNumber(number);
  if (!record.ok()) return StoreFailed(nullptr, record.status());
  LETHE_ASSIGN_OR_RETURN(Asked asked, Read(*std::move(record)));
  if (asked.record.state != store::CaseState::kInProgress) return Step::kDone;
  cursor = std::max(cursor, asked.facts.cursor);
  std::string name;
  {
    MutexLock map_lock(map_mutex_);
    const auto next = memories_.upper_bound(cursor);
    if (next == memories_.end()) return Step::kDone;
    name = next->first;
  }
  bool changed = false;
  for (uint32_t i = 0; i < asked.personal->identities.size(); ++i) {
    LETHE_ASSIGN_OR_RETURN(const Step step, EraseIdentity(asked, name, i, call, changed));
    if (step == Step::kDone) return step;
  }
  cursor = name;
  if (!changed) return Step::kGoOn;
  asked.facts.cursor = name;
  asked.facts.attempts = 0;
  LETHE_RETURN_IF_ERROR(Write(asked, /*personal=*/false));
  return Step::kGoOn;
}

absl::Status Tenant::CompleteErasure(uint64_t number) {
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  absl::StatusOr<store::CaseRecord> record = store_->GetCaseByNumber(number);
  if (!record.ok()) return StoreFailed(nullptr, record.status());
  if (record->state != store::CaseState::kInProgress) return absl::OkStatus();
  LETHE_ASSIGN_OR_RETURN(Asked asked, Read(*std::move(record)));
  return End(asked, ErasureState::kCompleted);
}

absl::Status Tenant::NoteFailure(uint64_t number, const absl::Status& failure) {
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  absl::StatusOr<store::CaseRecord> record = store_->GetCaseByNumber(number);
  if (!record.ok()) return StoreFailed(nullptr, record.status());
  LETHE_ASSIGN_OR_RETURN(Asked asked, Read(*std::move(record)));
  // What failed may have been written down all the same: then nothing is due now.
  const int64_t now = NowMicros();
  if (asked.record.wake_micros.value_or(now + 1) > now) {
    Tell(asked.record);
    return absl::OkStatus();
  }
  ++asked.facts.attempts;
  options_.log->Write(LogLevel::kWarning, "erasure_request_failed",
                      {{"tenant", record_.name},
                       {"request", asked.record.id},
                       {"attempts", static_cast<int64_t>(asked.facts.attempts)},
                       {"code", static_cast<int64_t>(failure.code())}});
  const bool ended = IsFinal(static_cast<ErasureState>(asked.record.state));
  if (!ended && asked.facts.attempts >= static_cast<uint32_t>(options_.erasures.attempts)) {
    asked.facts.failure = absl::AsciiStrToLower(absl::StatusCodeToString(failure.code()));
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
    LETHE_ASSIGN_OR_RETURN(Step step, BeginErasure(number, call));
    if (step == Step::kDone) return absl::OkStatus();
    std::string cursor;
    while (step == Step::kGoOn) {
      LETHE_RETURN_IF_ERROR(wanted());
      LETHE_ASSIGN_OR_RETURN(step, EraseInNext(number, cursor, call));
    }
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
    due.push_back({.url = asked.personal->callback_urls[owed.url],
                   .url_index = owed.url,
                   .sequence = owed.sequence,
                   .attempts = owed.attempts,
                   .state = owed.state,
                   .change_time = FormatMicros(owed.change_micros),
                   .request = InfoOf(asked)});
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
