// What a worker shows of itself, in the text format of Prometheus (docs/jobs.md lists it).
//
// Nothing of tenants and tokens is a label. Threads: safe.
#ifndef LETHE_WORKER_METRICS_H_
#define LETHE_WORKER_METRICS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lethe/v1/job_service.pb.h"

namespace lethe::worker {

class Metrics {
 public:
  Metrics(absl::string_view version, absl::string_view backend);
  ~Metrics();

  // Answers GET /metrics there; `address` is HOST:PORT, port 0 lets the kernel choose. Returns the
  // port. INVALID_ARGUMENT where it cannot be.
  absl::StatusOr<int> Serve(const std::string& address);

  void Began();
  // "succeeded", "failed", "retry", "cancelled", "stopped", "lost"
  void Ended(absl::string_view kind, absl::string_view how);
  void Stepped(uint64_t tokens, double seconds, const v1::JobProgress& progress);
  void Checkpointed(uint64_t bytes, double seconds);
  void HeartbeatsFailed(uint64_t count);

  std::string Text() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace lethe::worker

#endif  // LETHE_WORKER_METRICS_H_
