#include "tests/bench/bench.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "core/base/check.h"

namespace lethe::bench {

Cell MaybeCell(const std::optional<double>& value) {
  Cell cell;
  if (value.has_value()) cell = *value;
  return cell;
}

bool Settings::Has(absl::string_view flag) const { return given.count(std::string(flag)) != 0; }

int64_t Settings::Count(absl::string_view flag, int64_t value, int64_t quick_value) const {
  const auto found = given.find(std::string(flag));
  if (found == given.end()) return quick ? quick_value : value;
  int64_t parsed = 0;
  LETHE_CHECK(absl::SimpleAtoi(found->second, &parsed));
  return parsed;
}

std::string Settings::Text(absl::string_view flag, absl::string_view value) const {
  const auto found = given.find(std::string(flag));
  return found == given.end() ? std::string(value) : found->second;
}

std::map<std::string, Bench>& Benches() {
  static auto* const benches = new std::map<std::string, Bench>;
  return *benches;
}

Registration::Registration(Bench bench) {
  const std::string name = bench.name;
  LETHE_CHECK(Benches().emplace(name, std::move(bench)).second);
}

}  // namespace lethe::bench
