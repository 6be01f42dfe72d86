#include "server/rpc/tls.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

namespace lethe::rpc {
namespace {

constexpr unsigned kRefreshSeconds = 1;

}  // namespace

std::shared_ptr<grpc::ServerCredentials> TlsCredentials(const access::TlsFiles& files) {
  using grpc::experimental::FileWatcherCertificateProvider;
  const bool clients = !files.client_ca.empty();
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<FileWatcherCertificateProvider>(files.key, files.certificate,
                                                       files.client_ca, kRefreshSeconds));
  options.watch_identity_key_cert_pairs();
  if (clients) options.watch_root_certs();
  options.set_cert_request_type(!clients ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                : files.client_certificates_required
                                    ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                    : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  // A client has no host name to check; its alternative names are looked up in the access file.
  options.set_check_call_host(false);
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace lethe::rpc
