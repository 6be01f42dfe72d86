#include "server/service/quotas.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/service/retry_delay.h"

namespace lethe::service {
namespace {

constexpr double kBucketSeconds = 2.0;
constexpr size_t kLeastSweep = 1024;
// For a stream to end; nobody knows when one does.
constexpr absl::Duration kStreamRetry = absl::Seconds(1);
// What a bucket may owe is bounded by the largest batch; so is the wait for it, by this.
constexpr absl::Duration kLongestRetry = absl::Minutes(10);

double Capacity(uint64_t limit) {
  return std::max(1.0, kBucketSeconds * static_cast<double>(limit));
}

bool HasAny(const TenantQuotas& quotas) {
  return std::any_of(quotas.limits.begin(), quotas.limits.end(), [](uint64_t n) { return n != 0; });
}

bool HasAny(const QuotaSettings& settings) {
  return HasAny(settings.defaults) ||
         std::any_of(settings.tenants.begin(), settings.tenants.end(),
                     [](const auto& tenant) { return HasAny(tenant.second); });
}

}  // namespace

absl::string_view QuotaName(Quota quota) {
  switch (quota) {
    case Quota::kTokens:
      return "tokens";
    case Quota::kMemories:
      return "memories";
    case Quota::kBytes:
      return "bytes";
    case Quota::kInserts:
      return "inserts";
    case Quota::kQueries:
      return "queries";
    case Quota::kErasures:
      return "erasures";
    case Quota::kStreams:
      return "streams";
    case Quota::kJobs:
      return "jobs";
  }
  return "";
}

bool IsRate(Quota quota) {
  return quota == Quota::kInserts || quota == Quota::kQueries || quota == Quota::kErasures;
}

absl::Status QuotaExceeded(Quota quota, uint64_t limit, ServiceCounters* counters) {
  ++counters->quota_refusals[static_cast<size_t>(quota)];
  const absl::string_view what = IsRate(quota)                                       ? " a second"
                                 : quota == Quota::kStreams || quota == Quota::kJobs ? " at a time"
                                                                                     : "";
  return absl::ResourceExhaustedError(absl::StrCat(
      "quota ", QuotaName(quota), ": this tenant may have ", limit, what, "; nothing was changed"));
}

StreamPlace::~StreamPlace() {
  if (quotas_ != nullptr) quotas_->LeaveStream(tenant_);
}

Quotas::Quotas(QuotaSettings settings, ServiceCounters* counters, std::function<absl::Time()> now)
    : counters_(counters), now_(std::move(now)) {
  Set(std::move(settings));
}

void Quotas::Set(QuotaSettings settings) {
  MutexLock lock(mutex_);
  any_ = HasAny(settings);
  settings_ = std::move(settings);
}

const TenantQuotas& Quotas::Find(const std::string& tenant) const {
  const auto found = settings_.tenants.find(tenant);
  return found != settings_.tenants.end() ? found->second : settings_.defaults;
}

TenantQuotas Quotas::Of(const std::string& tenant) const {
  if (!any_) return {};
  MutexLock lock(mutex_);
  return Find(tenant);
}

absl::Status Quotas::Take(Quota rate, const std::string& tenant, uint64_t amount) {
  if (!any_) return absl::OkStatus();
  MutexLock lock(mutex_);
  const uint64_t limit = Find(tenant)[rate];
  if (limit == 0) return absl::OkStatus();
  const absl::Time now = now_();
  Sweep(now);
  Bucket& bucket = uses_[tenant].buckets[static_cast<size_t>(rate)];
  const double a_second = static_cast<double>(limit);
  const double capacity = Capacity(limit);
  if (!bucket.known) bucket = {.level = capacity, .as_of = now, .known = true};
  // A clock that was set back brings nothing.
  const double passed = std::max(0.0, absl::ToDoubleSeconds(now - bucket.as_of));
  bucket.level = std::min(capacity, bucket.level + passed * a_second);
  bucket.as_of = now;
  constexpr double kRounding = 1e-6;
  if (bucket.level >= 1.0 - kRounding) {
    bucket.level -= static_cast<double>(amount);
    return absl::OkStatus();
  }
  const absl::Duration delay = absl::Seconds((1.0 - bucket.level) / a_second);
  return WithRetryDelay(QuotaExceeded(rate, limit, counters_), std::min(delay, kLongestRetry));
}

void Quotas::GiveBack(Quota rate, const std::string& tenant, uint64_t amount) {
  if (!any_) return;
  MutexLock lock(mutex_);
  const uint64_t limit = Find(tenant)[rate];
  const auto found = uses_.find(tenant);
  if (limit == 0 || found == uses_.end()) return;
  Bucket& bucket = found->second.buckets[static_cast<size_t>(rate)];
  if (bucket.known) {
    bucket.level = std::min(Capacity(limit), bucket.level + static_cast<double>(amount));
  }
}

absl::StatusOr<StreamPlace> Quotas::EnterStream(const std::string& tenant) {
  if (!any_) return StreamPlace();
  MutexLock lock(mutex_);
  const uint64_t limit = Find(tenant)[Quota::kStreams];
  if (limit == 0) return StreamPlace();
  Sweep(now_());
  Use& use = uses_[tenant];
  if (use.streams >= limit) {
    return WithRetryDelay(QuotaExceeded(Quota::kStreams, limit, counters_), kStreamRetry);
  }
  ++use.streams;
  return StreamPlace(this, tenant);
}

void Quotas::LeaveStream(const std::string& tenant) {
  MutexLock lock(mutex_);
  const auto found = uses_.find(tenant);
  if (found != uses_.end() && found->second.streams > 0) --found->second.streams;
}

void Quotas::Sweep(absl::Time now) {
  if (uses_.size() < sweep_at_) return;
  for (auto next = uses_.begin(); next != uses_.end();) {
    const auto use = next++;
    bool idle = use->second.streams == 0;
    for (size_t i = 0; idle && i < kQuotas; ++i) {
      const Bucket& bucket = use->second.buckets[i];
      const uint64_t limit = Find(use->first).limits[i];
      if (!bucket.known || limit == 0) continue;
      const double passed = absl::ToDoubleSeconds(now - bucket.as_of);
      idle = bucket.level + passed * static_cast<double>(limit) >= Capacity(limit);
    }
    if (idle) uses_.erase(use);
  }
  sweep_at_ = std::max(kLeastSweep, 2 * uses_.size());
}

}  // namespace lethe::service
