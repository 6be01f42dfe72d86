#include "server/access/strict_json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace lethe::access {
namespace {

constexpr int kMaxDepth = 16;

}  // namespace

absl::StatusOr<nlohmann::json> ParseStrictObject(absl::string_view text) {
  using Json = nlohmann::json;
  bool strict = true;
  std::vector<std::set<std::string>> seen;
  const auto look = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxDepth) strict = false;
    if (event == Json::parse_event_t::object_start) seen.emplace_back();
    if (event == Json::parse_event_t::object_end) seen.pop_back();
    if (event == Json::parse_event_t::key &&
        !seen.back().insert(parsed.get<std::string>()).second) {
      strict = false;
    }
    return strict;  // false: nothing more is kept
  };
  Json json = Json::parse(text.begin(), text.end(), look, /*allow_exceptions=*/false);
  if (!strict) return absl::InvalidArgumentError("a key twice in an object, or too deep");
  if (!json.is_object()) return absl::InvalidArgumentError("no JSON object");
  return json;
}

}  // namespace lethe::access
