// TenantRegistry: which tenants there are, and which of them are open.
//
// A tenant is opened by the first call that needs it and stays open while there is room. Beyond a
// limit the idle tenant that was used longest ago is unloaded: its write-ahead log is emptied, its
// states are dropped, its file is closed. A tenant that a TenantHold refers to is never unloaded;
// opening it again waits for the end of the unloading, since a tenant's file is held exclusively.
//
// Nothing is locked while a tenant is opened or unloaded, so a slow one delays only the calls that
// need it. Concurrent first calls share one opening; how many calls may wait is bounded, in all and
// a tenant. Where a call can say that nobody waits for it any more (CallOptions), it is asked while
// it waits. Unloading runs on threads of its own, a few at a time; an opening that waits for a slow
// unloading asks for another one. The bound on waiting calls is one for all tenants: three slow
// ones with `max_waiting_for_one` callers each use up `max_waiting`, and until one of them is open
// calls for others that are not open are refused as well.
//
// A call that needs the log alone opens it alone, without the memories; a call that needs them
// unloads it and opens the whole.
//
// A tenant that cannot be opened is quarantined alone: UNAVAILABLE, a line in the log that says
// why, and the next attempt is made by a call not before a pause is over, which doubles each time.
//
// The bytes of a tenant are an estimate (Tenant::EstimateSize); before it was ever opened, what it
// may take is taken from the size of its file. The limit on bytes is kept as far as idle tenants
// can be unloaded: an opening waits for what is idle to go, and is let in over the limit once all
// else is in use; and the idle tenant that was used last stays while no opening needs the room, so
// that one which does not fit is not solved again at each call. The number of open tenants is kept
// in any case: an opening waits, and is RESOURCE_EXHAUSTED after `patience` in which nothing idle
// was there and nothing was being unloaded, or after four times that in which others were faster.
//
// Threads: safe. Destruction requires that no hold is left, waits for unloadings, and drops what is
// open without emptying the logs.
#ifndef LETHE_SERVER_SERVICE_TENANT_REGISTRY_H_
#define LETHE_SERVER_SERVICE_TENANT_REGISTRY_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/program/event_log.h"
#include "server/service/tenant.h"
#include "server/service/types.h"

namespace lethe::service {

// File descriptors that an open tenant takes: tenant.db, keys.db and anchor.db with their logs, the
// search of keys.db, the folder of the KEKs.
inline constexpr size_t kDescriptorsPerTenant = 8;

struct RegistryLimits {
  size_t max_open = 1000;                      // tenants, those that are being opened included
  uint64_t max_bytes = uint64_t{2} << 30;      // of open tenants, estimated
  size_t max_waiting = 96;                     // calls that open a tenant or wait for one
  size_t max_waiting_for_one = 32;             // of them, for one tenant
  absl::Duration patience = absl::Seconds(5);  // of an opening, while all that is open is in use
  absl::Duration slow_unloading = absl::Milliseconds(500);  // then another tenant is unloaded too
  absl::Duration first_retry = absl::Seconds(1);            // after an opening that failed
  absl::Duration longest_retry = absl::Minutes(5);
};

// What is known of a tenant that is not open.
struct TenantFacts {
  TenantInfo info;
  std::string uid;
  uint64_t bytes = 0;  // that loading it may take
  bool gone = false;   // being deleted: callers are told that there is none
};

class TenantHold;

class TenantRegistry {
 public:
  enum class Depth : uint8_t { kLog, kMemories };
  // Whether the call may change how much the tenant takes.
  enum class Use : uint8_t { kRead, kWrite };
  // Whether to wait for room where everything that is open is in use.
  enum class Room : uint8_t { kWait, kNow };
  // Opens the tenant of this name.
  using Opener =
      std::function<absl::StatusOr<std::shared_ptr<Tenant>>(const std::string& name, Depth depth)>;

  // `log` must outlive the registry.
  TenantRegistry(const RegistryLimits& limits, Opener open, program::EventLog* log);
  ~TenantRegistry();
  TenantRegistry(const TenantRegistry&) = delete;
  TenantRegistry& operator=(const TenantRegistry&) = delete;

