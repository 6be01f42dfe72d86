// Tells the addresses that erasure requests named of every change of their state, from what the
// service keeps of it (Service::DueCallbacks), so that none is lost by a crash.
//
// Each is a POST of JSON, signed where there is a signer (dsr_signer.h): in OpenDSR's form for a
// request that came by it, in Ketch's for one of Ketch's, and otherwise as the resource tells its
// state, with `sequence` and `change_time`. 2xx is delivered; 410 is never tried again; everything
// else comes again, later and later. Redirects are not followed, no proxy and no cookie is used, an
// answer's body is not read beyond 64 KiB. The address of a name is looked at when the connection
// is made, and is the one that it is made to (callback_policy.h).
//
// Threads: one of its own, from Start to Stop; SendDue for tests.
#ifndef LETHE_SERVER_HTTP_CALLBACK_SENDER_H_
#define LETHE_SERVER_HTTP_CALLBACK_SENDER_H_

#include <condition_variable>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "server/http/callback_policy.h"
#include "server/http/dsr_signer.h"
#include "server/service/event_log.h"
#include "server/service/service.h"

namespace lethe::http {

struct CallbackOptions {
  const CallbackPolicy* policy = nullptr;
  const DsrSigner* signer = nullptr;  // null: nothing is signed
  std::string public_url;             // what links begin with
  // PEM: who signs the certificates of the addresses; empty: the system's.
  std::string authorities;
  // For one callback, and for its connection.
  absl::Duration timeout = absl::Seconds(10);
  // Between two looks, and after one whose outcome could not be kept.
  absl::Duration pause = absl::Seconds(1);
  absl::Duration rest = absl::Seconds(60);
  service::EventLog* log = nullptr;
};

class CallbackSender {
 public:
  // What the arguments name must outlive the sender.
  CallbackSender(service::Service* service, const CallbackOptions& options);
  // As Stop.
  ~CallbackSender();
  CallbackSender(const CallbackSender&) = delete;
  CallbackSender& operator=(const CallbackSender&) = delete;

  void Start();
  // Breaks off the one that is being sent.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // Sends what is due now; how long to wait before the next look.
  absl::Duration SendDue() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  bool stopping() ABSL_LOCKS_EXCLUDED(mutex_);
  service::CallbackOutcome Send(const service::CallbackDelivery& delivery);

  service::Service* const service_;
  const CallbackOptions options_;
  Mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_CALLBACK_SENDER_H_
