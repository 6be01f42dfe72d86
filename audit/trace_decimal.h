// How programs write a double as decimal text; for trace_forms.h.
#ifndef LETHE_AUDIT_TRACE_DECIMAL_H_
#define LETHE_AUDIT_TRACE_DECIMAL_H_

#include <array>
#include <cstdint>
#include <string>

namespace lethe::audit {

enum class DecimalStyle : uint8_t {
  kPrintf17,        // "%.17g"
  kPrintf15Or17,    // "%.15g" where that reads back, else "%.17g": protobuf, text and JSON
  kShorter,         // std::to_chars of C++17: the shorter of 100000 and 1e+05
  kShorterPoint,    // the same, whole numbers with ".0"
  kPython,          // repr without ".0": 1e-05, 0.0001, 1000000000000000, 1e+16
  kPythonPoint,     // repr
  kEcmaScript,      // String(): 1e-7, 0.000001, 100000000000000000000, 1e+21
  kEcmaScriptPoint  // the same, whole numbers with ".0"
};
inline constexpr std::array kDecimalStyles = {
    DecimalStyle::kPrintf17,     DecimalStyle::kPrintf15Or17,   DecimalStyle::kShorter,
    DecimalStyle::kShorterPoint, DecimalStyle::kPython,         DecimalStyle::kPythonPoint,
    DecimalStyle::kEcmaScript,   DecimalStyle::kEcmaScriptPoint};

// All but the first two have the fewest digits that read back as the number; kShorter has all
// digits of a large whole number where that is as short. ".0" stands behind whole numbers without
// an exponent only. Requires a finite number. Threads: safe. Source: ECMA-262, Number::toString;
// Python's repr since 3.1.
std::string DecimalText(double number, DecimalStyle style);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_TRACE_DECIMAL_H_
