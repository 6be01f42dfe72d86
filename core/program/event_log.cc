#include "core/program/event_log.h"

#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace lethe::program {

absl::StatusOr<LogLevel> ParseLogLevel(absl::string_view name) {
  for (const LogLevel level :
       {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
    if (name == LogLevelName(level)) return level;
  }
  return absl::InvalidArgumentError("log level: must be debug, info, warning or error");
}

absl::string_view LogLevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "error";
}

void EventLog::Write(LogLevel level, absl::string_view event, std::span<const LogField> fields) {
  ++lines_[static_cast<size_t>(level)];
  if (!Writes(level)) return;
  nlohmann::ordered_json line;
  line["time"] = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone());
  line["level"] = std::string(LogLevelName(level));
  line["event"] = std::string(event);
  for (const LogField& field : fields) {
    std::visit([&](const auto& value) { line[field.name] = value; }, field.value);
  }
  // Text from the environment (paths, system messages) need not be UTF-8.
  std::string text = line.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
  text.push_back('\n');
  MutexLock lock(mutex_);
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(fd_, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // a log that cannot be written must not stop a program
    done += static_cast<size_t>(written);
  }
}

}  // namespace lethe::program
