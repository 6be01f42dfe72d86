// Where libFuzzer comes in; LETHE_FUZZ_TARGET is one of targets.h.
#include <time.h>

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/targets.h"

namespace {

// Of the processor, under sanitizers, where an input of the slowest target takes a thirtieth on
// average. libFuzzer measures by the clock on the wall, which a busy machine moves.
constexpr double kMostSeconds = 5;

double ProcessorSeconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const double begin = ProcessorSeconds();
  lethe::fuzz::LETHE_FUZZ_TARGET(absl::string_view(reinterpret_cast<const char*>(data), size));
  const double took = ProcessorSeconds() - begin;
  lethe::fuzz::Require(took < kMostSeconds, "an input takes no long time",
                       absl::StrCat(took, " s"));
  return 0;
}
