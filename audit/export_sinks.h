// Where an export goes: a folder, or a .tar that unpacks to that folder.
//
// Neither overwrites anything. A failed write leaves an incomplete export behind, which no verifier
// accepts; Finish must succeed before it is called one. The tar is POSIX ustar (IEEE 1003.1-2017,
// pax, "ustar Interchange Format"): regular files only, mode 0644, no owner, time 0, no padding
// beyond the two zero blocks at the end, so that equal exports are equal bytes.
//
// Paths are relative, of [A-Za-z0-9._-] between single '/', no component "." or "..", at most 255
// bytes (INVALID_ARGUMENT). Errors of the file system keep their kind (ALREADY_EXISTS,
// RESOURCE_EXHAUSTED for a full disk, PERMISSION_DENIED, ...); FAILED_PRECONDITION for a call out
// of order. Memory: a buffer. Threads: compatible.
#ifndef LETHE_AUDIT_EXPORT_SINKS_H_
#define LETHE_AUDIT_EXPORT_SINKS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/export.h"

namespace lethe::audit {

// INVALID_ARGUMENT when `path` breaks the rules above.
absl::Status ValidateExportPath(absl::string_view path);

// A sink on this machine. Finish, once and last, makes what was written durable.
class FileSink : public ExportSink {
 public:
  virtual absl::Status Finish() = 0;
};

// A folder that does not exist yet (its parent does) or is empty; ALREADY_EXISTS otherwise.
absl::StatusOr<std::unique_ptr<FileSink>> CreateFolderSink(const std::string& path);

// A new file. A file of the export has less than 8 GiB (OUT_OF_RANGE). The size of a file stands
// before its bytes, so the tar is written to a file, not to a pipe.
absl::StatusOr<std::unique_ptr<FileSink>> CreateTarSink(const std::string& path);

// A tar when `path` ends in ".tar", else a folder.
absl::StatusOr<std::unique_ptr<FileSink>> CreateExportSink(const std::string& path);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_EXPORT_SINKS_H_
