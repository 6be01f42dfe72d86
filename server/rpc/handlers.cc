#include "server/rpc/handlers.h"

#include <chrono>
#include <exception>
#include <new>
#include <utility>

#include "absl/cleanup/cleanup.h"

namespace lethe::rpc {

service::CallOptions CallOptionsOf(grpc::ServerContextBase* context) {
  service::CallOptions call;
  call.still_wanted = [context]() -> absl::Status {
    if (std::chrono::system_clock::now() >= context->deadline()) {
      return absl::DeadlineExceededError("the deadline passed before the work began");
    }
    if (context->IsCancelled()) return absl::CancelledError("the caller is gone");
    return absl::OkStatus();
  };
  return call;
}

service::CallOptions CallOptionsOf(grpc::ServerContextBase* context, const RpcCall& served) {
  service::CallOptions call = CallOptionsOf(context);
  call.sees = served.Sees();
  return call;
}

absl::Status Guarded(absl::FunctionRef<absl::Status()> body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("not enough memory for this request");
  } catch (const std::exception&) {
    return absl::InternalError("an exception ended this call");
  }
}

namespace {

absl::Status Stopping() { return absl::UnavailableError("the server is stopping"); }

}  // namespace

void StreamTurns::Stop() {
  MutexLock lock(mutex_);
  stopping_ = true;
  if (reading_) EndCall(context_, Stopping());
}

absl::Status StreamTurns::BeginRead() {
  MutexLock lock(mutex_);
  if (stopping_) return Stopping();
  reading_ = true;
  return absl::OkStatus();
}

absl::Status StreamTurns::EndRead() {
  MutexLock lock(mutex_);
  reading_ = false;
  return stopping_ ? Stopping() : absl::OkStatus();
}

grpc::Status Registered(CallRegistry& registry,
                        const void* key,
                        std::function<void()> stop,
                        grpc::ServerContextBase* context,
                        const MethodCalls* method,
                        absl::FunctionRef<absl::Status(RpcCall&)> body) {
  RpcCall call(context, method);
  if (const absl::Status entered = registry.Enter(key, std::move(stop)); !entered.ok()) {
    return call.Finish(entered);
  }
  const auto leave = absl::MakeCleanup([&] { registry.Leave(key); });
  return call.Finish(Guarded([&] { return body(call); }));
}

}  // namespace lethe::rpc
