// Tenant: erasing, with its certificate.
#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "audit/commitments.h"
#include "audit/encoding.h"
#include "audit/random.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "server/service/certificates.h"
#include "server/service/names.h"
#include "server/service/records.h"
#include "server/service/tenant.h"
#include "server/service/validate.h"

namespace lethe::service {
namespace {

absl::Status CheckForget(const ForgetInput& input) {
  LETHE_RETURN_IF_ERROR(CheckRequestId("request_id", input.request_id));
  if (std::holds_alternative<std::monostate>(input.target)) {
    return FieldError("target", "set tokens, subject or everything");
  }
  if (const auto* target = std::get_if<ForgetIds>(&input.target)) {
    LETHE_RETURN_IF_ERROR(CheckBatchSize("tokens.ids", target->ids.size()));
    for (size_t i = 0; i < target->ids.size(); ++i) {
      LETHE_RETURN_IF_ERROR(CheckTokenId(Indexed("tokens.ids", i), target->ids[i]));
    }
  }
  if (const auto* target = std::get_if<ForgetSubject>(&input.target)) {
    if (target->subject.empty()) return FieldError("subject", "is empty");
    LETHE_RETURN_IF_ERROR(CheckSubject("subject", target->subject));
  }
  return absl::OkStatus();
}

std::vector<std::string> SortedDistinct(std::vector<std::string> ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

void AppendText(std::string& out, absl::string_view text) {
  audit::AppendU32(out, static_cast<uint32_t>(text.size()));
  out.append(text.data(), text.size());
}

// What the store knows a request by. The request id itself is not kept, since it is the key of the
// fingerprint.
std::string RequestKey(absl::string_view request_id) {
  constexpr absl::string_view kDomain("lethe/request-id/v1\0", 20);
  return audit::Hex(audit::Sha256(absl::StrCat(kDomain, request_id)));
}

// Tells a retry from another request that reuses its id. Ids count as a set. Keyed with the request
// id: whoever does not know it cannot test a guess of the ids or the subject.
audit::Digest Fingerprint(const ForgetInput& input, absl::string_view memory_uid) {
  std::string content;
  AppendText(content, input.memory);
  AppendText(content, memory_uid);
  if (const auto* ids = std::get_if<ForgetIds>(&input.target)) {
    content.push_back('i');
    for (const std::string& id : SortedDistinct(ids->ids)) AppendText(content, id);
  } else if (const auto* subject = std::get_if<ForgetSubject>(&input.target)) {
    content.push_back('s');
    AppendText(content, subject->subject);
  } else {
    content.push_back('e');
  }
  return audit::HmacSha256(input.request_id, content);
}

std::string Bytes(const audit::Salt& salt) {
  return {reinterpret_cast<const char*>(salt.data()), salt.size()};
}

store::RequestRecord MakeRequest(const ForgetInput& input,
                                 const std::string& memory_uid,
                                 const ForgetReply& reply,
                                 int64_t now_micros) {
  return {.request_id = RequestKey(input.request_id),
          .fingerprint = Fingerprint(input, memory_uid),
          .answer = EncodeAnswer({.memory_uid = memory_uid, .reply = reply}),
          .create_time_micros = now_micros};
}

}  // namespace

absl::StatusOr<std::optional<ForgetReply>> Tenant::Replay(const ForgetInput& input) {
  if (input.request_id.empty()) return std::optional<ForgetReply>();
  const absl::StatusOr<std::optional<store::RequestRecord>> found =
      store_->FindRequest(RequestKey(input.request_id));
  if (!found.ok()) return StoreFailed(nullptr, found.status());
  const std::optional<store::RequestRecord>& earlier = *found;
  if (!earlier.has_value()) return std::optional<ForgetReply>();
  LETHE_ASSIGN_OR_RETURN(StoredAnswer answer, DecodeAnswer(earlier->answer));
  // The answer speaks of one memory. Where another one bears the name now, repeating the answer
  // would claim an erasure that never touched it.
  const MemoryPtr memory = FindMemory(input.memory);
  if ((memory != nullptr && memory->uid != answer.memory_uid) ||
      Fingerprint(input, answer.memory_uid) != earlier->fingerprint) {
    return absl::AlreadyExistsError("request_id: was used for another request");
  }
  // The first answer may have been UNAVAILABLE because the log could not be emptied.
  LETHE_RETURN_IF_ERROR(CleanLog());
  answer.reply.request_id = input.request_id;
  answer.reply.replayed = true;
  return std::optional<ForgetReply>(std::move(answer.reply));
}

absl::StatusOr<Tenant::Resolved> Tenant::Resolve(const Memory& memory, const ForgetInput& input) {
  Resolved resolved;
  if (std::holds_alternative<ForgetEverything>(input.target)) {
    const std::span<const svdd::TokenHandle> all = memory.state->handles();
    resolved.handles.assign(all.begin(), all.end());
    return resolved;
  }
  if (const auto* subject = std::get_if<ForgetSubject>(&input.target)) {
    absl::StatusOr<std::vector<uint64_t>> of_subject =
        store_->FindBySubject(memory.uid, subject->subject);
    if (!of_subject.ok()) return StoreFailed(nullptr, of_subject.status());
    resolved.handles = *std::move(of_subject);
    return resolved;
  }
  const std::vector<std::string> ids = SortedDistinct(std::get<ForgetIds>(input.target).ids);
  const absl::StatusOr<std::vector<store::IdLookup>> found = store_->FindByIds(memory.uid, ids);
  if (!found.ok()) return StoreFailed(nullptr, found.status());
  for (const store::IdLookup& lookup : *found) {
    switch (lookup.state) {
      case store::IdState::kLive:
        resolved.handles.push_back(lookup.handle);
        break;
      case store::IdState::kErased:
        ++resolved.already_erased;
        break;
      case store::IdState::kUnknown:
        ++resolved.not_found;
        break;
    }
  }
  std::sort(resolved.handles.begin(), resolved.handles.end());
  return resolved;
}

absl::StatusOr<ForgetReply> Tenant::Forget(const ForgetInput& input, const CallOptions& call) {
  LETHE_RETURN_IF_ERROR(CheckForget(input));
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  if (!input.dry_run) {
    // Before the memory is looked for: a retry must get its answer also after the memory has gone.
    LETHE_ASSIGN_OR_RETURN(std::optional<ForgetReply> replayed, Replay(input));
    if (replayed.has_value()) return *std::move(replayed);
  }
  LETHE_ASSIGN_OR_RETURN(const MemoryPtr memory, WritableMemory(input.memory));
  LETHE_ASSIGN_OR_RETURN(const Resolved resolved, Resolve(*memory, input));
  if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());

