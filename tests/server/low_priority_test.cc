#include "server/service/low_priority.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>

namespace lethe::service {
namespace {

int Priority() { return ::getpriority(PRIO_PROCESS, 0); }  // of the calling thread

TEST(LowPriorityTest, TheCallHasALowerPriorityAndItsCallerKeepsHis) {
  const int before = Priority();
  EXPECT_EQ(AtLowPriority([] { return Priority(); }), std::max(before, kLowPriority));
  EXPECT_EQ(Priority(), before);
}

// The slice of the calling thread in nanoseconds, as sched_getattr(2) tells it: 0 of kernels before
// 6.12, where a thread has none of its own.
uint64_t Slice() {
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } attributes{};
  EXPECT_EQ(::syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0), 0);
  return attributes.runtime;
}

TEST(LowPriorityTest, TheCallHasALongSliceAndItsCallerKeepsHis) {
  const uint64_t before = Slice();
  const uint64_t slice = AtLowPriority([] { return Slice(); });
  EXPECT_EQ(slice, before == 0 ? 0U : 100'000'000U);
  EXPECT_EQ(Slice(), before);
}

TEST(LowPriorityTest, ThePolicyOfTheProcessStays) {
  std::thread([] {
    const sched_param none{};
    ASSERT_EQ(::sched_setscheduler(0, SCHED_BATCH, &none), 0);  // of this thread
    EXPECT_EQ(AtLowPriority([] { return ::sched_getscheduler(0); }), SCHED_BATCH);
    EXPECT_EQ(AtLowPriority([] { return Priority(); }), std::max(Priority(), kLowPriority));
  }).join();
}

TEST(LowPriorityTest, WhatItReturnsOrThrowsArrives) {
  const std::string word = "word";
  EXPECT_EQ(AtLowPriority([&] { return word + "s"; }), "words");
  EXPECT_THROW(AtLowPriority([]() -> int { throw std::runtime_error("no"); }), std::runtime_error);
}

}  // namespace
}  // namespace lethe::service
