// What every handler shares: registration that takes the request's bytes (parse.h), the view of a
// call that the service asks for, and a net below exceptions.
//
// gRPC's generated service offers protected hooks to replace the handler of a method; they are what
// its own generated WithStreamedUnaryMethod_ and WithRawCallbackMethod_ classes use. docs/adr/0030.
#ifndef LETHE_SERVER_RPC_HANDLERS_H_
#define LETHE_SERVER_RPC_HANDLERS_H_

#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/method_handler.h>
#include <grpcpp/support/sync_stream.h>

#include <chrono>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/check.h"
#include "core/base/stall_guard.h"
#include "server/rpc/call_registry.h"
#include "server/rpc/parse.h"
#include "server/rpc/status.h"
#include "server/service/types.h"

namespace lethe::rpc {

// CANCELLED or DEADLINE_EXCEEDED once nobody waits for the answer. The context must outlive it.
service::CallOptions CallOptionsOf(grpc::ServerContextBase* context);

// Runs `body`; an exception becomes RESOURCE_EXHAUSTED (out of memory) or INTERNAL instead of
// reaching gRPC, which would swallow it.
absl::Status Guarded(absl::FunctionRef<absl::Status()> body);

// Runs `body` guarded while it holds a place in the registry under `key`; `stop` as there.
grpc::Status Registered(CallRegistry& registry,
                        const void* key,
                        std::function<void()> stop,
                        absl::FunctionRef<absl::Status()> body);

template <typename Base>
class RawService : public Base {
 public:
  // Refuses new calls (UNAVAILABLE); streams end after what they have received.
  virtual void StopCalls() { unary_calls_.StopAll(); }
  // Returns when no handler runs, or at the deadline.
  virtual void WaitForCalls(std::chrono::system_clock::time_point deadline) {
    unary_calls_.WaitUntilEmpty(deadline);
  }

 protected:
  using ByteBuffer = grpc::ByteBuffer;

  // The position of a method in its service, as the generated code numbers it.
  static int MethodIndex(const google::protobuf::FileDescriptor* file, const char* method) {
    LETHE_CHECK(file->service_count() == 1);
    const google::protobuf::MethodDescriptor* found = file->service(0)->FindMethodByName(method);
    LETHE_CHECK(found != nullptr);
    return found->index();
  }

  // The request of a call that has one.
  template <typename Stream, typename Request>
  static absl::Status ReadRequest(Stream& stream, Request* request) {
    ByteBuffer bytes;
    if (!stream.Read(&bytes)) return absl::CancelledError("no request arrived");
    return ParseMessage(bytes, request);
  }

  // Registers a method with one request and one answer.
  template <typename Request, typename Response>
  void Unary(
      const char* method,
      std::function<absl::Status(const Request&, const service::CallOptions&, Response*)> handle) {
    this->MarkMethodStreamed(
        MethodIndex(Request::descriptor()->file(), method),
        new grpc::internal::StreamedUnaryHandler<ByteBuffer, ByteBuffer>(
            [this, handle = std::move(handle)](
                grpc::ServerContext* context,
                grpc::ServerUnaryStreamer<ByteBuffer, ByteBuffer>* stream) {
              return Registered(unary_calls_, stream, {}, [&]() -> absl::Status {
                Request request;
                if (absl::Status read = ReadRequest(*stream, &request); !read.ok()) return read;
                Response response;
                absl::Status status = handle(request, CallOptionsOf(context), &response);
                if (status.ok()) stream->Write(SerializeMessage(response));
                return status;
              });
            }));
  }

  // Registers a method that answers each request of a stream before it reads the next. Each stream
  // holds a thread; the registry, which must outlive the server, bounds them and cancels them when
  // it stops.
  template <typename Request, typename Response>
  void OneByOneStream(
      const char* method,
      CallRegistry* registry,
      std::function<absl::Status(const Request&, const service::CallOptions&, Response*)> handle) {
    using Stream = grpc::ServerReaderWriter<ByteBuffer, ByteBuffer>;
    this->MarkMethodStreamed(
        MethodIndex(Request::descriptor()->file(), method),
        new grpc::internal::TemplatedBidiStreamingHandler<Stream, false>(
            [handle = std::move(handle), registry](grpc::ServerContext* context, Stream* stream) {
              const auto cancel = [context] { context->TryCancel(); };
              return Registered(*registry, stream, cancel, [&]() -> absl::Status {
                ByteBuffer bytes;
                while (stream->Read(&bytes)) {
                  Request request;
                  if (absl::Status parsed = ParseMessage(bytes, &request); !parsed.ok()) {
                    return parsed;
                  }
                  Response response;
                  if (absl::Status status = handle(request, CallOptionsOf(context), &response);
                      !status.ok()) {
                    return status;
                  }
                  if (!stream->Write(SerializeMessage(response))) break;
                }
                return absl::OkStatus();
              });
            }));
  }