  const std::shared_ptr<const Published> current = memory->published.Get();
  ForgetReply reply;
  reply.matched = resolved.handles.size();
  reply.erased = resolved.handles.size();
  reply.not_found = resolved.not_found;
  reply.already_erased = resolved.already_erased;
  reply.request_id = input.request_id.empty() ? audit::RandomUid() : input.request_id;
  reply.partition_before = current->snapshot->counts;
  reply.partition_after = reply.partition_before;
  reply.verdict = Verdict::kProven;

  // Whatever ends this call before the store has committed, an exception included, must not leave a
  // state behind that differs from the stored rows.
  absl::Cleanup drop_state = [&memory] { memory->state.reset(); };
  if (input.dry_run && !resolved.handles.empty()) {
    LETHE_ASSIGN_OR_RETURN(MemoryState::Foreseen foreseen,
                           memory->state->Foresee(resolved.handles));
    std::move(drop_state).Cancel();
    reply.partition_after = foreseen.partition;
    reply.state_digest = std::move(foreseen.state_digest);
    return reply;
  }
  if (resolved.handles.empty()) {
    std::move(drop_state).Cancel();
    reply.state_digest = StateDigestHex(*current);
    if (input.dry_run) return reply;
    // "Already erased" is not said while the log may hold what was erased.
    LETHE_RETURN_IF_ERROR(CleanLog());
    if (!input.request_id.empty()) {
      const absl::Status status =
          store_->RecordRequest(MakeRequest(input, memory->uid, reply, NowMicros()));
      if (!status.ok()) return StoreFailed(nullptr, status);
    }
    return reply;
  }

