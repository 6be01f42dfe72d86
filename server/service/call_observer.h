// Who wants to know about the calls that are answered: metrics. Knows no transport, so that gRPC
// and HTTP report alike.
#ifndef LETHE_SERVER_SERVICE_CALL_OBSERVER_H_
#define LETHE_SERVER_SERVICE_CALL_OBSERVER_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace lethe::service {

// Of one method. Threads: safe. Cost: next to nothing, as every call pays it twice.
class MethodObserver {
 public:
  virtual ~MethodObserver() = default;
  virtual void Started() = 0;
  virtual void Ended(absl::StatusCode code, absl::Duration duration) = 0;
};

class CallObserver {
 public:
  virtual ~CallObserver() = default;
  // What is to be told of the calls of this method, named as gRPC does: "lethe.v1.MemoryService"
  // and "Query". Lives as long as the observer. `stream`: how long its calls take is up to the
  // caller. Called before calls are served; the same answer for the same names.
  virtual MethodObserver* ForMethod(absl::string_view service,
                                    absl::string_view method,
                                    bool stream) = 0;
};

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_CALL_OBSERVER_H_
