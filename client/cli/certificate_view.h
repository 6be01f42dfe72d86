// A certificate for people: the signed statement as indented "name  value" lines.
#ifndef LETHE_CLIENT_CLI_CERTIFICATE_VIEW_H_
#define LETHE_CLIENT_CLI_CERTIFICATE_VIEW_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/render.h"

namespace lethe::cli {

// The statement inside a DSSE envelope, not verified. INVALID_ARGUMENT for other bytes.
absl::StatusOr<Json> DecodeStatement(absl::string_view envelope);

// The same with {"f64": bits} replaced by numbers; infinities become the words "inf" and "-inf".
Json ReadableNumbers(const Json& value);

// Text of at most 80 columns, whatever members the statement has.
std::string RenderStatement(const Json& statement);

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_CERTIFICATE_VIEW_H_
