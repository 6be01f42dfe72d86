// Long changes beside short queries: a thread that computes for a second makes every short call
// wait for a slice of its core, whatever tenant it is for, where there are more threads than cores.
#ifndef LETHE_SERVER_SERVICE_LOW_PRIORITY_H_
#define LETHE_SERVER_SERVICE_LOW_PRIORITY_H_

#include <future>
#include <thread>
#include <type_traits>

namespace lethe::service {

inline constexpr int kLowPriority = 10;

// Lowers the priority of this thread: nice(2), which is a thread's on Linux and which only the
// privileged can raise again. And a thread that is woken takes the core from it at once where the
// kernel has slices of a thread's own (Linux 6.12): with equal ones it waits for the end of this
// one's, which is milliseconds, at any priority.
void LowerPriority();

// Runs `call` on a thread of its own with a lower priority, which is used for nothing else, waits
// for its end and returns what it returned or threw. On an idle machine it takes no longer; beside
// others it gets about a tenth of a core that is asked for. Where no thread can be had it runs on
// this one. Cost: a thread, some 30 microseconds.
template <typename Call>
std::invoke_result_t<Call> AtLowPriority(const Call& call) {
  const std::thread::id caller = std::this_thread::get_id();
  return std::async(std::launch::async | std::launch::deferred,
                    [&] {
                      if (std::this_thread::get_id() != caller) LowerPriority();
                      return call();
                    })
      .get();
}

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_LOW_PRIORITY_H_
