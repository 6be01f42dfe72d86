// Many queries over one stream, with bounded room and resumption after a lost connection.
//
// Queries change nothing, so what was not answered when a stream broke is asked again on a new one,
// by the rules of client/retry.h; an answer counts as progress. Cost: `window` requests of memory
// and one thread that reads. Threads: functions without state; both callbacks run in the caller's.
#ifndef LETHE_CLIENT_QUERY_STREAM_H_
#define LETHE_CLIENT_QUERY_STREAM_H_

#include <cstddef>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "client/connection.h"
#include "client/retry.h"
#include "client/types.h"

namespace lethe::client {

struct QueryStreamOptions {
  size_t window = 8;  // requests sent and not yet answered, 1 to 1,000
  Environment environment = Environment::Real();
};

// See Client::QueryStreamed.
absl::Status QueryStreamed(Connection& connection,
                           const std::function<std::optional<QueryRequest>()>& next,
                           const std::function<absl::Status(const QueryResult&)>& visit,
                           const QueryStreamOptions& options);

}  // namespace lethe::client

#endif  // LETHE_CLIENT_QUERY_STREAM_H_
