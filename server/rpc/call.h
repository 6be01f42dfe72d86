// One call of gRPC from its arrival to its answer: its request id and trace context, whether it is
// admitted (admission.h), what is counted of it, and what the log says.
//
// The id is the caller's x-request-id where that is well formed, otherwise one is made; both it and
// a well-formed W3C traceparent go back in the initial metadata and stand in the log's lines. A
// malformed one is not an error: it is left out. The log has a line for each call at debug, and at
// warning for those that were slow or failed on the server's side, at most so many a second.
//
// Threads: compatible; MethodCalls is safe.
// Source: w3.org/TR/trace-context, section 3.2; google.rpc.RequestInfo.
#ifndef LETHE_SERVER_RPC_CALL_H_
#define LETHE_SERVER_RPC_CALL_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/rpc/admission.h"
#include "server/service/call_observer.h"
#include "server/service/event_log.h"

namespace lethe::rpc {

inline constexpr size_t kMaxRequestIdBytes = 64;

// 1 to 64 characters of [A-Za-z0-9._:-]. No '@' and no blanks: it is written to logs, and should
// not be an address or a name.
bool IsRequestId(absl::string_view text);
// A traceparent of version 00, or the like of a later one.
bool IsTraceParent(absl::string_view text);

// Keeps the lines of calls below a rate, so that a caller cannot fill the disk. Threads: safe.
class LineLimit {
 public:
  // Whether one more line may be written now; `left_out`: how many were refused before this one
  // since the last that was told of, at the first line of a second.
  bool Take(int64_t second, int64_t* left_out);

 private:
  static constexpr int64_t kLinesASecond = 20;
  std::atomic<int64_t> second_{0};
  std::atomic<int64_t> lines_{0};
  std::atomic<int64_t> left_out_{0};
};

// What all calls of a server share. What it points to must outlive the server; null: none.
struct CallHooks {
  const access::Gate* gate = nullptr;  // required where calls are served
  service::CallObserver* observer = nullptr;
  service::EventLog* log = nullptr;
  LineLimit* lines = nullptr;  // with a log
  // Calls that are not streams and take longer get a line.
  absl::Duration slow = absl::Seconds(1);
};

// What the calls of one method share.
class MethodCalls {
 public:
  MethodCalls(const CallHooks& hooks, const google::protobuf::MethodDescriptor* method);

  const CallHooks& hooks() const { return hooks_; }
  service::MethodObserver* observer() const { return observer_; }
  const MethodEntry& entry() const { return entry_; }
  bool stream() const { return stream_; }

 private:
  CallHooks hooks_;
  MethodEntry entry_;
  bool stream_;
  service::MethodObserver* observer_ = nullptr;
};

class ServedCall {
 public:
  // `method` must outlive it. Sets initial metadata: nothing may have been sent.
  ServedCall(grpc::ServerContextBase* context, const MethodCalls* method);
  // As Finish with CANCELLED, when nobody called that.
  ~ServedCall();
  ServedCall(const ServedCall&) = delete;
  ServedCall& operator=(const ServedCall&) = delete;

  // Before anything of the request is read, and then for each message, as Admission's. Tenant and
  // memory of the first message that names them well stand in the log's lines.
  absl::Status Enter() { return admission_.Enter(); }
  absl::Status Admit(const google::protobuf::Message& request);
  absl::Status Admit(absl::string_view tenant, absl::string_view memory);
  // What became of the call, for the operations log, as Admission::Finish. Return `status`.
  absl::Status Answer(absl::Status status, const google::protobuf::Message& response) {
    return admission_.Finish(std::move(status), response);
  }
  absl::Status Answer(absl::Status status) { return admission_.Finish(std::move(status)); }

  const Admission& admission() const { return admission_; }
  const std::string& request_id() const { return request_id_; }
  // Counts the call and writes its line. The status to answer with. Once.
  grpc::Status Finish(const absl::Status& status);

 private:
  void About(absl::string_view tenant, absl::string_view memory);
  void Log(service::LogLevel level,
           absl::string_view event,
           absl::StatusCode code,
           absl::Duration duration) const;

  const MethodCalls* const method_;
  const absl::Time begin_;
  const std::string request_id_;
  Admission admission_;
  std::string trace_parent_;
  std::string tenant_;
  std::string memory_;
  bool finished_ = false;
};

}  // namespace lethe::rpc

#endif  // LETHE_SERVER_RPC_CALL_H_
