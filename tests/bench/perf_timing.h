// Time and memory of this process, for the benches that compare costs.
#ifndef LETHE_TESTS_BENCH_PERF_TIMING_H_
#define LETHE_TESTS_BENCH_PERF_TIMING_H_

#include <cstdint>
#include <utility>
#include <vector>

namespace lethe::bench {

// Processor time of the calling thread: what others do on the machine does not count as long as
// they only take turns.
double ThreadSeconds();

template <typename Work>
double SecondsOf(Work&& work) {
  const double begin = ThreadSeconds();
  std::forward<Work>(work)();
  return ThreadSeconds() - begin;
}

// Measured times. Statistics require at least one.
class Samples {
 public:
  void Add(double seconds) { seconds_.push_back(seconds); }
  int64_t count() const { return static_cast<int64_t>(seconds_.size()); }
  double Median() const;
  double Mean() const;
  double Min() const;
  double Max() const;

 private:
  std::vector<double> seconds_;
};

struct ResidentMemory {
  double now = 0.0;   // bytes
  double peak = 0.0;  // since the process began
};
// From /proc/self/status; zeros where that cannot be read.
ResidentMemory MeasureResidentMemory();

}  // namespace lethe::bench

#endif  // LETHE_TESTS_BENCH_PERF_TIMING_H_
