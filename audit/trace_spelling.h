// How programs write a text with escapes and in UTF-16; for trace_forms.h.
//
// Cost: linear. Threads: safe. Source: RFC 3986 section 2.1, RFC 8259 section 7.
#ifndef LETHE_AUDIT_TRACE_SPELLING_H_
#define LETHE_AUDIT_TRACE_SPELLING_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace lethe::audit {

inline constexpr char kLowerDigits[] = "0123456789abcdef";
inline constexpr char kUpperDigits[] = "0123456789ABCDEF";

// Every byte but letters, digits and those of `kept` as %XX; with `plus_for_blank` a blank as "+".
std::string Percent(absl::string_view text,
                    absl::string_view kept,
                    const char* digits,
                    bool plus_for_blank);

// Requires well-formed UTF-8.
std::vector<uint32_t> CodePoints(absl::string_view text);

void AppendUtf16(std::string& out, uint32_t point, bool big_endian);

// What libraries write as \uXXXX beside what JSON asks for, since the text may go into a page:
// none; protobuf; Go; others, with \" or with \u0022; .NET.
inline constexpr absl::string_view kJsonUnsafe[] = {"", "<>", "<>&", "<>&'", "<>&'\"", "<>&'\"+`"};

struct JsonStyle {
  absl::string_view unsafe;  // of kJsonUnsafe
  bool ascii;                // what is no ASCII as \uXXXX
  bool slash;                // "/" as "\/"
  bool no_short;             // \u000a in place of \n
  const char* digits;
};
// A character of a JSON string.
void AppendJson(std::string& out, uint32_t point, const JsonStyle& style);

struct Spelled {
  std::string bytes;
  // Of them, for the characters that lie whole within any `run` bytes of the text (UTF-8) in a row,
  // at least; of a shorter text, all.
  size_t least = 0;
};
// A text as `append` writes each of its characters.
Spelled Spell(const std::vector<uint32_t>& points,
              size_t run,
              absl::FunctionRef<void(std::string& out, uint32_t point)> append);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_TRACE_SPELLING_H_
