#include "audit/trace_decimal.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/check.h"

namespace lethe::audit {
namespace {

// A magnitude: 0.DIGITS times ten to the `point`.
struct Decimal {
  std::string digits;
  int point = 0;
};

std::string Printf(double number, int digits) {
  std::array<char, 64> buffer;
  const int length = std::snprintf(buffer.data(), buffer.size(), "%.*g", digits, number);
  return std::string(buffer.data(), static_cast<size_t>(length));
}

template <typename... Format>
std::string ToChars(double number, Format... format) {
  std::array<char, 64> buffer;
  const auto [end, error] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), number, format...);
  LETHE_CHECK(error == std::errc());
  return std::string(buffer.data(), end);
}

// The fewest digits that read back as the magnitude of the number.
Decimal Shortest(double number) {
  const std::string text = ToChars(std::abs(number), std::chars_format::scientific);
  const size_t end = text.find('e');
  int exponent = 0;
  LETHE_CHECK(absl::SimpleAtoi(text.substr(end + 1), &exponent));
  Decimal decimal{.digits = text.substr(0, 1), .point = exponent + 1};
  if (end > 2) decimal.digits += text.substr(2, end - 2);
  return decimal;
}

std::string Fixed(const Decimal& decimal) {
  std::string digits = decimal.digits;
  if (decimal.point <= 0) {
    return absl::StrCat("0.", std::string(static_cast<size_t>(-decimal.point), '0'), digits);
  }
  const auto whole = static_cast<size_t>(decimal.point);
  if (whole >= digits.size()) return digits.append(whole - digits.size(), '0');
  return digits.insert(whole, 1, '.');
}

// `least`: digits of the exponent.
std::string Scientific(const Decimal& decimal, size_t least) {
  const int exponent = decimal.point - 1;
  std::string power = absl::StrCat(std::abs(exponent));
  if (power.size() < least) power.insert(0, least - power.size(), '0');
  return absl::StrCat(decimal.digits.substr(0, 1), decimal.digits.size() > 1 ? "." : "",
                      decimal.digits.substr(1), "e", exponent < 0 ? "-" : "+", power);
}

std::string Python(const Decimal& decimal) {
  const bool fixed = decimal.point > -4 && decimal.point <= 16;
  return fixed ? Fixed(decimal) : Scientific(decimal, 2);
}

std::string EcmaScript(const Decimal& decimal) {
  const bool fixed = decimal.point > -6 && decimal.point <= 21;
  return fixed ? Fixed(decimal) : Scientific(decimal, 1);
}

std::string WithPoint(std::string text) {
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string Signed(double number, absl::string_view magnitude) {
  return absl::StrCat(std::signbit(number) ? "-" : "", magnitude);
}

}  // namespace

std::string DecimalText(double number, DecimalStyle style) {
  switch (style) {
    case DecimalStyle::kPrintf17:
      return Printf(number, 17);
    case DecimalStyle::kPrintf15Or17: {
      std::string text = Printf(number, 15);
      return std::strtod(text.c_str(), nullptr) == number ? text : Printf(number, 17);
    }
    case DecimalStyle::kShorter:
      return ToChars(number);
    case DecimalStyle::kShorterPoint:
      return WithPoint(ToChars(number));
    case DecimalStyle::kPython:
      return Signed(number, Python(Shortest(number)));
    case DecimalStyle::kPythonPoint:
      return Signed(number, WithPoint(Python(Shortest(number))));
    case DecimalStyle::kEcmaScript:
      return Signed(number, EcmaScript(Shortest(number)));
    case DecimalStyle::kEcmaScriptPoint:
      return Signed(number, WithPoint(EcmaScript(Shortest(number))));
  }
  LETHE_CHECK(false);
}

}  // namespace lethe::audit
