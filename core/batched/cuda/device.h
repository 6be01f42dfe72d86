// What device_backend.h needs of a device. There are two: CUDA's (cuda_device.cu), and one on the
// host that runs the same kernels lane after lane, for tests (tests/batched).
#ifndef LETHE_CORE_BATCHED_CUDA_DEVICE_H_
#define LETHE_CORE_BATCHED_CUDA_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/batched/cuda/arguments.h"

namespace lethe::batched {

// Work in order, with two stretches of memory: one of the host, one of the device. Only Wait waits
// for anything to be done: until then what a call was given may not have been read, and what it
// gives is not there.
class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;

  // At least so many bytes of each; contents may be lost. Requires that everything before it has
  // been waited for.
  virtual absl::Status Reserve(size_t host, size_t device) = 0;
  virtual std::byte* host() = 0;
  virtual std::byte* device() = 0;

  // The bytes from `at` on of the one stretch to the same place in the other.
  virtual absl::Status ToDevice(size_t at, size_t bytes) = 0;
  virtual absl::Status FromDevice(size_t at, size_t bytes) = 0;
  virtual absl::Status Solve(const SolveArguments<float>& arguments) = 0;
  virtual absl::Status Solve(const SolveArguments<double>& arguments) = 0;
  virtual absl::Status Backward(const BackwardArguments<float>& arguments) = 0;
  virtual absl::Status Backward(const BackwardArguments<double>& arguments) = 0;
  // The first error of what came before, too. After an error nothing is under way either.
  virtual absl::Status Wait() = 0;
};

enum class DeviceKernel : uint8_t { kSolve, kBackward };

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string name() const = 0;  // "cuda"
  // "cuda, NVIDIA H200, compute capability 9.0, 132 multiprocessors, driver for CUDA 13.0"
  virtual std::string description() const = 0;
  virtual size_t shared_bytes() const = 0;  // that a block may have
  virtual size_t memory() const = 0;        // bytes that a queue may have, scratch included
  // The most that a row of K may take while problems are solved; 0: K is always stored.
  virtual uint32_t row_registers(bool single) const = 0;
  // How many blocks of a layout it runs at once, at least 1.
  virtual absl::StatusOr<uint32_t> Resident(DeviceKernel kernel,
                                            const BlockLayout& layout,
                                            bool single) const = 0;
  virtual absl::StatusOr<std::unique_ptr<DeviceQueue>> NewQueue() = 0;
};

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CUDA_DEVICE_H_
