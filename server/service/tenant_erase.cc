// Tenant: what every erasure shares, whoever asked for it: answers to repeated requests, the change
// in RAM with its checks and its certificate, the commit.
#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "audit/commitments.h"
#include "audit/random.h"
#include "core/base/disk_full.h"
#include "core/base/status_macros.h"
#include "server/service/certificates.h"
#include "server/service/eviction_check.h"
#include "server/service/records.h"
#include "server/service/rows.h"
#include "server/service/tenant.h"

namespace lethe::service {
namespace {

std::string Bytes(const audit::Salt& salt) {
  return {reinterpret_cast<const char*>(salt.data()), salt.size()};
}

}  // namespace

absl::StatusOr<std::optional<Answer>> Tenant::Replay(const Request& request) {
  if (request.id.empty()) return std::optional<Answer>();
  const absl::StatusOr<std::optional<store::RequestRecord>> found =
      store_->FindRequest(RequestKey(request.id));
  if (!found.ok()) return StoreFailed(nullptr, found.status());
  const std::optional<store::RequestRecord>& earlier = *found;
  if (!earlier.has_value()) return std::optional<Answer>();
  LETHE_ASSIGN_OR_RETURN(StoredAnswer answer, DecodeAnswer(earlier->answer));
  // The answer speaks of one memory. Where another one bears the name now, repeating the answer
  // would claim an erasure that never touched it.
  const MemoryPtr memory = FindMemory(request.memory);
  if ((memory != nullptr && memory->uid != answer.memory_uid) ||
      Fingerprint(request, answer.memory_uid) != earlier->fingerprint) {
    return absl::AlreadyExistsError("request_id: was used for another request");
  }
  // The first answer may have been UNAVAILABLE because the erasure could not be finished.
  LETHE_RETURN_IF_ERROR(FinishErasures());
  const std::string certificate =
      std::visit([](const auto& reply) { return reply.certificate_id; }, answer.reply);
  std::optional<Destruction> destruction;
  if (!certificate.empty()) {
    LETHE_ASSIGN_OR_RETURN(destruction, DestructionOf(certificate));
  }
  std::visit(
      [&](auto& reply) {
        reply.request_id = request.id;
        reply.replayed = true;
        reply.destruction = std::move(destruction);
      },
      answer.reply);
  return std::optional<Answer>(std::move(answer.reply));
}

absl::Status Tenant::AnswerWithoutChange(const Memory& memory,
                                         const Request& request,
                                         const Answer& answer) {
  LETHE_RETURN_IF_ERROR(FinishErasures());
  if (request.id.empty()) return absl::OkStatus();
  const store::RequestRecord record = MakeRequest(request, memory.uid, answer, NowMicros());
  absl::Status status = store_->RecordRequest(record);
  if (status.ok()) return status;
  const absl::Status failed = StoreFailed(nullptr, status);
  if (!MakeRoom()) return failed;
  LETHE_RETURN_IF_ERROR(EnsureStore());
  status = store_->RecordRequest(record);
  // By the first try, whose outcome was not known.
  if (status.ok() || absl::IsAlreadyExists(status)) return absl::OkStatus();
  return StoreFailed(nullptr, status);
}

absl::StatusOr<MemoryState::Foreseen> Tenant::Foresee(Memory& memory,
                                                      std::span<const svdd::TokenHandle> handles) {
  // An exception on the way must not leave a state behind that differs from the stored rows.
  absl::Cleanup drop_state = [&memory] { memory.state.reset(); };
  LETHE_ASSIGN_OR_RETURN(MemoryState::Foreseen foreseen, memory.state->Foresee(handles));
  std::move(drop_state).Cancel();
  return foreseen;
}

absl::StatusOr<Tenant::Erased> Tenant::Erase(Memory& memory,
                                             Erasure& erasure,
                                             const Request& request,
                                             MakeAnswer make_answer) {
  // Before anything changes: a job that starts over for nothing is no harm, one that goes on with
  // what was erased is.
  erasure.exceptions = TellJobs(memory, erasure.handles);
  // Whatever ends this call before the store has committed, an exception included, must not leave a
  // state behind that differs from the stored rows.
  absl::Cleanup drop_state = [&memory] { memory.state.reset(); };
  PreparedErasure prepared;
  absl::StatusOr<store::EraseResult> result =
      Commit(memory, erasure, request, make_answer, prepared);
  if (!result.ok() && MakeRoom()) {
    result = CommitAgain(memory, erasure, request, make_answer, prepared);
  }
  if (!result.ok()) return result.status();
  std::move(drop_state).Cancel();
  log_unclean_ = !result->checkpoint.ok();
  disk_full_ = IsDiskFull(result->checkpoint);
  keys_pending_ = true;
  LETHE_RETURN_IF_ERROR(FinishErasures());
  Erased erased{.receipt = std::move(prepared.receipt), .destruction = {}};
  LETHE_ASSIGN_OR_RETURN(erased.destruction, DestructionOf(prepared.certificate.record.id));
  return erased;
}

absl::StatusOr<store::EraseResult> Tenant::Commit(Memory& memory,
                                                  const Erasure& erasure,
                                                  const Request& request,
                                                  MakeAnswer make_answer,
                                                  PreparedErasure& prepared) {
  LETHE_ASSIGN_OR_RETURN(prepared, Prepare(memory, erasure));
  if (erasure.still_wanted) LETHE_RETURN_IF_ERROR(erasure.still_wanted());
  const Answer answer = make_answer(prepared);
  store::EraseRequest erase;
  erase.memory_uid = memory.uid;
  erase.handles = erasure.handles;
  erase.replacements = ToRows(erasure.replacements);
  erase.certificate = prepared.certificate;
  if (!request.id.empty()) erase.request = MakeRequest(request, memory.uid, answer, NowMicros());
  if (erasure.for_request != nullptr) {
    erase.update = erasure.for_request->update(erasure.counts.erased, prepared.certificate.record);
  }
  const absl::StatusOr<store::EraseResult> result = store_->EraseTokens(erase);
  if (!result.ok()) return StoreFailed(&memory, result.status());
  CountAppend();
  options_.counters->Add(prepared.verdict);
  options_.counters->erased += result->erased;
  if (!erasure.replacements.empty()) memory.next_handle = erasure.replacements.back().handle + 1;
  memory.published.Set(prepared.after);
  return result;
}

absl::StatusOr<store::EraseResult> Tenant::CommitAgain(Memory& memory,
                                                       const Erasure& erasure,
                                                       const Request& request,
                                                       MakeAnswer make_answer,
                                                       PreparedErasure& prepared) {
  LETHE_RETURN_IF_ERROR(EnsureStore());
  const absl::Status found = store_->GetCertificate(prepared.certificate.record.id).status();
  if (!found.ok() && !absl::IsNotFound(found)) return StoreFailed(&memory, found);
  if (memory.state == nullptr) {
    if (const absl::Status loaded = Load(memory); !loaded.ok()) {
      return StoreFailed(&memory, loaded);
    }
  }
  // It was committed: what was loaded is the state after it.
  if (found.ok()) {
    return store::EraseResult{erasure.handles.size(), absl::UnavailableError("not known")};
  }
  return Commit(memory, erasure, request, make_answer, prepared);
}

absl::Status Tenant::CompareWithRefit(Memory& memory,
                                      std::optional<audit::RefitComparison>* refit) {
  const std::shared_ptr<const svdd::Snapshot> cold = options_.refit(memory.state->exact());
  if (!svdd::SameBits(*memory.state->exact().snapshot(), *cold)) {
    return absl::InternalError("the state differs from a cold refit and is not served");
  }
  *refit = audit::RefitComparison{.deviation = 0.0, .bits_equal = true};
  return absl::OkStatus();
}

absl::Status Tenant::ApplyAndCheck(Memory& memory,
                                   const Erasure& erasure,
                                   std::optional<audit::RefitComparison>* refit) {
  const std::shared_ptr<const svdd::Snapshot> before = memory.state->exact().snapshot();
  if (absl::Status status = memory.state->Replace(erasure.handles, erasure.replacements);
      !status.ok()) {
    if (absl::IsInternal(status)) return status;  // a state that cannot be proven
    return absl::InternalError(
        absl::StrCat("stored tokens are not in the state: ", status.message()));
  }
  if (erasure.kind == audit::CertificateKind::kEvict) {
    LETHE_RETURN_IF_ERROR(
        CheckEviction(*before, *memory.state->exact().snapshot(), erasure.handles));
  }
  LETHE_RETURN_IF_ERROR(memory.state->Check());
  return options_.refit_on_forget ? CompareWithRefit(memory, refit) : absl::OkStatus();
}

absl::StatusOr<Tenant::PreparedErasure> Tenant::Prepare(Memory& memory, const Erasure& erasure) {
  PreparedErasure prepared;
  prepared.before = memory.state->exact().snapshot()->counts;
  audit::Digest root_before = memory.state->BlindedState();
  std::optional<audit::RefitComparison> refit;
  absl::Status status = ApplyAndCheck(memory, erasure, &refit);
  if (!status.ok()) {
    // A failed check means that the path to this state went wrong. The stored tokens are solved
    // afresh, and the erasure gets one more chance from there.
    LogFailedCheck(memory);
    memory.state.reset();
    LETHE_RETURN_IF_ERROR(Load(memory));
    prepared.before = memory.state->exact().snapshot()->counts;
    root_before = memory.state->BlindedState();
    status = ApplyAndCheck(memory, erasure, &refit);
  }
  if (!status.ok()) {
    memory.state.reset();
    return status;
  }

  const std::shared_ptr<const svdd::Snapshot> after = memory.state->exact().snapshot();
  absl::StatusOr<store::LogHead> head = store_->GetLogHead();
  if (!head.ok()) return StoreFailed(&memory, head.status());
  const int64_t now = NowMicros();
  audit::CertificateBody body = BaseBody(record_.log_origin, *head, erasure.kind, now);
  body.stores = StoresOfErasure();
  const ForgetSeed* seed = erasure.for_request == nullptr ? nullptr : &erasure.for_request->seed;
  const audit::Salt request_salt = seed != nullptr ? seed->request_salt : audit::RandomSalt();
  prepared.receipt.request_salt = Bytes(request_salt);
  body.request_commitment =
      audit::RequestCommitment(request_salt, record_.name, erasure.request_id);
  if (erasure.subject.has_value()) {
    const audit::Salt subject_salt = seed != nullptr ? seed->subject_salt : audit::RandomSalt();
    prepared.receipt.subject_salt = Bytes(subject_salt);
    body.subject_commitment =
        audit::SubjectCommitment(subject_salt, record_.name, *erasure.subject);
  }
  audit::StateChange change;
  change.memory_uid = memory.uid;
  change.config = DigestOf(memory);
  change.partition_before = ToSizes(prepared.before);
  change.partition_after = ToSizes(after->counts);
  change.root_before = root_before;
  change.root_after = memory.state->BlindedState();
  change.residuals = ResidualsOf(*after, memory.state->last_check());
  change.verdict =
      refit.has_value() ? audit::VerdictClass::kBitIdentical : audit::VerdictClass::kProven;
  change.refit = refit;
  change.selection = erasure.selection;
  body.change = change;
  body.counts = erasure.counts;
  body.exceptions = erasure.exceptions;
  absl::StatusOr<store::CertificateAppend> certificate =
      SignForStore(body, *head, *signer_, nullptr, memory.uid, memory.name, now);
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

absl::StatusOr<store::EraseResult> Tenant::CommitDeletion(Memory& memory,
                                                          const std::optional<Erasure>& erasure,
                                                          std::string& certificate_id) {
  store::DeleteMemoryRequest request;
  request.memory_uid = memory.uid;
  if (erasure.has_value()) {
    LETHE_ASSIGN_OR_RETURN(PreparedErasure prepared, Prepare(memory, *erasure));
    if (erasure->still_wanted) LETHE_RETURN_IF_ERROR(erasure->still_wanted());
    certificate_id = prepared.certificate.record.id;
    request.certificate = std::move(prepared.certificate);
  }
  absl::StatusOr<store::EraseResult> result = store_->DeleteMemory(request);
  if (!result.ok()) return StoreFailed(&memory, result.status());
  if (erasure.has_value()) {
    CountAppend();
    options_.counters->Add(options_.refit_on_forget ? Verdict::kBitIdentical : Verdict::kProven);
    options_.counters->erased += result->erased;
  }
  return result;
}

absl::StatusOr<store::EraseResult> Tenant::CommitDeletionAgain(
    Memory& memory,
    const std::optional<Erasure>& erasure,
    std::string& certificate_id) {
  LETHE_RETURN_IF_ERROR(EnsureStore());
  const absl::Status found = store_->GetMemory(memory.uid).status();
  // It was committed, with its certificate.
  if (absl::IsNotFound(found)) {
    return store::EraseResult{erasure.has_value() ? erasure->handles.size() : 0,
                              absl::UnavailableError("not known")};
  }
  if (!found.ok()) return StoreFailed(&memory, found);
  if (memory.state == nullptr) {
    if (const absl::Status loaded = Load(memory); !loaded.ok()) {
      return StoreFailed(&memory, loaded);
    }
  }
  return CommitDeletion(memory, erasure, certificate_id);
}

absl::StatusOr<DeleteMemoryReply> Tenant::DeleteMemory(absl::string_view name,
                                                       const CallOptions& call) {
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  // The memory may be gone by an earlier call that could not finish.
  if (FindMemory(name) == nullptr) LETHE_RETURN_IF_ERROR(FinishErasures());
  LETHE_ASSIGN_OR_RETURN(const MemoryPtr memory, WritableMemory(name));
  LETHE_RETURN_IF_ERROR(CheckNothingHeld(memory.get(), "memory"));
  if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
  DeleteMemoryReply reply;
  const std::span<const svdd::TokenHandle> all = memory->state->handles();
  std::vector<std::string> exceptions = TellJobs(*memory, all);
  absl::Cleanup drop_state = [&memory] { memory->state.reset(); };
  reply.erased_tokens = all.size();
  std::optional<Erasure> erasure;
  if (!all.empty()) {
    erasure = Erasure{.handles = {all.begin(), all.end()},
                      .counts = {.matched = all.size(), .erased = all.size()},
                      .request_id = audit::RandomUid(),
                      .subject = std::nullopt,
                      .still_wanted = call.still_wanted,
                      .selection = {},
                      .exceptions = std::move(exceptions)};
  }
  absl::StatusOr<store::EraseResult> result =
      CommitDeletion(*memory, erasure, reply.certificate_id);
  if (!result.ok() && MakeRoom()) {
    result = CommitDeletionAgain(*memory, erasure, reply.certificate_id);
  }
  if (!result.ok()) return result.status();
  {
    MutexLock map_lock(map_mutex_);
    memories_.erase(memory->name);
  }
  log_unclean_ = !result->checkpoint.ok();
  disk_full_ = IsDiskFull(result->checkpoint);
  keys_pending_ = true;
  if (memory->encoder != nullptr) encoder_keys_pending_ = true;
  LETHE_RETURN_IF_ERROR(FinishErasures());
  if (!reply.certificate_id.empty()) {
    LETHE_ASSIGN_OR_RETURN(reply.destruction, DestructionOf(reply.certificate_id));
  }
  options_.log->Write(program::LogLevel::kInfo, "memory_deleted",
                      {{"tenant", record_.name},
                       {"memory", memory->name},
                       {"erased", static_cast<int64_t>(reply.erased_tokens)},
                       {"certificate", reply.certificate_id}});
  return reply;
}

}  // namespace lethe::service
