// Which known name a mistyped one stands for, for messages.
//
// Threads: functions without state. Cost: O(bytes of the word * bytes of all names).
#ifndef LETHE_CORE_PROGRAM_NEAREST_NAME_H_
#define LETHE_CORE_PROGRAM_NEAREST_NAME_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace lethe::program {

// The name with the fewest inserted, deleted, replaced and swapped characters between it and
// `word`; the first of several. Empty when none has at most a third of its length, rounded up, of
// them: what is as far away as that was not meant.
std::string NearestName(absl::string_view word, absl::Span<const std::string> names);

// "NAME: unknown; did you mean NEAREST?", or without the question when nothing is near. A name
// longer than 100 bytes, or with bytes that a terminal might act on, is not repeated.
std::string UnknownName(absl::string_view name, absl::Span<const std::string> names);

}  // namespace lethe::program

#endif  // LETHE_CORE_PROGRAM_NEAREST_NAME_H_
