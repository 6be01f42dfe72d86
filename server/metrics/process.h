// What the kernel says of this process. Threads: safe. Source: proc(5).
#ifndef LETHE_SERVER_METRICS_PROCESS_H_
#define LETHE_SERVER_METRICS_PROCESS_H_

#include <cstdint>

namespace lethe::metrics {

// Zero where the kernel does not say.
struct ProcessStats {
  uint64_t resident_bytes = 0;
  uint64_t virtual_bytes = 0;
  uint64_t threads = 0;
  uint64_t open_files = 0;
  uint64_t max_files = 0;
  double cpu_seconds = 0.0;
  double start_seconds = 0.0;  // Unix time
};
ProcessStats ReadProcessStats();

}  // namespace lethe::metrics

#endif  // LETHE_SERVER_METRICS_PROCESS_H_
