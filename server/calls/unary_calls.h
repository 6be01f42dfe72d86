// The calls with one request and one answer: what each does, from message to message, whatever it
// came in by. Each converts, makes one call of the service, converts back. Threads: safe.
#ifndef LETHE_SERVER_CALLS_UNARY_CALLS_H_
#define LETHE_SERVER_CALLS_UNARY_CALLS_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/check.h"
#include "lethe/v1/memory_service.pb.h"
#include "server/calls/convert.h"
#include "server/calls/convert_erasure.h"
#include "server/calls/convert_jobs.h"
#include "server/service/paging.h"
#include "server/service/service.h"

namespace lethe::calls {

struct UnaryCall {
  const google::protobuf::MethodDescriptor* method = nullptr;
  // Empty messages of its types.
  const google::protobuf::Message* request = nullptr;
  const google::protobuf::Message* response = nullptr;
  std::function<absl::Status(const google::protobuf::Message& request,
                             const service::CallOptions& call,
                             google::protobuf::Message* response)>
      handle;
};

// `service` must outlive the calls.
std::vector<UnaryCall> TenantCalls(service::Service* service);
std::vector<UnaryCall> MemoryCalls(service::Service* service);
std::vector<UnaryCall> CertificateCalls(service::Service* service);
std::vector<UnaryCall> ErasureCalls(service::Service* service);
std::vector<UnaryCall> JobCalls(service::Service* service);
// All of these.
std::vector<UnaryCall> AllUnaryCalls(service::Service* service);
// Those of workers, who come by gRPC alone.
std::vector<UnaryCall> WorkerCalls(service::Service* service);

// The body of Query, for a stream of them too.
absl::Status Query(service::Service* service,
                   const v1::QueryRequest& request,
                   const service::CallOptions& call,
                   v1::QueryResponse* response);

// --- For the files that define calls.

// The method of the service in the request's file.
template <typename Request, typename Response>
UnaryCall MakeUnary(
    const char* method,
    std::function<absl::Status(const Request&, const service::CallOptions&, Response*)> handle) {
  const google::protobuf::FileDescriptor* file = Request::descriptor()->file();
  LETHE_CHECK(file->service_count() == 1);
  const google::protobuf::MethodDescriptor* found = file->service(0)->FindMethodByName(method);
  LETHE_CHECK(found != nullptr && found->input_type() == Request::descriptor() &&
              found->output_type() == Response::descriptor());
  return {.method = found,
          .request = &Request::default_instance(),
          .response = &Response::default_instance(),
          .handle = [handle = std::move(handle)](const google::protobuf::Message& request,
                                                 const service::CallOptions& call,
                                                 google::protobuf::Message* response) {
            return handle(static_cast<const Request&>(request), call,
                          static_cast<Response*>(response));
          }};
}

// Converts the service's answer, or passes its status on.
template <typename From, typename To>
absl::Status Answer(const absl::StatusOr<From>& from, To* to) {
  if (!from.ok()) return from.status();
  ToProto(*from, to);
  return absl::OkStatus();
}

template <typename Request>
service::PageRequest PageOf(const Request& request) {
  return {.size = request.page_size(), .token = request.page_token()};
}

}  // namespace lethe::calls

#endif  // LETHE_SERVER_CALLS_UNARY_CALLS_H_
