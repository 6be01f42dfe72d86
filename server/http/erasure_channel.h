// What the server needs to speak with others about erasure requests: the key that it signs with,
// the one that Transcend signs with, where callbacks may go, and what sends them. Callbacks are
// sent whether or not HTTP is served: requests come by gRPC too.
#ifndef LETHE_SERVER_HTTP_ERASURE_CHANNEL_H_
#define LETHE_SERVER_HTTP_ERASURE_CHANNEL_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/program/event_log.h"
#include "server/http/callback_policy.h"
#include "server/http/callback_sender.h"
#include "server/http/dsr_signer.h"
#include "server/http/erasure_http.h"
#include "server/http/sombra_token.h"
#include "server/service/service.h"

namespace lethe::http {

struct ErasureSettings {
  std::string public_url;  // what links begin with; empty: as the caller addressed the server
  // Of DsrKey; without a key nothing is signed and OpenDSR is not served.
  std::string dsr_domain;
  std::string dsr_key;
  std::string dsr_certificate;
  CallbackPolicy callbacks;
  // PEM: who signs the certificates of those that are called; empty: the system's authorities.
  std::string callback_ca;
  std::string transcend_key;  // of SombraKey; empty: not looked at
};

// Threads: Start, Stop and Follow from one thread at a time; the rest is safe.
class ErasureChannel {
 public:
  // Reads every file that the settings name; starts nothing. Errors begin with the option of
  // lethed: INVALID_ARGUMENT for what cannot go together or is not what it should be, else what
  // reading said.
  static absl::StatusOr<std::unique_ptr<ErasureChannel>> Open(const ErasureSettings& settings);
  // As Stop.
  ~ErasureChannel();
  ErasureChannel(const ErasureChannel&) = delete;
  ErasureChannel& operator=(const ErasureChannel&) = delete;

  // Why nothing can be signed though a key is there; empty where it can, or there is none.
  std::string Problem() const;
  // For the routes; must not outlive this.
  ErasureHttp HttpOf(service::Service* service) const;

  // Begins to send callbacks, once; `log` may be null. Both outlive this.
  void Start(service::Service* service, program::EventLog* log);
  // Takes what the files of the key hold now, and says in the log where that changed something:
  // `dsr_key_reloaded`, `dsr_key_refused`, `dsr_key_unusable`. To be called from time to time.
  void Follow(program::EventLog& log);
  // No callback is begun any more; one that is being sent is broken off, and comes again.
  void Stop();

 private:
  explicit ErasureChannel(ErasureSettings settings) : settings_(std::move(settings)) {}

  const ErasureSettings settings_;
  std::string callback_authorities_;
  std::unique_ptr<DsrKey> dsr_;
  std::unique_ptr<SombraKey> transcend_;
  std::string told_;  // by Follow
  std::unique_ptr<CallbackSender> sender_;
};

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_ERASURE_CHANNEL_H_
