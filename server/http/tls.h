// The certificate that an HTTPS listener shows, and whose client certificates it accepts; read from
// files, and read anew when they change.
#ifndef LETHE_SERVER_HTTP_TLS_H_
#define LETHE_SERVER_HTTP_TLS_H_

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "server/access/tls_files.h"

namespace lethe::http {

// Threads: safe.
class TlsContext {
 public:
  // TLS 1.2 and 1.3, HTTP/1.1, no resumption (so that a handshake always meets the present files),
  // no renegotiation. Errors name the file and what is wrong with it, and hold no byte of it.
  static absl::StatusOr<std::unique_ptr<TlsContext>> Load(access::TlsFiles files);
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // Reads the files: the next handshakes use what they hold. After an error nothing has changed.
  absl::Status Reload() ABSL_LOCKS_EXCLUDED(mutex_);
  // Reload where the files are not what was read last, good or bad. True: there was something new.
  absl::StatusOr<bool> ReloadIfChanged() ABSL_LOCKS_EXCLUDED(mutex_);
  std::shared_ptr<SSL_CTX> current() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Contents;
  explicit TlsContext(access::TlsFiles files) : files_(std::move(files)) {}
  absl::StatusOr<Contents> Read() const;
  absl::Status Use(const Contents& contents) ABSL_LOCKS_EXCLUDED(mutex_);

  const access::TlsFiles files_;
  mutable Mutex mutex_;
  std::string fingerprint_ ABSL_GUARDED_BY(mutex_);  // of what was read last
  std::shared_ptr<SSL_CTX> current_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_TLS_H_
