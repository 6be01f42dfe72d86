#include "server/limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace lethe::server {
namespace {

// For exports, the log, the keys and what libraries open.
constexpr uint64_t kOtherFiles = 128;
constexpr uint64_t kMostTenants = 1000;  // by default
constexpr uint64_t kLeastConnections = 16;
constexpr uint64_t kMostConnections = 4096;  // by default
constexpr uint64_t kLeastMemory = uint64_t{64} << 20;
// RLIM_INFINITY and absurdly high limits are of no use to anybody.
constexpr uint64_t kMostFiles = uint64_t{1} << 20;

// A file with one number; nullopt for "max" and for no such file.
std::optional<uint64_t> NumberIn(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  if (!(file >> number)) return std::nullopt;
  return number;
}

uint64_t Less(uint64_t from, uint64_t taken) { return from > taken ? from - taken : 0; }

// The least limit of the folder and those above it, down from `mount`.
uint64_t LeastIn(const std::string& mount, std::string group, const std::string& file) {
  uint64_t least = std::numeric_limits<uint64_t>::max();
  while (true) {
    least = std::min(least, NumberIn(absl::StrCat(mount, group, "/", file)).value_or(least));
    const size_t slash = group.rfind('/');
    if (group.empty() || slash == std::string::npos) return least;
    group.resize(slash);
  }
}

}  // namespace

absl::StatusOr<uint64_t> ParseBytes(absl::string_view flag, absl::string_view text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const absl::string_view unit = text.substr(digits);
  int shift = -1;
  if (unit.empty()) shift = 0;
  for (const auto& [name, bits] :
       {std::pair<absl::string_view, int>{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}}) {
    if (unit == name || unit == name.substr(0, 1)) shift = bits;
  }
  uint64_t number = 0;
  if (shift < 0 || !absl::SimpleAtoi(text.substr(0, digits), &number) ||
      number > (std::numeric_limits<uint64_t>::max() >> shift)) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, ": must be a number of bytes such as 2GiB, 512MiB or 1073741824"));
  }
  return number << shift;
}

uint64_t RaiseOpenFiles() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  rlimit raised = limit;
  raised.rlim_cur = std::min<rlim_t>(limit.rlim_max, std::max<rlim_t>(limit.rlim_cur, kMostFiles));
  if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  return std::min<uint64_t>(limit.rlim_cur, kMostFiles);
}

uint64_t MemoryOfMachine(const std::string& root) {
  uint64_t memory = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                    static_cast<uint64_t>(::sysconf(_SC_PAGE_SIZE));
  // Lines "0::/group" (version 2) or "7:memory:/group" (version 1).
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::string group = parts[2] == "/" ? "" : parts[2];
    if (parts[0] == "0" && parts[1].empty()) {
      memory = std::min(memory, LeastIn(root + "/sys/fs/cgroup", group, "memory.max"));
    } else if (absl::StrContains(absl::StrCat(",", parts[1], ","), ",memory,")) {
      memory =
          std::min(memory, LeastIn(root + "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
    }
  }
  return memory;
}

absl::StatusOr<service::RegistryLimits> TenantLimits(std::optional<uint64_t> max_open_tenants,
                                                     std::optional<uint64_t> memory_limit,
                                                     uint64_t open_files,
                                                     uint64_t http_connections,
                                                     uint64_t memory) {
  service::RegistryLimits limits;
  const uint64_t others = kOtherFiles + http_connections + kLeastConnections;
  const uint64_t room = Less(open_files, others);
  const uint64_t by_default = std::clamp<uint64_t>(
      std::min(open_files / 2, room) / service::kDescriptorsPerTenant, 1, kMostTenants);
  const uint64_t tenants = max_open_tenants.value_or(by_default);
  if (tenants == 0) {
    return absl::InvalidArgumentError("--max-open-tenants: must be at least 1");
  }
  if (max_open_tenants.has_value() && tenants > room / service::kDescriptorsPerTenant) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--max-open-tenants: ", tenants, " tenants need ", service::kDescriptorsPerTenant,
        " open files each and the server ", others, " more, and this process may open ", open_files,
        "; give at most ", room / service::kDescriptorsPerTenant,
        ", or raise the hard limit (ulimit -Hn, LimitNOFILE=)"));
  }
  limits.max_open = static_cast<size_t>(tenants);
  limits.max_bytes = memory_limit.value_or(std::max(memory / 2, kLeastMemory));
  if (limits.max_bytes < kLeastMemory) {
    return absl::InvalidArgumentError("--memory-limit: must be at least 64MiB");
  }
  if (memory_limit.has_value() && *memory_limit > memory) {
    return absl::InvalidArgumentError(
        absl::StrCat("--memory-limit: this machine, or the cgroup of the process, has ", memory,
                     " bytes; give less, since requests and libraries take some too"));
  }
  return limits;
}

absl::StatusOr<size_t> ConnectionLimit(std::optional<uint64_t> max_connections,
                                       uint64_t open_files,
                                       uint64_t http_connections,
                                       uint64_t open_tenants) {
  // Whoever connects needs no credentials for it: he must not take the files that tenants need.
  const uint64_t others =
      kOtherFiles + http_connections + open_tenants * service::kDescriptorsPerTenant;
  const uint64_t room = Less(open_files, others);
  if (!max_connections.has_value()) {
    return static_cast<size_t>(
        std::clamp(std::min(open_files / 8, room), kLeastConnections, kMostConnections));
  }
  if (*max_connections == 0) {
    return absl::InvalidArgumentError("--max-connections: must be at least 1");
  }
  if (*max_connections > room) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--max-connections: each needs an open file, ", open_tenants, " tenants and the server ",
        others, " more, and this process may open ", open_files, "; give at most ", room,
        ", or fewer tenants (--max-open-tenants), or raise the hard limit (ulimit -Hn, "
        "LimitNOFILE=)"));
  }
  return static_cast<size_t>(*max_connections);
}

}  // namespace lethe::server
