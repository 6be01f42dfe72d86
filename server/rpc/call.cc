#include "server/rpc/call.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/time/clock.h"
#include "audit/encoding.h"
#include "audit/random.h"
#include "server/rpc/status.h"
#include "server/service/names.h"

namespace lethe::rpc {
namespace {

constexpr char kRequestId[] = "x-request-id";
constexpr char kTraceParent[] = "traceparent";
constexpr size_t kRandomIdBytes = 16;

// The only value of this metadata; empty when there is none, or several.
absl::string_view OnlyValue(const grpc::ServerContextBase& context, const char* key) {
  const auto [begin, end] = context.client_metadata().equal_range(key);
  if (begin == end || std::next(begin) != end) return "";
  return {begin->second.data(), begin->second.size()};
}

bool IsLowerHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool AllZero(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c == '0'; });
}

// Failures of the server, or of what it may take; all others are answers.
bool IsOurs(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
      return true;
    default:
      return false;
  }
}

std::string RequestIdOf(const grpc::ServerContextBase& context) {
  const absl::string_view id = OnlyValue(context, kRequestId);
  return IsRequestId(id) ? std::string(id) : audit::Hex(audit::RandomBytes(kRandomIdBytes));
}

}  // namespace

bool IsRequestId(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxRequestIdBytes &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' ||
                  c == ':' || c == '-';
         });
}

bool IsTraceParent(absl::string_view text) {
  // version "-" trace-id "-" parent-id "-" flags
  constexpr size_t kVersion = 2;
  constexpr size_t kTraceId = 32;
  constexpr size_t kParentId = 16;
  constexpr size_t kBytes = kVersion + 1 + kTraceId + 1 + kParentId + 1 + 2;
  constexpr size_t kMaxBytes = 128;
  if (text.size() < kBytes || text.size() > kMaxBytes) return false;
  const absl::string_view version = text.substr(0, kVersion);
  const absl::string_view trace = text.substr(kVersion + 1, kTraceId);
  const absl::string_view parent = text.substr(kVersion + kTraceId + 2, kParentId);
  const absl::string_view flags = text.substr(kBytes - 2, 2);
  if (text[kVersion] != '-' || text[kVersion + kTraceId + 1] != '-' || text[kBytes - 3] != '-' ||
      !IsLowerHex(version) || version == "ff" || !IsLowerHex(trace) || AllZero(trace) ||
      !IsLowerHex(parent) || AllZero(parent) || !IsLowerHex(flags)) {
    return false;
  }
  if (text.size() == kBytes) return true;
  // Later versions may have more behind; it must be fit for a line of the log.
  return version != "00" && text[kBytes] == '-' &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-';
         });
}

bool LineLimit::Take(int64_t second, int64_t* left_out) {
  *left_out = 0;
  int64_t known = second_.load();
  if (known != second && second_.compare_exchange_strong(known, second)) {
    lines_ = 0;
    *left_out = left_out_.exchange(0);
  }
  if (lines_.fetch_add(1) < kLinesASecond) return true;
  left_out_.fetch_add(1);
  return false;
}

MethodCalls::MethodCalls(const CallHooks& hooks, const google::protobuf::MethodDescriptor* method)
    : hooks_(hooks),
      entry_(MethodEntry::Of(method)),
      stream_(method->client_streaming() || method->server_streaming()) {
  if (hooks_.observer != nullptr) {
    observer_ = hooks_.observer->ForMethod(method->service()->full_name(), method->name(), stream_);
  }
}

ServedCall::ServedCall(grpc::ServerContextBase* context, const MethodCalls* method)
    : method_(method),
      begin_(absl::Now()),
      request_id_(RequestIdOf(*context)),
      admission_(method->hooks().gate, &method->entry(), context, request_id_) {
  if (method_->observer() != nullptr) method_->observer()->Started();
  context->AddInitialMetadata(kRequestId, request_id_);
  if (const absl::string_view trace = OnlyValue(*context, kTraceParent); IsTraceParent(trace)) {
    trace_parent_ = std::string(trace);
    context->AddInitialMetadata(kTraceParent, trace_parent_);
  }
}

ServedCall::~ServedCall() {
  if (!finished_) Finish(absl::CancelledError("the caller is gone"));
}

absl::Status ServedCall::Admit(const google::protobuf::Message& request) {
  const MethodEntry& entry = method_->entry();
  const auto text = [&](const google::protobuf::FieldDescriptor* field) {
    return field == nullptr ? std::string() : request.GetReflection()->GetString(request, field);
  };
  return Admit(text(entry.tenant), text(entry.memory));
}

absl::Status ServedCall::Admit(absl::string_view tenant, absl::string_view memory) {
  if (tenant_.empty()) About(tenant, memory);
  return admission_.Admit(tenant, memory);
}

void ServedCall::About(absl::string_view tenant, absl::string_view memory) {
  // Anything may stand where a name should; only names are written to the log.
  if (!service::CheckName("tenant", tenant).ok()) return;
  tenant_ = std::string(tenant);
  if (service::CheckName("memory", memory).ok()) memory_ = std::string(memory);
}

grpc::Status ServedCall::Finish(const absl::Status& status) {
  finished_ = true;
  const absl::Time now = absl::Now();
  const absl::Duration duration = std::max(now - begin_, absl::ZeroDuration());
  if (method_->observer() != nullptr) method_->observer()->Ended(status.code(), duration);
  const CallHooks& hooks = method_->hooks();
  if (hooks.log != nullptr) {
    const bool failed = IsOurs(status.code());
    const bool slow = !method_->stream() && duration >= hooks.slow;
    int64_t left_out = 0;
    if ((failed || slow) && hooks.lines != nullptr &&
        hooks.lines->Take(absl::ToUnixSeconds(now), &left_out)) {
      if (left_out > 0) {
        hooks.log->Write(service::LogLevel::kWarning, "calls_not_logged", {{"calls", left_out}});
      }
      Log(service::LogLevel::kWarning, failed ? "call_failed" : "call_slow", status.code(),
          duration);
    } else {
      Log(service::LogLevel::kDebug, "call", status.code(), duration);
    }
  }
  return ToGrpc(status, request_id_);
}

void ServedCall::Log(service::LogLevel level,
                     absl::string_view event,
                     absl::StatusCode code,
                     absl::Duration duration) const {
  service::EventLog& log = *method_->hooks().log;
  if (!log.Writes(level)) return;
  std::vector<service::LogField> fields = {{"request_id", request_id_},
                                           {"method", method_->entry().name.substr(1)},
                                           {"code", absl::StatusCodeToString(code)},
                                           {"milliseconds", absl::ToDoubleMilliseconds(duration)}};
  if (!tenant_.empty()) fields.push_back({"tenant", tenant_});
  if (!memory_.empty()) fields.push_back({"memory", memory_});
  if (const absl::string_view caller = admission_.caller(); !caller.empty()) {
    fields.push_back({"caller", std::string(caller)});
  }
  if (!trace_parent_.empty()) fields.push_back({"traceparent", trace_parent_});
  log.Write(level, event, fields);
}

}  // namespace lethe::rpc
