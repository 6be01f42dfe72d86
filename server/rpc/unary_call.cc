#include "server/rpc/unary_call.h"

#include <google/protobuf/message.h>

#include <exception>
#include <memory>
#include <utility>

#include "core/base/status_macros.h"
#include "server/rpc/handlers.h"
#include "server/rpc/parse.h"
#include "server/rpc/status.h"
#include "server/service/retry_delay.h"

namespace lethe::rpc {

void UnaryCall::Await(const UnaryMethod* method) {
  auto* call = new UnaryCall(method);
  call->context_.AsyncNotifyWhenDone(&call->done_);
  method->next(&call->context_, &call->stream_, &call->arrived_);
}

UnaryCall::UnaryCall(const UnaryMethod* method) : method_(method) { method_->threads->CountIn(); }

UnaryCall::~UnaryCall() { method_->threads->CountOut(); }

void UnaryCall::Arrived(bool ok) {
  if (!ok) {  // the server is shut down; gRPC does not tell of the end of what never came
    delete this;
    return;
  }
  Await(method_);
  const absl::Status begun = Guarded([this] { return Begin(); });
  if (!begun.ok()) {
    Refuse(begun);
    return;
  }
  stream_.Read(&request_, &read_);
}

absl::Status UnaryCall::Begin() {
  call_.emplace(&context_, method_->calls);
  LETHE_RETURN_IF_ERROR(method_->registry->Enter(this, {}));
  registered_ = true;
  LETHE_RETURN_IF_ERROR(call_->Enter());
  LETHE_ASSIGN_OR_RETURN(PeerWatch::Wait wait,
                         method_->watch->ForRequest(&context_, call_->caller()));
  wait_.emplace(std::move(wait));
  return absl::OkStatus();
}

void UnaryCall::HasRead(bool ok) {
  CallThreads* const threads = method_->threads;
  bool left = false;
  const absl::Status status = Guarded([&]() -> absl::Status {
    LETHE_RETURN_IF_ERROR(Requested(ok));
    left = threads->Leave();
    if (left) return Answer();
    return service::WithRetryDelay(
        absl::ResourceExhaustedError("too many calls are running; try again later"),
        absl::Seconds(1));
  });
  if (!status.ok()) Refuse(status);
  if (left) threads->Return();  // the call may be gone
}

absl::Status UnaryCall::Requested(bool ok) {
  // Also of one that arrived: the peer is told that it did not.
  const absl::Status waited = wait_->status();
  wait_.reset();
  LETHE_RETURN_IF_ERROR(waited);
  if (!ok) return absl::CancelledError("no request arrived");
  return method_->watch->RoomForAnswer(call_->caller());
}

absl::Status UnaryCall::Answer() {
  const std::unique_ptr<google::protobuf::Message> request(method_->call.request->New());
  LETHE_RETURN_IF_ERROR(ParseMessage(request_, request.get()));
  request_.Clear();
  LETHE_RETURN_IF_ERROR(call_->Admit(*request));
  const std::unique_ptr<google::protobuf::Message> response(method_->call.response->New());
  LETHE_RETURN_IF_ERROR(call_->Answer(
      method_->call.handle(*request, CallOptionsOf(&context_, *call_), response.get()), *response));
  const grpc::ByteBuffer answer = SerializeMessage(*response);
  wait_.emplace(method_->watch->ForAnswer(&context_, call_->caller(), answer.Length()));
  const grpc::Status finished = call_->Finish(absl::OkStatus());
  // The last, which throws nothing: the call may be gone behind it.
  stream_.WriteAndFinish(answer, grpc::WriteOptions(), finished, &finished_);
  return absl::OkStatus();
}

void UnaryCall::Refuse(const absl::Status& status) {
  grpc::Status said(static_cast<grpc::StatusCode>(status.code()), "");
  try {  // without a call there was no memory to make it
    said = call_.has_value() ? call_->Finish(status) : ToGrpc(status, "");
  } catch (const std::exception&) {
    // The code alone, then: there is no memory for more.
  }
  stream_.Finish(said, &finished_);
}

void UnaryCall::Finished(bool) {
  wait_.reset();  // the watch knows the context, which goes with the call
  Leave();
}

void UnaryCall::Done(bool) { Leave(); }

void UnaryCall::Leave() {
  if (left_.fetch_sub(1) > 1) return;
  if (registered_) method_->registry->Leave(this);
  delete this;
}

}  // namespace lethe::rpc
