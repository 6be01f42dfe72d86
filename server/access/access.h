// Who may do what, as the access file says it: static tokens, client certificates and issuers of
// signed tokens, each with its grants. docs/access.md describes the file.
//
// Access holds the present policy and can read it anew; a policy never changes, and a call keeps
// the one that it began with until it asks again (gate.h). Threads: safe.
#ifndef LETHE_SERVER_ACCESS_ACCESS_H_
#define LETHE_SERVER_ACCESS_ACCESS_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "server/access/credentials.h"
#include "server/access/identity.h"

namespace lethe::access {

class Policy {
 public:
  virtual ~Policy() = default;
  // Whose credentials these are. A bearer token counts before a certificate, and a bad one is not
  // made good by a certificate. UNAUTHENTICATED with the reason, for the log and not for the
  // caller; holds nothing of a credential.
  virtual absl::StatusOr<std::shared_ptr<const Identity>> Authenticate(
      const Credentials& credentials,
      absl::Time now) const = 0;
};

// Reads an access file and the key files that it names. Errors name the file and the line, never a
// value: unknown keys, a wrong type, a bad digest, a grant that cannot be read, a file that others
// could have written.
absl::StatusOr<std::shared_ptr<const Policy>> LoadAccess(const std::string& path);

class Access {
 public:
  // LoadAccess.
  static absl::StatusOr<std::unique_ptr<Access>> Open(const std::string& path);
  explicit Access(std::shared_ptr<const Policy> policy, std::string path = {})
      : path_(std::move(path)), policy_(std::move(policy)) {}
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;

  void Replace(std::shared_ptr<const Policy> policy) ABSL_LOCKS_EXCLUDED(mutex_);
  // Reads the file again. After an error, which says why, the old policy stays in force.
  absl::Status Reload() ABSL_LOCKS_EXCLUDED(mutex_);
  std::shared_ptr<const Policy> policy() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const std::string path_;
  mutable Mutex mutex_;
  std::shared_ptr<const Policy> policy_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lethe::access

#endif  // LETHE_SERVER_ACCESS_ACCESS_H_