  // --- Who there is. Names are those of the registered tenants, deleted ones included while their
  // folder stays.
  void Add(const std::string& name, std::optional<TenantFacts> facts) ABSL_LOCKS_EXCLUDED(mutex_);
  // As after an opening that failed with this status, which is written to the log.
  void AddQuarantined(const std::string& name, const absl::Status& status)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // From now on there is none of this name for callers; holds stay valid.
  void MarkDeleted(const std::string& name, const std::string& uid) ABSL_LOCKS_EXCLUDED(mutex_);
  void Remove(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Contains(const std::string& name) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The uid of a tenant that was deleted and whose folder is still there.
  std::optional<std::string> DeletedUid(const std::string& name) const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<std::string> Names() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Of the tenants that are not open and of which something is known.
  std::vector<std::string> KnownUids() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Of this one, open or not; nullopt when it is not known, or there is none.
  std::optional<std::string> KnownUid(const std::string& name) const ABSL_LOCKS_EXCLUDED(mutex_);

  // What is known without opening anything; nullopt of a tenant that is quarantined or that nobody
  // has looked into yet. NOT_FOUND.
  absl::StatusOr<std::optional<TenantInfo>> Info(const std::string& name) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // In the order of names, those above `after` that `sees` lets through, at most `limit`, and
  // whether there are more. With the name alone where nothing more is known.
  std::pair<std::vector<TenantInfo>, bool> List(const std::string& after,
                                                size_t limit,
                                                const TenantFilter& sees = {}) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // --- Opening.
  // The open tenant; with kLog, for a short reading (kRead) of its log, perhaps without its
  // memories. NOT_FOUND; UNAVAILABLE while it is quarantined; RESOURCE_EXHAUSTED when too many wait
  // or no room was found; what still_wanted says.
  absl::StatusOr<TenantHold> Acquire(const std::string& name,
                                     Use use,
                                     const CallOptions& call,
                                     Depth depth = Depth::kMemories) ABSL_LOCKS_EXCLUDED(mutex_);
  // A new tenant, which `make` makes and opens once there is room; registered when it succeeds.
  // Otherwise, also where `make` threw, what `failed` makes of its status for the caller. Requires
  // that the name is not registered, now and until it returns, but by `failed`.
  absl::StatusOr<TenantHold> AcquireNew(
      const std::string& name,
      const CallOptions& call,
      absl::FunctionRef<absl::StatusOr<std::shared_ptr<Tenant>>()> make,
      absl::FunctionRef<absl::Status(const absl::Status&)> failed) ABSL_LOCKS_EXCLUDED(mutex_);
  // Calls `body` with the tenant; one that is not open is opened with its log alone and closed
  // again, and what is known of it is renewed. A tenant that turns out to be deleted is marked so,
  // and given to `body` as well. Errors of Acquire, but for too many that wait, and of `body`.
  absl::Status WithLog(const std::string& name,
                       const CallOptions& call,
                       Room room,
                       absl::FunctionRef<absl::Status(Tenant&)> body) ABSL_LOCKS_EXCLUDED(mutex_);

  // Keeps the tenant of this name closed while `body` runs, for what replaces its files; calls that
  // need it wait meanwhile. One that is open is unloaded first, once no call refers to it any more.
  // A name that is not registered stays so for callers until `body` succeeds; the caller sees to
  // it that nobody registers it meanwhile. Afterwards the tenant is not open and what `body`
  // returns is known of it, or nothing after an error, which is returned; one that was quarantined
  // is so again. FAILED_PRECONDITION for a tenant that was deleted, and, unless `replace`, for one
  // that is not quarantined; RESOURCE_EXHAUSTED when calls refer to it for too long.
  absl::Status WithClosed(const std::string& name,
                          const CallOptions& call,
                          bool replace,
                          absl::FunctionRef<absl::StatusOr<std::optional<TenantFacts>>()> body)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // What WithClosed says of a tenant that it would have to replace.
  static absl::Status Served();

  // Those that are open now, each held.
  std::vector<TenantHold> AcquireOpen() ABSL_LOCKS_EXCLUDED(mutex_);

  struct Counts {
    size_t open = 0;  // those that are being opened or unloaded included
    uint64_t bytes = 0;
    size_t waiting = 0;
  };
  Counts counts() const ABSL_LOCKS_EXCLUDED(mutex_);

  // For whoever shows it. Tokens and memories are of the open tenants as of their last change;
  // certificates of all tenants of which something is known. Opens nothing and is no use of a
  // tenant. Cost O(tenants), under the lock.
  struct Load {
    std::string name;
    Tenant::Size size;
    uint64_t certificates = 0;
  };
  struct Stats {
    size_t tenants = 0;
    size_t open = 0;  // with their memories
    size_t quarantined = 0;
    size_t waiting = 0;
    uint64_t bytes = 0;
    Tenant::Size sum;
    uint64_t certificates = 0;
    std::vector<Load> largest;  // open ones with the most tokens, at most `largest` of them
  };
  Stats stats(size_t largest) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class TenantHold;
  struct Entry;
  using EntryPtr = std::shared_ptr<Entry>;
  using Clock = std::chrono::steady_clock;
  enum class State : uint8_t { kUnloaded, kOpening, kOpen, kUnloading, kQuarantined, kDeleted };
  // NOT_FOUND, also of a deleted tenant.
  absl::StatusOr<EntryPtr> Find(const std::string& name) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  TenantHold Hold(const EntryPtr& entry, Use use) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `size` is absent when it cannot have changed. Throws nothing.
  void Release(const EntryPtr& entry, std::optional<Tenant::Size> size) ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<TenantInfo> KnownOf(const Entry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Being deleted.
  bool IsGone(const Entry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits until the entry is open (true), or is this caller's to open (false: kOpening, with room).
  absl::StatusOr<bool> Claim(Entry& entry, Depth depth, Room room, const CallOptions& call)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // After Claim said false. Gives the mutex up meanwhile.
  absl::Status OpenNow(Entry& entry, Depth depth) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits until the entry is closed and this caller's (kOpening). What it is after an error later.
  absl::StatusOr<State> ClaimClosed(Entry& entry, const CallOptions& call, bool replace)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits until one more tenant of so many bytes may be open, and counts it.
  absl::Status MakeRoom(Entry& entry, uint64_t bytes, Room room, const CallOptions& call)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives the mutex up for a moment, or until something changes.
  absl::Status WaitABit(const CallOptions& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Begins to unload idle tenants until what is wanted will fit; one at least when `one_more`.
  void UnloadIdle(bool one_more) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Begins to unload an idle one; false where that cannot be begun now.
  bool BeginUnloading(Entry& entry, absl::string_view reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What the thread that unloads does. Throws nothing.
  void Unload(Entry& entry, absl::string_view reason) ABSL_LOCKS_EXCLUDED(mutex_);
  // The states, with what is counted. `facts` of one that is open with its log alone.
  void Opened(Entry& entry,
              std::shared_ptr<Tenant> tenant,
              const Tenant::Size& size,
              std::optional<TenantFacts> facts) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Closed(Entry& entry, State state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Quarantines it and writes the line. What callers are told.
  absl::Status OpeningFailed(Entry& entry, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Quarantined(const Entry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RegistryLimits limits_;
  const Opener open_;
  program::EventLog* const log_;

  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, EntryPtr> entries_ ABSL_GUARDED_BY(mutex_);
  std::list<Entry*> idle_ ABSL_GUARDED_BY(mutex_);  // used longest ago first
  size_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t unloading_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t unloading_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t wanted_ ABSL_GUARDED_BY(mutex_) = 0;  // openings that wait for room
  uint64_t wanted_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

// A tenant that stays open meanwhile. Threads: compatible; must not outlive the registry.
class TenantHold {
 public:
  TenantHold(TenantHold&& other) noexcept = default;
  TenantHold& operator=(TenantHold&&) = delete;
  ~TenantHold();

  Tenant* operator->() const { return tenant_.get(); }
  Tenant& operator*() const { return *tenant_; }

 private:
  friend class TenantRegistry;
  TenantHold(TenantRegistry* registry,
             TenantRegistry::EntryPtr entry,
             std::shared_ptr<Tenant> tenant,
             TenantRegistry::Use use)
      : registry_(registry), entry_(std::move(entry)), tenant_(std::move(tenant)), use_(use) {}

  TenantRegistry* registry_;
  TenantRegistry::EntryPtr entry_;  // null: moved from
  std::shared_ptr<Tenant> tenant_;
  TenantRegistry::Use use_;
};

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_TENANT_REGISTRY_H_
