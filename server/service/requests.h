// Requests that erase, by their id: what the store keeps so that a repeated request gets the first
// answer, and a reused id is told from a repetition.
//
// Neither the request id nor what it asked for is kept. The fingerprint is keyed with the request
// id, so whoever does not know the id cannot test a guess of ids, subject or content. Threads:
// functions without state.
#ifndef LETHE_SERVER_SERVICE_REQUESTS_H_
#define LETHE_SERVER_SERVICE_REQUESTS_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/strings/string_view.h"
#include "audit/hash.h"
#include "server/service/types.h"
#include "store/tenant_store.h"

namespace lethe::service {

struct Request {
  std::string id;  // empty: the client gave none, and nothing is kept
  std::string memory;
  std::string content;  // ContentOf
};

// The kind of a request and all that it asks for, as bytes. Ids of a Forget count as a set; tokens
// of an Edit by their plain leaves, in order.
std::string ContentOf(const ForgetInput& input);
std::string ContentOf(const EvictInput& input);
std::string ContentOfEdit(std::span<const audit::Digest> plain_leaves);

// What the store knows a request by.
std::string RequestKey(absl::string_view request_id);

audit::Digest Fingerprint(const Request& request, absl::string_view memory_uid);

// Requires an id.
store::RequestRecord MakeRequest(const Request& request,
                                 const std::string& memory_uid,
                                 const Answer& reply,
                                 int64_t now_micros);

// Ids in ascending order, each once.
std::vector<std::string> SortedDistinct(std::vector<std::string> ids);

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_REQUESTS_H_
