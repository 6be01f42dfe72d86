#include "server/http/http_message.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "server/calls/error_details.h"

namespace lethe::http {
namespace {

constexpr size_t kMaxQueryItems = 32;

bool IsControl(unsigned char c) { return c < 0x20 || c == 0x7f; }

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

absl::string_view HttpRequest::Header(absl::string_view name) const {
  absl::string_view found;
  for (const auto& [key, value] : headers) {
    if (key != name) continue;
    if (found.data() != nullptr) return "";
    found = value;
  }
  return found;
}

size_t HttpRequest::HeaderCount(absl::string_view name) const {
  return static_cast<size_t>(std::count_if(headers.begin(), headers.end(),
                                           [&](const auto& item) { return item.first == name; }));
}

std::string HttpRequest::Variable(absl::string_view name) const {
  const auto found = variables.find(name);
  return found == variables.end() ? std::string() : found->second;
}

absl::StatusOr<std::string> DecodePercent(absl::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? HexDigit(text[i + 2]) : -1;
      if (high < 0 || low < 0) return absl::InvalidArgumentError("target: has a broken %XX");
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (IsControl(static_cast<unsigned char>(c))) {
      return absl::InvalidArgumentError("target: has a control character");
    }
    decoded += c;
  }
  return decoded;
}

absl::Status ParseTarget(absl::string_view target, HttpRequest& request) {
  for (const char c : target) {
    if (c <= 0x20 || c == 0x7f || c == '#' || c == '\\') {
      return absl::InvalidArgumentError("target: has a character that needs an escape");
    }
  }
  const size_t mark = target.find('?');
  const absl::string_view path = target.substr(0, mark);
  if (path.empty() || path.front() != '/') {
    return absl::InvalidArgumentError("target: must be a path that begins with '/'");
  }
  for (const absl::string_view segment : absl::StrSplit(path, '/')) {
    if (segment == "." || segment == "..") {
      return absl::InvalidArgumentError("target: has a segment of dots");
    }
  }
  LETHE_RETURN_IF_ERROR(DecodePercent(path).status());
  request.path = std::string(path);
  request.query.clear();
  if (mark == absl::string_view::npos) return absl::OkStatus();
  for (const absl::string_view item : absl::StrSplit(target.substr(mark + 1), '&')) {
    if (item.empty()) continue;
    if (request.query.size() == kMaxQueryItems) {
      return absl::InvalidArgumentError("target: its query has too many items");
    }
    const size_t equals = item.find('=');
    LETHE_ASSIGN_OR_RETURN(std::string name, DecodePercent(item.substr(0, equals)));
    std::string value;
    if (equals != absl::string_view::npos) {
      LETHE_ASSIGN_OR_RETURN(value, DecodePercent(item.substr(equals + 1)));
    }
    request.query.emplace_back(std::move(name), std::move(value));
  }
  return absl::OkStatus();
}

int HttpCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kFailedPrecondition:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kCancelled:
      return 499;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

HttpResponse ErrorResponse(const absl::Status& status, int code) {
  LETHE_CHECK(!status.ok());
  HttpResponse response;
  response.status = code != 0 ? code : HttpCode(status);
  const std::string message(status.message());
  nlohmann::ordered_json error = {{"code", response.status},
                                  {"status", absl::StatusCodeToString(status.code())},
                                  {"message", message},
                                  {"details", nlohmann::ordered_json::array()}};
  const calls::ErrorDetails details = calls::DetailsOf(status);
  if (!details.field.empty()) {
    error["details"].push_back(
        {{"@type", "type.googleapis.com/google.rpc.BadRequest"},
         {"fieldViolations", {{{"field", details.field}, {"description", details.description}}}}});
  }
  if (details.retry_delay.has_value()) {
    error["details"].push_back(
        {{"@type", "type.googleapis.com/google.rpc.RetryInfo"},
         {"retryDelay", absl::StrFormat("%.3fs", absl::ToDoubleSeconds(*details.retry_delay))}});
  }
  const nlohmann::ordered_json body = {{"error", std::move(error)}};
  // Whatever a message holds, it is sent.
  response.body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  response.body += '\n';
  if (response.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace lethe::http
