#include "server/service/requests.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "audit/encoding.h"
#include "server/service/blob.h"
#include "server/service/records.h"

namespace lethe::service {
std::vector<std::string> SortedDistinct(std::vector<std::string> ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

std::string ContentOf(const ForgetInput& input) {
  std::string content;
  if (const auto* ids = std::get_if<ForgetIds>(&input.target)) {
    content.push_back('i');
    for (const std::string& id : SortedDistinct(ids->ids)) AppendText(content, id);
  } else if (const auto* subject = std::get_if<ForgetSubject>(&input.target)) {
    content.push_back('s');
    AppendText(content, subject->subject);
  } else {
    content.push_back('e');
  }
  return content;
}

std::string ContentOf(const EvictInput& input) {
  std::string content = "b";
  audit::AppendU64(content, input.budget);
  return content;
}

std::string ContentOfEdit(std::span<const audit::Digest> plain_leaves) {
  std::string content = "c";
  for (const audit::Digest& leaf : plain_leaves) absl::StrAppend(&content, audit::AsBytes(leaf));
  return content;
}

std::string RequestKey(absl::string_view request_id) {
  constexpr absl::string_view kDomain("lethe/request-id/v1\0", 20);
  return audit::Hex(audit::Sha256(absl::StrCat(kDomain, request_id)));
}

audit::Digest Fingerprint(const Request& request, absl::string_view memory_uid) {
  std::string content;
  AppendText(content, request.memory);
  AppendText(content, memory_uid);
  content += request.content;
  return audit::HmacSha256(request.id, content);
}

store::RequestRecord MakeRequest(const Request& request,
                                 const std::string& memory_uid,
                                 const Answer& reply,
                                 int64_t now_micros) {
  return {.request_id = RequestKey(request.id),
          .fingerprint = Fingerprint(request, memory_uid),
          .answer = EncodeAnswer({.memory_uid = memory_uid, .reply = reply}),
          .create_time_micros = now_micros};
}

}  // namespace lethe::service
