// Tenant: forgetting tokens by id, by subject, or all.
#include <algorithm>
#include <utility>

#include "audit/random.h"
#include "core/base/status_macros.h"
#include "server/service/names.h"
#include "server/service/outcome.h"
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

absl::Status DamagedIndex(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("tenant.db: the index of ", what,
                                          " does not agree with the tokens that were read; restore"
                                          " the file from a backup"));
}

}  // namespace

// What the store finds by its indexes is held against the state, which was made from the rows
// themselves: an index that has lost an entry must not leave a row behind.
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
    if (resolved.handles.size() != memory.state->CountOf(subject->subject)) {
      return StoreFailed(nullptr, DamagedIndex("subjects"));
    }
    return resolved;
  }
  const std::vector<std::string> ids = SortedDistinct(std::get<ForgetIds>(input.target).ids);
  const absl::StatusOr<std::vector<store::IdLookup>> found = store_->FindByIds(memory.uid, ids);
  if (!found.ok()) return StoreFailed(nullptr, found.status());
  for (size_t i = 0; i < ids.size(); ++i) {
    const store::IdLookup& lookup = (*found)[i];
    const std::optional<MemoryState::Found> token = memory.state->FindId(ids[i]);
    if (token.has_value() != (lookup.state == store::IdState::kLive) ||
        (token.has_value() && token->handle != lookup.handle)) {
      return StoreFailed(nullptr, DamagedIndex("ids"));
    }
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
  return ForgetHere(input, nullptr, call);
}

absl::StatusOr<ForgetReply> Tenant::ForgetHere(const ForgetInput& input,
                                               const ForRequest* for_request,
                                               const CallOptions& call) {
  const Request request{
      .id = input.request_id, .memory = input.memory, .content = ContentOf(input)};
  if (!input.dry_run) {
    // Before the memory is looked for: a retry must get its answer also after the memory has gone.
    LETHE_ASSIGN_OR_RETURN(std::optional<Answer> replayed, Replay(request));
    if (replayed.has_value()) return std::get<ForgetReply>(*std::move(replayed));
  }
  LETHE_ASSIGN_OR_RETURN(const MemoryPtr memory, WritableMemory(input.memory));
  LETHE_ASSIGN_OR_RETURN(const Resolved resolved, Resolve(*memory, input));
  Unheld unheld = WithoutHeld(*memory, resolved.handles);
  if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());

  ForgetReply reply;
  reply.matched = resolved.handles.size();
  reply.erased = unheld.handles.size();
  reply.held = unheld.held;
  reply.not_found = resolved.not_found;
  reply.already_erased = resolved.already_erased;
  reply.request_id = input.request_id.empty() ? audit::RandomUid() : input.request_id;
  SetUnchanged(reply, *memory->published.Get());
  if (unheld.handles.empty()) {
    if (!input.dry_run) LETHE_RETURN_IF_ERROR(AnswerWithoutChange(*memory, request, reply));
    return reply;
  }
  if (input.dry_run) {
    LETHE_ASSIGN_OR_RETURN(MemoryState::Foreseen foreseen, Foresee(*memory, unheld.handles));
    SetForeseen(reply, std::move(foreseen));
    return reply;
  }
  Erasure erasure{.handles = std::move(unheld.handles),
                  .counts = {.matched = reply.matched,
                             .erased = reply.erased,
                             .not_found = reply.not_found,
                             .already_erased = reply.already_erased,
                             .held = reply.held},
                  .request_id = reply.request_id,
                  .still_wanted = call.still_wanted,
                  .for_request = for_request};
  if (const auto* subject = std::get_if<ForgetSubject>(&input.target)) {
    erasure.subject = subject->subject;
  }
  LETHE_ASSIGN_OR_RETURN(Erased erased, Erase(*memory, erasure, request,
                                              [&reply](const PreparedErasure& prepared) -> Answer {
                                                SetOutcome(reply, prepared);
                                                return reply;
                                              }));
  SetErased(reply, std::move(erased));
  options_.log->Write(program::LogLevel::kInfo, "forgotten",
                      {{"tenant", record_.name},
                       {"memory", memory->name},
                       {"erased", static_cast<int64_t>(reply.erased)},
                       {"held", static_cast<int64_t>(reply.held)},
                       {"certificate", reply.certificate_id}});
  return reply;
}

}  // namespace lethe::service
