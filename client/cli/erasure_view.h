// Erasure requests and legal holds as JSON and as text.
#ifndef LETHE_CLIENT_CLI_ERASURE_VIEW_H_
#define LETHE_CLIENT_CLI_ERASURE_VIEW_H_

#include "client/cli/render.h"
#include "client/erasure_types.h"

namespace lethe::cli {

Json ToJson(const client::ErasureRequest& request);
Json ToJson(const client::Discovery& discovery);
Json ToJson(const client::Hold& hold);
// Salts as hex.
Json ToJson(const client::ErasureReceipt& receipt);

Fields ToFields(const client::ErasureRequest& request);
Fields ToFields(const client::Discovery& discovery);
Fields ToFields(const client::Hold& hold);

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_ERASURE_VIEW_H_
