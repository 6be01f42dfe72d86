// Decimal and C99 hexadecimal numbers, independent of the locale. Messages never repeat the text:
// it may be someone's data.
#ifndef LETHE_CLIENT_CLI_NUMBERS_H_
#define LETHE_CLIENT_CLI_NUMBERS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace lethe::cli {

// A finite decimal number; blanks around it are ignored. INVALID_ARGUMENT: "not a number", "out of
// range", "not finite".
absl::StatusOr<double> ParseDecimal(absl::string_view text);
// "0x1.8p-3", "-0x0p+0", or a decimal number. The same errors.
absl::StatusOr<double> ParseHexOrDecimal(absl::string_view text);
// "1,2,-3.5". INVALID_ARGUMENT names the place: "[1]: not a number".
absl::StatusOr<std::vector<double>> ParseVector(absl::string_view text);
// What a number of JSON says: the library takes "-0" for a whole number, which has no sign.
double ToDouble(const nlohmann::json& number);
// As printf's %a: "0x1.8p-3".
std::string FormatHex(double value);

// For options that take a whole number: empty for digits alone, otherwise what is wrong. (The
// parser of the command line reads "-1" as a very large number.)
std::string CheckDigits(const std::string& text);

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_NUMBERS_H_
