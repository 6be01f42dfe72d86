// Which backend is chosen, and what is said about it.
#include "core/batched/select.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/batched/cuda/cuda_backend.h"

namespace lethe::batched {
namespace {

using testing::HasSubstr;

TEST(SelectBackend, NamesAreThree) {
  EXPECT_EQ(*ParseBackendKind("auto"), BackendKind::kAuto);
  EXPECT_EQ(*ParseBackendKind("cpu"), BackendKind::kCpu);
  EXPECT_EQ(*ParseBackendKind("cuda"), BackendKind::kCuda);
  for (const char* name : {"", "CPU", "gpu", "cuda:1"}) {
    const absl::Status status = ParseBackendKind(name).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr("backend: must be auto, cpu or cuda"));
  }
}

TEST(SelectBackend, TheCpuIsAlwaysThere) {
  const auto selected = SelectBackend(BackendKind::kCpu, 1);
  ASSERT_TRUE(selected.ok());
  EXPECT_EQ(selected->backend->name(), "cpu");
  EXPECT_EQ(selected->reason, "asked for");
}

// On whatever machine this runs: the two agree about whether there is a device.
TEST(SelectBackend, AutoTakesADeviceOrSaysWhyNot) {
  const auto cuda = SelectBackend(BackendKind::kCuda, 1);
  const auto any = SelectBackend(BackendKind::kAuto, 1);
  ASSERT_TRUE(any.ok());
  if (cuda.ok()) {
    EXPECT_EQ(cuda->backend->name(), "cuda");
    EXPECT_EQ(any->backend->name(), "cuda");
    EXPECT_EQ(any->reason, "a CUDA device is there");
    EXPECT_EQ(PresentBackends(1).size(), 2);
    return;
  }
  EXPECT_EQ(cuda.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(any->backend->name(), "cpu");
  EXPECT_EQ("backend: cuda: " + any->reason, cuda.status().message());
  EXPECT_TRUE(any->reason == "this build has no CUDA backend" ||
              any->reason.starts_with("no CUDA device: "))
      << any->reason;
  EXPECT_EQ(PresentBackends(1).size(), 1);
}

}  // namespace
}  // namespace lethe::batched
