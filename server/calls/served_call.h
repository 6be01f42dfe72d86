// One call, whatever it came in by, from its arrival to its answer: its request id and trace
// context, whether it is admitted (server/access/gate.h), what is counted of it, and what the log
// says.
//
// The id is the caller's x-request-id where that is well formed, otherwise one is made; both it and
// a well-formed W3C traceparent go back to the caller and stand in the log's lines. A malformed one
// is not an error: it is left out. The log has a line for each call at debug, and at warning for
// those that were slow or failed on the server's side, at most so many a second.
//
// Threads: compatible; MethodCalls is safe.
// Source: w3.org/TR/trace-context, section 3.2; google.rpc.RequestInfo.
#ifndef LETHE_SERVER_CALLS_SERVED_CALL_H_
#define LETHE_SERVER_CALLS_SERVED_CALL_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/program/event_log.h"
#include "server/access/credentials.h"
#include "server/access/gate.h"
#include "server/access/methods.h"
#include "server/service/call_observer.h"
#include "server/service/quotas.h"
#include "server/service/types.h"

namespace lethe::calls {

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
  program::EventLog* log = nullptr;
  service::Quotas* quotas = nullptr;  // of streams
  LineLimit* lines = nullptr;         // with a log
  // Calls that are not streams and take longer than these milliseconds get a line; null: none does.
  const std::atomic<int64_t>* slow_milliseconds = nullptr;
};

// "/package.Service/Method": its name in the table of access.
std::string NameOf(const google::protobuf::MethodDescriptor* method);

// What the calls of one method share: its row in the table of access, and the places in its
// messages that the gate wants to know. Made once, when the method is registered.
class MethodCalls {
 public:
  // A row that names a field which the request has not is a broken invariant.
  MethodCalls(const CallHooks& hooks, const google::protobuf::MethodDescriptor* method);
  // By the name of a row. An RPC is known by its name; what is none is counted as that of a service
  // "http".
  MethodCalls(const CallHooks& hooks, absl::string_view operation);

  const CallHooks& hooks() const { return hooks_; }
  service::MethodObserver* observer() const { return observer_; }
  // "/package.Service/Method"
  const std::string& name() const { return name_; }
  // Null: not in the table, refused.
  const access::Method* row() const { return row_; }
  bool stream() const { return stream_; }
  // Empty where the message has no such field.
  std::string TenantOf(const google::protobuf::Message& request) const;
  std::string MemoryOf(const google::protobuf::Message& request) const;
  // Whether the switch is on that needs other roles.
  bool SwitchOf(const google::protobuf::Message& request) const;
  std::string CertificateOf(const google::protobuf::Message& response) const;

 private:
  // `method` null: no RPC.
  MethodCalls(const CallHooks& hooks,
              std::string name,
              const google::protobuf::MethodDescriptor* method);

  CallHooks hooks_;
  std::string name_;
  const access::Method* row_;
  bool stream_ = false;
  service::MethodObserver* observer_ = nullptr;
  const google::protobuf::FieldDescriptor* tenant_ = nullptr;
  const google::protobuf::FieldDescriptor* memory_ = nullptr;
  const google::protobuf::FieldDescriptor* switch_ = nullptr;
  const google::protobuf::FieldDescriptor* certificate_ = nullptr;  // of the response
};

// What a caller says beside his request; empty for nothing.
struct CallHeaders {
  std::string request_id;
  std::string trace_parent;
};

class ServedCall {
 public:
  // `method` must outlive it. `credentials` is asked at most once, before this returns.
  ServedCall(const MethodCalls* method,
             const CallHeaders& headers,
             const std::function<access::Credentials()>& credentials);
  // As Finish with CANCELLED, when nobody called that.
  ~ServedCall();
  ServedCall(const ServedCall&) = delete;
  ServedCall& operator=(const ServedCall&) = delete;

  // Before anything of the request is read, and then for each message, as access::Call's. Tenant
  // and memory of the first message that names them well stand in the log's lines; a stream of a
  // tenant then takes a place among those of its tenant, or is refused with RESOURCE_EXHAUSTED.
  absl::Status Enter() { return call_.Enter(); }
  absl::Status Admit(const google::protobuf::Message& request);
  absl::Status Admit(absl::string_view tenant, absl::string_view memory, bool switched = false);
  // What became of the call, and the certificate that it made, for the operations log. Return
  // `status`.
  absl::Status Answer(absl::Status status, const google::protobuf::Message& response);
  absl::Status Answer(absl::Status status, absl::string_view certificate = "");
  // Counts the call and writes its line; the first time, and when that throws not again.
  void Finish(const absl::Status& status);

  // Which tenants the caller may know of; the function must not outlive this.
  service::TenantFilter Sees() const;
  // As it is configured; empty while nobody is known.
  absl::string_view caller() const { return call_.caller(); }
  const std::string& request_id() const { return request_id_; }
  // Empty unless the caller's was well formed.
  const std::string& trace_parent() const { return trace_parent_; }

 private:
  void About(absl::string_view tenant, absl::string_view memory);
  void Log(program::LogLevel level,
           absl::string_view event,
           absl::StatusCode code,
           absl::Duration duration) const;

  const MethodCalls* const method_;
  const absl::Time begin_;
  const std::string request_id_;
  const std::string trace_parent_;
  access::Call call_;
  std::string tenant_;
  std::string memory_;
  service::StreamPlace place_;
  bool in_place_ = false;
  bool finished_ = false;
};

}  // namespace lethe::calls

#endif  // LETHE_SERVER_CALLS_SERVED_CALL_H_
