#include "server/service/write_ticket.h"

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/service/retry_delay.h"

namespace lethe::service {
namespace {

constexpr absl::Duration kRetry = absl::Milliseconds(200);

}  // namespace

WriteTicket::~WriteTicket() {
  if (tickets_ != nullptr) tickets_->GiveBack(tenant_);
}

absl::StatusOr<WriteTicket> WriteTickets::Take(Use use, const std::string& tenant) {
  MutexLock lock(mutex_);
  if (use != Use::kOwn) {
    const bool erasure = use == Use::kErasure;
    if (taken_ >= (erasure ? limit_ : limit_ - limit_ / 8)) {
      return WithRetryDelay(
          absl::ResourceExhaustedError("too many writes are waiting; try again later"), kRetry);
    }
    const auto found = tenants_.find(tenant);
    const int of_this = found == tenants_.end() ? 0 : found->second;
    if (of_this >= (erasure ? of_tenant_ + of_tenant_ / 2 : of_tenant_)) {
      return WithRetryDelay(absl::ResourceExhaustedError(
                                "too many writes of this tenant are waiting; try again later"),
                            kRetry);
    }
  }
  ++taken_;
  ++tenants_[tenant];
  return WriteTicket(this, tenant);
}

int WriteTickets::taken() const {
  MutexLock lock(mutex_);
  return taken_;
}

void WriteTickets::GiveBack(const std::string& tenant) {
  MutexLock lock(mutex_);
  --taken_;
  const auto found = tenants_.find(tenant);
  if (--found->second == 0) tenants_.erase(found);
}

}  // namespace lethe::service
