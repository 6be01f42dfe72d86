#include "server/service/tenant_registry.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <new>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "server/service/names.h"
#include "server/service/retry_delay.h"
#include "server/service/tenant_registry_entry.h"

namespace lethe::service {
namespace {

// How long a waiting call goes without looking whether it is still wanted.
constexpr std::chrono::milliseconds kLook(20);
constexpr size_t kMostUnloading = 8;  // at a time
// For a call that found everything in use.
constexpr absl::Duration kFullRetry = absl::Seconds(1);
// What a tenant takes that is new, or is opened with its log alone.
constexpr uint64_t kUnknownBytes = Tenant::Size::kEmptyBytes;

int64_t MillisecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               begin)
      .count();
}

// An opening for whom others are always faster gives up after so many times its patience.
constexpr int kMostPatience = 4;

// Adds to a count while it lives.
template <typename T>
class Added {
 public:
  Added(T& count, T amount) : count_(count), amount_(amount) { count_ += amount_; }
  ~Added() { count_ -= amount_; }
  Added(const Added&) = delete;
  Added& operator=(const Added&) = delete;

 private:
  T& count_;
  const T amount_;
};

}  // namespace

// --- TenantHold

TenantHold::~TenantHold() {
  if (entry_ == nullptr) return;
  std::optional<Tenant::Size> size;
  if (use_ == TenantRegistry::Use::kWrite) size = tenant_->EstimateSize();
  tenant_.reset();  // an idle tenant is referred to by the registry alone
  registry_->Release(entry_, size);
}

// --- Who there is

TenantRegistry::TenantRegistry(const RegistryLimits& limits, Opener open, program::EventLog* log)
    : limits_(limits), open_(std::move(open)), log_(log) {
  LETHE_CHECK(limits_.max_open > 0 && log_ != nullptr);
}

TenantRegistry::~TenantRegistry() {
  MutexLock lock(mutex_);
  while (unloading_ > 0) WaitABit({}).IgnoreError();
  for (const auto& [name, entry] : entries_) LETHE_CHECK(entry->holds == 0);
}

void TenantRegistry::Add(const std::string& name, std::optional<TenantFacts> facts) {
  MutexLock lock(mutex_);
  EntryPtr& entry = entries_[name];
  if (entry == nullptr) entry = std::make_shared<Entry>(name);
  entry->facts = std::move(facts);
}

void TenantRegistry::AddQuarantined(const std::string& name, const absl::Status& status) {
  MutexLock lock(mutex_);
  EntryPtr& entry = entries_[name];
  if (entry == nullptr) entry = std::make_shared<Entry>(name);
  OpeningFailed(*entry, status).IgnoreError();
}

void TenantRegistry::MarkDeleted(const std::string& name, const std::string& uid) {
  MutexLock lock(mutex_);
  const auto found = entries_.find(name);
  LETHE_CHECK(found != entries_.end());
  Entry& entry = *found->second;
  // The file of a closed tenant is closed, so whoever still holds the object holds nothing.
  Closed(entry, State::kDeleted);
  entry.uid = uid;
}

void TenantRegistry::Remove(const std::string& name) {
  MutexLock lock(mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end()) return;
  Closed(*found->second, State::kDeleted);
  entries_.erase(found);
}

bool TenantRegistry::Contains(const std::string& name) const {
  MutexLock lock(mutex_);
  return entries_.contains(name);
}

std::optional<std::string> TenantRegistry::DeletedUid(const std::string& name) const {
  MutexLock lock(mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end()) return std::nullopt;
  const Entry& entry = *found->second;
  if (entry.state == State::kDeleted) return entry.uid;
  if (entry.tenant != nullptr && entry.tenant->closed()) return entry.tenant->uid();
  return std::nullopt;
}

std::vector<std::string> TenantRegistry::Names() const {
  MutexLock lock(mutex_);
  std::vector<std::string> names;
  names.reserve(entries_.size());
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

std::vector<std::string> TenantRegistry::KnownUids() const {
  MutexLock lock(mutex_);
  std::vector<std::string> uids;
  for (const auto& [name, entry] : entries_) {
    if (entry->facts.has_value()) uids.push_back(entry->facts->uid);
  }
  return uids;
}

absl::StatusOr<TenantRegistry::EntryPtr> TenantRegistry::Find(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end() || found->second->state == State::kDeleted) return NoSuchTenant();
  return found->second;
}

