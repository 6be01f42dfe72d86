#include "server/rpc/admission.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace lethe::rpc {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

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

access::Credentials CredentialsOf(const grpc::ServerContextBase& context) {
  access::Credentials credentials;
  const auto [begin, end] = context.client_metadata().equal_range("authorization");
  for (auto header = begin; header != end; ++header) {
    credentials.authorization.emplace_back(header->second.data(), header->second.size());
  }
  // gRPC puts a certificate there that the handshake verified against the server's CA, or none:
  // the server asks for one in no other way (tls.cc).
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  if (peer != nullptr) {
    for (const grpc::string_ref& pem : peer->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME)) {
      credentials.certificate.assign(pem.data(), pem.size());
    }
  }
  return credentials;
}

}  // namespace

MethodEntry MethodEntry::Of(const google::protobuf::MethodDescriptor* method) {
  MethodEntry entry;
  entry.name = absl::StrCat("/", method->service()->full_name(), "/", method->name());
  entry.row = access::FindMethod(entry.name);
  entry.certificate = StringField(method->output_type(), "certificate_id");
  if (entry.row == nullptr) return entry;
  if (!entry.row->tenant_field.empty()) {
    entry.tenant = StringField(method->input_type(), entry.row->tenant_field);
    LETHE_CHECK(entry.tenant != nullptr);
  }
  if (!entry.row->memory_field.empty()) {
    entry.memory = StringField(method->input_type(), entry.row->memory_field);
    LETHE_CHECK(entry.memory != nullptr);
  }
  return entry;
}

Admission::Admission(const access::Gate* gate,
                     const MethodEntry* entry,
                     const grpc::ServerContextBase* context,
                     const std::string& request_id)
    : entry_(entry),
      filtered_(gate->guarded()),
      call_(*gate, entry->row, entry->name, request_id, [context] {
        return CredentialsOf(*context);
      }) {}

absl::Status Admission::Finish(absl::Status status, const Message& response) {
  call_.Finish(status, status.ok() ? Text(response, entry_->certificate) : std::string());
  return status;
}

absl::Status Admission::Finish(absl::Status status) {
  call_.Finish(status, "");
  return status;
}

service::TenantFilter Admission::Sees() const {
  if (!filtered_) return {};
  return [this](absl::string_view tenant) { return call_.Sees(tenant); };
}

}  // namespace lethe::rpc
