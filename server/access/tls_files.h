// The files of a server's TLS: its certificate chain and key, and the authority of its clients.
#ifndef LETHE_SERVER_ACCESS_TLS_FILES_H_
#define LETHE_SERVER_ACCESS_TLS_FILES_H_

#include <string>

#include "absl/status/status.h"

namespace lethe::access {

struct TlsFiles {
  std::string certificate;                   // PEM, the server's own first; empty: no TLS
  std::string key;                           // PEM, not encrypted
  std::string client_ca;                     // PEM; empty: clients show no certificates
  bool client_certificates_required = true;  // with client_ca
};

// Whether a server could use them: they can be read, the key is nobody else's to read and is that
// of the certificate, the certificate is valid now. Says which file is wrong and why, by the names
// of lethed's options; INVALID_ARGUMENT, or what reading said. OK without TLS. Threads: safe.
absl::Status CheckTlsFiles(const TlsFiles& files);

}  // namespace lethe::access

#endif  // LETHE_SERVER_ACCESS_TLS_FILES_H_
