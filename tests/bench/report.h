// A result as text for people, as JSON for programs and as a plot.
#ifndef LETHE_TESTS_BENCH_REPORT_H_
#define LETHE_TESTS_BENCH_REPORT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "tests/bench/bench.h"
#include "tests/bench/result.h"

namespace lethe::bench {

struct Machine {
  std::string cpu;
  int cpus = 0;
  double memory_gib = 0.0;
  std::string system;
  std::string compiler;
  std::string flags;  // that the measured code was compiled with
};
Machine ThisMachine();

// Everything about one run.
struct Report {
  std::string name;
  std::string summary;
  Result result;
  Machine machine;
  bool quick = false;
  double seconds = 0.0;
};

// "ok|short CLAIM: FIGURE (bar BAR)".
std::string AsLine(const Claim& claim);

// No line is longer than 80 characters unless a single word is. A table that is wider is cut into
// blocks that repeat its first column.
std::string AsText(const Report& report);

// {"bench", "summary", "quick", "seconds", "seeds": [], "machine": {}, "claims": [{"claim",
// "figure", "bar", "ok"}], "tables": [{"title", "columns": [{"name", "unit"}], "rows": [{column
// name: value or null}]}], "notes": []}, indented, with a newline at the end.
std::string AsJson(const Report& report);

// A drawing of result.plot that follows the reader's light or dark scheme. Requires a plot.
std::string AsSvg(const Report& report);

// `text` broken at spaces so that no line is longer than `width` where words allow, every line
// after the first indented.
std::string Wrapped(absl::string_view text, size_t width, size_t indent);

// `value` in `digits` significant digits, without an exponent where that stays short.
std::string Short(double value, int digits);

}  // namespace lethe::bench

#endif  // LETHE_TESTS_BENCH_REPORT_H_
