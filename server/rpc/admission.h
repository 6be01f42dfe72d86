// A gRPC call at the gate (server/access/gate.h): who calls comes from the request's metadata and
// from the certificate that the handshake verified, the tenant from the field of the request that
// the table of methods names.
//
// AuthContext::AddProperty is not used anywhere: in gRPC 1.51 what one call adds is seen by the
// other calls of its connection.
#ifndef LETHE_SERVER_RPC_ADMISSION_H_
#define LETHE_SERVER_RPC_ADMISSION_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/access/gate.h"
#include "server/access/methods.h"
#include "server/service/types.h"

namespace lethe::rpc {

// A method with the places in its messages that the gate wants to know. Made once, when the method
// is registered.
struct MethodEntry {
  std::string name;                     // "/package.Service/Method"
  const access::Method* row = nullptr;  // null: not in the table, refused
  const google::protobuf::FieldDescriptor* tenant = nullptr;
  const google::protobuf::FieldDescriptor* memory = nullptr;
  const google::protobuf::FieldDescriptor* certificate = nullptr;  // of the response

  // A row that names a field which the request has not is a broken invariant.
  static MethodEntry Of(const google::protobuf::MethodDescriptor* method);
};

// One call. Threads: compatible.
class Admission {
 public:
  // All outlive the call.
  Admission(const access::Gate* gate,
            const MethodEntry* entry,
            const grpc::ServerContextBase* context,
            const std::string& request_id);

  // access::Call's.
  absl::Status Enter() { return call_.Enter(); }
  absl::Status Admit(absl::string_view tenant, absl::string_view memory) {
    return call_.Admit(tenant, memory);
  }
  // Return `status`.
  absl::Status Finish(absl::Status status, const google::protobuf::Message& response);
  absl::Status Finish(absl::Status status);

  // The caller, for log lines; empty while nobody is known.
  absl::string_view caller() const { return call_.caller(); }
  // Which tenants the caller may know of; the function must not outlive this.
  service::TenantFilter Sees() const;

 private:
  const MethodEntry* const entry_;
  const bool filtered_;
  access::Call call_;
};

}  // namespace lethe::rpc

#endif  // LETHE_SERVER_RPC_ADMISSION_H_
