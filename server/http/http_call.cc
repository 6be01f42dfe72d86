#include "server/http/http_call.h"

namespace lethe::http {
namespace {

access::Credentials CredentialsOf(const HttpRequest& request) {
  access::Credentials credentials;
  for (const auto& [name, value] : request.headers) {
    if (name == "authorization") credentials.authorization.push_back(value);
  }
  credentials.certificate = request.certificate;
  return credentials;
}

}  // namespace

HttpCall::HttpCall(const calls::MethodCalls* method,
                   const HttpRequest& request,
                   std::function<absl::Status()> still_wanted)
    : ServedCall(method,
                 {.request_id = std::string(request.Header("x-request-id")),
                  .trace_parent = std::string(request.Header("traceparent"))},
                 [&request] { return CredentialsOf(request); }),
      still_wanted_(std::move(still_wanted)) {}

}  // namespace lethe::http
