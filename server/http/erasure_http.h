// What the routes for erasure requests share: the resource and its adapters speak of the same
// requests in other words.
#ifndef LETHE_SERVER_HTTP_ERASURE_HTTP_H_
#define LETHE_SERVER_HTTP_ERASURE_HTTP_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/http/callback_policy.h"
#include "server/http/dsr_signer.h"
#include "server/http/http_call.h"
#include "server/http/http_message.h"
#include "server/http/sombra_token.h"
#include "server/service/service.h"

namespace lethe::http {

inline constexpr size_t kMaxErasureBytes = size_t{64} << 10;
// Rows in the table of access that the routes share with the RPCs.
inline constexpr char kCreateErasure[] = "/lethe.v1.ErasureService/CreateErasureRequest";
inline constexpr char kGetErasure[] = "/lethe.v1.ErasureService/GetErasureRequest";
inline constexpr char kCancelErasure[] = "/lethe.v1.ErasureService/CancelErasureRequest";

// All outlive the routes.
struct ErasureHttp {
  service::Service* service = nullptr;
  // Null: nothing is signed, and what must be is not served.
  const DsrKey* dsr = nullptr;
  // Null: what Transcend signs beside its credentials (x-sombra-token) is not looked at.
  const SombraKey* transcend = nullptr;
  // "https://lethe.example", without a slash at the end; empty: as the caller addressed the server.
  std::string public_url;
};

// "pending", "in_progress", "completed", "denied", "cancelled", "failed".
std::string StateName(service::ErasureState state);

// What a request is called outside: "clinic.0123...ef".
std::string PublicId(const service::ErasureRequestInfo& info);
struct RequestName {
  std::string tenant;
  std::string id;
};
// NOT_FOUND where it is none.
absl::StatusOr<RequestName> ParsePublicId(absl::string_view text);

// The tenant from the path, or from ?tenant=, and nothing else in the query; empty for neither.
absl::StatusOr<std::string> TenantOf(const HttpRequest& request);
// Privacy platforms name a person's identifiers with their types, and can give one value under two
// of them; here that is one identity, with the first of the types.
std::vector<service::Identity> WithoutRepetitions(std::vector<service::Identity> identities);

// "https://lethe.example" + path.
std::string UrlOf(const ErasureHttp& http, const HttpRequest& request, absl::string_view path);
std::string StatusUrl(const std::string& base, const service::ErasureRequestInfo& info);

// The time when it ended, or when it is due.
std::string ExpectedTime(const service::ErasureRequestInfo& info);
// 0 where there is none.
int64_t UnixSeconds(const std::string& rfc3339);

// A body that may hold nulls and names that nobody knows here, but none twice. INVALID_ARGUMENT.
absl::StatusOr<nlohmann::json> ParseObject(absl::string_view body);
// Fields of such a body. INVALID_ARGUMENT names "<prefix><name>" where it is no text, or is missing
// and `required`; null counts as missing.
absl::StatusOr<std::string> TextField(const nlohmann::json& object,
                                      absl::string_view prefix,
                                      const char* name,
                                      bool required = true);
// Null for none; INVALID_ARGUMENT for what is no object, or no list.
absl::StatusOr<const nlohmann::json*> ObjectField(const nlohmann::json& object,
                                                  absl::string_view prefix,
                                                  const char* name);
absl::StatusOr<const nlohmann::json*> ListField(const nlohmann::json& object,
                                                absl::string_view prefix,
                                                const char* name);
absl::StatusOr<service::IdentityFormat> ParseFormat(absl::string_view field,
                                                    absl::string_view text);

// What the service said of a request, which calls its addresses callback_urls, in the words of who
// sent it.
absl::Status WithCallbacksNamed(const absl::Status& status, absl::string_view theirs);

// JSON in one line; what is no UTF-8 is replaced.
std::string Text(const nlohmann::ordered_json& json);

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_ERASURE_HTTP_H_
