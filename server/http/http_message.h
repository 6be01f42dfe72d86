// What a route is asked and what it answers, without any idea of the library below. Threads:
// values.
#ifndef LETHE_SERVER_HTTP_HTTP_MESSAGE_H_
#define LETHE_SERVER_HTTP_HTTP_MESSAGE_H_

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lethe::http {

inline constexpr char kPlainText[] = "text/plain; charset=utf-8";
inline constexpr char kJson[] = "application/json";

// A request whose head is well formed.
struct HttpRequest {
  std::string method;
  std::string path;  // as it was sent: "/v1/tenants/a%2Db"
  // Decoded, in the order of the target.
  std::vector<std::pair<std::string, std::string>> query;
  // In the order of arrival; names in lower case, values as they came.
  std::vector<std::pair<std::string, std::string>> headers;
  // The variables of the route's pattern, decoded.
  std::map<std::string, std::string, std::less<>> variables;
  std::string body;
  bool encrypted = false;
  // The client's certificate in PEM, verified by the handshake; empty for none.
  std::string certificate;

  // The value of a header (`name` in lower case); empty where there is none, or more than one.
  absl::string_view Header(absl::string_view name) const;
  size_t HeaderCount(absl::string_view name) const;
  // A variable of the pattern, empty where it has none of this name.
  std::string Variable(absl::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string type = kJson;
  std::string body;
  // More of them; Cache-Control is no-store unless it is here.
  std::vector<std::pair<std::string, std::string>> headers;
};

// Fills path and query from what stands between method and version. INVALID_ARGUMENT unless it is a
// path that begins with '/' and has no segment of dots, with a query or without, all of it
// printable ASCII with whole escapes (DecodePercent).
absl::Status ParseTarget(absl::string_view target, HttpRequest& request);

// What each "%XX" stands for. INVALID_ARGUMENT for a broken one, or one of a control character.
absl::StatusOr<std::string> DecodePercent(absl::string_view text);

// The HTTP code that says the same as the status.
int HttpCode(const absl::Status& status);

// The status in the way of google.rpc, as {"error":{"code":400,"status":"INVALID_ARGUMENT",
// "message":"...","details":[...]}}; the details name the field where the message does. Requires a
// status that is not OK. `code`: HTTP's, 0 for HttpCode's.
HttpResponse ErrorResponse(const absl::Status& status, int code = 0);

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_HTTP_MESSAGE_H_
