#include "server/rpc/call.h"

#include <iterator>
#include <memory>

#include "absl/strings/string_view.h"
#include "server/rpc/status.h"

namespace lethe::rpc {
namespace {

constexpr char kRequestId[] = "x-request-id";
constexpr char kTraceParent[] = "traceparent";

// The only value of this metadata; empty when there is none, or several.
std::string OnlyValue(const grpc::ServerContextBase& context, const char* key) {
  const auto [begin, end] = context.client_metadata().equal_range(key);
  if (begin == end || std::next(begin) != end) return "";
  return {begin->second.data(), begin->second.size()};
}

access::Credentials CredentialsOf(const grpc::ServerContextBase& context) {
  access::Credentials credentials;
  const auto [begin, end] = context.client_metadata().equal_range("authorization");
  for (auto header = begin; header != end; ++header) {
    credentials.authorization.emplace_back(header->second.data(), header->second.size());
  }
  // gRPC puts a certificate there that the handshake verified against the server's CA, or none:
  // the server asks for one in no other way (tls.cc).
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  if (peer != nullptr) {
    for (const grpc::string_ref& pem : peer->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME)) {
      credentials.certificate.assign(pem.data(), pem.size());
    }
  }
  return credentials;
}

}  // namespace

RpcCall::RpcCall(grpc::ServerContextBase* context, const MethodCalls* method)
    : ServedCall(method,
                 {.request_id = OnlyValue(*context, kRequestId),
                  .trace_parent = OnlyValue(*context, kTraceParent)},
                 [context] { return CredentialsOf(*context); }) {
  context->AddInitialMetadata(kRequestId, request_id());
  if (!trace_parent().empty()) context->AddInitialMetadata(kTraceParent, trace_parent());
}

grpc::Status RpcCall::Finish(const absl::Status& status) {
  ServedCall::Finish(status);
  return ToGrpc(status, request_id());
}

}  // namespace lethe::rpc
