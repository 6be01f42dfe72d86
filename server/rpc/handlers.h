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
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "server/calls/unary_calls.h"
#include "server/rpc/call.h"
#include "server/rpc/call_registry.h"
#include "server/rpc/call_threads.h"
#include "server/rpc/parse.h"
#include "server/rpc/peer_watch.h"
#include "server/rpc/unary_call.h"
#include "server/service/types.h"

namespace lethe::rpc {

// CANCELLED or DEADLINE_EXCEEDED once nobody waits for the answer. The context must outlive it.
service::CallOptions CallOptionsOf(grpc::ServerContextBase* context);
// The same, with what the caller may know of. Both must outlive it.
service::CallOptions CallOptionsOf(grpc::ServerContextBase* context, const RpcCall& served);

// Runs `body`; an exception becomes RESOURCE_EXHAUSTED (out of memory) or INTERNAL instead of
// reaching gRPC, which would swallow it.
absl::Status Guarded(absl::FunctionRef<absl::Status()> body);

// Runs `body` guarded while it holds a place in the registry under `key`; `stop` as there. Every
// stream but InsertStream passes here: it is counted, logged and given its request id (call.h).
grpc::Status Registered(CallRegistry& registry,
                        const void* key,
                        std::function<void()> stop,
                        grpc::ServerContextBase* context,
                        const MethodCalls* method,
                        absl::FunctionRef<absl::Status(RpcCall&)> body);

// The turns of a stream that answers each message before it reads the next, for a stop that comes
// in between: a message that has been read is answered, a stream that waits for one ends.
// Threads: Stop from any, the rest from that of the handler.
class StreamTurns {
 public:
  // The context must outlive it.
  explicit StreamTurns(grpc::ServerContextBase* context) : context_(context) {}

  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);
  // Before the next message is read, and behind that: UNAVAILABLE once the server stops.
  absl::Status BeginRead() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status EndRead() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  grpc::ServerContextBase* const context_;
  Mutex mutex_;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

// What the handlers of a server share; what it points to must outlive them.
struct Shared {
  CallHooks hooks;
  PeerWatch* watch;
  CallThreads* threads;
};

// Each handler asks the gate before it reads, and again for each message
// (server/calls/served_call.h). None waits for its peer without a limit (peer_watch.h).
template <typename Base>
class RawService : public Base {
 public:
  explicit RawService(const Shared& shared) : shared_(shared) {}

  // Once the server is built.
  void StartCalls() {
    for (const auto& method : unary_methods_) UnaryCall::Await(method.get());
  }
  // Refuses new calls (UNAVAILABLE); streams end after what they have received.
  virtual void StopCalls() { unary_calls_.StopAll(); }
  // Returns when no handler runs, or at the deadline.
  virtual void WaitForCalls(std::chrono::system_clock::time_point deadline) {
    unary_calls_.WaitUntilEmpty(deadline);
  }

 protected:
  using ByteBuffer = grpc::ByteBuffer;

  // A method of the service that a file describes.
  static const google::protobuf::MethodDescriptor* MethodOf(
      const google::protobuf::FileDescriptor* file,
      const char* method) {
    LETHE_CHECK(file->service_count() == 1);
    const google::protobuf::MethodDescriptor* found = file->service(0)->FindMethodByName(method);
    LETHE_CHECK(found != nullptr);
    return found;
  }

  // What the calls of a method share; lives as long as the service.
  const MethodCalls* CallsOf(const google::protobuf::MethodDescriptor* method) {
    return methods_.emplace_back(std::make_unique<MethodCalls>(shared_.hooks, method)).get();
  }

  // The request of a call that has one.
  template <typename Stream, typename Request>
  static absl::Status ReadRequest(Stream& stream, PeerWatch::Wait wait, Request* request) {
    ByteBuffer bytes;
    {
      const PeerWatch::Wait waiting = std::move(wait);  // not for what follows
      const bool arrived = stream.Read(&bytes);
      // Also of one that arrived: the peer is told that it did not.
      LETHE_RETURN_IF_ERROR(waiting.status());
      if (!arrived) return absl::CancelledError("no request arrived");
    }
    return ParseMessage(bytes, request);
  }

