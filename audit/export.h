// Writes the log of a tenant as files that a stranger can check: docs/certificate_format.md, "The
// export", is the layout.
//
// The whole log has the C2SP tlog-tiles; a range has its certificates with their proofs against the
// same checkpoint, and no tiles. Equal logs, ranges and times give equal bytes.
#ifndef LETHE_AUDIT_EXPORT_H_
#define LETHE_AUDIT_EXPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/hash.h"
#include "audit/signer.h"

namespace lethe::audit {

struct ExportEntry {
  uint64_t sequence = 0;
  std::string envelope;
  std::string leaf;
};

// A log of a fixed size: what is appended later is not seen.
class LogSource {
 public:
  virtual ~LogSource() = default;

  virtual uint64_t size() const = 0;
  // The signed note over that size, cosignature lines included.
  virtual std::string checkpoint() const = 0;
  // The keys of the log and the first sequence that each signed, ascending, the first from 0.
  virtual std::vector<std::pair<uint64_t, VerificationKey>> keys() const = 0;
  // The hash of the complete subtree over leaves [index 2^level, (index + 1) 2^level).
  virtual absl::StatusOr<Digest> Node(int level, uint64_t index) = 0;
  // Calls `visit` for first, ..., last in order; stops at its first error and returns it. May be
  // asked for the same range again.
  virtual absl::Status Entries(uint64_t first,
                               uint64_t last,
                               absl::FunctionRef<absl::Status(const ExportEntry&)> visit) = 0;
};

// Receives one file at a time: Begin, any number of Writes, End.
class ExportSink {
 public:
  virtual ~ExportSink() = default;

  virtual absl::Status Begin(absl::string_view path) = 0;
  virtual absl::Status Write(absl::string_view bytes) = 0;
  virtual absl::Status End() = 0;
};

// Certificates first to last; to the end when `last` is absent.
struct ExportRange {
  uint64_t first = 0;
  std::optional<uint64_t> last;
};

// `now_unix` is the time that the report gives as its own.
//
// INVALID_ARGUMENT for a range that is not in the log (an empty log has the empty whole range
// only); DATA_LOSS when the source contradicts itself: a certificate that cannot be read or is not
// at its place, a leaf that is not its certificate's, a tree that is not the checkpoint's. Such an
// export must not be published. Errors of source and sink as they are.
//
// Cost: linear in the certificates of the range (each is parsed once), plus one read of each node
// of the tree for the whole log, at most three of each node over the range otherwise. Memory:
// a few MiB and three bits a certificate; summaries larger than that wait in a temporary file
// without a name, in TMPDIR or else /tmp.
absl::Status WriteExport(LogSource& source,
                         const ExportRange& range,
                         int64_t now_unix,
                         ExportSink& sink);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_EXPORT_H_