  // Registers a method with one request and a stream of answers. `handle` calls `write` for each of
  // them; false means that nobody reads any more. When one cannot be written for `max_write` the
  // call ends. Otherwise as OneByOneStream.
  template <typename Request, typename Response>
  void AnswerStream(
      const char* method,
      CallRegistry* registry,
      absl::Duration max_write,
      std::function<absl::Status(const Request&,
                                 const service::CallOptions&,
                                 const std::function<bool(const Response&)>& write)> handle) {
    using Stream = grpc::ServerSplitStreamer<ByteBuffer, ByteBuffer>;
    this->MarkMethodStreamed(
        MethodIndex(Request::descriptor()->file(), method),
        new grpc::internal::SplitServerStreamingHandler<ByteBuffer, ByteBuffer>(
            [handle = std::move(handle), registry, max_write](grpc::ServerContext* context,
                                                              Stream* stream) {
              const auto cancel = [context] { context->TryCancel(); };
              return Registered(*registry, stream, cancel, [&]() -> absl::Status {
                Request request;
                if (absl::Status read = ReadRequest(*stream, &request); !read.ok()) return read;
                StallGuard guard(max_write, cancel);
                guard.Pause();
                return handle(request, CallOptionsOf(context), [&](const Response& response) {
                  guard.Progress();
                  const bool written = stream->Write(SerializeMessage(response));
                  guard.Pause();
                  return written;
                });
              });
            }));
  }

  // Registers a method with a stream of requests and one answer. `handle` calls `read` for each of
  // them; nullopt is their end. When none comes for `max_read` while it waits for one the call
  // ends. Otherwise as OneByOneStream.
  template <typename Request, typename Response>
  void RequestStream(const char* method,
                     CallRegistry* registry,
                     absl::Duration max_read,
                     std::function<absl::Status(
                         const std::function<absl::StatusOr<std::optional<Request>>()>& read,
                         const service::CallOptions&,
                         Response*)> handle) {
    using Stream = grpc::ServerReaderWriter<ByteBuffer, ByteBuffer>;
    this->MarkMethodStreamed(
        MethodIndex(Request::descriptor()->file(), method),
        new grpc::internal::TemplatedBidiStreamingHandler<Stream, false>(
            [handle = std::move(handle), registry, max_read](grpc::ServerContext* context,
                                                             Stream* stream) {
              const auto cancel = [context] { context->TryCancel(); };
              return Registered(*registry, stream, cancel, [&]() -> absl::Status {
                const service::CallOptions call = CallOptionsOf(context);
                StallGuard guard(max_read, cancel);
                const auto read = [&]() -> absl::StatusOr<std::optional<Request>> {
                  ByteBuffer bytes;
                  guard.Progress();
                  const bool arrived = stream->Read(&bytes);
                  guard.Pause();
                  if (!arrived) {
                    // The end, unless the caller is gone.
                    if (absl::Status wanted = call.still_wanted(); !wanted.ok()) return wanted;
                    return std::nullopt;
                  }
                  std::optional<Request> request(std::in_place);
                  if (absl::Status parsed = ParseMessage(bytes, &*request); !parsed.ok()) {
                    return parsed;
                  }
                  return request;
                };
                Response response;
                absl::Status status = handle(read, call, &response);
                if (status.ok()) stream->Write(SerializeMessage(response));
                return status;
              });
            }));
  }

 private:
  CallRegistry unary_calls_{std::numeric_limits<size_t>::max()};
};

}  // namespace lethe::rpc

#endif  // LETHE_SERVER_RPC_HANDLERS_H_
