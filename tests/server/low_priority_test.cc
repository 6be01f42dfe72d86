#include "server/service/low_priority.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace lethe::service {
namespace {

int Priority() { return ::getpriority(PRIO_PROCESS, 0); }  // of the calling thread

TEST(LowPriorityTest, TheCallHasALowerPriorityAndItsCallerKeepsHis) {
  const int before = Priority();
  EXPECT_EQ(AtLowPriority([] { return Priority(); }), std::max(before, kLowPriority));
  EXPECT_EQ(Priority(), before);
}

TEST(LowPriorityTest, WhatItReturnsOrThrowsArrives) {
  const std::string word = "word";
  EXPECT_EQ(AtLowPriority([&] { return word + "s"; }), "words");
  EXPECT_THROW(AtLowPriority([]() -> int { throw std::runtime_error("no"); }), std::runtime_error);
}

}  // namespace
}  // namespace lethe::service
