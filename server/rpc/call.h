// A call of gRPC (server/calls/served_call.h): its id, its trace context and who calls come from
// the metadata, and from the certificate that the handshake verified; the first two go back in the
// initial metadata.
//
// AuthContext::AddProperty is not used anywhere: in gRPC 1.51 what one call adds is seen by the
// other calls of its connection. Threads: compatible.
#ifndef LETHE_SERVER_RPC_CALL_H_
#define LETHE_SERVER_RPC_CALL_H_

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "server/calls/served_call.h"

namespace lethe::rpc {

using calls::CallHooks;
using calls::MethodCalls;

class RpcCall final : public calls::ServedCall {
 public:
  // `method` must outlive it. Sets initial metadata: nothing may have been sent.
  RpcCall(grpc::ServerContextBase* context, const MethodCalls* method);

  // ServedCall's, and the status to answer with.
  grpc::Status Finish(const absl::Status& status);
};

}  // namespace lethe::rpc

#endif  // LETHE_SERVER_RPC_CALL_H_
