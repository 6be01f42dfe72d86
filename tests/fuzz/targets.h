// The fuzz targets: each takes any bytes, and ends the process when something does not hold. What
// each of them is given and holds against it is in README.md.
//
// Every first call makes what the target needs (keys, a service); what a call then finds does not
// depend on the calls before it. Threads: one at a time.
#ifndef LETHE_TESTS_FUZZ_TARGETS_H_
#define LETHE_TESTS_FUZZ_TARGETS_H_

#include "absl/strings/string_view.h"

namespace lethe::fuzz {

void FuzzAudit(absl::string_view input);
void FuzzCalls(absl::string_view input);
void FuzzCsv(absl::string_view input);
void FuzzHttpMessage(absl::string_view input);
void FuzzJson(absl::string_view input);

}  // namespace lethe::fuzz

#endif  // LETHE_TESTS_FUZZ_TARGETS_H_
