// The list of benches, their flags and how one enters the list:
//
//     absl::StatusOr<Result> Run(const Settings& settings);
//     const Registration kRegistration({"row-limit", "one line on what it measures", {}, Run});
//
// at namespace scope of a file that is linked into lethe-bench directly (not through a library).
#ifndef LETHE_TESTS_BENCH_BENCH_H_
#define LETHE_TESTS_BENCH_BENCH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tests/bench/result.h"

namespace lethe::bench {

// A flag of one bench, besides those that all have (lethe_bench.cc).
struct Flag {
  enum class Kind { kCount, kText };
  std::string name;   // "--trials"
  std::string value;  // what stands for its value in the help: "N", "FILE"
  std::string help;
  Kind kind = Kind::kCount;
};

class Settings {
 public:
  uint64_t seed = 1;
  bool quick = false;
  std::map<std::string, std::string> given;  // flag name to value, checked against its kind

  bool Has(absl::string_view flag) const;
  // `quick_value` with --quick, `value` without, unless the flag was given.
  int64_t Count(absl::string_view flag, int64_t value, int64_t quick_value) const;
  std::string Text(absl::string_view flag, absl::string_view value) const;
};

struct Bench {
  std::string name;
  std::string summary;  // one line of at most 60 characters
  std::vector<Flag> flags;
  std::function<absl::StatusOr<Result>(const Settings&)> run;
};

// All benches by name.
std::map<std::string, Bench>& Benches();

struct Registration {
  explicit Registration(Bench bench);
};

// `lethe-bench micro`: the microbenchmarks, with Google Benchmark's flags.
int RunMicro(int argc, char** argv);

}  // namespace lethe::bench

#endif  // LETHE_TESTS_BENCH_BENCH_H_