  Erasure erasure{.handles = resolved.handles,
                  .counts = {.matched = reply.matched,
                             .erased = reply.erased,
                             .not_found = reply.not_found,
                             .already_erased = reply.already_erased,
                             .held = reply.held},
                  .request_id = reply.request_id,
                  .subject = std::nullopt};
  if (const auto* subject = std::get_if<ForgetSubject>(&input.target)) {
    erasure.subject = subject->subject;
  }
  LETHE_ASSIGN_OR_RETURN(PreparedErasure prepared, Prepare(*memory, erasure));
  reply.partition_after = prepared.after->snapshot->counts;
  reply.verdict = prepared.verdict;
  reply.certificate_id = prepared.certificate.record.id;
  reply.state_digest = StateDigestHex(*prepared.after);

  store::EraseRequest request;
  request.memory_uid = memory->uid;
  request.handles = resolved.handles;
  request.certificate = std::move(prepared.certificate);
  if (!input.request_id.empty()) {
    request.request = MakeRequest(input, memory->uid, reply, NowMicros());
  }
  absl::StatusOr<store::EraseResult> result = store_->EraseTokens(request);
  if (!result.ok()) return StoreFailed(memory.get(), result.status());
  certificate_count_.fetch_add(1);
  memory->published.Set(prepared.after);
  std::move(drop_state).Cancel();
  LETHE_RETURN_IF_ERROR(FinishErase(*result));
  // After the answer was stored for replays: the receipt is given once.
  reply.receipt = std::move(prepared.receipt);
  options_.log->Write(LogLevel::kInfo, "forgotten",
                      {{"tenant", record_.name},
                       {"memory", memory->name},
                       {"erased", static_cast<int64_t>(reply.erased)},
                       {"certificate", reply.certificate_id}});
  return reply;
}

absl::Status Tenant::CompareWithRefit(Memory& memory,
                                      std::optional<audit::RefitComparison>* refit) {
  const std::shared_ptr<const svdd::Snapshot> cold = memory.state->exact().Refit();
  if (!svdd::SameBits(*memory.state->exact().snapshot(), *cold)) {
    return absl::InternalError("the state differs from a cold refit and is not served");
  }
  *refit = audit::RefitComparison{.deviation = 0.0, .bits_equal = true};
  return absl::OkStatus();
}

absl::Status Tenant::RemoveAndCheck(Memory& memory,
                                    const std::vector<svdd::TokenHandle>& handles,
                                    std::optional<audit::RefitComparison>* refit) {
  if (absl::Status status = memory.state->Remove(handles); !status.ok()) {
    return absl::InternalError(
        absl::StrCat("stored tokens are not in the state: ", status.message()));
  }
  LETHE_RETURN_IF_ERROR(memory.state->Check());
  return options_.refit_on_forget ? CompareWithRefit(memory, refit) : absl::OkStatus();
}

absl::StatusOr<Tenant::PreparedErasure> Tenant::Prepare(Memory& memory, const Erasure& erasure) {
  PreparedErasure prepared;
  prepared.before = memory.state->exact().snapshot()->counts;
  audit::Digest root_before = memory.state->BlindedState();
  std::optional<audit::RefitComparison> refit;
  absl::Status status = RemoveAndCheck(memory, erasure.handles, &refit);
  if (!status.ok()) {
    // A failed check means that the path to this state went wrong. The stored tokens are solved
    // afresh, and the erasure gets one more chance from there.
    options_.log->Write(LogLevel::kError, "check_failed",
                        {{"tenant", record_.name}, {"memory", memory.name}});
    memory.state.reset();
    LETHE_RETURN_IF_ERROR(Load(memory));
    prepared.before = memory.state->exact().snapshot()->counts;
    root_before = memory.state->BlindedState();
    status = RemoveAndCheck(memory, erasure.handles, &refit);
  }
  if (!status.ok()) {
    memory.state.reset();
    return status;
  }

  const std::shared_ptr<const svdd::Snapshot> after = memory.state->exact().snapshot();
  absl::StatusOr<store::LogHead> head = store_->GetLogHead();
  if (!head.ok()) return StoreFailed(&memory, head.status());
  const int64_t now = NowMicros();
  audit::CertificateBody body =
      BaseBody(record_.log_origin, *head, audit::CertificateKind::kForget, now);
  const audit::Salt request_salt = audit::RandomSalt();
  prepared.receipt.request_salt = Bytes(request_salt);
  body.request_commitment =
      audit::RequestCommitment(request_salt, record_.name, erasure.request_id);
  if (erasure.subject.has_value()) {
    const audit::Salt subject_salt = audit::RandomSalt();
    prepared.receipt.subject_salt = Bytes(subject_salt);
    body.subject_commitment =
        audit::SubjectCommitment(subject_salt, record_.name, *erasure.subject);
  }
  audit::StateChange change;
  change.memory_uid = memory.uid;
  change.config = ConfigDigestOf(memory.options);
  change.partition_before = ToSizes(prepared.before);
  change.partition_after = ToSizes(after->counts);
  change.root_before = root_before;
  change.root_after = memory.state->BlindedState();
  change.residuals = ResidualsOf(*after, memory.state->last_check());
  change.verdict =
      refit.has_value() ? audit::VerdictClass::kBitIdentical : audit::VerdictClass::kProven;
  change.refit = refit;
  body.change = change;
  body.counts = erasure.counts;
  absl::StatusOr<store::CertificateAppend> certificate =
      SignForStore(body, signer_, memory.uid, memory.name, now);
  if (!certificate.ok()) {
    memory.state.reset();
    return absl::InternalError(
        absl::StrCat("the certificate could not be made: ", certificate.status().message()));
  }
  prepared.certificate = *std::move(certificate);
  prepared.verdict = refit.has_value() ? Verdict::kBitIdentical : Verdict::kProven;
  prepared.after = memory.state->Publish(++memory.version);
  return prepared;
}

absl::StatusOr<DeleteMemoryReply> Tenant::DeleteMemory(absl::string_view name,
                                                       const CallOptions& call) {
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  // The memory may be gone by an earlier call that could not empty the log.
  if (FindMemory(name) == nullptr) LETHE_RETURN_IF_ERROR(CleanLog());
  LETHE_ASSIGN_OR_RETURN(const MemoryPtr memory, WritableMemory(name));
  if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
  absl::Cleanup drop_state = [&memory] { memory->state.reset(); };
  DeleteMemoryReply reply;
  store::DeleteMemoryRequest request;
  request.memory_uid = memory->uid;
  const std::span<const svdd::TokenHandle> all = memory->state->handles();
  reply.erased_tokens = all.size();
  if (!all.empty()) {
    const Erasure erasure{.handles = {all.begin(), all.end()},
                          .counts = {.matched = all.size(), .erased = all.size()},
                          .request_id = audit::RandomUid(),
                          .subject = std::nullopt};
    LETHE_ASSIGN_OR_RETURN(PreparedErasure prepared, Prepare(*memory, erasure));
    reply.certificate_id = prepared.certificate.record.id;
    request.certificate = std::move(prepared.certificate);
  }
  absl::StatusOr<store::EraseResult> result = store_->DeleteMemory(request);
  if (!result.ok()) return StoreFailed(memory.get(), result.status());
  if (request.certificate.has_value()) certificate_count_.fetch_add(1);
  {
    MutexLock map_lock(map_mutex_);
    memories_.erase(memory->name);
  }
  LETHE_RETURN_IF_ERROR(FinishErase(*result));
  options_.log->Write(LogLevel::kInfo, "memory_deleted",
                      {{"tenant", record_.name},
                       {"memory", memory->name},
                       {"erased", static_cast<int64_t>(reply.erased_tokens)},
                       {"certificate", reply.certificate_id}});
  return reply;
}

}  // namespace lethe::service
