// Runs a TraceSearch over files and folders: every regular file under them, and the names of all
// that lies there.
//
// Symbolic links are not followed, except those named by the caller; devices, pipes and sockets are
// not opened; both are told, and their names are searched. A file or folder is `changed` when its
// size, its times or its place in the folder are others after reading: parts may have been missed.
// What was found in a name is shown there as "[text 3]", so that no report repeats it.
//
// Not searched: extended attributes, free blocks of the device, what a file held before.
//
// Cost: one pass over all bytes; memory for the names in one folder and its parents, and for a note
// about each folder. Errors: UNAVAILABLE when one of `paths` itself cannot be looked at; anything
// below it that cannot be read becomes a note. Threads: compatible.
#ifndef LETHE_AUDIT_TRACE_FILES_H_
#define LETHE_AUDIT_TRACE_FILES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/trace_search.h"

namespace lethe::audit {

// Notes of a kind beyond these are counted only.
inline constexpr size_t kMaxTraceNotes = 100;

enum class TraceNote : uint8_t { kSymbolicLink, kSpecial, kUnreadable, kChanged };
inline constexpr size_t kTraceNotes = 4;

struct TraceFinding {
  std::string path;
  bool in_name = false;  // in the last part of the path; `place` is relative to it
  TracePlace place;
};

struct TraceNotes {
  uint64_t count = 0;
  std::vector<std::string> first;  // paths, kUnreadable with a reason
};

struct TraceReport {
  uint64_t files = 0;  // that were read
  uint64_t folders = 0;
  uint64_t bytes = 0;
  uint64_t places = 0;
  uint64_t files_with_places = 0;
  std::vector<uint64_t> places_of_thing;
  std::vector<TraceFinding> findings;  // the first ones, in the order of files and offsets
  std::array<TraceNotes, kTraceNotes> notes;

  const TraceNotes& of(TraceNote note) const { return notes[static_cast<size_t>(note)]; }
  // How many things stand nowhere.
  uint64_t missing() const;
};

absl::StatusOr<TraceReport> SearchFiles(TraceSearch& search,
                                        std::span<const std::string> paths,
                                        size_t max_findings);

// The path with everything in it that is searched for replaced by its name in brackets, and what
// cannot be printed by escapes.
std::string PrintablePath(TraceSearch& search, absl::string_view path);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_TRACE_FILES_H_
