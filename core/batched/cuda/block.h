// What one problem is computed by: a block of lanes that go through the same code together, each
// with its own registers, over memory that they share.
//
// Code between two calls of a block is uniform: every lane runs it, with the same numbers. What
// differs from lane to lane stands in the bodies that are given to a block. Point i of a problem
// belongs to lane i, so a block has at least as many lanes as the problem has points.
//
// A `Block` supplies
//
//     Array<T>                         memory that the lanes share: a[i] is read and assigned
//     Private<T, N>                    N numbers of each lane: At(lane, k), k known to the compiler
//     uint32_t lanes()
//     Array<T> Shared<T>(at, count)    so many bytes into the block's fast memory
//     Array<T> Scratch<T>(at, count)   the same, of its part of the device's memory
//     void Ahead(first, last, body)    body(i) by lane i for first <= i < last <= lanes()
//     void AheadStrided(count, body)   body(i) for i < count by lane i % lanes()
//     void Barrier()                   what lanes wrote before is what all read afterwards
//     V Reduce(count, nothing, term, combine)   of term(i), i < count <= lanes(), by a tree that
//                                      depends on count alone; a barrier; V at most 32 bytes
//     void Agree(T* uniform, T value)  in a body of all lanes: they all have the same value
//     Four<T> ReadFour(array, at)      four neighbours, `at` a multiple of 4
//
// Between two barriers a lane may read only what no other lane writes. There are two blocks: that
// of CUDA (cuda_device.cu), and one that runs lane after lane on the host (tests/batched), which
// holds every access against this rule.
#ifndef LETHE_CORE_BATCHED_CUDA_BLOCK_H_
#define LETHE_CORE_BATCHED_CUDA_BLOCK_H_

#include <algorithm>
#include <cstdint>

#include "core/batched/method/numbers.h"

namespace lethe::batched {

template <typename T>
struct alignas(16) Four {
  T at[4];
};

template <typename Block, typename Body>
LETHE_STEP void Each(Block& block, uint32_t first, uint32_t last, const Body& body) {
  block.Ahead(first, last, body);
  block.Barrier();
}

template <typename T, typename Block, typename Term>
LETHE_STEP T SumOver(Block& block, uint32_t count, const Term& term) {
  return block.Reduce(count, T{0}, term, [](T a, T b) { return a + b; });
}

template <typename T, typename Block, typename Term>
LETHE_STEP T MaxOver(Block& block, uint32_t count, T least, const Term& term) {
  return block.Reduce(count, least, term, [](T a, T b) { return std::max(a, b); });
}

// A shared number for uniform code. The barrier keeps others from writing it before all have it.
template <typename T, typename Block>
LETHE_STEP T Fetch(Block& block, const typename Block::template Array<T>& array, uint32_t at) {
  const T value = array[at];
  block.Barrier();
  return value;
}

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CUDA_BLOCK_H_
