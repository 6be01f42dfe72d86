// Who may do what, as the access file says it: static tokens, client certificates and issuers of
// signed tokens, each with its grants. docs/access.md describes the file.
//
// Access holds the present policy and can read it anew; a policy never changes, and a call keeps
// the one that it began with until it asks again (gate.h). Threads: safe.
#ifndef LETHE_SERVER_ACCESS_ACCESS_H_
#define LETHE_SERVER_ACCESS_ACCESS_H_

#include <memory>
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

// Holds the policy in force.
class Access {
 public:
  explicit Access(std::shared_ptr<const Policy> policy) : policy_(std::move(policy)) {}
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;

  std::shared_ptr<const Policy> policy() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const Policy> policy_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lethe::access

#endif  // LETHE_SERVER_ACCESS_ACCESS_H_
