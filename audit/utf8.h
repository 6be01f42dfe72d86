// UTF-8, as Unicode defines it: no surrogates, no overlong forms, nothing above U+10FFFF.
// Threads: safe. Source: Unicode 15, table 3-7.
#ifndef LETHE_AUDIT_UTF8_H_
#define LETHE_AUDIT_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace lethe::audit {

// Length of the well-formed sequence at the front, or 0. Requires a text that is not empty.
size_t Utf8SequenceLength(absl::string_view text);

bool IsValidUtf8(absl::string_view bytes);

// Requires a code point that is no surrogate and at most U+10FFFF.
void AppendUtf8(std::string& out, uint32_t code);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_UTF8_H_
