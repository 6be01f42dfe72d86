// Quotas: how much a tenant may keep and how often it may call.
//
// Rates are token buckets that hold what two seconds bring. A call is let in while there is one in
// its bucket and takes its whole amount, so that a batch larger than the bucket is served and the
// next one waits for it; a refusal says how long. Who calls gives it back for
// a call that was refused later (GiveBack). Storage is
// checked where the change is made, by Tenant. Erasures are refused by no storage quota. Places for
// streams are counted a tenant.
//
// Refusals are RESOURCE_EXHAUSTED, begin with "quota NAME: ", and nothing has changed then.
// Threads: safe. Cost: next to nothing without a quota; else a lock and a look-up. Memory: an entry
// for each tenant with a bucket that is not full or an open stream; who calls sees to it that only
// tenants that there are get one.
#ifndef LETHE_SERVER_SERVICE_QUOTAS_H_
#define LETHE_SERVER_SERVICE_QUOTAS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "server/service/counters.h"

namespace lethe::service {

// In this order in TenantQuotas::limits and ServiceCounters::quota_refusals.
enum class Quota : uint8_t {
  kTokens,
  kMemories,
  kBytes,
  kInserts,
  kQueries,
  kErasures,
  kStreams,
  kJobs,
};
static_assert(static_cast<size_t>(Quota::kJobs) + 1 == kQuotas);

// "tokens", "memories", "bytes", "inserts", "queries", "erasures", "streams",
// "jobs".
absl::string_view QuotaName(Quota quota);
// A rate: so many a second.
bool IsRate(Quota quota);

// Of one tenant; 0: no bound.
struct TenantQuotas {
  std::array<uint64_t, kQuotas> limits = {};

  uint64_t operator[](Quota quota) const { return limits[static_cast<size_t>(quota)]; }
  uint64_t& operator[](Quota quota) { return limits[static_cast<size_t>(quota)]; }
  friend bool operator==(const TenantQuotas&, const TenantQuotas&) = default;
};

struct QuotaSettings {
  TenantQuotas defaults;                        // of tenants that are not named
  std::map<std::string, TenantQuotas> tenants;  // in the place of all of those

  friend bool operator==(const QuotaSettings&, const QuotaSettings&) = default;
};

// RESOURCE_EXHAUSTED, and counts it.
absl::Status QuotaExceeded(Quota quota, uint64_t limit, ServiceCounters* counters);

class Quotas;

// A stream's place among those of its tenant, while it lives.
class StreamPlace {
 public:
  StreamPlace() = default;
  StreamPlace(StreamPlace&& other) noexcept
      : quotas_(std::exchange(other.quotas_, nullptr)), tenant_(std::move(other.tenant_)) {}
  StreamPlace& operator=(StreamPlace&& other) noexcept {
    std::swap(quotas_, other.quotas_);
    std::swap(tenant_, other.tenant_);
    return *this;
  }
  ~StreamPlace();

 private:
  friend class Quotas;
  StreamPlace(Quotas* quotas, std::string tenant) : quotas_(quotas), tenant_(std::move(tenant)) {}
  Quotas* quotas_ = nullptr;
  std::string tenant_;
};

class Quotas {
 public:
  // `counters` outlives this; `now` is a clock for tests.
  Quotas(QuotaSettings settings,
         ServiceCounters* counters,
         std::function<absl::Time()> now = absl::Now);

  // Takes the place of all settings; buckets keep what is in them, as far as they can hold it.
  void Set(QuotaSettings settings) ABSL_LOCKS_EXCLUDED(mutex_);
  TenantQuotas Of(const std::string& tenant) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Requires a rate, and a tenant that there is.
  absl::Status Take(Quota rate, const std::string& tenant, uint64_t amount)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Of what Take took for a call that changed and answered nothing.
  void GiveBack(Quota rate, const std::string& tenant, uint64_t amount) ABSL_LOCKS_EXCLUDED(mutex_);
  // The place must not outlive this.
  absl::StatusOr<StreamPlace> EnterStream(const std::string& tenant) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class StreamPlace;
  struct Bucket {
    double level = 0.0;
    absl::Time as_of;
    bool known = false;  // a new one is full
  };
  struct Use {
    std::array<Bucket, kQuotas> buckets;  // of rates
    uint64_t streams = 0;
  };

  const TenantQuotas& Find(const std::string& tenant) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LeaveStream(const std::string& tenant) ABSL_LOCKS_EXCLUDED(mutex_);
  // Forgets entries that say nothing, when there are twice as many as after the last time.
  void Sweep(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ServiceCounters* const counters_;
  const std::function<absl::Time()> now_;
  std::atomic<bool> any_{false};  // a bound for anybody
  mutable Mutex mutex_;
  QuotaSettings settings_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Use> uses_ ABSL_GUARDED_BY(mutex_);
  size_t sweep_at_ ABSL_GUARDED_BY(mutex_) = 1024;
};

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_QUOTAS_H_
