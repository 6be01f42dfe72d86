// The routes of a listener: patterns of paths, and what is done there.
//
//     /v1/tenants/{tenant}/memories/{memory}:insert
//     /v1/tenants/{tenant}/log/tile/{tile...}
//
// A variable is a whole segment, or all of it before a ":verb"; it matches anything without a ':'
// but nothing, and is decoded afterwards, so that "%2F" in it separates no segments. "{name...}",
// as the last one, matches the rest of the path, with its slashes. Of several patterns that match
// the one added first counts.
//
// Every route names its row in the table of access (server/access/methods.h); one without a row
// there is not served. Threads: Add before the listener starts; then safe.
#ifndef LETHE_SERVER_HTTP_ROUTER_H_
#define LETHE_SERVER_HTTP_ROUTER_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/http/http_call.h"
#include "server/http/http_message.h"

namespace lethe::http {

// What is given to a handler of a route: the request, with its body, and the call at the gate.
using Handler = std::function<absl::StatusOr<HttpResponse>(const HttpRequest&, HttpCall&)>;
// Writes an error in the form that the route's callers expect; with HTTP's code for it, or 0 for
// the one that says the same as the status.
using ErrorWriter = std::function<HttpResponse(const absl::Status&, int code)>;

// For the OpenAPI document, where no RPC's messages say it: names among its schemas.
struct RouteSchemas {
  std::string request;
  std::string answer;
  // Empty: JSON.
  std::string answer_type;
  std::string error;  // empty: "Error"
  int status = 200;
  // That the request may have; headers beside those of every request.
  std::vector<std::string> headers;
  std::vector<std::string> query;
};

struct Route {
  std::string method;  // GET stands for HEAD too
  std::string pattern;
  std::string operation;  // the name of its row in the table of access
  std::string summary;    // a line for the OpenAPI document
  RouteSchemas schemas = {};
  // 0: takes none. A body is JSON unless body_type says otherwise.
  size_t max_body_bytes = 0;
  std::string body_type = kJson;
  Handler handler;
  ErrorWriter error = ErrorResponse;
};

class Router {
 public:
  // Requires a pattern as above, and no route with the same method and pattern.
  void Add(Route route);

  struct Match {
    const Route* route = nullptr;  // null: none
    // With no route: the methods of the patterns that match, for the header Allow; empty where no
    // pattern does.
    std::vector<std::string> allowed;
  };
  // Fills the variables of the request. INVALID_ARGUMENT where one of them cannot be decoded.
  absl::StatusOr<Match> Find(HttpRequest& request) const;

  const std::vector<Route>& routes() const { return routes_; }

 private:
  struct Segment {
    std::string name;   // of a variable; empty: literal
    std::string text;   // literal, or what follows the variable: ":insert"
    bool rest = false;  // "{name...}"
  };
  static std::vector<Segment> Parse(absl::string_view pattern);
  static bool Matches(const std::vector<Segment>& segments,
                      const std::vector<absl::string_view>& path);

  std::vector<Route> routes_;
  std::vector<std::vector<Segment>> segments_;  // of each route
};

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_ROUTER_H_
