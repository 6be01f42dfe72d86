#include "server/rpc/status.h"

#include <google/protobuf/util/time_util.h>

#include <string>

#include "lethe/internal/error_details.pb.h"
#include "server/calls/error_details.h"

namespace lethe::rpc {
namespace {

template <absl::StatusCode kAbsl, grpc::StatusCode kGrpc>
constexpr bool kSame = static_cast<int>(kAbsl) == static_cast<int>(kGrpc);

static_assert(kSame<absl::StatusCode::kOk, grpc::StatusCode::OK>);
static_assert(kSame<absl::StatusCode::kCancelled, grpc::StatusCode::CANCELLED>);
static_assert(kSame<absl::StatusCode::kUnknown, grpc::StatusCode::UNKNOWN>);
static_assert(kSame<absl::StatusCode::kInvalidArgument, grpc::StatusCode::INVALID_ARGUMENT>);
static_assert(kSame<absl::StatusCode::kDeadlineExceeded, grpc::StatusCode::DEADLINE_EXCEEDED>);
static_assert(kSame<absl::StatusCode::kNotFound, grpc::StatusCode::NOT_FOUND>);
static_assert(kSame<absl::StatusCode::kAlreadyExists, grpc::StatusCode::ALREADY_EXISTS>);
static_assert(kSame<absl::StatusCode::kPermissionDenied, grpc::StatusCode::PERMISSION_DENIED>);
static_assert(kSame<absl::StatusCode::kResourceExhausted, grpc::StatusCode::RESOURCE_EXHAUSTED>);
static_assert(kSame<absl::StatusCode::kFailedPrecondition, grpc::StatusCode::FAILED_PRECONDITION>);
static_assert(kSame<absl::StatusCode::kAborted, grpc::StatusCode::ABORTED>);
static_assert(kSame<absl::StatusCode::kOutOfRange, grpc::StatusCode::OUT_OF_RANGE>);
static_assert(kSame<absl::StatusCode::kUnimplemented, grpc::StatusCode::UNIMPLEMENTED>);
static_assert(kSame<absl::StatusCode::kInternal, grpc::StatusCode::INTERNAL>);
static_assert(kSame<absl::StatusCode::kUnavailable, grpc::StatusCode::UNAVAILABLE>);
static_assert(kSame<absl::StatusCode::kDataLoss, grpc::StatusCode::DATA_LOSS>);
static_assert(kSame<absl::StatusCode::kUnauthenticated, grpc::StatusCode::UNAUTHENTICATED>);

template <typename Detail>
void AddDetail(const Detail& detail, const char* name, internal::Status& status) {
  google::protobuf::Any* any = status.add_details();
  any->set_type_url(std::string("type.googleapis.com/google.rpc.") + name);
  detail.SerializeToString(any->mutable_value());
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status, absl::string_view request_id) {
  if (status.ok()) return grpc::Status::OK;
  internal::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(std::string(status.message()));
  const calls::ErrorDetails known = calls::DetailsOf(status);
  if (!known.field.empty()) {
    internal::BadRequest bad;
    internal::BadRequest::FieldViolation* violation = bad.add_field_violations();
    violation->set_field(known.field);
    violation->set_description(known.description);
    AddDetail(bad, "BadRequest", details);
  }
  if (known.retry_delay.has_value()) {
    internal::RetryInfo retry;
    *retry.mutable_retry_delay() = google::protobuf::util::TimeUtil::MillisecondsToDuration(
        absl::ToInt64Milliseconds(*known.retry_delay));
    AddDetail(retry, "RetryInfo", details);
  }
  if (!request_id.empty()) {
    internal::RequestInfo request;
    request.set_request_id(std::string(request_id));
    AddDetail(request, "RequestInfo", details);
  }
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), details.message(),
                      details.details().empty() ? std::string() : details.SerializeAsString());
}

}  // namespace lethe::rpc
