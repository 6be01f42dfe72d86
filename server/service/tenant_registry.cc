#include "server/service/tenant_registry.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace lethe::service {
namespace {

// How long a waiting call goes without looking whether it is still wanted.
constexpr std::chrono::milliseconds kLook(20);
constexpr size_t kMostUnloading = 8;  // at a time
// What a tenant takes that is new, or is opened with its log alone.
constexpr uint64_t kUnknownBytes = Tenant::Size::kEmptyBytes;

absl::Status NoSuchTenant() { return absl::NotFoundError("tenant: there is none with this name"); }

int64_t MillisecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               begin)
      .count();
}

// What `call` returns; an exception becomes a status, so that no entry stays half open.
template <typename Call>
auto Guarded(const Call& call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  } catch (const std::exception& exception) {
    return absl::InternalError(exception.what());
  }
}

}  // namespace

struct TenantRegistry::Entry : std::enable_shared_from_this<TenantRegistry::Entry> {
  explicit Entry(std::string entry_name) : name(std::move(entry_name)) {}

  const std::string name;
  State state = State::kUnloaded;
  bool counted = false;  // in count_ and, with `bytes`, in bytes_
  uint64_t bytes = 0;
  std::shared_ptr<Tenant> tenant;  // kOpen
  size_t holds = 0;
  size_t waiting = 0;
  std::optional<std::list<Entry*>::iterator> idle;  // its place in idle_
  std::optional<TenantFacts> facts;                 // as of the last time it was not open
  std::string uid;                                  // kDeleted
  absl::Duration pause = absl::ZeroDuration();
  Clock::time_point retry;  // kQuarantined
};

// --- TenantHold

TenantHold::~TenantHold() {
  if (entry_ == nullptr) return;
  std::optional<Tenant::Size> size;
  if (use_ == TenantRegistry::Use::kWrite) size = tenant_->EstimateSize();
  tenant_.reset();  // an idle tenant is referred to by the registry alone
  registry_->Release(entry_, size);
}

// --- Who there is

TenantRegistry::TenantRegistry(const RegistryLimits& limits, Opener open, EventLog* log)
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
  if (entry.tenant != nullptr) return entry.tenant->Info();
  if (entry.facts.has_value() && entry.state != State::kQuarantined) return entry.facts->info;
  return std::nullopt;
}

