#include "client/cli/progress.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/cli/table.h"

namespace lethe::cli {

std::string ProgressBar(double fraction, int cells) {
  const double part = std::clamp(fraction, 0.0, 1.0);
  const int full = static_cast<int>(part * cells);
  return absl::StrFormat("[%s%s] %3d %%", std::string(static_cast<size_t>(full), '#'),
                         std::string(static_cast<size_t>(cells - full), '-'),
                         static_cast<int>(part * 100.0));
}

std::string ProgressLine(std::optional<double> fraction,
                         uint64_t count,
                         double per_second,
                         absl::string_view unit) {
  std::string line;
  if (fraction.has_value()) {
    line = absl::StrCat(ProgressBar(*fraction, 30), "   ");
  }
  absl::StrAppend(&line, FormatCount(count), " ", unit, "   ",
                  FormatCount(static_cast<uint64_t>(std::max(per_second, 0.0))), "/s");
  return line;
}

Progress::Progress(std::ostream& stream, bool enabled, uint64_t total_bytes, absl::string_view unit)
    : stream_(stream),
      enabled_(enabled),
      total_bytes_(total_bytes),
      unit_(unit),
      start_(absl::Now()) {}

absl::Duration Progress::elapsed() const { return absl::Now() - start_; }

void Progress::Update(uint64_t consumed_bytes, uint64_t count) {
  if (!enabled_) return;
  const absl::Time now = absl::Now();
  if (now - drawn_ < absl::Milliseconds(100)) return;
  drawn_ = now;
  std::optional<double> fraction;
  if (total_bytes_ > 0) {
    fraction = static_cast<double>(consumed_bytes) / static_cast<double>(total_bytes_);
  }
  const double seconds = std::max(absl::ToDoubleSeconds(now - start_), 1e-3);
  stream_ << "\r\033[K"
          << ProgressLine(fraction, count, static_cast<double>(count) / seconds, unit_)
          << std::flush;
  visible_ = true;
}

void Progress::Wipe() {
  if (!visible_) return;
  stream_ << "\r\033[K" << std::flush;
  visible_ = false;
}

}  // namespace lethe::cli
