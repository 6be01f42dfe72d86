// One call over HTTP (server/calls/served_call.h), and what the service asks of it. The listener
// makes one for each request, asks Enter before the body is read, and ends it; a handler asks Admit
// before it does anything. Threads: compatible.
#ifndef LETHE_SERVER_HTTP_HTTP_CALL_H_
#define LETHE_SERVER_HTTP_HTTP_CALL_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "server/calls/served_call.h"
#include "server/http/http_message.h"
#include "server/service/types.h"

namespace lethe::http {

class HttpCall final : public calls::ServedCall {
 public:
  // `method` must outlive the call.
  HttpCall(const calls::MethodCalls* method,
           const HttpRequest& request,
           std::function<absl::Status()> still_wanted);

  // Must not outlive the call.
  service::CallOptions options() const { return {.still_wanted = still_wanted_, .sees = Sees()}; }
  // The certificate that the call made, for the operations log.
  void Certificate(std::string id) { certificate_ = std::move(id); }
  const std::string& certificate() const { return certificate_; }

 private:
  const std::function<absl::Status()> still_wanted_;
  std::string certificate_;
};

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_HTTP_CALL_H_
