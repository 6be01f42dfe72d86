// The only place where the two kinds of status meet.
#ifndef LETHE_SERVER_RPC_STATUS_H_
#define LETHE_SERVER_RPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace lethe::rpc {

// Same code, same message. An error has details in the way of google.rpc
// (proto/lethe/internal/error_details.proto): BadRequest with the field that an INVALID_ARGUMENT
// names, RetryInfo where the status has a delay (server/service/retry_delay.h), RequestInfo with
// the id of the request where there is one.
grpc::Status ToGrpc(const absl::Status& status, absl::string_view request_id);

}  // namespace lethe::rpc

#endif  // LETHE_SERVER_RPC_STATUS_H_
