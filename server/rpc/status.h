// The only place where the two kinds of status meet.
#ifndef LETHE_SERVER_RPC_STATUS_H_
#define LETHE_SERVER_RPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace lethe::rpc {

// Same code, same message.
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace lethe::rpc

#endif  // LETHE_SERVER_RPC_STATUS_H_
