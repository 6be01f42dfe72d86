// Memory of a queue that grows and does not shrink.
#ifndef LETHE_CORE_BATCHED_CUDA_STRETCH_H_
#define LETHE_CORE_BATCHED_CUDA_STRETCH_H_

#include <cstddef>
#include <utility>

#include "absl/status/status.h"

namespace lethe::batched {

// One stretch, so that calls which want more and less in turn ask the system once: pinning memory
// takes longer than a small batch. `Memory` supplies
//
//     absl::Status Allocate(size_t bytes, std::byte** memory)
//     void Release(std::byte* memory)
template <typename Memory>
class Stretch {
 public:
  explicit Stretch(Memory memory = {}) : memory_(std::move(memory)) {}
  ~Stretch() { Release(); }
  Stretch(const Stretch&) = delete;
  Stretch& operator=(const Stretch&) = delete;

  // Ensures at least so many bytes. Where they are more than before, contents are lost, and what
  // there was is given back first. After an error there are none.
  absl::Status Reserve(size_t bytes) {
    if (bytes <= bytes_) return absl::OkStatus();
    Release();
    absl::Status status = memory_.Allocate(bytes, &first_);
    if (status.ok()) {
      bytes_ = bytes;
    } else {
      first_ = nullptr;
    }
    return status;
  }
  std::byte* first() const { return first_; }
  size_t bytes() const { return bytes_; }

 private:
  void Release() {
    if (first_ != nullptr) memory_.Release(first_);
    first_ = nullptr;
    bytes_ = 0;
  }

  Memory memory_;
  std::byte* first_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CUDA_STRETCH_H_
