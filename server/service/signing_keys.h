// The private keys that sign the logs of all tenants, in <data>/keys:
//
//   signing.pem          the key in use
//   signing.next.pem     while a rotation runs: the key that logs are handed over to
//   signing.retired.pem  for a moment at the end of one: the old key, about to be destroyed
//
// A rotation: Begin makes the next key; each log hands over (Tenant::HandOver); Finish, when no log
// needs the old key any more, renames signing to retired and next to signing, overwrites retired
// with zeros and removes it. Every step is durable before the next, and Open finishes a Finish that
// was interrupted, so that at any moment the files hold each key that a log may still need.
//
// One key signs under the name of each log. What a file system or a disk keeps of overwritten bytes
// is beyond this. Threads: safe.
#ifndef LETHE_SERVER_SERVICE_SIGNING_KEYS_H_
#define LETHE_SERVER_SERVICE_SIGNING_KEYS_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/signer.h"
#include "core/base/mutex.h"

namespace lethe::service {

// A seam for tests: asked at named moments of a rotation; what is not OK ends it there, as a crash
// would. "begun", "handed-over" (after each log), "retired", "promoted", "wiped".
using RotationFault = std::function<absl::Status(absl::string_view step)>;

class SigningKeys {
 public:
  // `folder` is there and ours alone. Makes the first key when `may_create`; without it a missing
  // key is FAILED_PRECONDITION. Errors of the files as Signer's.
  static absl::StatusOr<std::unique_ptr<SigningKeys>> Open(const std::string& folder,
                                                           bool may_create,
                                                           RotationFault fault);
  SigningKeys(const SigningKeys&) = delete;
  SigningKeys& operator=(const SigningKeys&) = delete;

  // Whether Open made the first key.
  bool created() const { return created_; }
  // Whether a rotation has begun and is not finished.
  bool rotating() const ABSL_LOCKS_EXCLUDED(mutex_);

  // The key in use, under the name of a log. Where a rotation stopped between its renames that is
  // the next one: every log has been handed over to it.
  absl::StatusOr<audit::Signer> Current(absl::string_view origin) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The key to hand over to while rotating, otherwise that in use.
  absl::StatusOr<audit::Signer> Newest(absl::string_view origin) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The one of them that has this vkey. FAILED_PRECONDITION when none has.
  absl::StatusOr<audit::Signer> Find(absl::string_view origin, absl::string_view vkey) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Nothing to do when rotating.
  absl::Status Begin() ABSL_LOCKS_EXCLUDED(mutex_);
  // Requires that no log needs the old key. Nothing to do unless rotating.
  absl::Status Finish() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Reached(absl::string_view step) const {
    return fault_ ? fault_(step) : absl::OkStatus();
  }

 private:
  SigningKeys(std::string folder, RotationFault fault)
      : folder_(std::move(folder)), fault_(std::move(fault)) {}
  std::string Path(absl::string_view file) const;
  bool Exists(absl::string_view file) const;
  bool Rotating() const { return Exists("signing.next.pem") || Exists("signing.retired.pem"); }
  absl::Status Rename(absl::string_view from, absl::string_view to) const;
  // From where the files are: the rest of Finish.
  absl::Status FinishSwap() const;

  const std::string folder_;
  const RotationFault fault_;
  bool created_ = false;
  mutable Mutex mutex_;  // held while files are read or changed
};

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_SIGNING_KEYS_H_
