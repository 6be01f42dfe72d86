// What libFuzzer asks fuzz_calls for beside entry.cc: most changes are made by meaning.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/fuzz/calls_mutator.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data,
                                          size_t size,
                                          size_t max_size,
                                          unsigned int seed);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data,
                                          size_t size,
                                          size_t max_size,
                                          unsigned int seed) {
  if (seed % 5 != 0) {
    const std::string mutated = lethe::fuzz::MutateCalls(
        absl::string_view(reinterpret_cast<const char*>(data), size), seed);
    if (!mutated.empty() && mutated.size() <= max_size) {
      std::copy(mutated.begin(), mutated.end(), data);
      return mutated.size();
    }
  }
  return LLVMFuzzerMutate(data, size, max_size);
}
