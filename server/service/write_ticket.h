// Counts what runs or waits for a tenant's writer, so that waiting calls can never use up the
// threads that readers need, and no tenant those of the others. Threads: safe. Cost: a lock and a
// look-up.
#ifndef LETHE_SERVER_SERVICE_WRITE_TICKET_H_
#define LETHE_SERVER_SERVICE_WRITE_TICKET_H_

#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"

namespace lethe::service {

class WriteTickets;

// A place from a call's arrival to its answer.
class WriteTicket {
 public:
  WriteTicket(WriteTicket&& other) noexcept
      : tickets_(std::exchange(other.tickets_, nullptr)), tenant_(std::move(other.tenant_)) {}
  WriteTicket& operator=(WriteTicket&&) = delete;
  ~WriteTicket();

 private:
  friend class WriteTickets;
  WriteTicket(WriteTickets* tickets, std::string tenant)
      : tickets_(tickets), tenant_(std::move(tenant)) {}
  WriteTickets* tickets_;
  std::string tenant_;
};

class WriteTickets {
 public:
  enum class Use : char {
    kCall,     // whatever takes a turn with the writer
    kErasure,  // what takes out tokens, or keeps them from it
    kOwn,      // of the server's own threads, which are few: always let in
  };

  // `limit` places in all, of which an eighth is for erasures alone; `of_tenant` of them for one
  // tenant, and half as many more for its erasures.
  WriteTickets(int limit, int of_tenant) : limit_(limit), of_tenant_(of_tenant) {}

  // RESOURCE_EXHAUSTED when there is none. The ticket must not outlive this.
  absl::StatusOr<WriteTicket> Take(Use use, const std::string& tenant) ABSL_LOCKS_EXCLUDED(mutex_);
  // That are taken.
  int taken() const ABSL_LOCKS_EXCLUDED(mutex_);
  int limit() const { return limit_; }

 private:
  friend class WriteTicket;
  void GiveBack(const std::string& tenant) ABSL_LOCKS_EXCLUDED(mutex_);

  const int limit_;
  const int of_tenant_;
  mutable Mutex mutex_;
  int taken_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<std::string, int> tenants_ ABSL_GUARDED_BY(mutex_);  // those that have any
};

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_WRITE_TICKET_H_
