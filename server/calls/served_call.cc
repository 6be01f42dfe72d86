#include "server/calls/served_call.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "audit/encoding.h"
#include "audit/random.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "server/service/names.h"

namespace lethe::calls {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr size_t kRandomIdBytes = 16;

const FieldDescriptor* StringField(const google::protobuf::Descriptor* message,
                                   absl::string_view name) {
  const FieldDescriptor* field = message->FindFieldByName(std::string(name));
  const bool is_string =
      field != nullptr && field->type() == FieldDescriptor::TYPE_STRING && !field->is_repeated();
  return is_string ? field : nullptr;
}

std::string Text(const Message& message, const FieldDescriptor* field) {
  return field == nullptr ? std::string() : message.GetReflection()->GetString(message, field);
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

const google::protobuf::MethodDescriptor* FindRpc(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, "/")) return nullptr;
  return google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
      absl::StrReplaceAll(name, {{"/", "."}}));
}

}  // namespace

std::string NameOf(const google::protobuf::MethodDescriptor* method) {
  return absl::StrCat("/", method->service()->full_name(), "/", method->name());
}

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

MethodCalls::MethodCalls(const CallHooks& hooks,
                         std::string name,
                         const google::protobuf::MethodDescriptor* method)
    : hooks_(hooks), name_(std::move(name)), row_(access::FindMethod(name_)) {
  if (method == nullptr) {
    if (hooks_.observer != nullptr) observer_ = hooks_.observer->ForMethod("http", name_, stream_);
    return;
  }
  stream_ = method->client_streaming() || method->server_streaming();
  certificate_ = StringField(method->output_type(), "certificate_id");
  if (hooks_.observer != nullptr) {
    observer_ = hooks_.observer->ForMethod(method->service()->full_name(), method->name(), stream_);
  }
  if (row_ == nullptr) return;
  if (!row_->tenant_field.empty()) {
    tenant_ = StringField(method->input_type(), row_->tenant_field);
    LETHE_CHECK(tenant_ != nullptr);
  }
  if (!row_->switch_field.empty()) {
    switch_ = method->input_type()->FindFieldByName(std::string(row_->switch_field));
    LETHE_CHECK(switch_ != nullptr && switch_->type() == FieldDescriptor::TYPE_BOOL &&
                !switch_->is_repeated());
  }
  if (!row_->memory_field.empty()) {
    memory_ = StringField(method->input_type(), row_->memory_field);
    LETHE_CHECK(memory_ != nullptr);
  }
}

MethodCalls::MethodCalls(const CallHooks& hooks, const google::protobuf::MethodDescriptor* method)
    : MethodCalls(hooks, NameOf(method), method) {}

MethodCalls::MethodCalls(const CallHooks& hooks, absl::string_view operation)
    : MethodCalls(hooks, std::string(operation), FindRpc(operation)) {}

std::string MethodCalls::TenantOf(const Message& request) const { return Text(request, tenant_); }
std::string MethodCalls::MemoryOf(const Message& request) const { return Text(request, memory_); }
bool MethodCalls::SwitchOf(const Message& request) const {
  return switch_ != nullptr && request.GetReflection()->GetBool(request, switch_);
}
std::string MethodCalls::CertificateOf(const Message& response) const {
  return Text(response, certificate_);
}

ServedCall::ServedCall(const MethodCalls* method,
                       const CallHeaders& headers,
                       const std::function<access::Credentials()>& credentials)
    : method_(method),
      begin_(absl::Now()),
      request_id_(IsRequestId(headers.request_id) ? headers.request_id
                                                  : audit::Hex(audit::RandomBytes(kRandomIdBytes))),
      trace_parent_(IsTraceParent(headers.trace_parent) ? headers.trace_parent : ""),
      call_(*method->hooks().gate, method->row(), method->name(), request_id_, credentials) {
  if (method_->observer() != nullptr) method_->observer()->Started();
}

ServedCall::~ServedCall() {
  if (!finished_) Finish(absl::CancelledError("the caller is gone"));
}

