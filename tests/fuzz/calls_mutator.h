// Changes a program of calls (fuzz_calls.cc) by what it means: a field gets another value, a call
// comes twice, at another place, or with another name. Bytes that are changed at random mostly stop
// being a program.
#ifndef LETHE_TESTS_FUZZ_CALLS_MUTATOR_H_
#define LETHE_TESTS_FUZZ_CALLS_MUTATOR_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace lethe::fuzz {

// Empty where the input is no program. The same seed does the same. Threads: safe.
std::string MutateCalls(absl::string_view input, uint32_t seed);

}  // namespace lethe::fuzz

#endif  // LETHE_TESTS_FUZZ_CALLS_MUTATOR_H_
