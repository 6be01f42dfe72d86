// TLS of the gRPC server: 1.2 and 1.3, the range of gRPC 1.51, which has no setting for it.
#ifndef LETHE_SERVER_RPC_TLS_H_
#define LETHE_SERVER_RPC_TLS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "server/access/tls_files.h"

namespace lethe::rpc {

// Credentials that follow the files: gRPC looks at them every second on a thread of its own, and
// new connections get what they hold then. A client certificate that is shown must be signed by
// the client CA, whether one is required or not. Files that cannot be used fail the handshakes,
// with a line in the log, until they can: ask access::CheckTlsFiles first. Requires a certificate
// and a key.
std::shared_ptr<grpc::ServerCredentials> TlsCredentials(const access::TlsFiles& files);

}  // namespace lethe::rpc

#endif  // LETHE_SERVER_RPC_TLS_H_
