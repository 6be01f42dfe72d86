// A call with one request and one answer, of any service: the gate on its headers, then its
// request, then its work on the thread that was told of that (call_threads.h).
//
// It is a stream for gRPC, of one message each way, which is the same on the wire: with a handler
// of one request gRPC would read that first, and callers without credentials could fill the memory.
// Synchronous handlers hold a thread from a call's headers on, so that ten thousand calls which
// never send their request take those of everybody; those of callbacks must not block, so that each
// call is handed to another thread. docs/adr/0058, 0059.
#ifndef LETHE_SERVER_RPC_UNARY_CALL_H_
#define LETHE_SERVER_RPC_UNARY_CALL_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/async_stream.h>

#include <atomic>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "server/calls/unary_calls.h"
#include "server/rpc/call.h"
#include "server/rpc/call_registry.h"
#include "server/rpc/call_threads.h"
#include "server/rpc/peer_watch.h"

namespace lethe::rpc {

using UnaryStream = grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

// What the calls of a method share; what it points to must outlive them.
struct UnaryMethod {
  calls::UnaryCall call;
  const MethodCalls* calls;
  CallRegistry* registry;
  PeerWatch* watch;
  CallThreads* threads;
  // Asks gRPC for the next call of this method.
  std::function<void(grpc::ServerContext*, UnaryStream*, CallEvent* arrived)> next;
};

class UnaryCall {
 public:
  // Waits for a call of this method, and when one comes waits for another as well. Deletes itself
  // when the call is over, or the server is shut down before one came. A call is refused by the
  // gate, by the registry, by the watch when too many wait for their request, and with
  // RESOURCE_EXHAUSTED when there is no thread for it. The method must outlive it.
  static void Await(const UnaryMethod* method);

 private:
  // Tells the call.
  class Event final : public CallEvent {
   public:
    Event(UnaryCall* call, void (UnaryCall::*over)(bool)) : call_(call), over_(over) {}
    void Over(bool ok) override { (call_->*over_)(ok); }

   private:
    UnaryCall* const call_;
    void (UnaryCall::*const over_)(bool);
  };

  explicit UnaryCall(const UnaryMethod* method);
  ~UnaryCall();

  void Arrived(bool ok);
  void HasRead(bool ok);
  void Finished(bool ok);
  // The call is over for gRPC; also when nobody waits for its answer any more.
  void Done(bool ok);

  absl::Status Begin();
  absl::Status Requested(bool ok);
  absl::Status Answer();
  void Refuse(const absl::Status& status);
  // After the last of both.
  void Leave();

  const UnaryMethod* const method_;
  Event arrived_{this, &UnaryCall::Arrived};
  Event read_{this, &UnaryCall::HasRead};
  Event finished_{this, &UnaryCall::Finished};
  Event done_{this, &UnaryCall::Done};
  grpc::ServerContext context_;
  UnaryStream stream_{&context_};
  std::optional<RpcCall> call_;
  bool registered_ = false;
  std::optional<PeerWatch::Wait> wait_;  // for the request, then for the answer to be taken
  grpc::ByteBuffer request_;
  std::atomic<int> left_{2};  // of finished_ and done_
};

}  // namespace lethe::rpc

#endif  // LETHE_SERVER_RPC_UNARY_CALL_H_
