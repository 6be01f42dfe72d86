// Tenant: giving tokens new content under their ids.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "audit/random.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "server/service/names.h"
#include "server/service/outcome.h"
#include "server/service/tenant.h"
#include "server/service/validate.h"

namespace lethe::service {
namespace {

std::string IdField(size_t index) { return absl::StrCat(Indexed("tokens", index), ".id"); }

// What can be said without the memory: the number of tokens, and that each names another id.
absl::Status CheckEdit(const EditInput& input) {
  LETHE_RETURN_IF_ERROR(CheckRequestId("request_id", input.request_id));
  LETHE_RETURN_IF_ERROR(CheckBatchSize("tokens", input.tokens.size()));
  absl::flat_hash_set<absl::string_view> ids;
  for (size_t i = 0; i < input.tokens.size(); ++i) {
    LETHE_RETURN_IF_ERROR(CheckTokenId(IdField(i), input.tokens[i].id));
    if (!ids.insert(input.tokens[i].id).second) {
      return FieldError(IdField(i), "is named twice");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Tenant::EditPlan> Tenant::PlanEdit(const Memory& memory,
                                                  std::vector<TokenInput> tokens,
                                                  const std::vector<audit::Digest>& leaves) {
  EditPlan plan;
  if (memory.encoder != nullptr) {
    LETHE_RETURN_IF_ERROR(CheckEncodedTokens(*memory.encoder, tokens.size()));
  }
  uint64_t handle = memory.next_handle;
  for (size_t i = 0; i < tokens.size(); ++i) {
    TokenInput& token = tokens[i];
    std::optional<ItemError> error;
    if (memory.encoder != nullptr)
      error = EncodeToken(*memory.encoder, Indexed("tokens", i), token);
    if (!error.has_value()) error = CheckToken(token, memory.state->exact(), Indexed("tokens", i));
    if (error.has_value()) {
      return absl::Status(error->code, absl::StrCat(error->field, ": ", error->message));
    }
    if (memory.encoder != nullptr) NormaliseKey(token.key);
    const std::optional<MemoryState::Found> found = memory.state->FindId(token.id);
    if (!found.has_value()) {
      const absl::StatusOr<std::vector<store::IdLookup>> lookup =
          store_->FindByIds(memory.uid, std::span<const std::string>(&token.id, 1));
      if (!lookup.ok()) return StoreFailed(nullptr, lookup.status());
      return absl::NotFoundError(
          absl::StrCat(IdField(i), lookup->front().state == store::IdState::kErased
                                       ? ": the token was erased; insert it to have it again"
                                       : ": there is no token with this id"));
    }
    // Behind an encoder the token is another than the request's.
    const audit::Digest leaf = memory.encoder == nullptr ? leaves[i] : PlainLeafOf(token);
    if (found->plain_leaf == leaf) {
      ++plan.unchanged;
      continue;
    }
    // Its old content would be erased.
    if (const std::string* hold = HoldOn(memory.state->SubjectOf(found->handle))) {
      return absl::FailedPreconditionError(
          absl::StrCat(IdField(i), ": the token is kept by legal hold ", *hold));
    }
    plan.handles.push_back(found->handle);
    plan.replacements.push_back({.handle = handle++,
                                 .content = std::move(token),
                                 .salt = audit::RandomSalt(),
                                 .plain_leaf = leaf});
  }
  std::sort(plan.handles.begin(), plan.handles.end());
  return plan;
}

absl::StatusOr<MemoryState::Foreseen> Tenant::ForeseeEdit(const Memory& memory,
                                                          const EditPlan& plan) {
  absl::StatusOr<std::unique_ptr<MemoryState>> rest = ReadState(memory, plan.handles);
  if (!rest.ok()) {
    return absl::IsInternal(rest.status()) ? rest.status() : StoreFailed(nullptr, rest.status());
  }
  LETHE_RETURN_IF_ERROR((*rest)->Append(plan.replacements));
  const std::shared_ptr<const Published> after = (*rest)->Publish(0);
  return MemoryState::Foreseen{.partition = after->snapshot->counts,
                               .state_digest = StateDigestHex(*after)};
}

absl::StatusOr<EditReply> Tenant::Edit(EditInput input, const CallOptions& call) {
  LETHE_RETURN_IF_ERROR(CheckEdit(input));
  std::vector<audit::Digest> leaves;
  leaves.reserve(input.tokens.size());
  for (TokenInput& token : input.tokens) {
    NormaliseKey(token.key);
    leaves.push_back(PlainLeafOf(token));
  }
  const Request request{
      .id = input.request_id, .memory = input.memory, .content = ContentOfEdit(leaves)};
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  if (!input.dry_run) {
    LETHE_ASSIGN_OR_RETURN(std::optional<Answer> replayed, Replay(request));
    if (replayed.has_value()) return std::get<EditReply>(*std::move(replayed));
  }
  LETHE_ASSIGN_OR_RETURN(const MemoryPtr memory, WritableMemory(input.memory));
  LETHE_ASSIGN_OR_RETURN(EditPlan plan, PlanEdit(*memory, std::move(input.tokens), leaves));
  if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());

  EditReply reply;
  reply.edited = plan.handles.size();
  reply.unchanged = plan.unchanged;
  reply.request_id = input.request_id.empty() ? audit::RandomUid() : input.request_id;
  SetUnchanged(reply, *memory->published.Get());
  if (plan.handles.empty()) {
    if (!input.dry_run) LETHE_RETURN_IF_ERROR(AnswerWithoutChange(*memory, request, reply));
    return reply;
  }
  if (input.dry_run) {
    LETHE_ASSIGN_OR_RETURN(MemoryState::Foreseen foreseen, ForeseeEdit(*memory, plan));
    SetForeseen(reply, std::move(foreseen));
    return reply;
  }
  Erasure erasure{.kind = audit::CertificateKind::kEdit,
                  .handles = std::move(plan.handles),
                  .replacements = std::move(plan.replacements),
                  .counts = {.matched = reply.edited, .erased = reply.edited},
                  .request_id = reply.request_id,
                  .still_wanted = call.still_wanted};
  LETHE_ASSIGN_OR_RETURN(Erased erased, Erase(*memory, erasure, request,
                                              [&reply](const PreparedErasure& prepared) -> Answer {
                                                SetOutcome(reply, prepared);
                                                return reply;
                                              }));
  SetErased(reply, std::move(erased));
  options_.log->Write(program::LogLevel::kInfo, "edited",
                      {{"tenant", record_.name},
                       {"memory", memory->name},
                       {"tokens", static_cast<int64_t>(reply.edited)},
                       {"certificate", reply.certificate_id}});
  return reply;
}

}  // namespace lethe::service
