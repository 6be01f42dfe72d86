// What the targets share: how an input says what it is for, a place for files, and how a target
// ends when something does not hold.
#ifndef LETHE_TESTS_FUZZ_INPUT_H_
#define LETHE_TESTS_FUZZ_INPUT_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace lethe::fuzz {

// Stands in corpora where personal data would; no message of ours may repeat it. It has a character
// that no field's name has: a name that is none of a field is told.
inline constexpr absl::string_view kCanary = "canary~7f3a";

// Ends the process, after a line that says where and what.
[[noreturn]] void Fail(absl::string_view what, absl::string_view detail = "");
inline void Require(bool holds, absl::string_view what, absl::string_view detail = "") {
  if (!holds) Fail(what, detail);
}
void RequireOk(const absl::Status& status, absl::string_view what);

// A line on stdout where LETHE_FUZZ_SAY is set: what became of an input, for who looks at one.
void Say(absl::string_view line);

// That a message can be shown: not empty, no control characters, nothing of kCanary.
void CheckMessage(absl::string_view what, absl::string_view message);

// The first line of a readable input is one of the names; a first byte from 0x80 on is the number
// of one, so that a mutation can reach each of them. Nothing for any other input.
struct Choice {
  size_t index;
  absl::string_view rest;
};
std::optional<Choice> Choose(absl::string_view input, absl::Span<const std::string> names);

// The parts between lines of "---", at most `limit`.
std::vector<absl::string_view> Parts(absl::string_view input, size_t limit);

// A folder of its own that goes away with the process, in TMPDIR, or else in memory where the
// machine has such a place.
const std::string& ScratchFolder();
// A file there, with this mode, in the place of the one that was there. Returns its path.
std::string ScratchFile(const std::string& name, absl::string_view bytes, int mode = 0600);

}  // namespace lethe::fuzz

#endif  // LETHE_TESTS_FUZZ_INPUT_H_
