// What a running server takes from new settings: the parts that can be changed register here, and
// either all of them change or none.
//
// Threads: compatible.
#ifndef LETHE_SERVER_RELOAD_H_
#define LETHE_SERVER_RELOAD_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/config.h"

namespace lethe::server {

class Reloader {
 public:
  // Reads and checks what the part needs, and changes nothing. What it returns makes the change,
  // and cannot fail.
  using Prepare = std::function<absl::StatusOr<std::function<void()>>(const Config& next)>;

  void Add(std::string part, Prepare prepare) {
    parts_.emplace_back(std::move(part), std::move(prepare));
  }
  // The first error of a part, with its name, and nothing has changed then.
  absl::Status Apply(const Config& next) const;

 private:
  std::vector<std::pair<std::string, Prepare>> parts_;
};

// The names of the options that differ and take effect with a restart only.
std::vector<std::string> NeedRestart(const Config& before, const Config& after);

}  // namespace lethe::server

#endif  // LETHE_SERVER_RELOAD_H_
