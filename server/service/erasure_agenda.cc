#include "server/service/erasure_agenda.h"

#include <algorithm>
#include <mutex>

namespace lethe::service {
namespace {

constexpr absl::Duration kFirstPause = absl::Seconds(5);
constexpr absl::Duration kLongestPause = absl::Minutes(5);
// Numbers of cases begin with 1.
constexpr uint64_t kUnknown = 0;

}  // namespace

void ErasureAgenda::Take(const std::string& name,
                         const Tenant& tenant,
                         const store::OpenCase& item) {
  if (item.wake_micros.has_value()) {
    work_.erase({std::max(*item.wake_micros, tenant.not_before), name, item.number});
  }
  if (item.callback_micros.has_value()) {
    callbacks_.erase({std::max(*item.callback_micros, tenant.not_before), name, item.number});
  }
}

void ErasureAgenda::Give(const std::string& name,
                         const Tenant& tenant,
                         const store::OpenCase& item) {
  if (item.wake_micros.has_value()) {
    work_.insert({std::max(*item.wake_micros, tenant.not_before), name, item.number});
  }
  if (item.callback_micros.has_value()) {
    callbacks_.insert({std::max(*item.callback_micros, tenant.not_before), name, item.number});
  }
}

void ErasureAgenda::Replace(const std::string& name, const std::vector<store::OpenCase>& cases) {
  MutexLock lock(mutex_);
  const auto found = tenants_.find(name);
  if (found != tenants_.end()) {
    for (const auto& [number, item] : found->second.cases) Take(name, found->second, item);
    tenants_.erase(found);
  }
  if (!cases.empty()) {
    Tenant& tenant = tenants_[name];
    for (const store::OpenCase& item : cases) {
      tenant.cases[item.number] = item;
      Give(name, tenant, item);
    }
  }
  ++version_;
  changed_.notify_all();
}

void ErasureAgenda::Put(const std::string& name, const store::OpenCase& item) {
  MutexLock lock(mutex_);
  Tenant& tenant = tenants_[name];
  const auto found = tenant.cases.find(item.number);
  if (found != tenant.cases.end()) {
    Take(name, tenant, found->second);
    tenant.cases.erase(found);
  }
  if (item.wake_micros.has_value() || item.callback_micros.has_value()) {
    tenant.cases[item.number] = item;
    Give(name, tenant, item);
  }
  tenant.pause = absl::ZeroDuration();
  if (tenant.cases.empty()) tenants_.erase(name);
  ++version_;
  changed_.notify_all();
}

void ErasureAgenda::PutUnknown(const std::string& name, int64_t now_micros) {
  Put(name, {.number = kUnknown,
             .state = store::CaseState::kReleased,
             .wake_micros = now_micros + absl::ToInt64Microseconds(kFirstPause),
             .callback_micros = std::nullopt});
}

void ErasureAgenda::Postpone(const std::string& name, int64_t now_micros) {
  MutexLock lock(mutex_);
  const auto found = tenants_.find(name);
  if (found == tenants_.end()) return;
  Tenant& tenant = found->second;
  for (const auto& [number, item] : tenant.cases) Take(name, tenant, item);
  tenant.pause = std::clamp(2 * tenant.pause, kFirstPause, kLongestPause);
  tenant.not_before = now_micros + absl::ToInt64Microseconds(tenant.pause);
  for (const auto& [number, item] : tenant.cases) Give(name, tenant, item);
}

void ErasureAgenda::PostponeOne(const std::string& name, uint64_t number, int64_t now_micros) {
  MutexLock lock(mutex_);
  const auto found = tenants_.find(name);
  if (found == tenants_.end()) return;
  Tenant& tenant = found->second;
  const auto item = tenant.cases.find(number);
  if (item == tenant.cases.end()) return;
  const int64_t until = now_micros + absl::ToInt64Microseconds(kLongestPause);
  Take(name, tenant, item->second);
  for (std::optional<int64_t>* time : {&item->second.wake_micros, &item->second.callback_micros}) {
    if (time->has_value()) *time = std::max(**time, until);
  }
  Give(name, tenant, item->second);
}

void ErasureAgenda::PostponeCallback(const std::string& name,
                                     uint64_t number,
                                     int64_t until_micros) {
  MutexLock lock(mutex_);
  const auto tenant = tenants_.find(name);
  if (tenant == tenants_.end()) return;
  const auto found = tenant->second.cases.find(number);
  if (found == tenant->second.cases.end() || !found->second.callback_micros.has_value()) return;
  Take(name, tenant->second, found->second);
  found->second.callback_micros = std::max(*found->second.callback_micros, until_micros);
  Give(name, tenant->second, found->second);
}

size_t ErasureAgenda::Open(const std::string& name) const {
  MutexLock lock(mutex_);
  const auto found = tenants_.find(name);
  if (found == tenants_.end()) return 0;
  return static_cast<size_t>(std::ranges::count_if(found->second.cases, [](const auto& entry) {
    return !IsFinal(static_cast<ErasureState>(entry.second.state));
  }));
}

std::optional<ErasureAgenda::Item> ErasureAgenda::DueWork(int64_t now_micros) const {
  MutexLock lock(mutex_);
  if (work_.empty()) return std::nullopt;
  const auto& [time, tenant, number] = *work_.begin();
  if (time > now_micros) return std::nullopt;
  return Item{.tenant = tenant, .number = number, .time_micros = time};
}

std::vector<ErasureAgenda::Item> ErasureAgenda::DueCallbacks(int64_t now_micros,
                                                             size_t limit) const {
  MutexLock lock(mutex_);
  std::vector<Item> due;
  for (const auto& [time, tenant, number] : callbacks_) {
    if (time > now_micros || due.size() == limit) break;
    due.push_back({.tenant = tenant, .number = number, .time_micros = time});
  }
  return due;
}

OpenErasureCounts ErasureAgenda::Counts(int64_t now_micros) const {
  MutexLock lock(mutex_);
  OpenErasureCounts counts;
  for (const auto& [name, tenant] : tenants_) {
    for (const auto& [number, item] : tenant.cases) {
      if (number == kUnknown) ++counts.unknown_tenants;
      if (item.callback_micros.has_value()) ++counts.callbacks;
      const auto state = static_cast<ErasureState>(item.state);
      if (IsFinal(state)) continue;
      ++(state == ErasureState::kPending ? counts.pending : counts.in_progress);
      const int64_t left = item.due_micros - now_micros;
      if (left < 0) {
        ++counts.overdue;
      } else if (left < (item.due_micros - item.received_micros) / 4) {
        ++counts.due_soon;
      }
    }
  }
  return counts;
}

void ErasureAgenda::Wait(absl::Duration wait) {
  std::unique_lock<std::mutex> lock(mutex_.native());
  changed_.wait_for(lock, absl::ToChronoMilliseconds(wait),
                    [this]()
                        ABSL_NO_THREAD_SAFETY_ANALYSIS { return stopped_ || version_ != seen_; });
  [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { seen_ = version_; }();
}

std::optional<int64_t> ErasureAgenda::NextWork() const {
  MutexLock lock(mutex_);
  if (work_.empty()) return std::nullopt;
  return std::get<0>(*work_.begin());
}

void ErasureAgenda::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

bool ErasureAgenda::stopped() const {
  MutexLock lock(mutex_);
  return stopped_;
}

}  // namespace lethe::service
