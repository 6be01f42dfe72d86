// Device (device.h) by the CUDA runtime, which is linked into the program: without a driver the
// program still starts, and says that there is no device.
#include <cuda_runtime.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/batched/cuda/cuda_backend.h"
#include "core/batched/cuda/device.h"
#include "core/batched/cuda/device_backend.h"
#include "core/batched/cuda/kernels.h"
#include "core/batched/cuda/stretch.h"

namespace lethe::batched {
namespace {

// Of a queue, on the device: enough to keep it busy while the other queue copies.
constexpr size_t kMemory = size_t{256} << 20;

absl::Status StatusOf(cudaError_t error, absl::string_view call) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string message = absl::StrCat("cuda: ", call, ": ", cudaGetErrorString(error), " (",
                                           static_cast<int>(error), ")");
  cudaGetLastError();  // or the next call would answer with it
  return error == cudaErrorMemoryAllocation ? absl::ResourceExhaustedError(message)
                                            : absl::InternalError(message);
}

#define LETHE_CUDA(call, ...) LETHE_RETURN_IF_ERROR(StatusOf(call(__VA_ARGS__), #call))

struct DeviceMemory {
  absl::Status Allocate(size_t bytes, std::byte** memory) {
    LETHE_CUDA(cudaMalloc, memory, bytes);
    return absl::OkStatus();
  }
  void Release(std::byte* memory) { cudaFree(memory); }
};
struct PinnedMemory {
  absl::Status Allocate(size_t bytes, std::byte** memory) {
    LETHE_CUDA(cudaMallocHost, memory, bytes);
    return absl::OkStatus();
  }
  void Release(std::byte* memory) { cudaFreeHost(memory); }
};

class CudaQueue : public DeviceQueue {
 public:
  explicit CudaQueue(int device) : device_index_(device) {}
  ~CudaQueue() override {
    if (stream_ != nullptr) {
      cudaStreamSynchronize(stream_);
      cudaStreamDestroy(stream_);
    }
  }

  absl::Status Start() {
    LETHE_CUDA(cudaSetDevice, device_index_);
    LETHE_CUDA(cudaStreamCreateWithFlags, &stream_, cudaStreamNonBlocking);
    return absl::OkStatus();
  }

  absl::Status Reserve(size_t host, size_t device) override {
    // Every call may come from another thread, and the device is the thread's.
    LETHE_CUDA(cudaSetDevice, device_index_);
    LETHE_RETURN_IF_ERROR(host_.Reserve(host));
    if (device <= device_.bytes()) return absl::OkStatus();
    LETHE_RETURN_IF_ERROR(device_.Reserve(device));
    // What lies between the arrays is copied back too; so initcheck has nothing to say of it.
    LETHE_CUDA(cudaMemsetAsync, device_.first(), 0, device, stream_);
    return absl::OkStatus();
  }
  std::byte* host() override { return host_.first(); }
  std::byte* device() override { return device_.first(); }

  absl::Status ToDevice(size_t at, size_t bytes) override {
    return Copy(device() + at, host() + at, bytes, cudaMemcpyHostToDevice);
  }
  absl::Status FromDevice(size_t at, size_t bytes) override {
    return Copy(host() + at, device() + at, bytes, cudaMemcpyDeviceToHost);
  }
  absl::Status Solve(const SolveArguments<float>& arguments) override {
    return Launch(SolveKernel<float>(arguments.problems.layout.row_registers), arguments);
  }
  absl::Status Solve(const SolveArguments<double>& arguments) override {
    return Launch(SolveKernel<double>(arguments.problems.layout.row_registers), arguments);
  }
  absl::Status Backward(const BackwardArguments<float>& arguments) override {
    return Launch(BackwardKernel<float>(), arguments);
  }
  absl::Status Backward(const BackwardArguments<double>& arguments) override {
    return Launch(BackwardKernel<double>(), arguments);
  }
  absl::Status Wait() override {
    LETHE_CUDA(cudaStreamSynchronize, stream_);
    return absl::OkStatus();
  }

 private:
  absl::Status Copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    LETHE_CUDA(cudaMemcpyAsync, to, from, bytes, kind, stream_);
    return absl::OkStatus();
  }

