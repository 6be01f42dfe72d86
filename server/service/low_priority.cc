#include "server/service/low_priority.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace lethe::service {
namespace {

// The first version of the kernel's struct sched_attr (sched_setattr(2)), for which the C library
// has none, and whose own header does not stand beside <sched.h>.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = 0;
  uint64_t flags = 0x08;  // SCHED_FLAG_KEEP_POLICY: whoever started the server may have chosen one
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 100'000'000;  // of SCHED_OTHER the slice in nanoseconds, at most these 100 ms
  uint64_t deadline = 0;
  uint64_t period = 0;
};
static_assert(sizeof(SchedulingAttributes) == 48);

}  // namespace

void LowerPriority() {
  SchedulingAttributes attributes;
  attributes.nice = std::max(::getpriority(PRIO_PROCESS, 0), kLowPriority);
  // A filter of system calls may know only the old one.
  if (::syscall(SYS_sched_setattr, 0, &attributes, 0) != 0) {
    ::setpriority(PRIO_PROCESS, 0, attributes.nice);
  }
}

}  // namespace lethe::service
