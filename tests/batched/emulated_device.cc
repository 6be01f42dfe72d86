#include "tests/batched/emulated_device.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <new>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/mutex.h"
#include "core/base/team.h"
#include "core/batched/cuda/block_problem.h"
#include "core/batched/cuda/device.h"
#include "core/batched/cuda/device_backend.h"
#include "core/batched/cuda/stretch.h"

namespace lethe::batched {
namespace {

constexpr std::byte kGarbage{0xa5};
constexpr std::align_val_t kBoundary{256};

struct CountedMemory {
  EmulationState* state;

  absl::Status Allocate(size_t bytes, std::byte** memory) {
    ++state->allocations;
    *memory = new (kBoundary) std::byte[bytes];
    return absl::OkStatus();
  }
  void Release(std::byte* memory) { operator delete[](memory, kBoundary); }
};

// Does nothing until somebody waits, as late as a device may: what was not waited for is not there.
class EmulatedQueue : public DeviceQueue {
 public:
  EmulatedQueue(const EmulationOptions& options, Team& team, EmulationState* state)
      : options_(options),
        team_(team),
        state_(state),
        host_(CountedMemory{state}),
        device_(CountedMemory{state}) {}

  absl::Status Reserve(size_t host, size_t device) override {
    if (absl::Status status = Call("no memory"); !status.ok()) return status;
    if (!under_way_.empty()) Fault("memory is asked for while work is under way");
    state_->most_reserved = std::max(state_->most_reserved, device);
    host_bytes_ = host;
    device_bytes_ = device;
    for (auto [stretch, bytes] : {std::pair(&host_, host), std::pair(&device_, device)}) {
      if (absl::Status status = stretch->Reserve(bytes); !status.ok()) return status;
      // Contents are lost indeed.
      std::fill_n(stretch->first(), bytes, kGarbage);
    }
    return absl::OkStatus();
  }
  std::byte* host() override { return host_.first(); }
  std::byte* device() override { return device_.first(); }

  absl::Status ToDevice(size_t at, size_t bytes) override {
    if (absl::Status status = Call("copy"); !status.ok()) return status;
    LETHE_CHECK(at + bytes <= std::min(host_bytes_, device_bytes_));
    under_way_.push_back([=, this] { std::memcpy(device() + at, host() + at, bytes); });
    return absl::OkStatus();
  }
  absl::Status FromDevice(size_t at, size_t bytes) override {
    if (absl::Status status = Call("copy"); !status.ok()) return status;
    LETHE_CHECK(at + bytes <= std::min(host_bytes_, device_bytes_));
    // Whatever stood there is as good as overwritten.
    std::fill_n(host() + at, bytes, kGarbage);
    under_way_.push_back([=, this] { std::memcpy(host() + at, device() + at, bytes); });
    return absl::OkStatus();
  }
  absl::Status Solve(const SolveArguments<float>& arguments) override { return Launch(arguments); }
  absl::Status Solve(const SolveArguments<double>& arguments) override { return Launch(arguments); }
  absl::Status Backward(const BackwardArguments<float>& arguments) override {
    return Launch(arguments);
  }
  absl::Status Backward(const BackwardArguments<double>& arguments) override {
    return Launch(arguments);
  }
  absl::Status Wait() override {
    const absl::Status status = Call("wait");
    // After an error nothing is under way either.
    if (status.ok()) {
      for (const std::function<void()>& work : under_way_) work();
    }
    under_way_.clear();
    return status;
  }

 private:
  absl::Status Call(const char* what) {
    if (state_->calls++ < state_->fail_from) return absl::OkStatus();
    return absl::InternalError(std::string("emulated: ") + what);
  }
  void Fault(const std::string& what) {
    MutexLock lock(mutex_);
    if (state_->fault.empty()) state_->fault = what;
  }

  template <typename Block, typename T>
  static void Run(Block& block, const SolveArguments<T>& arguments, size_t b) {
    switch (arguments.problems.layout.row_registers) {
      case kFewRowRegisters:
        return SolveProblem<kFewRowRegisters>(block, arguments, b);
      case kManyRowRegisters:
        return SolveProblem<kManyRowRegisters>(block, arguments, b);
      default:
        return SolveProblem<0>(block, arguments, b);
    }
  }
  template <typename Block, typename T>
  static void Run(Block& block, const BackwardArguments<T>& arguments, size_t b) {
    LETHE_CHECK(arguments.problems.layout.row_registers == 0);
    BackwardProblem(block, arguments, b);
  }

  template <typename Arguments>
  absl::Status Launch(const Arguments& arguments) {
    if (absl::Status status = Call("launch"); !status.ok()) return status;
    ++state_->launches;
    const auto& problems = arguments.problems;
    LETHE_CHECK(problems.layout.shared_bytes <= options_.shared_bytes);
    LETHE_CHECK(problems.scratch + problems.blocks * problems.layout.scratch_bytes <=
                device() + device_bytes_);
    under_way_.push_back([=, this] {
      team_.Run(arguments.problems.blocks, 1, [&](size_t, size_t first, size_t last) {
        for (size_t index = first; index < last; ++index) RunBlock(arguments, index);
      });
    });
    return absl::OkStatus();
  }

  // A block takes every blocks-th problem, as on the device.
  template <typename Arguments>
  void RunBlock(const Arguments& arguments, size_t index) {
    const auto& problems = arguments.problems;
    const BlockLayout& layout = problems.layout;
    EmulatedMemory memory(layout.shared_bytes, layout.scratch_bytes, options_.checked);
    std::byte* const scratch = problems.scratch + index * layout.scratch_bytes;
    for (size_t b = index; b < problems.count; b += problems.blocks) {
      if (options_.checked) {
        EmulatedBlock<true> block(layout, options_.order, scratch, &memory);
        Run(block, arguments, b);
      } else {
        EmulatedBlock<false> block(layout, options_.order, scratch, &memory);
        Run(block, arguments, b);
      }
    }
    if (!memory.fault().empty()) Fault(memory.fault());
  }

  const EmulationOptions options_;
  Team& team_;
  EmulationState* const state_;
  Mutex mutex_;
  Stretch<CountedMemory> host_, device_;
  size_t host_bytes_ = 0;
  size_t device_bytes_ = 0;
  std::vector<std::function<void()>> under_way_;
};

class EmulatedDevice : public Device {
 public:
  EmulatedDevice(const EmulationOptions& options, EmulationState* state)
      : options_(options), state_(state == nullptr ? &own_ : state), team_(options.threads) {}

  std::string name() const override { return "emulated"; }
  std::string description() const override { return "emulated, for tests"; }
  size_t shared_bytes() const override { return options_.shared_bytes; }
  size_t memory() const override { return options_.memory; }
  uint32_t row_registers(bool single) const override {
    if (!options_.rows_in_registers) return 0;
    return single ? kManyRowRegisters : kFewRowRegisters;
  }
  absl::StatusOr<uint32_t> Resident(DeviceKernel, const BlockLayout&, bool) const override {
    return options_.resident;
  }
  absl::StatusOr<std::unique_ptr<DeviceQueue>> NewQueue() override {
    return std::make_unique<EmulatedQueue>(options_, team_, state_);
  }

 private:
  const EmulationOptions options_;
  EmulationState own_;
  EmulationState* const state_;
  Team team_;
};

}  // namespace

std::unique_ptr<Backend> MakeEmulatedBackend(const EmulationOptions& options,
                                             EmulationState* state) {
  auto backend = MakeDeviceBackend(std::make_unique<EmulatedDevice>(options, state));
  LETHE_CHECK(backend.ok());
  return *std::move(backend);
}

}  // namespace lethe::batched