std::pair<std::vector<TenantInfo>, bool> TenantRegistry::List(const std::string& after,
                                                              size_t limit) const {
  MutexLock lock(mutex_);
  std::vector<TenantInfo> infos;
  for (auto next = entries_.upper_bound(after); next != entries_.end(); ++next) {
    const Entry& entry = *next->second;
    if (entry.state == State::kDeleted || IsGone(entry)) continue;
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

// --- Opening

absl::StatusOr<TenantHold> TenantRegistry::Acquire(const std::string& name,
                                                   Use use,
                                                   const CallOptions& call) {
  MutexLock lock(mutex_);
  LETHE_ASSIGN_OR_RETURN(const EntryPtr entry, Find(name));
  if (entry->state == State::kOpen && !entry->tenant->closed()) return Hold(entry, use);
  if (waiting_ >= limits_.max_waiting || entry->waiting >= limits_.max_waiting_for_one) {
    return absl::ResourceExhaustedError(
        "tenant: too many calls wait for tenants to be opened; try again later");
  }
  ++waiting_;
  ++entry->waiting;
  absl::StatusOr<bool> open = Claim(*entry, Depth::kMemories, call);
  if (open.ok() && !*open) open = OpenNow(*entry);
  --waiting_;
  --entry->waiting;
  LETHE_RETURN_IF_ERROR(open.status());
  return Hold(entry, use);
}

absl::StatusOr<bool> TenantRegistry::OpenNow(Entry& entry) {
  mutex_.Unlock();
  const Clock::time_point begin = Clock::now();
  absl::StatusOr<std::shared_ptr<Tenant>> tenant =
      Guarded([&] { return open_(entry.name, Depth::kMemories); });
  Tenant::Size size;
  if (tenant.ok()) {
    size = (*tenant)->EstimateSize();
    log_->Write(LogLevel::kInfo, "tenant_opened",
                {{"tenant", entry.name},
                 {"milliseconds", MillisecondsSince(begin)},
                 {"tokens", static_cast<int64_t>(size.tokens)},
                 {"bytes", static_cast<int64_t>(size.bytes)}});
  }
  mutex_.Lock();
  if (!tenant.ok()) return OpeningFailed(entry, tenant.status());
  if ((*tenant)->closed()) {
    // A deletion was committed and then interrupted; DeleteTenant, a rotation or a start moves it.
    entry.uid = (*tenant)->uid();
    Closed(entry, State::kDeleted);
    return NoSuchTenant();
  }
  Opened(entry, *std::move(tenant), size);
  return true;
}

absl::StatusOr<TenantHold> TenantRegistry::AcquireNew(
    const std::string& name,
    const CallOptions& call,
    absl::FunctionRef<absl::StatusOr<std::shared_ptr<Tenant>>()> make) {
  const auto entry = std::make_shared<Entry>(name);
  entry->state = State::kOpening;
  MutexLock lock(mutex_);
  LETHE_RETURN_IF_ERROR(MakeRoom(*entry, kUnknownBytes, call, Clock::now()));
  mutex_.Unlock();
  absl::StatusOr<std::shared_ptr<Tenant>> tenant = Guarded(make);
  mutex_.Lock();
  if (!tenant.ok()) {
    Closed(*entry, State::kDeleted);
    return tenant.status();
  }
  LETHE_CHECK(entries_.emplace(name, entry).second);
  const Tenant::Size size = (*tenant)->EstimateSize();
  Opened(*entry, *std::move(tenant), size);
  return Hold(entry, Use::kWrite);
}

absl::Status TenantRegistry::WithLog(const std::string& name,
                                     const CallOptions& call,
                                     absl::FunctionRef<absl::Status(Tenant&)> body) {
  EntryPtr entry;
  std::optional<TenantHold> hold;
  {
    MutexLock lock(mutex_);
    LETHE_ASSIGN_OR_RETURN(entry, Find(name));
    LETHE_ASSIGN_OR_RETURN(const bool open, Claim(*entry, Depth::kLog, call));
    if (open) hold.emplace(Hold(entry, Use::kRead));
  }
  if (hold.has_value()) return body(**hold);

  absl::StatusOr<std::shared_ptr<Tenant>> tenant =
      Guarded([&] { return open_(name, Depth::kLog); });
  if (!tenant.ok()) {
    MutexLock lock(mutex_);
    return OpeningFailed(*entry, tenant.status());
  }
  const absl::Status status = Guarded([&] { return body(**tenant); });
  const bool deleted = (*tenant)->closed();
  const bool gone = (*tenant)->gone();
  const std::string uid = (*tenant)->uid();
  absl::StatusOr<TenantInfo> info = (*tenant)->Info();
  if (!gone) info = Guarded([&] { return (*tenant)->InfoFromStore(); });
  tenant->reset();  // closes the file before anybody opens it again
  MutexLock lock(mutex_);
  if (deleted) {
    entry->uid = uid;
  } else if (info.ok()) {
    const uint64_t bytes = entry->facts.has_value() ? entry->facts->bytes : kUnknownBytes;
    entry->facts = TenantFacts{*std::move(info), uid, bytes, gone};
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
  if (entry->idle.has_value()) idle_.erase(*entry->idle);
  entry->idle.reset();
  return TenantHold(this, entry, entry->tenant, use);
}

void TenantRegistry::Release(const EntryPtr& entry, std::optional<Tenant::Size> size) {
  MutexLock lock(mutex_);
  --entry->holds;
  if (entry->state != State::kOpen) return;  // deleted meanwhile
  if (size.has_value()) {
    bytes_ += size->bytes - entry->bytes;
    entry->bytes = size->bytes;
  }
  if (entry->holds == 0) entry->idle = idle_.insert(idle_.end(), entry.get());
  UnloadIdle(/*one_more=*/false);
  if (wanted_ > 0) changed_.notify_all();
}

absl::StatusOr<bool> TenantRegistry::Claim(Entry& entry, Depth depth, const CallOptions& call) {
  const Clock::time_point begin = Clock::now();
  while (true) {
    switch (entry.state) {
      case State::kOpen:
        if (entry.tenant->closed()) return NoSuchTenant();
        return true;
      case State::kDeleted:
        return NoSuchTenant();
      case State::kQuarantined:
        if (Clock::now() < entry.retry) return Quarantined(entry);
        break;
      case State::kUnloaded:
        break;
      case State::kOpening:
      case State::kUnloading:
        LETHE_RETURN_IF_ERROR(WaitABit(call));
        continue;
    }
    const State before = entry.state;
    entry.state = State::kOpening;
    const uint64_t bytes =
        depth == Depth::kMemories && entry.facts.has_value() ? entry.facts->bytes : kUnknownBytes;
    if (absl::Status room = MakeRoom(entry, bytes, call, begin); !room.ok()) {
      entry.state = before;
      changed_.notify_all();
      return room;
    }
    return false;
  }
}

absl::Status TenantRegistry::MakeRoom(Entry& entry,
                                      uint64_t bytes,
                                      const CallOptions& call,
                                      Clock::time_point begin) {
  ++wanted_;
  wanted_bytes_ += bytes;
  absl::Status status;
  Clock::time_point asked = Clock::now();
  bool slow = false;
  while (count_ >= limits_.max_open || (count_ > 0 && bytes_ + bytes > limits_.max_bytes)) {
    UnloadIdle(/*one_more=*/slow);
    if (absl::FromChrono(Clock::now() - begin) > limits_.patience) {
      status = absl::ResourceExhaustedError(
          "tenant: it is not open, and those that are open are all in use; try again later");
      break;
    }
    if (status = WaitABit(call); !status.ok()) break;
    slow = absl::FromChrono(Clock::now() - asked) > limits_.slow_unloading;
    if (slow) asked = Clock::now();
  }
  --wanted_;
  wanted_bytes_ -= bytes;
  if (status.ok()) {
    entry.counted = true;
    entry.bytes = bytes;
    ++count_;
    bytes_ += bytes;
  }
  return status;
}

absl::Status TenantRegistry::WaitABit(const CallOptions& call) {
  if (call.still_wanted) {
    mutex_.Unlock();
    absl::Status status = call.still_wanted();
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
    // The last one stays however large it is.
    const bool too_large = count > 1 && bytes > limits_.max_bytes;
    if (!too_many && !too_large && !one_more) return;
    one_more = false;
    const EntryPtr entry = idle_.front()->shared_from_this();
    entry->facts = TenantFacts{entry->tenant->Info(), entry->tenant->uid(), entry->bytes,
                               entry->tenant->gone()};
    const absl::string_view reason = too_large && !too_many ? "memory-limit" : "max-open-tenants";
    ++unloading_;
    unloading_bytes_ += entry->bytes;
    try {
      std::thread([this, entry, reason] { Unload(*entry, reason); }).detach();
    } catch (const std::system_error&) {  // no thread to be had: whoever needs room asks again
      --unloading_;
      unloading_bytes_ -= entry->bytes;
      return;
    }
    idle_.pop_front();
    entry->idle.reset();
    entry->state = State::kUnloading;
  }
}

void TenantRegistry::Unload(Entry& entry, absl::string_view reason) {
  const Clock::time_point begin = Clock::now();
  std::shared_ptr<Tenant> tenant;
  {
    MutexLock lock(mutex_);
    tenant = std::move(entry.tenant);
  }
  const Tenant::Size size = tenant->EstimateSize();
  const absl::Status emptied = tenant->Checkpoint();
  const bool deleted = tenant->closed();
  const std::string uid = tenant->uid();
  LETHE_CHECK(tenant.use_count() == 1);  // whoever else refers to it forgot to hold it
  tenant.reset();
  // A log that was not emptied now is emptied when the file is opened next, before anything else.
  log_->Write(emptied.ok() ? LogLevel::kInfo : LogLevel::kWarning, "tenant_unloaded",
              {{"tenant", entry.name},
               {"milliseconds", MillisecondsSince(begin)},
               {"tokens", static_cast<int64_t>(size.tokens)},
               {"bytes", static_cast<int64_t>(size.bytes)},
               {"reason", std::string(reason)},
               {"log_emptied", int64_t{emptied.ok()}}});
  MutexLock lock(mutex_);
  --unloading_;
  unloading_bytes_ -= entry.bytes;
  if (deleted) entry.uid = uid;
  Closed(entry, deleted ? State::kDeleted : State::kUnloaded);
}

// --- Changes of state

void TenantRegistry::Opened(Entry& entry,
                            std::shared_ptr<Tenant> tenant,
                            const Tenant::Size& size) {
  LETHE_CHECK(entry.counted);
  bytes_ += size.bytes - entry.bytes;
  entry.bytes = size.bytes;
  entry.state = State::kOpen;
  entry.tenant = std::move(tenant);
  entry.facts.reset();
  entry.pause = absl::ZeroDuration();
  changed_.notify_all();
  UnloadIdle(/*one_more=*/false);  // it may take more than was thought
}

void TenantRegistry::Closed(Entry& entry, State state) {
  if (entry.idle.has_value()) idle_.erase(*entry.idle);
  entry.idle.reset();
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
  log_->Write(LogLevel::kError, "tenant_quarantined",
              {{"tenant", entry.name},
               {"code", static_cast<int64_t>(status.code())},
               {"message", std::string(status.message())},
               {"retry_seconds", absl::ToDoubleSeconds(entry.pause)}});
  return Quarantined(entry);
}

absl::Status TenantRegistry::Quarantined(const Entry& entry) const {
  const auto left = std::chrono::ceil<std::chrono::seconds>(entry.retry - Clock::now());
  return absl::UnavailableError(absl::StrCat(
      "tenant: could not be opened and is quarantined; the server's log says why; a call in ",
      std::max<int64_t>(1, left.count()), " s tries again"));
}

}  // namespace lethe::service
