// What a worker says to the server: proto/lethe/v1/worker_service.proto, a call a method, one try
// each. Tests put another implementation in its place.
//
// Errors: the server's; FAILED_PRECONDITION "lease: ..." of a call that names one: it is not in
// force. UNAVAILABLE where no server answered, or a stream stood still. Threads: safe.
#ifndef LETHE_WORKER_LINK_H_
#define LETHE_WORKER_LINK_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/options.h"
#include "core/jobs/job_config.h"
#include "lethe/v1/worker_service.pb.h"

namespace lethe::worker {

class Link {
 public:
  virtual ~Link() = default;

  // Waits for a job up to `wait`; an answer without a lease: none came.
  virtual absl::StatusOr<v1::LeaseJobResponse> Lease(const std::string& worker,
                                                     const std::vector<jobs::JobKind>& kinds,
                                                     absl::Duration wait) = 0;
  virtual absl::StatusOr<v1::HeartbeatResponse> Heartbeat(const v1::JobLease& lease,
                                                          const v1::JobProgress& progress,
                                                          absl::Duration limit) = 0;
  // `begin` is told how many there are; its error and that of `visit` end the call.
  virtual absl::Status ReadTokens(
      const v1::JobLease& lease,
      const std::function<absl::Status(uint64_t count)>& begin,
      const std::function<absl::Status(const v1::TrainingTokens::Token&)>& visit) = 0;
  // NOT_FOUND: there is none. DATA_LOSS: not all of it came.
  virtual absl::StatusOr<std::string> LoadCheckpoint(const v1::JobLease& lease) = 0;
  virtual absl::StatusOr<v1::HeartbeatResponse> SaveCheckpoint(const v1::JobLease& lease,
                                                               const v1::JobProgress& progress,
                                                               absl::string_view bytes) = 0;
  virtual absl::StatusOr<v1::JobArtefact> Complete(const v1::JobLease& lease,
                                                   const v1::JobProgress& progress,
                                                   const std::string& manifest,
                                                   absl::string_view bytes) = 0;
  virtual absl::Status Fail(const v1::JobLease& lease,
                            v1::WorkerEnd end,
                            const std::string& message,
                            const v1::JobProgress& progress) = 0;
};

// By gRPC. INVALID_ARGUMENT for options that do not go together or files that cannot be read.
absl::StatusOr<std::unique_ptr<Link>> MakeGrpcLink(const client::Options& options);

}  // namespace lethe::worker

#endif  // LETHE_WORKER_LINK_H_
