// Counts what runs or waits for a tenant's writer, so that waiting calls can never use up the
// threads that readers need. Threads: safe.
#ifndef LETHE_SERVER_SERVICE_WRITE_TICKET_H_
#define LETHE_SERVER_SERVICE_WRITE_TICKET_H_

#include <atomic>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/service/retry_delay.h"

namespace lethe::service {

// A place from a call's arrival to its answer.
class WriteTicket {
 public:
  // RESOURCE_EXHAUSTED when `limit` places are taken. `writes` must outlive the ticket.
  static absl::StatusOr<WriteTicket> Take(std::atomic<int>* writes, int limit) {
    if (writes->fetch_add(1) >= limit) {
      writes->fetch_sub(1);
      return WithRetryDelay(
          absl::ResourceExhaustedError("too many writes are waiting; try again later"),
          absl::Milliseconds(200));
    }
    return WriteTicket(writes);
  }
  WriteTicket(WriteTicket&& other) noexcept : writes_(std::exchange(other.writes_, nullptr)) {}
  WriteTicket& operator=(WriteTicket&&) = delete;
  ~WriteTicket() {
    if (writes_ != nullptr) writes_->fetch_sub(1);
  }

 private:
  explicit WriteTicket(std::atomic<int>* writes) : writes_(writes) {}
  std::atomic<int>* writes_;
};

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_WRITE_TICKET_H_