absl::Status ServedCall::Admit(const Message& request) {
  return Admit(method_->TenantOf(request), method_->MemoryOf(request), method_->SwitchOf(request));
}

absl::Status ServedCall::Admit(absl::string_view tenant, absl::string_view memory, bool switched) {
  if (tenant_.empty()) About(tenant, memory);
  LETHE_RETURN_IF_ERROR(call_.Admit(tenant, memory, switched));
  service::Quotas* quotas = method_->hooks().quotas;
  if (!method_->stream() || in_place_ || quotas == nullptr) return absl::OkStatus();
  // A call of the whole server names a tenant for the record alone.
  if (method_->row() == nullptr || method_->row()->scope == access::Scope::kServer) {
    return absl::OkStatus();
  }
  // Text that is no name is refused behind this.
  if (!service::CheckName("tenant", tenant).ok()) return absl::OkStatus();
  LETHE_ASSIGN_OR_RETURN(place_, quotas->EnterStream(std::string(tenant)));
  in_place_ = true;
  return absl::OkStatus();
}

absl::Status ServedCall::Answer(absl::Status status, const Message& response) {
  const std::string certificate = status.ok() ? method_->CertificateOf(response) : std::string();
  return Answer(std::move(status), certificate);
}

absl::Status ServedCall::Answer(absl::Status status, absl::string_view certificate) {
  call_.Finish(status, certificate);
  return status;
}

service::TenantFilter ServedCall::Sees() const {
  if (!method_->hooks().gate->guarded()) return {};
  return [this](absl::string_view tenant) { return call_.Sees(tenant); };
}

void ServedCall::About(absl::string_view tenant, absl::string_view memory) {
  // Anything may stand where a name should; only names are written to the log.
  if (!service::CheckName("tenant", tenant).ok()) return;
  tenant_ = std::string(tenant);
  if (service::CheckName("memory", memory).ok()) memory_ = std::string(memory);
}

void ServedCall::Finish(const absl::Status& status) {
  if (std::exchange(finished_, true)) return;
  const absl::Time now = absl::Now();
  const absl::Duration duration = std::max(now - begin_, absl::ZeroDuration());
  if (method_->observer() != nullptr) method_->observer()->Ended(status.code(), duration);
  const CallHooks& hooks = method_->hooks();
  if (hooks.log != nullptr) {
    const bool failed = IsOurs(status.code());
    const bool slow = !method_->stream() && hooks.slow_milliseconds != nullptr &&
                      duration >= absl::Milliseconds(hooks.slow_milliseconds->load());
    int64_t left_out = 0;
    if ((failed || slow) && hooks.lines != nullptr &&
        hooks.lines->Take(absl::ToUnixSeconds(now), &left_out)) {
      if (left_out > 0) {
        hooks.log->Write(program::LogLevel::kWarning, "calls_not_logged", {{"calls", left_out}});
      }
      Log(program::LogLevel::kWarning, failed ? "call_failed" : "call_slow", status.code(),
          duration);
    } else {
      Log(program::LogLevel::kDebug, "call", status.code(), duration);
    }
  }
}

void ServedCall::Log(program::LogLevel level,
                     absl::string_view event,
                     absl::StatusCode code,
                     absl::Duration duration) const {
  program::EventLog& log = *method_->hooks().log;
  if (!log.Writes(level)) return;
  std::vector<program::LogField> fields = {
      {"request_id", request_id_},
      {"method", std::string(absl::StripPrefix(method_->name(), "/"))},
      {"code", absl::StatusCodeToString(code)},
      {"milliseconds", absl::ToDoubleMilliseconds(duration)}};
  if (!tenant_.empty()) fields.push_back({"tenant", tenant_});
  if (!memory_.empty()) fields.push_back({"memory", memory_});
  if (const absl::string_view caller = call_.caller(); !caller.empty()) {
    fields.push_back({"caller", std::string(caller)});
  }
  if (!trace_parent_.empty()) fields.push_back({"traceparent", trace_parent_});
  log.Write(level, event, fields);
}

}  // namespace lethe::calls
