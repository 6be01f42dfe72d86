// Small steps with files that several folders take: a descriptor that closes itself, writing and
// reading all of a few bytes, making names durable, and errors of the system as a Status.
//
// Errors: SystemError of the call that failed; every message starts with `path` and holds no byte
// of a file. Cost: the system calls. Threads: functions without state; a FileDescriptor is
// compatible.
#ifndef LETHE_CORE_BASE_FILES_H_
#define LETHE_CORE_BASE_FILES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lethe {

// Owns a descriptor, or none (negative).
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  ~FileDescriptor() { (void)Close(); }
  FileDescriptor(FileDescriptor&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  int get() const { return descriptor_; }
  bool valid() const { return descriptor_ >= 0; }
  // Holds none afterwards. False, with errno, when the system reports an error that a write left.
  bool Close();

 private:
  int descriptor_ = -1;
};

// "<path>: cannot <doing>: <words for error>".
//
//   EEXIST -> ALREADY_EXISTS      ELOOP, ENOTDIR -> FAILED_PRECONDITION (no links are followed)
//   ENOENT -> NOT_FOUND           EACCES, EPERM, EROFS -> PERMISSION_DENIED
//   ENOSPC, EDQUOT -> RESOURCE_EXHAUSTED       all others -> UNAVAILABLE
absl::Status SystemError(int error, absl::string_view doing, const std::string& path);

// Writes from the start of the file, however many calls it takes. Does not sync.
absl::Status WriteAll(int file, absl::string_view bytes, const std::string& path);
// Reads from the start of the file until `size` bytes are there or it ends; returns how many.
absl::StatusOr<size_t> ReadUpTo(int file, uint8_t* out, size_t size, const std::string& path);

// The same two from where the descriptor stands, which moves on: for what comes piece by piece.
absl::Status WriteNext(int file, absl::string_view bytes, const std::string& path);
absl::StatusOr<size_t> ReadNext(int file, char* out, size_t size, const std::string& path);

// fsync of an open file or folder.
absl::Status Sync(int file, const std::string& path);
// A new, renamed or removed name is durable once its folder is.
absl::Status SyncFolder(const std::string& folder);
// The folder that a path lies in.
std::string FolderOf(const std::string& path);

// The same code and payloads, with "<prefix>: " before the message. Requires an error.
absl::Status Prefixed(const absl::Status& status, absl::string_view prefix);

}  // namespace lethe

#endif  // LETHE_CORE_BASE_FILES_H_