// Info() of an open tenant is asked under the lock: it waits for no writer, and a reference taken
// out of here would be a use that no unloading knows of.
absl::StatusOr<std::optional<TenantInfo>> TenantRegistry::Info(const std::string& name) const {
  MutexLock lock(mutex_);
  LETHE_ASSIGN_OR_RETURN(const EntryPtr entry, Find(name));
  if (IsGone(*entry)) return NoSuchTenant();
  return KnownOf(*entry);
}

bool TenantRegistry::IsGone(const Entry& entry) const {
  if (entry.tenant != nullptr) return entry.tenant->gone();
  return entry.facts.has_value() && entry.facts->gone;
}

std::optional<TenantInfo> TenantRegistry::KnownOf(const Entry& entry) const {
  if (entry.tenant != nullptr) {
    TenantInfo info = entry.tenant->Info();
    if (entry.depth == Depth::kLog) info.memory_count = entry.facts->info.memory_count;
    return info;
  }
  if (entry.facts.has_value() && entry.state != State::kQuarantined) return entry.facts->info;
  return std::nullopt;
}

std::pair<std::vector<TenantInfo>, bool> TenantRegistry::List(const std::string& after,
                                                              size_t limit,
                                                              const TenantFilter& sees) const {
  MutexLock lock(mutex_);
  std::vector<TenantInfo> infos;
  for (auto next = entries_.upper_bound(after); next != entries_.end(); ++next) {
    const Entry& entry = *next->second;
    if (entry.state == State::kDeleted || IsGone(entry)) continue;
    if (sees && !sees(entry.name)) continue;
    if (infos.size() == limit) return {std::move(infos), true};
    std::optional<TenantInfo> known = KnownOf(entry);
    if (!known.has_value()) known.emplace().name = entry.name;
    infos.push_back(*std::move(known));
  }
  return {std::move(infos), false};
}

TenantRegistry::Counts TenantRegistry::counts() const {
  MutexLock lock(mutex_);
  return {.open = count_, .bytes = bytes_, .waiting = waiting_};
}

TenantRegistry::Stats TenantRegistry::stats(size_t largest) const {
  MutexLock lock(mutex_);
  Stats stats{.waiting = waiting_, .bytes = bytes_};
  std::vector<const Entry*> open;
  for (const auto& [name, entry] : entries_) {
    if (entry->state == State::kDeleted || IsGone(*entry)) continue;
    ++stats.tenants;
    if (entry->state == State::kQuarantined) ++stats.quarantined;
    if (entry->tenant != nullptr) {
      stats.certificates += entry->tenant->certificate_count();
    } else if (entry->facts.has_value()) {
      stats.certificates += entry->facts->info.certificate_count;
    }
    if (entry->tenant == nullptr || entry->depth != Depth::kMemories) continue;
    ++stats.open;
    stats.sum.tokens += entry->size.tokens;
    stats.sum.memories += entry->size.memories;
    stats.sum.partition.margin += entry->size.partition.margin;
    stats.sum.partition.error += entry->size.partition.error;
    stats.sum.partition.reserve += entry->size.partition.reserve;
    if (largest > 0) open.push_back(entry.get());
  }
  stats.sum.bytes = stats.bytes;
  const size_t shown = std::min(largest, open.size());
  std::partial_sort(open.begin(), open.begin() + static_cast<std::ptrdiff_t>(shown), open.end(),
                    [](const Entry* a, const Entry* b) { return a->size.tokens > b->size.tokens; });
  for (size_t i = 0; i < shown; ++i) {
    stats.largest.push_back({open[i]->name, open[i]->size, open[i]->tenant->certificate_count()});
  }
  return stats;
}

// --- Opening

absl::StatusOr<TenantHold> TenantRegistry::Acquire(const std::string& name,
                                                   Use use,
                                                   const CallOptions& call,
                                                   Depth depth) {
  LETHE_CHECK(depth == Depth::kMemories || use == Use::kRead);
  MutexLock lock(mutex_);
  LETHE_ASSIGN_OR_RETURN(const EntryPtr entry, Find(name));
  if (entry->state == State::kOpen && entry->depth == Depth::kMemories && !entry->closing &&
      !entry->tenant->closed()) {
    return Hold(entry, use);
  }
  if (waiting_ >= limits_.max_waiting || entry->waiting >= limits_.max_waiting_for_one) {
    return WithRetryDelay(
        absl::ResourceExhaustedError(
            "tenant: too many calls wait for tenants to be opened; try again later"),
        kFullRetry);
  }
  const Added<size_t> waiting(waiting_, 1);
  const Added<size_t> waiting_for_it(entry->waiting, 1);
  LETHE_ASSIGN_OR_RETURN(const bool open, Claim(*entry, depth, Room::kWait, call));
  if (!open) LETHE_RETURN_IF_ERROR(OpenNow(*entry, depth));
  return Hold(entry, use);
}

