// What the files of TenantRegistry share; internal to it.
#ifndef LETHE_SERVER_SERVICE_TENANT_REGISTRY_ENTRY_H_
#define LETHE_SERVER_SERVICE_TENANT_REGISTRY_ENTRY_H_

#include <exception>
#include <list>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "server/service/tenant_registry.h"

namespace lethe::service {

// What `call` returns; an exception becomes a status, so that no entry stays half open. What it
// says is for the log alone.
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

struct TenantRegistry::Entry : std::enable_shared_from_this<TenantRegistry::Entry> {
  explicit Entry(std::string entry_name) : name(std::move(entry_name)) {}

  const std::string name;
  State state = State::kUnloaded;
  Depth depth = Depth::kMemories;  // kOpen: with what
  bool counted = false;            // in count_ and, with `bytes`, in bytes_
  uint64_t bytes = 0;
  Tenant::Size size;               // kOpen: as of its last change
  std::shared_ptr<Tenant> tenant;  // kOpen
  size_t holds = 0;
  size_t waiting = 0;
  bool closing = false;  // a call waits to have it closed; those that come later wait for that one
  size_t deeper = 0;     // calls that wait for its memories; those that want its log let them pass
  // Its node, which is in idle_ while it is idle: to move it takes no memory.
  std::list<Entry*> node = {this};
  const std::list<Entry*>::iterator place = node.begin();
  bool idle = false;
  // Of one that is not open with its memories: as of the last time that somebody looked.
  std::optional<TenantFacts> facts;
  std::string uid;  // kDeleted
  absl::Duration pause = absl::ZeroDuration();
  Clock::time_point retry;  // kQuarantined
};

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_TENANT_REGISTRY_ENTRY_H_
