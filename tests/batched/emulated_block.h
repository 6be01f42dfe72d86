// A block (core/batched/cuda/block.h) on the host: bodies run lane after lane, reductions over the
// same tree as on a device. The order of the lanes can be turned round or mixed, which must change
// nothing.
//
// Checked, every access to shared memory is held against the rule of blocks: between two barriers a
// lane reads only what no other writes, nothing is read before it is written, nothing lies outside
// its array, registers are their lane's own, and uniform code writes nothing.
#ifndef LETHE_TESTS_BATCHED_EMULATED_BLOCK_H_
#define LETHE_TESTS_BATCHED_EMULATED_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "core/batched/cuda/block.h"
#include "core/batched/cuda/block_layout.h"

namespace lethe::batched {

enum class LaneOrder { kForward, kBackward, kMixed };

// What a block has: its memory, and what became of it.
class EmulatedMemory {
 public:
  EmulatedMemory(size_t shared, size_t scratch, bool checked)
      : shared_(shared), marks_(checked ? shared + scratch : 0), shared_bytes_(shared) {}

  std::byte* shared() { return shared_.data(); }
  size_t shared_bytes() const { return shared_bytes_; }

  // One problem is over; what it left means nothing to the next. But who read and wrote since the
  // last barrier still counts: lanes may be in two problems at once.
  void Forget() {
    for (Mark& mark : marks_) mark.means = false;
  }

  static constexpr int32_t kUniform = -1;
  int32_t lane = kUniform;  // whose body runs
  uint32_t lanes = 0;       // of the block that runs
  uint32_t epoch = 1;       // barriers so far

  void Fault(const char* what) {
    if (fault_.empty()) {
      fault_ = std::string(what) + ", lane " + std::to_string(lane) + ", barrier " +
               std::to_string(epoch);
    }
  }
  const std::string& fault() const { return fault_; }

  void Read(size_t at) {
    Mark& mark = marks_[at];
    if (!mark.means) return Fault("read before it was written");
    if (mark.written == epoch && mark.writer != lane) Fault("read while another lane writes");
    if (mark.read == epoch && mark.reader != lane) {
      mark.reader = kMany;
    } else {
      mark.read = epoch;
      mark.reader = lane;
    }
  }
  void Write(size_t at) {
    Mark& mark = marks_[at];
    if (lane == kUniform) Fault("written by uniform code");
    if (mark.written == epoch && mark.writer != lane) Fault("written by two lanes");
    if (mark.read == epoch && mark.reader != lane) Fault("written while another lane reads");
    mark.written = epoch;
    mark.writer = lane;
    mark.means = true;
  }

 private:
  static constexpr int32_t kMany = -2;
  struct Mark {
    uint32_t written = 0, read = 0;  // when last, 0 for never
    int32_t writer = kUniform, reader = kUniform;
    bool means = false;  // written for this problem
  };

  std::vector<std::byte> shared_;
  std::vector<Mark> marks_;  // a byte of memory each; an element's stands at its first
  size_t shared_bytes_;
  std::string fault_;
};

// What is assigned to and read from in place of a T.
template <typename T>
class CheckedEntry {
 public:
  CheckedEntry(T* entry, size_t at, EmulatedMemory* memory)
      : entry_(entry), at_(at), memory_(memory) {}
  CheckedEntry(const CheckedEntry&) = default;
  operator T() const {  // NOLINT: as a T is read
    memory_->Read(at_);
    return *entry_;
  }
  const CheckedEntry& operator=(T value) const {
    memory_->Write(at_);
    *entry_ = value;
    return *this;
  }
  CheckedEntry& operator=(const CheckedEntry&) = delete;  // which would not read
  const CheckedEntry& operator+=(T value) const { return *this = static_cast<T>(*this) + value; }
  const CheckedEntry& operator*=(T value) const { return *this = static_cast<T>(*this) * value; }

 private:
  T* entry_;
  size_t at_;
  EmulatedMemory* memory_;
};

template <typename T>
class CheckedArray {
 public:
  CheckedArray(T* first, size_t at, uint32_t size, EmulatedMemory* memory)
      : first_(first), at_(at), size_(size), memory_(memory) {}
  CheckedEntry<T> operator[](size_t i) const {
    if (i >= size_) {
      memory_->Fault("outside its array");
      i = 0;
    }
    return {first_ + i, at_ + i * sizeof(T), memory_};
  }

 private:
  T* first_;
  size_t at_;
  uint32_t size_;
  EmulatedMemory* memory_;
};

inline thread_local EmulatedMemory* emulated_memory = nullptr;  // of the block that runs

template <bool kChecked>
class EmulatedBlock {
 public:
  template <typename T>
  using Array = std::conditional_t<kChecked, CheckedArray<T>, T*>;