  // False when it could not be written, or was not taken within the limit.
  template <typename Stream, typename Response>
  bool WriteAnswer(Stream& stream,
                   grpc::ServerContextBase* context,
                   absl::Duration limit,
                   const Response& response) {
    const ByteBuffer bytes = SerializeMessage(response);
    const PeerWatch::Wait wait = shared_.watch->For(context, limit);
    return stream.Write(bytes);
  }

  // Registers a method with one request and one answer.
  void Unary(const calls::UnaryCall& unary) {
    // The position of a method in its service, as the generated code numbers it.
    const int index = unary.method->index();
    // Without a handler, for what else it does: gRPC leaves the request to be read.
    this->MarkMethodStreamed(index, nullptr);
    this->MarkMethodRaw(index);
    unary_methods_.push_back(std::make_unique<UnaryMethod>(UnaryMethod{
        .call = unary,
        .calls = CallsOf(unary.method),
        .registry = &unary_calls_,
        .watch = shared_.watch,
        .threads = shared_.threads,
        .next = [this, index](grpc::ServerContext* context, UnaryStream* stream,
                              CallEvent* arrived) {
          grpc::ServerCompletionQueue* queue = shared_.threads->queue();
          this->RequestAsyncBidiStreaming(index, context, stream, queue, queue, arrived);
        }}));
  }

  // Registers a method that answers each request of a stream before it reads the next. Each stream
  // holds a thread; the registry, which must outlive the server, bounds them. When it stops, a
  // stream answers what it has read and ends with UNAVAILABLE; so does one that is silent for
  // longer than the watch allows.
  template <typename Request, typename Response>
  void OneByOneStream(
      const char* method,
      CallRegistry* registry,
      std::function<absl::Status(const Request&, const service::CallOptions&, Response*)> handle) {
    using Stream = grpc::ServerReaderWriter<ByteBuffer, ByteBuffer>;
    const auto* described = MethodOf(Request::descriptor()->file(), method);
    const MethodCalls* calls = CallsOf(described);
    this->MarkMethodStreamed(
        // The position of a method in its service, as the generated code numbers it.
        described->index(),
        new grpc::internal::TemplatedBidiStreamingHandler<Stream, false>(
            [this, handle = std::move(handle), registry, calls](grpc::ServerContext* context,
                                                                Stream* stream) {
              StreamTurns turns(context);
              return Registered(
                  *registry, stream, [&turns] { turns.Stop(); }, context, calls,
                  [&](RpcCall& call) -> absl::Status {
                    LETHE_RETURN_IF_ERROR(call.Enter());
                    const PeerWatchOptions& limits = shared_.watch->options();
                    for (bool first = true;; first = false) {
                      LETHE_RETURN_IF_ERROR(turns.BeginRead());
                      ByteBuffer bytes;
                      bool arrived = false;
                      {
                        const PeerWatch::Wait wait =
                            shared_.watch->For(context, first ? limits.patience : limits.idle);
                        arrived = stream->Read(&bytes);
                        LETHE_RETURN_IF_ERROR(wait.status());
                      }
                      const absl::Status stopped = turns.EndRead();
                      if (!arrived) return stopped;
                      Request request;
                      LETHE_RETURN_IF_ERROR(ParseMessage(bytes, &request));
                      LETHE_RETURN_IF_ERROR(call.Admit(request));
                      Response response;
                      LETHE_RETURN_IF_ERROR(
                          handle(request, CallOptionsOf(context, call), &response));
                      if (!WriteAnswer(*stream, context, limits.patience, response)) {
                        return absl::CancelledError("the caller is gone");
                      }
                    }
                  });
            }));
  }

