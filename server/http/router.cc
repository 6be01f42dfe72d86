#include "server/http/router.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace lethe::http {
namespace {

constexpr absl::string_view kRest = "...";

}  // namespace

std::vector<Router::Segment> Router::Parse(absl::string_view pattern) {
  LETHE_CHECK(absl::StartsWith(pattern, "/"));
  std::vector<Segment> segments;
  for (const absl::string_view text : absl::StrSplit(pattern.substr(1), '/')) {
    LETHE_CHECK(segments.empty() || !segments.back().rest);
    Segment segment;
    if (!absl::StartsWith(text, "{")) {
      segment.text = std::string(text);
    } else {
      const size_t end = text.find('}');
      LETHE_CHECK(end != absl::string_view::npos && end > 1);
      absl::string_view name = text.substr(1, end - 1);
      segment.rest = absl::ConsumeSuffix(&name, kRest);
      segment.name = std::string(name);
      segment.text = std::string(text.substr(end + 1));
    }
    segments.push_back(std::move(segment));
  }
  return segments;
}

bool Router::Matches(const std::vector<Segment>& segments,
                     const std::vector<absl::string_view>& path) {
  for (size_t i = 0; i < segments.size(); ++i) {
    if (i >= path.size()) return false;
    const Segment& segment = segments[i];
    if (segment.rest) return !path[i].empty();
    absl::string_view left = path[i];
    const bool here = segment.name.empty() ? left == segment.text
                                           : absl::ConsumeSuffix(&left, segment.text) &&
                                                 !left.empty() && !absl::StrContains(left, ':');
    if (!here) return false;
  }
  return segments.size() == path.size();
}

void Router::Add(Route route) {
  for (const Route& other : routes_) {
    LETHE_CHECK(other.method != route.method || other.pattern != route.pattern);
  }
  segments_.push_back(Parse(route.pattern));
  routes_.push_back(std::move(route));
}

absl::StatusOr<Router::Match> Router::Find(HttpRequest& request) const {
  const std::vector<absl::string_view> path =
      absl::StrSplit(absl::string_view(request.path).substr(1), '/');
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  Match match;
  for (size_t i = 0; i < routes_.size(); ++i) {
    if (!Matches(segments_[i], path)) continue;
    const Route& route = routes_[i];
    if (route.method != method) {
      match.allowed.push_back(route.method);
      if (route.method == "GET") match.allowed.push_back("HEAD");
      continue;
    }
    match.route = &route;
    match.allowed.clear();
    for (size_t at = 0; at < segments_[i].size(); ++at) {
      const Segment& segment = segments_[i][at];
      if (segment.name.empty()) continue;
      std::string text =
          segment.rest
              ? absl::StrJoin(path.begin() + static_cast<std::ptrdiff_t>(at), path.end(), "/")
              : std::string(path[at].substr(0, path[at].size() - segment.text.size()));
      LETHE_ASSIGN_OR_RETURN(request.variables[segment.name], DecodePercent(text));
    }
    return match;
  }
  std::sort(match.allowed.begin(), match.allowed.end());
  match.allowed.erase(std::unique(match.allowed.begin(), match.allowed.end()), match.allowed.end());
  return match;
}

}  // namespace lethe::http
