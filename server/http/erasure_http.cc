#include "server/http/erasure_http.h"

#include <algorithm>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/status_macros.h"
#include "server/access/strict_json.h"

namespace lethe::http {
namespace {

absl::Status FieldError(absl::string_view prefix, const char* name, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(prefix, name, ": ", what));
}

absl::StatusOr<const nlohmann::json*> Structure(const nlohmann::json& object,
                                                absl::string_view prefix,
                                                const char* name,
                                                bool list) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return nullptr;
  if (list ? !found->is_array() : !found->is_object()) {
    return FieldError(prefix, name, list ? "must be a list" : "must be an object");
  }
  return &*found;
}

}  // namespace

std::string StateName(service::ErasureState state) {
  switch (state) {
    case service::ErasureState::kPending:
      return "pending";
    case service::ErasureState::kInProgress:
      return "in_progress";
    case service::ErasureState::kCompleted:
      return "completed";
    case service::ErasureState::kDenied:
      return "denied";
    case service::ErasureState::kCancelled:
      return "cancelled";
    case service::ErasureState::kFailed:
      return "failed";
  }
  return "unknown";
}

std::string PublicId(const service::ErasureRequestInfo& info) {
  return absl::StrCat(info.tenant, ".", info.id);
}

absl::StatusOr<RequestName> ParsePublicId(absl::string_view text) {
  const size_t dot = text.find('.');
  if (dot == absl::string_view::npos || dot == 0 || dot + 1 == text.size()) {
    return absl::NotFoundError("there is no such erasure request");
  }
  return RequestName{std::string(text.substr(0, dot)), std::string(text.substr(dot + 1))};
}

absl::StatusOr<std::string> TenantOf(const HttpRequest& request) {
  std::string tenant = request.Variable("tenant");
  for (const auto& [name, value] : request.query) {
    if (name != "tenant" || !tenant.empty()) {
      return absl::InvalidArgumentError("target: only ?tenant= is known here, once");
    }
    tenant = value;
  }
  return tenant;
}

std::vector<service::Identity> WithoutRepetitions(std::vector<service::Identity> identities) {
  std::vector<service::Identity> kept;
  for (service::Identity& identity : identities) {
    const bool there = std::ranges::any_of(kept, [&](const service::Identity& other) {
      return other.format == identity.format && other.value == identity.value;
    });
    if (!there) kept.push_back(std::move(identity));
  }
  return kept;
}

std::string UrlOf(const ErasureHttp& http, const HttpRequest& request, absl::string_view path) {
  if (!http.public_url.empty()) return absl::StrCat(http.public_url, path);
  return absl::StrCat(request.encrypted ? "https://" : "http://",
                      std::string(request.Header("host")), path);
}

std::string StatusUrl(const std::string& base, const service::ErasureRequestInfo& info) {
  return absl::StrCat(base, "/v1/erasure-requests/", PublicId(info));
}

std::string ExpectedTime(const service::ErasureRequestInfo& info) {
  return info.end_time.empty() ? info.due_time : info.end_time;
}

int64_t UnixSeconds(const std::string& rfc3339) {
  absl::Time time;
  std::string error;
  return absl::ParseTime(absl::RFC3339_full, rfc3339, &time, &error) ? absl::ToUnixSeconds(time)
                                                                     : 0;
}

absl::StatusOr<nlohmann::json> ParseObject(absl::string_view body) {
  absl::StatusOr<nlohmann::json> object = access::ParseStrictObject(body);
  if (object.ok()) return object;
  return absl::InvalidArgumentError(absl::StrCat("body: is no JSON object as it is wanted: ",
                                                 std::string(object.status().message())));
}

absl::StatusOr<std::string> TextField(const nlohmann::json& object,
                                      absl::string_view prefix,
                                      const char* name,
                                      bool required) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) {
    if (required) return FieldError(prefix, name, "is missing");
    return std::string();
  }
  if (!found->is_string()) return FieldError(prefix, name, "must be a text");
  return found->get<std::string>();
}

absl::StatusOr<const nlohmann::json*> ObjectField(const nlohmann::json& object,
                                                  absl::string_view prefix,
                                                  const char* name) {
  return Structure(object, prefix, name, false);
}

absl::StatusOr<const nlohmann::json*> ListField(const nlohmann::json& object,
                                                absl::string_view prefix,
                                                const char* name) {
  return Structure(object, prefix, name, true);
}

absl::StatusOr<service::IdentityFormat> ParseFormat(absl::string_view field,
                                                    absl::string_view text) {
  if (text == "raw") return service::IdentityFormat::kRaw;
  if (text == "sha256") return service::IdentityFormat::kSha256;
  if (text == "sha1") return service::IdentityFormat::kSha1;
  if (text == "md5") return service::IdentityFormat::kMd5;
  return absl::InvalidArgumentError(absl::StrCat(field, ": must be raw, sha256, sha1 or md5"));
}

absl::Status WithCallbacksNamed(const absl::Status& status, absl::string_view theirs) {
  absl::string_view rest = status.message();
  if (!absl::ConsumePrefix(&rest, "callback_urls")) return status;
  absl::Status renamed(status.code(), absl::StrCat(theirs, rest));
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { renamed.SetPayload(url, payload); });
  return renamed;
}

std::string Text(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace lethe::http