absl::Status TenantRegistry::OpenNow(Entry& entry, Depth depth) {
  struct Result {
    std::shared_ptr<Tenant> tenant;
    Tenant::Size size;
    std::string uid;
    std::optional<TenantFacts> facts;
  };
  mutex_.Unlock();
  const Clock::time_point begin = Clock::now();
  absl::StatusOr<Result> opened = Guarded([&]() -> absl::StatusOr<Result> {
    Result result;
    LETHE_ASSIGN_OR_RETURN(result.tenant, open_(entry.name, depth));
    Tenant& tenant = *result.tenant;
    result.size = tenant.EstimateSize();
    result.uid = tenant.uid();
    if (depth == Depth::kMemories) {
      log_->Write(program::LogLevel::kInfo, "tenant_opened",
                  {{"tenant", entry.name},
                   {"milliseconds", MillisecondsSince(begin)},
                   {"tokens", static_cast<int64_t>(result.size.tokens)},
                   {"bytes", static_cast<int64_t>(result.size.bytes)}});
      return result;
    }
    TenantFacts& facts = result.facts.emplace();
    facts.gone = tenant.gone();
    facts.uid = result.uid;
    facts.info = tenant.Info();
    if (!facts.gone) {
      LETHE_ASSIGN_OR_RETURN(facts.info, tenant.InfoFromStore());
    }
    log_->Write(program::LogLevel::kInfo, "tenant_log_opened",
                {{"tenant", entry.name}, {"milliseconds", MillisecondsSince(begin)}});
    return result;
  });
  mutex_.Lock();
  if (!opened.ok()) return OpeningFailed(entry, opened.status());
  if (opened->tenant->closed()) {
    // A deletion was committed and then interrupted; DeleteTenant, a rotation or a start moves it.
    entry.uid = std::move(opened->uid);
    Closed(entry, State::kDeleted);
    return NoSuchTenant();
  }
  if (opened->facts.has_value()) {
    opened->facts->bytes = entry.facts.has_value() ? entry.facts->bytes : kUnknownBytes;
  }
  Opened(entry, std::move(opened->tenant), opened->size, std::move(opened->facts));
  return absl::OkStatus();
}

absl::StatusOr<TenantHold> TenantRegistry::AcquireNew(
    const std::string& name,
    const CallOptions& call,
    absl::FunctionRef<absl::StatusOr<std::shared_ptr<Tenant>>()> make,
    absl::FunctionRef<absl::Status(const absl::Status&)> failed) {
  const auto entry = std::make_shared<Entry>(name);
  entry->state = State::kOpening;
  std::map<std::string, EntryPtr> ready = {{name, entry}};  // to register it takes no memory
  MutexLock lock(mutex_);
  LETHE_RETURN_IF_ERROR(MakeRoom(*entry, kUnknownBytes, Room::kWait, call));
  mutex_.Unlock();
  Tenant::Size size;
  absl::StatusOr<std::shared_ptr<Tenant>> tenant =
      Guarded([&]() -> absl::StatusOr<std::shared_ptr<Tenant>> {
        absl::StatusOr<std::shared_ptr<Tenant>> made = make();
        if (made.ok()) size = (*made)->EstimateSize();
        return made;
      });
  absl::Status told;
  if (!tenant.ok()) told = Guarded([&] { return failed(tenant.status()); });
  mutex_.Lock();
  if (!tenant.ok()) {
    Closed(*entry, State::kDeleted);
    return told;
  }
  LETHE_CHECK(entries_.insert(ready.extract(ready.begin())).inserted);
  Opened(*entry, *std::move(tenant), size, std::nullopt);
  return Hold(entry, Use::kWrite);
}

