// ErasureAgenda: which erasure requests of all tenants, open or not, want something, and when.
//
// It is what the store of each tenant says (ListOpenCases, or a glance at a file that nobody has
// open), kept in RAM and told of every change; nothing personal is in it. From it the worker knows
// what is next without opening a tenant, and the counts are made.
//
// Threads: safe. Cost: O(log requests) a change, O(requests) a count.
#ifndef LETHE_SERVER_SERVICE_ERASURE_AGENDA_H_
#define LETHE_SERVER_SERVICE_ERASURE_AGENDA_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "server/service/erasure_types.h"
#include "store/tenant_store.h"

namespace lethe::service {

class ErasureAgenda {
 public:
  struct Item {
    std::string tenant;
    uint64_t number = 0;
    int64_t time_micros = 0;
  };

  // All of a tenant's; an empty list forgets the tenant.
  void Replace(const std::string& tenant, const std::vector<store::OpenCase>& cases)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // One of them, which wants nothing any more when it has neither of the times.
  void Put(const std::string& tenant, const store::OpenCase& item) ABSL_LOCKS_EXCLUDED(mutex_);
  // A tenant that cannot be read: what it wants is not known before it can be opened, which is
  // tried after a pause.
  void PutUnknown(const std::string& tenant, int64_t now_micros) ABSL_LOCKS_EXCLUDED(mutex_);
  // For a while nothing of the tenant is worked on: it could not be opened, or its store fails.
  // Five seconds at first, twice as long each time until something changes, five minutes at most.
  void Postpone(const std::string& tenant, int64_t now_micros) ABSL_LOCKS_EXCLUDED(mutex_);
  // Likewise of this one alone, which keeps the others up no longer.
  void PostponeOne(const std::string& tenant, uint64_t number, int64_t now_micros)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Requests of the tenant that have not come to their end.
  size_t Open(const std::string& tenant) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The one to be worked on first, whose time has come.
  std::optional<Item> DueWork(int64_t now_micros) const ABSL_LOCKS_EXCLUDED(mutex_);
  // A callback of this request does not come before then, unless the request changes.
  void PostponeCallback(const std::string& name, uint64_t number, int64_t until_micros)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Those that owe a callback whose time has come, the first of them first.
  std::vector<Item> DueCallbacks(int64_t now_micros, size_t limit) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  OpenErasureCounts Counts(int64_t now_micros) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits until something changes, `wait` is over or Stop was called.
  void Wait(absl::Duration wait) ABSL_LOCKS_EXCLUDED(mutex_);
  // When something is due at the earliest, a work; nullopt: nothing is.
  std::optional<int64_t> NextWork() const ABSL_LOCKS_EXCLUDED(mutex_);
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);
  bool stopped() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Tenant {
    std::map<uint64_t, store::OpenCase> cases;
    int64_t not_before = 0;
    absl::Duration pause = absl::ZeroDuration();  // the last one
  };
  using Place = std::tuple<int64_t, std::string, uint64_t>;

  void Take(const std::string& name, const Tenant& tenant, const store::OpenCase& item)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Give(const std::string& name, const Tenant& tenant, const store::OpenCase& item)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Tenant> tenants_ ABSL_GUARDED_BY(mutex_);
  std::set<Place> work_ ABSL_GUARDED_BY(mutex_);
  std::set<Place> callbacks_ ABSL_GUARDED_BY(mutex_);
  uint64_t version_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t seen_ ABSL_GUARDED_BY(mutex_) = 0;  // by Wait
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_ERASURE_AGENDA_H_
