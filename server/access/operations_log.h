// The operations log: who had what done, and who was refused. One JSON object a line in a file of
// its own, which only the server's user can read. Nothing personal: names of tenants, memories and
// callers as they are configured, codes, ids of certificates; never a subject, a token's id, a
// payload or a credential.
//
//   {"time":..,"event":"intent","request_id":..,"method":..,"caller":..,"tenant":..,"memory":..}
//   {"time":..,"event":"outcome",... as above,"code":..,"certificate":..}
//   {"time":..,"event":"denied",... as above,"code":..,"reason":..}
//   {"time":..,"event":"denied-more","caller":..,"count":..}    refused beyond the lines above
//
// What destroys something and what administers has a line before it begins, on disk before the call
// goes on, and one after it. Refused calls have a line each, at most kDeniedLines a caller and
// minute; how many more there were is said in one line when the minute is over, so that a flood
// fills no disk and pushes nothing out of the log.
//
// The file is closed at max_bytes and kept as <path>.1, .2, ..., at most max_files of them; the
// oldest goes. While no new file can be made, what wants a line before it begins is refused, and no
// old line is lost. Threads: safe.
#ifndef LETHE_SERVER_ACCESS_OPERATIONS_LOG_H_
#define LETHE_SERVER_ACCESS_OPERATIONS_LOG_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/files.h"
#include "core/base/mutex.h"

namespace lethe::access {

// Refused calls of one caller with lines of their own, a minute.
inline constexpr uint64_t kDeniedLines = 10;

struct OperationsLogOptions {
  std::string path;
  uint64_t max_bytes = uint64_t{16} << 20;
  int max_files = 10;  // besides the present one
  // Asked when the disk is full, once a line of what destroys; true when there may be room now.
  // Erasures have room that is kept for them (server/service/ballast.h), and their lines belong to
  // them.
  std::function<bool()> make_room = {};
  std::function<absl::Time()> now = {};  // a seam for tests; empty: the clock
};

struct Operation {
  std::string request_id;
  std::string method;
  std::string caller;  // empty when nobody is known
  std::string tenant;  // empty for none
  std::string memory;
  bool destroys = false;
};

class OperationsLog {
 public:
  // Opens or makes the file (0600). FAILED_PRECONDITION when it is no regular file, or others may
  // read or write it; errors of the system name the path.
  static absl::StatusOr<std::unique_ptr<OperationsLog>> Open(OperationsLogOptions options);
  // Writes the counts of refused calls that have not been written.
  ~OperationsLog();
  OperationsLog(const OperationsLog&) = delete;
  OperationsLog& operator=(const OperationsLog&) = delete;

  // Before a call does something: OK once the line is on disk.
  absl::Status Intent(const Operation& operation) ABSL_LOCKS_EXCLUDED(mutex_);
  // `code` as gRPC spells it; `certificate` empty for none.
  absl::Status Outcome(const Operation& operation,
                       absl::string_view code,
                       absl::string_view certificate) ABSL_LOCKS_EXCLUDED(mutex_);
  // `reason` for the operator; must hold nothing of a credential.
  absl::Status Denied(const Operation& operation, absl::string_view code, absl::string_view reason)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Window {
    absl::Time begin;
    uint64_t lines = 0;
    uint64_t more = 0;
  };

  explicit OperationsLog(OperationsLogOptions options);
  absl::Time Now() const;
  // From errno.
  static absl::Status Failed(absl::string_view doing, const std::string& path);
  absl::Status OpenFile() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Rotate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Append(absl::string_view line, bool make_room = false)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AppendOnce(absl::string_view line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lines for the windows that are over at `now`.
  absl::Status CloseWindows(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const OperationsLogOptions options_;
  Mutex mutex_;
  std::shared_ptr<FileDescriptor> file_ ABSL_GUARDED_BY(mutex_);
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // The last line may be there in part: the next one begins on a new line.
  bool torn_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, Window> windows_ ABSL_GUARDED_BY(mutex_);  // by caller
};

}  // namespace lethe::access

#endif  // LETHE_SERVER_ACCESS_OPERATIONS_LOG_H_