absl::Status TenantRegistry::WithLog(const std::string& name,
                                     const CallOptions& call,
                                     Room room,
                                     absl::FunctionRef<absl::Status(Tenant&)> body) {
  EntryPtr entry;
  std::optional<TenantHold> hold;
  {
    MutexLock lock(mutex_);
    LETHE_ASSIGN_OR_RETURN(entry, Find(name));
    LETHE_ASSIGN_OR_RETURN(const bool open, Claim(*entry, Depth::kLog, room, call));
    if (open) hold.emplace(Hold(entry, Use::kRead));
  }
  if (hold.has_value()) return Guarded([&] { return body(**hold); });

  TenantFacts facts;
  absl::StatusOr<std::shared_ptr<Tenant>> tenant =
      Guarded([&]() -> absl::StatusOr<std::shared_ptr<Tenant>> {
        LETHE_ASSIGN_OR_RETURN(std::shared_ptr<Tenant> opened, open_(name, Depth::kLog));
        facts.uid = opened->uid();
        return opened;
      });
  if (!tenant.ok()) {
    MutexLock lock(mutex_);
    return OpeningFailed(*entry, tenant.status());
  }
  const absl::Status status = Guarded([&] { return body(**tenant); });
  facts.gone = (*tenant)->gone();
  const bool known = Guarded([&]() -> absl::Status {
                       facts.info = (*tenant)->Info();
                       if (facts.gone) return absl::OkStatus();
                       LETHE_ASSIGN_OR_RETURN(facts.info, (*tenant)->InfoFromStore());
                       return absl::OkStatus();
                     }).ok();
  const bool deleted = (*tenant)->closed();
  tenant->reset();  // closes the file before anybody opens it again
  MutexLock lock(mutex_);
  if (deleted) {
    entry->uid = std::move(facts.uid);
  } else if (known) {
    facts.bytes = entry->facts.has_value() ? entry->facts->bytes : kUnknownBytes;
    entry->facts = std::move(facts);
  } else {
    entry->facts.reset();
  }
  entry->pause = absl::ZeroDuration();
  Closed(*entry, deleted ? State::kDeleted : State::kUnloaded);
  return status;
}

std::vector<TenantHold> TenantRegistry::AcquireOpen() {
  MutexLock lock(mutex_);
  std::vector<TenantHold> holds;
  for (const auto& [name, entry] : entries_) {
    if (entry->state == State::kOpen) holds.push_back(Hold(entry, Use::kRead));
  }
  return holds;
}

TenantHold TenantRegistry::Hold(const EntryPtr& entry, Use use) {
  LETHE_CHECK(entry->state == State::kOpen);
  ++entry->holds;
  if (entry->idle) entry->node.splice(entry->node.begin(), idle_, entry->place);
  entry->idle = false;
  return TenantHold(this, entry, entry->tenant, use);
}

void TenantRegistry::Release(const EntryPtr& entry, std::optional<Tenant::Size> size) {
  MutexLock lock(mutex_);
  --entry->holds;
  if (entry->state != State::kOpen) return;  // deleted meanwhile
  if (size.has_value()) {
    bytes_ += size->bytes - entry->bytes;
    entry->bytes = size->bytes;
    entry->size = *size;
  }
  if (entry->holds == 0) {
    idle_.splice(idle_.end(), entry->node);
    entry->idle = true;
  }
  UnloadIdle(/*one_more=*/false);
  if (wanted_ > 0 || entry->deeper > 0 || entry->closing) changed_.notify_all();
}

absl::StatusOr<bool> TenantRegistry::Claim(Entry& entry,
                                           Depth depth,
                                           Room room,
                                           const CallOptions& call) {
  const Added<size_t> deeper(entry.deeper, depth == Depth::kMemories ? 1 : 0);
  while (true) {
    const bool lets_pass = depth == Depth::kLog && entry.deeper > 0;
    if (entry.closing) {
      LETHE_RETURN_IF_ERROR(WaitABit(call));
      continue;
    }
    bool wait = false;
    switch (entry.state) {
      case State::kOpen:
        if (entry.tenant->closed()) return NoSuchTenant();
        if (entry.depth == Depth::kMemories || (depth == Depth::kLog && !lets_pass)) return true;
        // Open with its log alone, which goes as soon as nobody reads it.
        if (!lets_pass && entry.idle) BeginUnloading(entry, "memories-wanted");
        wait = true;
        break;
      case State::kDeleted:
        return NoSuchTenant();
      case State::kQuarantined:
        if (Clock::now() < entry.retry) return Quarantined(entry);
        break;
      case State::kUnloaded:
        wait = lets_pass;
        break;
      case State::kOpening:
      case State::kUnloading:
        wait = true;
        break;
    }
    if (wait) {
      LETHE_RETURN_IF_ERROR(WaitABit(call));
      continue;
    }
    const State before = entry.state;
    entry.state = State::kOpening;
    absl::Cleanup give_back = [&] {
      entry.state = before;
      changed_.notify_all();
    };
    const uint64_t bytes =
        depth == Depth::kMemories && entry.facts.has_value() ? entry.facts->bytes : kUnknownBytes;
    LETHE_RETURN_IF_ERROR(MakeRoom(entry, bytes, room, call));
    std::move(give_back).Cancel();
    return false;
  }
}