  template <typename Arguments>
  absl::Status Launch(const void* kernel, const Arguments& arguments) {
    const auto& problems = arguments.problems;
    void* pointers[] = {const_cast<Arguments*>(&arguments)};
    LETHE_CUDA(cudaLaunchKernel, kernel, dim3(problems.blocks), dim3(problems.layout.lanes),
               pointers, problems.layout.shared_bytes, stream_);
    return absl::OkStatus();
  }

  const int device_index_;
  cudaStream_t stream_ = nullptr;
  Stretch<DeviceMemory> device_;
  Stretch<PinnedMemory> host_;
};

class CudaDevice : public Device {
 public:
  CudaDevice(int index, const cudaDeviceProp& properties, size_t memory)
      : index_(index), properties_(properties), memory_(memory) {}

  std::string name() const override { return "cuda"; }
  std::string description() const override {
    // The newest CUDA that the driver serves, not the driver's own version.
    int serves = 0;
    cudaDriverGetVersion(&serves);
    return absl::StrCat("cuda, ", properties_.name, ", compute capability ", properties_.major, ".",
                        properties_.minor, ", ", properties_.multiProcessorCount,
                        " multiprocessors, driver for CUDA ", serves / 1000, ".",
                        serves % 1000 / 10);
  }
  size_t shared_bytes() const override {
    // The kernels have some of their own.
    constexpr size_t kOwn = 1024;
    return properties_.sharedMemPerBlockOptin - kOwn;
  }
  size_t memory() const override { return memory_; }
  uint32_t row_registers(bool single) const override {
    return single ? kManyRowRegisters : kFewRowRegisters;
  }

  absl::StatusOr<uint32_t> Resident(DeviceKernel kernel,
                                    const BlockLayout& layout,
                                    bool single) const override {
    LETHE_CUDA(cudaSetDevice, index_);
    const void* const address = kernel == DeviceKernel::kSolve
                                    ? (single ? SolveKernel<float>(layout.row_registers)
                                              : SolveKernel<double>(layout.row_registers))
                                    : (single ? BackwardKernel<float>() : BackwardKernel<double>());
    LETHE_CUDA(cudaFuncSetAttribute, address, cudaFuncAttributeMaxDynamicSharedMemorySize,
               static_cast<int>(shared_bytes()));
    int blocks = 0;
    LETHE_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, address,
               static_cast<int>(layout.lanes), layout.shared_bytes);
    return static_cast<uint32_t>(std::max(1, blocks * properties_.multiProcessorCount));
  }

  absl::StatusOr<std::unique_ptr<DeviceQueue>> NewQueue() override {
    auto queue = std::make_unique<CudaQueue>(index_);
    LETHE_RETURN_IF_ERROR(queue->Start());
    return queue;
  }

 private:
  const int index_;
  const cudaDeviceProp properties_;
  const size_t memory_;
};

absl::Status NoDevice(absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat("no CUDA device: ", why));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend() {
  constexpr int kFirst = 0;
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  cudaGetLastError();
  // Without a driver, or with one that is too old, 35 (insufficient driver); without a device, 100.
  // Whatever else comes is a driver that cannot be used, and none the less no device.
  if (error != cudaSuccess) {
    return NoDevice(absl::StrCat("cudaGetDeviceCount: ", cudaGetErrorString(error), " (",
                                 static_cast<int>(error), ")"));
  }
  if (count == 0) return NoDevice("none is visible");
  cudaDeviceProp properties;
  LETHE_CUDA(cudaGetDeviceProperties, &properties, kFirst);
  LETHE_CUDA(cudaSetDevice, kFirst);
  // One that is older, or newer than what can be made for it.
  cudaFuncAttributes attributes;
  if (cudaFuncGetAttributes(&attributes, BackwardKernel<double>()) != cudaSuccess) {
    cudaGetLastError();
    return NoDevice(absl::StrCat(properties.name, " has compute capability ", properties.major, ".",
                                 properties.minor, ", for which this build has no kernels"));
  }
  size_t free = 0;
  size_t total = 0;
  LETHE_CUDA(cudaMemGetInfo, &free, &total);
  return MakeDeviceBackend(
      std::make_unique<CudaDevice>(kFirst, properties, std::min(kMemory, free / 4)));
}

}  // namespace lethe::batched
