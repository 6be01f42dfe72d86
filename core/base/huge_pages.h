// An allocator for large tables that are read at random places: it asks the system for huge pages.
//
// A table of millions of entries is far larger than what the processor can translate at a time in
// pages of 4 KiB; each access would then cost a walk through the page tables on top of the cache
// miss. Where the system has no huge pages to give, memory is as from malloc. Below kHugeBytes
// nothing is asked for, so that small memories stay small. Throws std::bad_alloc. Threads: safe.
// Source: madvise(2), MADV_HUGEPAGE.
#ifndef LETHE_CORE_BASE_HUGE_PAGES_H_
#define LETHE_CORE_BASE_HUGE_PAGES_H_

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

namespace lethe {

inline constexpr size_t kHugePage = size_t{2} << 20;
inline constexpr size_t kHugeBytes = 2 * kHugePage;

template <typename T>
struct HugePageAllocator {
  using value_type = T;

  HugePageAllocator() = default;
  template <typename Other>
  HugePageAllocator(const HugePageAllocator<Other>& /*other*/) {}  // NOLINT: as allocators do

  T* allocate(size_t count) {
    if (count > (std::numeric_limits<size_t>::max() - kHugePage) / sizeof(T)) {
      throw std::bad_alloc();
    }
    const size_t bytes = count * sizeof(T);
    void* memory = nullptr;
    if (bytes < kHugeBytes) {
      memory = std::malloc(bytes);
    } else {
      const size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
      memory = std::aligned_alloc(kHugePage, rounded);
      // A wish; refused on systems without.
      if (memory != nullptr) static_cast<void>(madvise(memory, rounded, MADV_HUGEPAGE));
    }
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t /*count*/) { std::free(memory); }

  template <typename Other>
  bool operator==(const HugePageAllocator<Other>& /*other*/) const {
    return true;
  }
};

}  // namespace lethe

#endif  // LETHE_CORE_BASE_HUGE_PAGES_H_
