// The forms in which a text or a vector of numbers may stand in a file: what trace_search.h looks
// for.
//
// A text: its own bytes (UTF-8), UTF-16 of both byte orders, hexadecimal in both cases, base64 and
// base64url at each of the three offsets in a group (the characters that no neighbour has a part
// in), percent-encoding, the escapes of JSON (of several libraries: what goes into a page as
// \uXXXX or not) and those of C, where they differ from the text.
// A vector: 64 and 32 bit numbers (rounded) of both byte orders, each as bytes, hexadecimal, base64
// and base64url; decimal text as trace_decimal.h lists it, behind each other with a comma, a comma
// and a blank, a blank, a tab or a line feed.
//
// What is compressed, encrypted, hashed, broken into lines or written with other digits is none of
// them; neither is a text in another case or normal form.
//
// Cost: linear in the bytes of all forms, 20 to 90 times those of a text and 80 to 140 times those
// of a vector. Errors: INVALID_ARGUMENT about a thing that would be met by chance; they never
// repeat the thing. Threads: safe. Source: RFC 4648.
#ifndef LETHE_AUDIT_TRACE_FORMS_H_
#define LETHE_AUDIT_TRACE_FORMS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lethe::audit {

// Shorter texts, and shorter parts of forms, stand in many files by chance.
inline constexpr size_t kLeastTraceBytes = 6;

struct TraceRules {
  // A text counts as found when all of it stands there; of a longer one, what stands for any this
  // many bytes of it (UTF-8) in a row: databases cut long values into pages. Where a form is of
  // characters, those that lie whole within the bytes; never fewer than kLeastTraceBytes of the
  // form.
  size_t text_run = 256;
  // The same for the numbers of a vector.
  size_t vector_run = 4;
  // Texts and parts of forms below kLeastTraceBytes too.
  bool allow_short = false;
};

// One form of one thing. It consists of units that follow each other: numbers of a vector, bytes of
// a text's form. It is found where `run` units in a row stand, unless they are all common numbers.
class TraceForm {
 public:
  // Units of `width` bytes each.
  static TraceForm Fixed(std::string name, std::string bytes, size_t width, size_t run);
  // Units of `width` bytes in base64, the first one `offset` bytes into a group of three.
  static TraceForm InBase64(std::string name,
                            std::string bytes,
                            size_t width,
                            size_t offset,
                            size_t units,
                            size_t run);
  // Units that begin and end where these say.
  static TraceForm Listed(std::string name,
                          std::string bytes,
                          std::vector<uint32_t> begins,
                          std::vector<uint32_t> ends,
                          size_t run);

  const std::string& name() const { return name_; }
  const std::string& bytes() const { return bytes_; }
  size_t units() const { return units_; }
  size_t run() const { return run_; }
  // Of a unit, in bytes(). A run of units takes all from the begin of its first to the end of its
  // last.
  size_t Begin(size_t unit) const;
  size_t End(size_t unit) const;

  // Whether the run that starts with this unit counts. Requires unit + run() <= units().
  bool Counts(size_t unit) const { return counts_.empty() || counts_[unit]; }
  void set_counts(std::vector<bool> counts) { counts_ = std::move(counts); }

  // Overwrites the bytes.
  void Wipe();

 private:
  enum class Layout : uint8_t { kFixed, kBase64, kListed };

  TraceForm() = default;

  std::string name_;
  std::string bytes_;
  Layout layout_ = Layout::kFixed;
  size_t width_ = 1;
  size_t offset_ = 0;
  size_t units_ = 0;
  size_t run_ = 0;
  std::vector<uint32_t> begins_;
  std::vector<uint32_t> ends_;
  std::vector<bool> counts_;  // empty: all do
};

// At least one form, no two with the same bytes. INVALID_ARGUMENT for an empty text and for a short
// one, unless it is allowed.
absl::StatusOr<std::vector<TraceForm>> TextForms(absl::string_view text, const TraceRules& rules);

// INVALID_ARGUMENT for a vector that is empty, has a number that is not finite, or none of whose
// runs is distinctive: 0, 1 and -1 say nothing, other whole numbers up to 65536 only when four
// different ones stand in a run. Requires rules.vector_run > 0.
absl::StatusOr<std::vector<TraceForm>> VectorForms(std::span<const double> numbers,
                                                   const TraceRules& rules);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_TRACE_FORMS_H_
