#include "server/metrics/process.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace lethe::metrics {
namespace {

uint64_t NumberAt(const std::vector<absl::string_view>& fields, size_t index) {
  uint64_t number = 0;
  if (index >= fields.size() || !absl::SimpleAtoi(fields[index], &number)) return 0;
  return number;
}

// Unix time of the machine's start.
double BootSeconds() {
  std::ifstream in("/proc/stat");
  for (std::string line; std::getline(in, line);) {
    uint64_t seconds = 0;
    if (line.rfind("btime ", 0) == 0 && absl::SimpleAtoi(line.substr(6), &seconds)) {
      return static_cast<double>(seconds);
    }
  }
  return 0.0;
}

}  // namespace

ProcessStats ReadProcessStats() {
  ProcessStats stats;
  std::ifstream in("/proc/self/stat");
  std::string text;
  std::getline(in, text);
  // The name of the program, in parentheses, may hold anything; the fields behind it are numbered
  // from the state, which is the third.
  const size_t behind_name = text.rfind(") ");
  if (behind_name != std::string::npos) {
    const std::vector<absl::string_view> fields =
        absl::StrSplit(absl::string_view(text).substr(behind_name + 2), ' ');
    constexpr size_t kUserTime = 14 - 3;
    constexpr size_t kThreads = 20 - 3;
    constexpr size_t kStart = 22 - 3;
    const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
    stats.cpu_seconds =
        static_cast<double>(NumberAt(fields, kUserTime) + NumberAt(fields, kUserTime + 1)) / ticks;
    stats.threads = NumberAt(fields, kThreads);
    stats.start_seconds = BootSeconds() + static_cast<double>(NumberAt(fields, kStart)) / ticks;
    stats.virtual_bytes = NumberAt(fields, kStart + 1);
    stats.resident_bytes =
        NumberAt(fields, kStart + 2) * static_cast<uint64_t>(::sysconf(_SC_PAGE_SIZE));
  }
  std::error_code error;
  for (std::filesystem::directory_iterator next("/proc/self/fd", error), end; !error && next != end;
       next.increment(error)) {
    ++stats.open_files;
  }
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) stats.max_files = limit.rlim_cur;
  return stats;
}

}  // namespace lethe::metrics