absl::Status TenantRegistry::MakeRoom(Entry& entry,
                                      uint64_t bytes,
                                      Room room,
                                      const CallOptions& call) {
  const Added<size_t> wanted(wanted_, 1);
  const Added<uint64_t> wanted_bytes(wanted_bytes_, bytes);
  const Clock::time_point begin = Clock::now();
  Clock::time_point asked = begin;
  Clock::time_point all_in_use = begin;  // since then
  while (true) {
    const bool too_many = count_ >= limits_.max_open;
    if (!too_many && (count_ == 0 || bytes_ + bytes <= limits_.max_bytes)) break;
    const Clock::time_point now = Clock::now();
    const bool slow = absl::FromChrono(now - asked) > limits_.slow_unloading;
    if (slow) asked = now;
    UnloadIdle(/*one_more=*/slow);
    const bool some_go = unloading_ > 0 || !idle_.empty();
    if (some_go) all_in_use = now;
    // What is in use stays, whoever waits: bytes are kept as far as idle tenants can go.
    if (!too_many && !some_go) break;
    const bool too_long = absl::FromChrono(now - begin) > kMostPatience * limits_.patience;
    if (!too_many && too_long) break;
    if (!some_go && (room == Room::kNow || absl::FromChrono(now - all_in_use) > limits_.patience)) {
      return WithRetryDelay(
          absl::ResourceExhaustedError(
              "tenant: it is not open, and those that are open are all in use; try again later"),
          kFullRetry);
    }
    if (too_long) {
      return WithRetryDelay(
          absl::ResourceExhaustedError(
              "tenant: it is not open, and others took the place of those that were unloaded; try "
              "again later"),
          kFullRetry);
    }
    LETHE_RETURN_IF_ERROR(WaitABit(call));
  }
  entry.counted = true;
  entry.bytes = bytes;
  ++count_;
  bytes_ += bytes;
  return absl::OkStatus();
}

absl::Status TenantRegistry::WaitABit(const CallOptions& call) {
  if (call.still_wanted) {
    mutex_.Unlock();
    absl::Status status = Guarded([&] { return call.still_wanted(); });
    mutex_.Lock();
    if (!status.ok()) return status;
  }
  std::unique_lock<std::mutex> inner(mutex_.native(), std::adopt_lock);
  changed_.wait_for(inner, kLook);
  inner.release();
  return absl::OkStatus();
}

// --- Unloading

void TenantRegistry::UnloadIdle(bool one_more) {
  while (!idle_.empty() && unloading_ < kMostUnloading) {
    const size_t count = count_ - unloading_ + wanted_;
    const uint64_t bytes = bytes_ - unloading_bytes_ + wanted_bytes_;
    const bool too_many = count > limits_.max_open;
    // The one that was used last stays, however large it is, while nobody needs the room: it would
    // only be solved again at its next call.
    const bool too_large = bytes > limits_.max_bytes && (wanted_ > 0 || idle_.size() > 1);
    if (!too_many && !too_large && !one_more) return;
    one_more = false;
    const absl::string_view reason = too_large && !too_many ? "memory-limit" : "max-open-tenants";
    if (!BeginUnloading(*idle_.front(), reason)) return;
  }
}

