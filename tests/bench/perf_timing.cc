#include "tests/bench/perf_timing.h"

#include <time.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>

#include "core/base/check.h"

namespace lethe::bench {

double ThreadSeconds() {
  timespec time{};
  LETHE_CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double Samples::Median() const {
  LETHE_CHECK(!seconds_.empty());
  std::vector<double> sorted = seconds_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

double Samples::Mean() const {
  LETHE_CHECK(!seconds_.empty());
  return std::accumulate(seconds_.begin(), seconds_.end(), 0.0) /
         static_cast<double>(seconds_.size());
}

double Samples::Min() const {
  LETHE_CHECK(!seconds_.empty());
  return *std::min_element(seconds_.begin(), seconds_.end());
}

double Samples::Max() const {
  LETHE_CHECK(!seconds_.empty());
  return *std::max_element(seconds_.begin(), seconds_.end());
}

ResidentMemory MeasureResidentMemory() {
  ResidentMemory memory;
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    double kib = 0.0;
    if (!(words >> name >> kib)) continue;
    if (name == "VmRSS:") memory.now = 1024 * kib;
    if (name == "VmHWM:") memory.peak = 1024 * kib;
  }
  return memory;
}

}  // namespace lethe::bench
