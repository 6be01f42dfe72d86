// A progress line on a terminal: redrawn in place at most ten times a second, wiped at the end.
#ifndef LETHE_CLIENT_CLI_PROGRESS_H_
#define LETHE_CLIENT_CLI_PROGRESS_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace lethe::cli {

// "[#########---------]  47 %"
std::string ProgressBar(double fraction, int cells);
// "[#########---------]  47 %   12,345 tokens   8,100/s"; without a fraction, no bar.
std::string ProgressLine(std::optional<double> fraction,
                         uint64_t count,
                         double per_second,
                         absl::string_view unit = "tokens");

class Progress {
 public:
  // Draws nothing unless `enabled`. `total_bytes` 0: unknown. `unit`, of what is counted, must
  // outlive it.
  Progress(std::ostream& stream,
           bool enabled,
           uint64_t total_bytes,
           absl::string_view unit = "tokens");
  ~Progress() { Wipe(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Update(uint64_t consumed_bytes, uint64_t count);
  // Makes room for another message on the same terminal; the next Update draws again.
  void Wipe();
  absl::Duration elapsed() const;

 private:
  std::ostream& stream_;
  const bool enabled_;
  const uint64_t total_bytes_;
  const absl::string_view unit_;
  const absl::Time start_;
  absl::Time drawn_ = absl::InfinitePast();
  bool visible_ = false;
};

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_PROGRESS_H_
