// From the head of a request, as the library read it, to what routes see of it. Threads: safe.
#ifndef LETHE_SERVER_HTTP_REQUEST_HEAD_H_
#define LETHE_SERVER_HTTP_REQUEST_HEAD_H_

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "absl/status/statusor.h"
#include "server/http/http_message.h"

namespace lethe::http {

using RequestParser = boost::beast::http::request_parser<boost::beast::http::string_body>;

// Method, path, query and headers. Requires a parser that has read a whole head. INVALID_ARGUMENT
// for what the library takes and two readers could understand differently: a header twice that may
// be there once, a length that is no number, Transfer-Encoding other than chunked, no Host, another
// version than 1.1 and 1.0; and for a target that ParseTarget refuses.
absl::StatusOr<HttpRequest> RequestOf(const RequestParser& parser);

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_REQUEST_HEAD_H_
