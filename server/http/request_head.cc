#include "server/http/request_head.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace lethe::http {
namespace {

// Two of them would be two opinions.
constexpr std::array<absl::string_view, 8> kOnlyOnce = {
    "host",           "authorization",     "content-type",    "content-encoding",
    "content-length", "transfer-encoding", "idempotency-key", "expect"};

absl::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

absl::StatusOr<HttpRequest> RequestOf(const RequestParser& parser) {
  const auto& head = parser.get();
  HttpRequest request;
  request.method = std::string(View(head.method_string()));
  if (head.version() != 11 && head.version() != 10) {
    return absl::InvalidArgumentError("version: only HTTP/1.1 and HTTP/1.0 are spoken here");
  }
  if (absl::Status target = ParseTarget(View(head.target()), request); !target.ok()) return target;
  for (const auto& field : head) {
    std::string name = absl::AsciiStrToLower(View(field.name_string()));
    request.headers.emplace_back(std::move(name), std::string(View(field.value())));
  }
  for (const absl::string_view name : kOnlyOnce) {
    if (request.HeaderCount(name) > 1) {
      return absl::InvalidArgumentError(absl::StrCat(std::string(name), ": is there twice"));
    }
  }
  // The library takes "4, 4", the same length twice.
  const absl::string_view length = request.Header("content-length");
  if (!std::all_of(length.begin(), length.end(), absl::ascii_isdigit)) {
    return absl::InvalidArgumentError("content-length: is no number");
  }
  if (head.version() == 11 && request.HeaderCount("host") == 0) {
    return absl::InvalidArgumentError("host: is missing");
  }
  if (request.HeaderCount("transfer-encoding") > 0 &&
      (head.version() == 10 || !parser.chunked() ||
       !absl::EqualsIgnoreCase(request.Header("transfer-encoding"), "chunked"))) {
    return absl::InvalidArgumentError("transfer-encoding: only chunked is taken");
  }
  return request;
}

}  // namespace lethe::http