bool TenantRegistry::BeginUnloading(Entry& entry, absl::string_view reason) {
  LETHE_CHECK(entry.idle);
  try {
    const EntryPtr kept = entry.shared_from_this();
    entry.facts = TenantFacts{*KnownOf(entry), entry.tenant->uid(),
                              entry.depth == Depth::kLog ? entry.facts->bytes : entry.bytes,
                              entry.tenant->gone()};
    std::thread([this, kept, reason] { Unload(*kept, reason); }).detach();
  } catch (const std::exception&) {  // no thread, no memory: whoever needs room asks again
    return false;
  }
  // The thread waits for the mutex.
  ++unloading_;
  unloading_bytes_ += entry.bytes;
  entry.node.splice(entry.node.begin(), idle_, entry.place);
  entry.idle = false;
  entry.state = State::kUnloading;
  return true;
}

void TenantRegistry::Unload(Entry& entry, absl::string_view reason) {
  const Clock::time_point begin = Clock::now();
  std::shared_ptr<Tenant> tenant;
  {
    MutexLock lock(mutex_);
    tenant = std::move(entry.tenant);
  }
  // A log that was not emptied now is emptied when the file is opened next, before anything else.
  const Tenant::Size size = tenant->EstimateSize();
  const bool emptied = Guarded([&] { return tenant->Checkpoint(); }).ok();
  const bool deleted = tenant->closed();
  LETHE_CHECK(tenant.use_count() == 1);  // whoever else refers to it forgot to hold it
  tenant.reset();
  Guarded([&] {
    log_->Write(emptied ? program::LogLevel::kInfo : program::LogLevel::kWarning, "tenant_unloaded",
                {{"tenant", entry.name},
                 {"milliseconds", MillisecondsSince(begin)},
                 {"tokens", static_cast<int64_t>(size.tokens)},
                 {"bytes", static_cast<int64_t>(size.bytes)},
                 {"reason", std::string(reason)},
                 {"log_emptied", int64_t{emptied}}});
    return absl::OkStatus();
  }).IgnoreError();
  MutexLock lock(mutex_);
  --unloading_;
  unloading_bytes_ -= entry.bytes;
  if (deleted) entry.uid = std::move(entry.facts->uid);
  Closed(entry, deleted ? State::kDeleted : State::kUnloaded);
}

// --- Changes of state

void TenantRegistry::Opened(Entry& entry,
                            std::shared_ptr<Tenant> tenant,
                            const Tenant::Size& size,
                            std::optional<TenantFacts> facts) {
  LETHE_CHECK(entry.counted);
  bytes_ += size.bytes - entry.bytes;
  entry.bytes = size.bytes;
  entry.size = size;
  entry.state = State::kOpen;
  entry.depth = facts.has_value() ? Depth::kLog : Depth::kMemories;
  entry.tenant = std::move(tenant);
  entry.facts = std::move(facts);
  entry.pause = absl::ZeroDuration();
  changed_.notify_all();
  UnloadIdle(/*one_more=*/false);  // it may take more than was thought
}

void TenantRegistry::Closed(Entry& entry, State state) {
  if (entry.idle) entry.node.splice(entry.node.begin(), idle_, entry.place);
  entry.idle = false;
  entry.tenant.reset();
  if (entry.counted) {
    --count_;
    bytes_ -= entry.bytes;
  }
  entry.counted = false;
  entry.bytes = 0;
  entry.state = state;
  changed_.notify_all();
}

absl::Status TenantRegistry::OpeningFailed(Entry& entry, const absl::Status& status) {
  entry.pause = entry.pause == absl::ZeroDuration()
                    ? limits_.first_retry
                    : std::min(2 * entry.pause, limits_.longest_retry);
  entry.retry = Clock::now() + absl::ToChronoNanoseconds(entry.pause);
  Closed(entry, State::kQuarantined);
  log_->Write(program::LogLevel::kError, "tenant_quarantined",
              {{"tenant", entry.name},
               {"code", static_cast<int64_t>(status.code())},
               {"message", std::string(status.message())},
               {"retry_seconds", absl::ToDoubleSeconds(entry.pause)}});
  return Quarantined(entry);
}

absl::Status TenantRegistry::Quarantined(const Entry& entry) const {
  const auto left = std::chrono::ceil<std::chrono::seconds>(entry.retry - Clock::now());
  const int64_t seconds = std::max<int64_t>(1, left.count());
  // No delay for programs to wait: another try seldom helps before somebody did something.
  return absl::UnavailableError(absl::StrCat(
      "tenant: could not be opened and is quarantined; the server's log says why; a call in ",
      seconds, " s tries again"));
}

}  // namespace lethe::service
