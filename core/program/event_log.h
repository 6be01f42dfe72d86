// Structured log: one JSON object a line with time, level, event and the fields that the caller
// names.
//
// Never pass keys, values, subjects, token ids or payloads: a log outlives every erasure. Names of
// tenants and memories, ids of certificates, counts, codes and paths are what it is for.
#ifndef LETHE_CORE_PROGRAM_EVENT_LOG_H_
#define LETHE_CORE_PROGRAM_EVENT_LOG_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/mutex.h"

namespace lethe::program {

enum class LogLevel : uint8_t { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3 };

// "debug", "info", "warning", "error"; INVALID_ARGUMENT for anything else.
absl::StatusOr<LogLevel> ParseLogLevel(absl::string_view name);
absl::string_view LogLevelName(LogLevel level);

struct LogField {
  std::string name;
  std::variant<std::string, int64_t, double> value;
};

// Threads: safe.
class EventLog {
 public:
  // Writes lines of `level` and above to the file descriptor, each with one write() so that lines
  // of several threads never mix. Does not own the descriptor. -1 drops every line.
  EventLog(int file_descriptor, LogLevel level) : fd_(file_descriptor), level_(level) {}

  void Write(LogLevel level, absl::string_view event, std::initializer_list<LogField> fields = {}) {
    Write(level, event, std::span(fields.begin(), fields.size()));
  }
  void Write(LogLevel level, absl::string_view event, std::span<const LogField> fields)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Lines of this level so far, whether or not they were written.
  uint64_t lines(LogLevel level) const { return lines_[static_cast<size_t>(level)].load(); }
  // Whether a line of this level would be written: for who has to compute its fields first.
  bool Writes(LogLevel level) const { return fd_ >= 0 && level >= level_.load(); }
  LogLevel level() const { return level_.load(); }
  void SetLevel(LogLevel level) { level_ = level; }

 private:
  Mutex mutex_;
  const int fd_;
  std::atomic<LogLevel> level_;
  std::array<std::atomic<uint64_t>, 4> lines_ = {};
};

}  // namespace lethe::program

#endif  // LETHE_CORE_PROGRAM_EVENT_LOG_H_
