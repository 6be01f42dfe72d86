// A device on the host, for tests: runs the kernels of core/batched/cuda block after block
// (emulated_block.h). Nobody can choose it.
#ifndef LETHE_TESTS_BATCHED_EMULATED_DEVICE_H_
#define LETHE_TESTS_BATCHED_EMULATED_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/batched/backend.h"
#include "tests/batched/emulated_block.h"

namespace lethe::batched {

struct EmulationOptions {
  LaneOrder order = LaneOrder::kForward;
  bool checked = false;  // slow; faults are in EmulationState
  size_t shared_bytes = 227 * 1024;
  size_t memory = size_t{64} << 20;
  bool rows_in_registers = true;
  uint32_t resident = 7;  // blocks at once
  size_t threads = 2;
};

// What a test reads and sets while its device works. Not for two threads at once.
struct EmulationState {
  std::string fault;  // of the checks and of the queues, the first
  size_t launches = 0;
  size_t most_reserved = 0;  // bytes of a queue on the device
  size_t allocations = 0;    // of memory, on either side
  // The device's call of this number (from 0) fails, as do all after it until this is changed.
  size_t fail_from = SIZE_MAX;
  size_t calls = 0;
};

// `state`: outlives the backend, or null.
std::unique_ptr<Backend> MakeEmulatedBackend(const EmulationOptions& options,
                                             EmulationState* state);

}  // namespace lethe::batched

#endif  // LETHE_TESTS_BATCHED_EMULATED_DEVICE_H_
