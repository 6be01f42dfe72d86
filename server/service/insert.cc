#include "server/service/insert.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "audit/random.h"
#include "server/service/encoder.h"
#include "server/service/validate.h"

namespace lethe::service {
namespace {

InsertItem Rejected(std::string id, ItemError error) {
  return {.id = std::move(id), .outcome = InsertOutcome::kRejected, .error = std::move(error)};
}

}  // namespace

InsertPlan PlanInsert(const MemoryState& state,
                      const model::MemoryEncoder* encoder,
                      uint64_t next_handle,
                      std::vector<std::vector<TokenInput>> batches) {
  InsertPlan plan;
  // Ids accepted by this very call, to their place in plan.accepted.
  absl::flat_hash_map<std::string, size_t> accepted;
  for (std::vector<TokenInput>& batch : batches) {
    InsertReply& reply = plan.replies.emplace_back();
    reply.results.reserve(batch.size());
    for (size_t i = 0; i < batch.size(); ++i) {
      TokenInput& token = batch[i];
      const std::string field = Indexed("tokens", i);
      std::optional<ItemError> error;
      if (encoder != nullptr) error = EncodeToken(*encoder, field, token);
      if (!error.has_value()) error = CheckToken(token, state.exact(), field);
      if (error.has_value()) {
        ++reply.rejected;
        reply.results.push_back(Rejected(std::move(token.id), *std::move(error)));
        continue;
      }
      if (token.id.empty()) token.id = audit::RandomUid();
      NormaliseKey(token.key);
      const audit::Digest leaf = PlainLeafOf(token);
      std::optional<audit::Digest> present;
      if (const auto found = accepted.find(token.id); found != accepted.end()) {
        present = plan.accepted[found->second].plain_leaf;
      } else if (const auto stored = state.FindId(token.id)) {
        present = stored->plain_leaf;
      }
      if (present.has_value() && *present == leaf) {
        ++reply.unchanged;
        reply.results.push_back(
            {.id = std::move(token.id), .outcome = InsertOutcome::kUnchanged, .error = {}});
        continue;
      }
      if (present.has_value()) {
        ++reply.rejected;
        reply.results.push_back(Rejected(
            std::move(token.id), {.code = absl::StatusCode::kAlreadyExists,
                                  .field = absl::StrCat(field, ".id"),
                                  .message = "a token with this id and other content is there"}));
        continue;
      }
      ++reply.inserted;
      reply.results.push_back({.id = token.id, .outcome = InsertOutcome::kInserted, .error = {}});
      accepted[token.id] = plan.accepted.size();
      plan.accepted.push_back({.handle = next_handle++,
                               .content = std::move(token),
                               .salt = audit::RandomSalt(),
                               .plain_leaf = leaf});
    }
  }
  return plan;
}

}  // namespace lethe::service
