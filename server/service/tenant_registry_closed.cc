// TenantRegistry: a tenant that is kept closed while its files are replaced.
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "server/service/tenant_registry.h"
#include "server/service/tenant_registry_entry.h"

namespace lethe::service {
namespace {

absl::Status WasDeleted() {
  return absl::FailedPreconditionError(
      "tenant: was deleted and its keys are destroyed; nobody can bring it back");
}

}  // namespace

std::optional<std::string> TenantRegistry::KnownUid(const std::string& name) const {
  MutexLock lock(mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end()) return std::nullopt;
  const Entry& entry = *found->second;
  if (entry.tenant != nullptr) return entry.tenant->uid();
  if (entry.state == State::kDeleted) return entry.uid;
  if (entry.facts.has_value()) return entry.facts->uid;
  return std::nullopt;
}

absl::Status TenantRegistry::Served() {
  return absl::FailedPreconditionError(
      "tenant: is served; ask for `replace` to put the backup in its place: what it got since the "
      "backup is lost then, but for its erasures");
}

absl::Status TenantRegistry::WithClosed(
    const std::string& name,
    const CallOptions& call,
    bool replace,
    absl::FunctionRef<absl::StatusOr<std::optional<TenantFacts>>()> body) {
  std::map<std::string, EntryPtr> ready = {{name, std::make_shared<Entry>(name)}};
  EntryPtr entry;
  State failed = State::kUnloaded;
  {
    MutexLock lock(mutex_);
    const auto found = entries_.find(name);
    if (found != entries_.end()) {
      entry = found->second;
      LETHE_ASSIGN_OR_RETURN(failed, ClaimClosed(*entry, call, replace));
    }
  }
  absl::StatusOr<std::optional<TenantFacts>> facts = Guarded(body);
  MutexLock lock(mutex_);
  if (entry == nullptr) {
    if (!facts.ok()) return facts.status();
    entry = ready.begin()->second;
    LETHE_CHECK(entries_.insert(ready.extract(ready.begin())).inserted);
  }
  // After an error what was known stays, the uid above all, which tells a namesake.
  if (facts.ok()) {
    entry->facts = *std::move(facts);
    entry->pause = absl::ZeroDuration();
  }
  Closed(*entry, facts.ok() ? State::kUnloaded : failed);
  return facts.status();
}

absl::StatusOr<TenantRegistry::State> TenantRegistry::ClaimClosed(Entry& entry,
                                                                  const CallOptions& call,
                                                                  bool replace) {
  const Clock::time_point begin = Clock::now();
  entry.closing = true;
  const absl::Cleanup over = [&] {
    entry.closing = false;
    changed_.notify_all();
  };
  while (true) {
    const State state = entry.state;
    if (state == State::kDeleted) return WasDeleted();
    if (state == State::kQuarantined) {
      entry.state = State::kOpening;
      return state;
    }
    if (state == State::kUnloaded || state == State::kOpen) {
      if (IsGone(entry)) return WasDeleted();
      if (!replace) return Served();
    }
    if (state == State::kUnloaded) {
      entry.state = State::kOpening;
      return state;
    }
    if (state == State::kOpen) {
      if (entry.idle) {
        BeginUnloading(entry, "restore");
      } else if (absl::FromChrono(Clock::now() - begin) > limits_.patience) {
        return absl::ResourceExhaustedError(
            "tenant: calls that go on, perhaps an export, use it; try again later");
      }
    }
    LETHE_RETURN_IF_ERROR(WaitABit(call));
  }
}

}  // namespace lethe::service
