// Tells the addresses that erasure requests named of every change of their state, from what the
// service keeps of it (Service::DueCallbacks), so that none is lost by a crash.
//
// Each is a POST of JSON, signed where there is a key (dsr_signer.h): in OpenDSR's form for a
// request that came by it, in Ketch's for one of Ketch's, and otherwise as the resource tells its
// state, with `sequence` and `change_time`. 2xx is delivered; 410 is never tried again; everything
// else comes again, later and later. Where there is a key that cannot sign now, and for OpenDSR
// always, nothing goes out unsigned: it comes again. Redirects are not followed, no proxy and no
// cookie is used, an answer's body is not read beyond 64 KiB. The address of a name is looked at
// when the connection is made, and is the one that it is made to (callback_policy.h).
//
// They are sent in rounds, to several hosts at a time and to each host one after the other. A host
// that gives no answer, or says that it cannot (429, 502, 503, 504), is left alone for the rest of
// the round and for a time that doubles; one that is slow, after the time of one callback, for as
// long. So no host keeps the others' from theirs. A tenant whose store fails is left alone
// likewise.
//
// Threads: one of its own, from Start to Stop, and those of a round; SendDue for tests.
#ifndef LETHE_SERVER_HTTP_CALLBACK_SENDER_H_
#define LETHE_SERVER_HTTP_CALLBACK_SENDER_H_

#include <condition_variable>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/program/event_log.h"
#include "server/http/callback_policy.h"
#include "server/http/dsr_signer.h"
#include "server/service/service.h"

namespace lethe::http {

struct CallbackOptions {
  const CallbackPolicy* policy = nullptr;
  const DsrKey* dsr = nullptr;  // null: nothing is signed
  std::string public_url;       // what links begin with
  // In PEM, who signs the certificates of the addresses, nobody else; empty: the system's.
  std::string authorities;
  // For one callback, and for its connection.
  absl::Duration timeout = absl::Seconds(10);
  // Hosts that are called at a time.
  size_t threads = 4;
  // Between two looks where nothing is due, and for a tenant whose outcome could not be kept.
  absl::Duration pause = absl::Seconds(1);
  absl::Duration rest = absl::Seconds(60);
  // How long a host that failed is left alone, at first and at most.
  absl::Duration first_host_rest = absl::Seconds(10);
  absl::Duration longest_host_rest = absl::Minutes(5);
  program::EventLog* log = nullptr;
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
  // Breaks off those that are being sent; they come again.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // Sends what is due now; how long to wait before the next look.
  absl::Duration SendDue() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Round;
  // What is known of a host. Forgotten when it answers; those on the policy's list only.
  struct HostRest {
    int failures = 0;
    absl::Time until = absl::InfinitePast();
  };
  struct Sent {
    service::CallbackOutcome outcome = service::CallbackOutcome::kFailed;
    bool tried = false;
    bool host_failed = false;
  };

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  bool stopping() ABSL_LOCKS_EXCLUDED(mutex_);
  void WorkOn(Round& round) ABSL_LOCKS_EXCLUDED(mutex_);
  void SendTo(const std::string& host,
              const std::vector<const service::CallbackDelivery*>& deliveries,
              Round& round) ABSL_LOCKS_EXCLUDED(mutex_);
  // When the host may be called again.
  absl::Time RestOf(const std::string& host) ABSL_LOCKS_EXCLUDED(mutex_);
  // It has had its time, and the others have theirs.
  void NoteSlow(const std::string& host) ABSL_LOCKS_EXCLUDED(mutex_);
  void NoteHost(const std::string& host, bool failed) ABSL_LOCKS_EXCLUDED(mutex_);
  Sent Send(const service::CallbackDelivery& delivery);

  service::Service* const service_;
  const CallbackOptions options_;
  Mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, HostRest> hosts_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_CALLBACK_SENDER_H_
