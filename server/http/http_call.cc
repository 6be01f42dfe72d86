#include "server/http/http_call.h"

#include "audit/encoding.h"
#include "audit/random.h"

namespace lethe::http {
namespace {

constexpr size_t kRequestIdBytes = 16;

access::Credentials CredentialsOf(const HttpRequest& request) {
  access::Credentials credentials;
  for (const auto& [name, value] : request.headers) {
    if (name == "authorization") credentials.authorization.push_back(value);
  }
  credentials.certificate = request.certificate;
  return credentials;
}

}  // namespace

HttpCall::HttpCall(const access::Gate& gate,
                   absl::string_view operation,
                   const HttpRequest& request,
                   std::function<absl::Status()> still_wanted)
    : guarded_(gate.guarded()),
      still_wanted_(std::move(still_wanted)),
      call_(gate,
            access::FindMethod(operation),
            operation,
            audit::Hex(audit::RandomBytes(kRequestIdBytes)),
            [&request] { return CredentialsOf(request); }) {}

service::CallOptions HttpCall::options() const {
  service::CallOptions options{.still_wanted = still_wanted_};
  if (guarded_) options.sees = [this](absl::string_view tenant) { return call_.Sees(tenant); };
  return options;
}

}  // namespace lethe::http