  // Registers a method with one request and a stream of answers. `handle` calls `write` for each of
  // them; false means that nobody reads any more. When one cannot be written for `max_write` the
  // call ends. Otherwise as OneByOneStream, but a stop lets it run on.
  template <typename Request, typename Response>
  void AnswerStream(
      const char* method,
      CallRegistry* registry,
      absl::Duration max_write,
      std::function<absl::Status(const Request&,
                                 const service::CallOptions&,
                                 const std::function<bool(const Response&)>& write)> handle) {
    using Stream = grpc::ServerSplitStreamer<ByteBuffer, ByteBuffer>;
    const auto* described = MethodOf(Request::descriptor()->file(), method);
    const MethodCalls* calls = CallsOf(described);
    this->MarkMethodStreamed(
        // The position of a method in its service, as the generated code numbers it.
        described->index(),
        new grpc::internal::SplitServerStreamingHandler<ByteBuffer, ByteBuffer>(
            [this, handle = std::move(handle), registry, max_write, calls](
                grpc::ServerContext* context, Stream* stream) {
              return Registered(
                  *registry, stream, {}, context, calls, [&](RpcCall& call) -> absl::Status {
                    LETHE_RETURN_IF_ERROR(call.Enter());
                    Request request;
                    LETHE_RETURN_IF_ERROR(ReadRequest(
                        *stream, shared_.watch->For(context, shared_.watch->options().patience),
                        &request));
                    LETHE_RETURN_IF_ERROR(call.Admit(request));
                    const auto write = [&](const Response& response) {
                      return WriteAnswer(*stream, context, max_write, response);
                    };
                    return call.Answer(handle(request, CallOptionsOf(context, call), write));
                  });
            }));
  }

  // Registers a method with a stream of requests and one answer. `handle` calls `read` for each of
  // them; nullopt is their end. When none comes for `max_read` while it waits for one the call
  // ends. `tenant_of` is the tenant that the first request names, for the record alone. Otherwise
  // as AnswerStream.
  template <typename Request, typename Response>
  void RequestStream(const char* method,
                     CallRegistry* registry,
                     absl::Duration max_read,
                     std::string (*tenant_of)(const Request&),
                     std::function<absl::Status(
                         const std::function<absl::StatusOr<std::optional<Request>>()>& read,
                         const service::CallOptions&,
                         Response*)> handle) {
    using Stream = grpc::ServerReaderWriter<ByteBuffer, ByteBuffer>;
    const auto* described = MethodOf(Request::descriptor()->file(), method);
    const MethodCalls* calls = CallsOf(described);
    this->MarkMethodStreamed(
        // The position of a method in its service, as the generated code numbers it.
        described->index(),
        new grpc::internal::TemplatedBidiStreamingHandler<Stream, false>(
            [this, handle = std::move(handle), registry, max_read, tenant_of, calls](
                grpc::ServerContext* context, Stream* stream) {
              return Registered(
                  *registry, stream, {}, context, calls, [&](RpcCall& call) -> absl::Status {
                    LETHE_RETURN_IF_ERROR(call.Enter());
                    const service::CallOptions options = CallOptionsOf(context, call);
                    std::optional<std::string> tenant;
                    const auto read = [&]() -> absl::StatusOr<std::optional<Request>> {
                      ByteBuffer bytes;
                      bool arrived = false;
                      {
                        const PeerWatch::Wait wait = shared_.watch->For(context, max_read);
                        arrived = stream->Read(&bytes);
                      }
                      if (!arrived) {
                        // The end, unless the caller is gone.
                        if (absl::Status wanted = options.still_wanted(); !wanted.ok())
                          return wanted;
                        return std::nullopt;
                      }
                      std::optional<Request> request(std::in_place);
                      LETHE_RETURN_IF_ERROR(ParseMessage(bytes, &*request));
                      if (!tenant.has_value()) tenant = tenant_of(*request);
                      LETHE_RETURN_IF_ERROR(call.Admit(*tenant, ""));
                      return request;
                    };
                    Response response;
                    LETHE_RETURN_IF_ERROR(call.Answer(handle(read, options, &response), response));
                    WriteAnswer(*stream, context, shared_.watch->options().patience, response);
                    return absl::OkStatus();
                  });
            }));
  }

 private:
  const Shared shared_;
  std::vector<std::unique_ptr<MethodCalls>> methods_;
  std::vector<std::unique_ptr<UnaryMethod>> unary_methods_;
  CallRegistry unary_calls_{std::numeric_limits<size_t>::max()};
};

}  // namespace lethe::rpc

#endif  // LETHE_SERVER_RPC_HANDLERS_H_
