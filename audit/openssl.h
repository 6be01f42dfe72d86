// What everything that calls OpenSSL needs; for sources, not for headers. Threads: safe.
#ifndef LETHE_AUDIT_OPENSSL_H_
#define LETHE_AUDIT_OPENSSL_H_

#include <openssl/err.h>

#include "absl/strings/string_view.h"

namespace lethe::audit {

// OpenSSL queues errors by thread; what is handled here must not surface somewhere else.
class ErrorQueueGuard {
 public:
  ErrorQueueGuard() { ERR_set_mark(); }
  ~ErrorQueueGuard() { ERR_pop_to_mark(); }
  ErrorQueueGuard(const ErrorQueueGuard&) = delete;
  ErrorQueueGuard& operator=(const ErrorQueueGuard&) = delete;
};

inline const unsigned char* Unsigned(absl::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_OPENSSL_H_
