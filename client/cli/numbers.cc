#include "client/cli/numbers.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"

namespace lethe::cli {
namespace {

// `text` without sign and prefix.
absl::StatusOr<double> Parse(absl::string_view text, bool negative, std::chars_format format) {
  double value = 0.0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, format);
  if (error == std::errc::result_out_of_range) return absl::InvalidArgumentError("out of range");
  // A second sign would be from_chars' own.
  if (error != std::errc() || stop != end || text.front() == '-') {
    return absl::InvalidArgumentError("not a number");
  }
  if (!std::isfinite(value)) return absl::InvalidArgumentError("not finite");
  return negative ? -value : value;
}

bool ConsumeSign(absl::string_view& text) {
  const bool negative = absl::StartsWith(text, "-");
  if (negative || absl::StartsWith(text, "+")) text.remove_prefix(1);
  return negative;
}

}  // namespace

absl::StatusOr<double> ParseDecimal(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  const bool negative = ConsumeSign(text);
  if (text.empty()) return absl::InvalidArgumentError("not a number");
  return Parse(text, negative, std::chars_format::general);
}

absl::StatusOr<double> ParseHexOrDecimal(absl::string_view text) {
  absl::string_view rest = text;
  const bool negative = ConsumeSign(rest);
  if (!absl::StartsWithIgnoreCase(rest, "0x")) return ParseDecimal(text);
  rest.remove_prefix(2);
  if (rest.empty()) return absl::InvalidArgumentError("not a number");
  return Parse(rest, negative, std::chars_format::hex);
}

absl::StatusOr<std::vector<double>> ParseVector(absl::string_view text) {
  std::vector<double> values;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    absl::StatusOr<double> value = ParseDecimal(part);
    if (!value.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("[", values.size(), "]: ", value.status().message()));
    }
    values.push_back(*value);
  }
  return values;
}

double ToDouble(const nlohmann::json& number) {
  // Every other whole number that is not negative is kept as an unsigned one.
  const bool negative_zero =
      number.type() == nlohmann::json::value_t::number_integer && number.get<int64_t>() == 0;
  return negative_zero ? -0.0 : number.get<double>();
}

std::string FormatHex(double value) {
  char buffer[40];
  std::snprintf(buffer, sizeof(buffer), "%a", value);
  return buffer;
}

std::string CheckDigits(const std::string& text) {
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
  return digits ? "" : "must be a whole number";
}

}  // namespace lethe::cli
