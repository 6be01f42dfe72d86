#include "server/rpc/status.h"

#include <string>

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

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const absl::string_view message = status.message();
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      std::string(message.data(), message.size()));
}

}  // namespace lethe::rpc
