#include "server/service/rows.h"

#include <utility>

#include "core/base/status_macros.h"
#include "server/service/records.h"

namespace lethe::service {

store::TokenRow ToRow(AcceptedToken token) {
  return {.handle = token.handle,
          .id = std::move(token.content.id),
          .key = std::move(token.content.key),
          .value = std::move(token.content.value),
          .subject = std::move(token.content.subject),
          .payload = std::move(token.content.payload),
          .labels = EncodeLabels(token.content.labels),
          .salt = token.salt};
}

std::vector<store::TokenRow> ToRows(std::span<const AcceptedToken> tokens) {
  std::vector<store::TokenRow> rows;
  rows.reserve(tokens.size());
  for (const AcceptedToken& token : tokens) rows.push_back(ToRow(token));
  return rows;
}

absl::StatusOr<AcceptedToken> FromRow(store::TokenRow& row) {
  AcceptedToken token;
  token.handle = row.handle;
  token.content.id = std::move(row.id);
  token.content.key = std::move(row.key);
  token.content.value = std::move(row.value);
  token.content.subject = std::move(row.subject);
  token.content.payload = std::move(row.payload);
  LETHE_ASSIGN_OR_RETURN(token.content.labels, DecodeLabels(row.labels));
  token.salt = row.salt;
  token.plain_leaf = PlainLeafOf(token.content);
  return token;
}

}  // namespace lethe::service
