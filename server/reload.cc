#include "server/reload.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/options.h"

namespace lethe::server {
namespace {

// Of which a part of the server takes new values; docs/configuration.md names them too.
constexpr absl::string_view kReloaded[] = {"log-level", "quota", "slow-call"};

}  // namespace

absl::Status Reloader::Apply(const Config& next) const {
  std::vector<std::function<void()>> changes;
  for (const auto& [part, prepare] : parts_) {
    absl::StatusOr<std::function<void()>> change = prepare(next);
    if (!change.ok()) {
      return absl::Status(change.status().code(),
                          absl::StrCat(part, ": ", change.status().message()));
    }
    changes.push_back(*std::move(change));
  }
  for (const std::function<void()>& change : changes) change();
  return absl::OkStatus();
}

std::vector<std::string> NeedRestart(const Config& before, const Config& after) {
  std::vector<std::string> names;
  for (const Option& option : Options()) {
    const bool reloaded =
        std::find(std::begin(kReloaded), std::end(kReloaded), option.name) != std::end(kReloaded);
    if (!reloaded && option.show(before) != option.show(after)) names.push_back(option.name);
  }
  return names;
}

}  // namespace lethe::server
