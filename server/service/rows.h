// Between a token as the state holds it and its row in the store.
//
// Errors: DATA_LOSS for a row whose labels are not what EncodeLabels wrote. Threads: functions
// without state.
#ifndef LETHE_SERVER_SERVICE_ROWS_H_
#define LETHE_SERVER_SERVICE_ROWS_H_

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/service/memory_state.h"
#include "store/tenant_store.h"

namespace lethe::service {

store::TokenRow ToRow(AcceptedToken token);
std::vector<store::TokenRow> ToRows(std::span<const AcceptedToken> tokens);
absl::StatusOr<AcceptedToken> FromRow(store::TokenRow& row);

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_ROWS_H_