  template <typename T, uint32_t kCount>
  class Private {
   public:
    T& At(uint32_t lane, uint32_t k) {
      Check(lane);
      return values_[lane * kCount + k];
    }
    const T& At(uint32_t lane, uint32_t k) const {
      Check(lane);
      return values_[lane * kCount + k];
    }

   private:
    void Check(uint32_t lane) const {
      if (kChecked && emulated_memory->lane != static_cast<int32_t>(lane)) {
        emulated_memory->Fault("another lane's register");
      }
    }
    // Without a value at first, as registers are.
    std::unique_ptr<T[]> values_ =
        std::make_unique_for_overwrite<T[]>(emulated_memory->lanes * kCount);
  };

  EmulatedBlock(const BlockLayout& layout,
                LaneOrder order,
                std::byte* scratch,
                EmulatedMemory* memory)
      : lanes_(layout.lanes), scratch_(scratch), memory_(memory), order_(layout.lanes) {
    std::iota(order_.begin(), order_.end(), 0U);
    if (order == LaneOrder::kBackward) std::reverse(order_.begin(), order_.end());
    if (order == LaneOrder::kMixed) {
      std::mt19937 random(layout.lanes);
      std::shuffle(order_.begin(), order_.end(), random);
    }
    memory->lanes = lanes_;
    emulated_memory = memory;
    memory->Forget();
  }

  uint32_t lanes() const { return lanes_; }

  template <typename T>
  Array<T> Shared(size_t at, uint32_t count) {
    if (at + count * sizeof(T) > memory_->shared_bytes()) memory_->Fault("beyond shared memory");
    return ArrayAt<T>(memory_->shared() + at, at, count);
  }
  template <typename T>
  Array<T> Scratch(size_t at, uint32_t count) {
    return ArrayAt<T>(scratch_ + at, memory_->shared_bytes() + at, count);
  }

  template <typename Body>
  void Ahead(uint32_t first, uint32_t last, const Body& body) {
    if (last > lanes_) memory_->Fault("more bodies than lanes");
    for (const uint32_t lane : order_) {
      if (lane < first || lane >= last) continue;
      memory_->lane = static_cast<int32_t>(lane);
      body(lane);
    }
    memory_->lane = EmulatedMemory::kUniform;
  }
  template <typename Body>
  void AheadStrided(uint32_t count, const Body& body) {
    for (const uint32_t lane : order_) {
      memory_->lane = static_cast<int32_t>(lane);
      for (uint32_t i = lane; i < count; i += lanes_) body(i);
    }
    memory_->lane = EmulatedMemory::kUniform;
  }
  void Barrier() {
    // On a device those lanes would wait for ever that have no body here.
    if (memory_->lane != EmulatedMemory::kUniform) memory_->Fault("a barrier within a body");
    ++memory_->epoch;
    agreed_ = false;
  }

  template <typename V, typename Term, typename Combine>
  V Reduce(uint32_t count, V nothing, const Term& term, const Combine& combine) {
    static_assert(sizeof(V) <= 32);
    std::vector<V> values(lanes_, nothing);
    Ahead(0, count, [&](uint32_t i) { values[i] = term(i); });
    Barrier();
    for (uint32_t warp = 0; warp < lanes_; warp += 32) {
      for (uint32_t half = 16; half > 0; half /= 2) {
        for (uint32_t i = warp; i < warp + half; ++i) {
          values[i] = combine(values[i], values[i + half]);
        }
      }
    }
    V result = values[0];
    for (uint32_t warp = 32; warp < lanes_; warp += 32) result = combine(result, values[warp]);
    return result;
  }

  template <typename T>
  void Agree(T* uniform, T value) {
    if (kChecked && agreed_ && std::memcmp(uniform, &value, sizeof(T)) != 0) {
      memory_->Fault("lanes do not agree");
    }
    agreed_ = true;
    *uniform = value;
  }

  template <typename T>
  Four<T> ReadFour(const CheckedArray<T>& array, uint32_t at) const {
    return {{array[at], array[at + 1], array[at + 2], array[at + 3]}};
  }
  template <typename T>
  Four<T> ReadFour(T* array, uint32_t at) const {
    return {{array[at], array[at + 1], array[at + 2], array[at + 3]}};
  }

 private:
  template <typename T>
  Array<T> ArrayAt(std::byte* first, [[maybe_unused]] size_t at, [[maybe_unused]] uint32_t count) {
    if constexpr (kChecked) {
      return CheckedArray<T>(reinterpret_cast<T*>(first), at, count, memory_);
    } else {
      return reinterpret_cast<T*>(first);
    }
  }

  const uint32_t lanes_;
  std::byte* const scratch_;
  EmulatedMemory* const memory_;
  std::vector<uint32_t> order_;
  bool agreed_ = false;
};

}  // namespace lethe::batched

#endif  // LETHE_TESTS_BATCHED_EMULATED_BLOCK_H_
