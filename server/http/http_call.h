// One call over HTTP: at the gate (server/access/gate.h), and what the service asks of it. The
// listener makes one for each request and ends it. Threads: compatible.
#ifndef LETHE_SERVER_HTTP_HTTP_CALL_H_
#define LETHE_SERVER_HTTP_HTTP_CALL_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/access/gate.h"
#include "server/access/methods.h"
#include "server/http/http_message.h"
#include "server/service/types.h"

namespace lethe::http {

class HttpCall {
 public:
  // `operation`: the name of its row in the table of access. All outlive the call.
  HttpCall(const access::Gate& gate,
           absl::string_view operation,
           const HttpRequest& request,
           std::function<absl::Status()> still_wanted);
  HttpCall(const HttpCall&) = delete;
  HttpCall& operator=(const HttpCall&) = delete;

  // access::Call's. The listener has asked Enter before the body was read; a handler asks Admit
  // before it does anything.
  absl::Status Enter() { return call_.Enter(); }
  absl::Status Admit(absl::string_view tenant, absl::string_view memory) {
    return call_.Admit(tenant, memory);
  }
  // The certificate that the call made, for the operations log.
  void Certificate(std::string id) { certificate_ = std::move(id); }
  void Finish(const absl::Status& outcome) { call_.Finish(outcome, certificate_); }

  // Must not outlive the call.
  service::CallOptions options() const;

 private:
  const bool guarded_;
  const std::function<absl::Status()> still_wanted_;
  access::Call call_;
  std::string certificate_;
};

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_HTTP_CALL_H_
