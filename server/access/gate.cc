#include "server/access/gate.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/status_macros.h"
#include "server/service/names.h"

namespace lethe::access {

void Gate::Record(const absl::Status& written) const {
  if (written.ok() || log_ == nullptr) return;
  log_->Write(program::LogLevel::kError, "operations_log_failed",
              {{"message", std::string(written.message())}});
}

Call::Call(const Gate& gate,
           const Method* method,
           absl::string_view name,
           std::string request_id,
           const std::function<Credentials()>& credentials)
    : gate_(gate),
      method_(method),
      operation_{.request_id = std::move(request_id),
                 .method = std::string(name),
                 .destroys = method != nullptr && method->effect == Effect::kDestroys} {
  const bool open = method == nullptr || method->scope == Scope::kOpen;
  if (gate.guarded() && !open) credentials_ = credentials();
}

Call::~Call() {
  if (open_) Finish(absl::UnknownError(""), "");
}

bool Call::recorded() const {
  return gate_.operations_ != nullptr && method_ != nullptr && method_->recorded();
}

absl::string_view Call::caller() const { return operation_.caller; }

absl::Status Call::Enter() {
  if (method_ == nullptr) {
    return Refuse(absl::PermissionDeniedError("this call is not open to anybody"),
                  "not in the table of methods");
  }
  if (!gate_.guarded() || method_->scope == Scope::kOpen) return absl::OkStatus();
  LETHE_RETURN_IF_ERROR(Authenticate());
  // What depends on no tenant is decided before a byte of the request is read.
  return method_->scope == Scope::kTenant ? AuthoriseSomewhere() : Authorise("");
}

absl::Status Call::Admit(absl::string_view tenant, absl::string_view memory, bool switched) {
  operation_.tenant = std::string(tenant);
  operation_.memory = std::string(memory);
  if (gate_.guarded() && method_->scope != Scope::kOpen) {
    if (policy_ != gate_.access_->policy() || identity_->expires <= absl::Now()) {
      LETHE_RETURN_IF_ERROR(Authenticate());
    }
    LETHE_RETURN_IF_ERROR(Authorise(tenant));
    if (switched) {
      LETHE_RETURN_IF_ERROR(AuthoriseFor(tenant, method_->switch_field, method_->switch_roles));
    }
  }
  if (!recorded() || std::exchange(began_, true)) return absl::OkStatus();
  if (const absl::Status written = gate_.operations_->Intent(operation_); !written.ok()) {
    gate_.Record(written);
    return absl::UnavailableError(
        "operations log: this call cannot be recorded and is not made; see the server's log");
  }
  open_ = true;
  return absl::OkStatus();
}

void Call::Finish(const absl::Status& outcome, absl::string_view certificate) {
  if (!std::exchange(open_, false)) return;
  gate_.Record(gate_.operations_->Outcome(operation_, absl::StatusCodeToString(outcome.code()),
                                          certificate));
}

absl::Status Call::Authenticate() {
  policy_ = gate_.access_->policy();
  absl::StatusOr<std::shared_ptr<const Identity>> identity =
      policy_->Authenticate(credentials_, absl::Now());
  if (!identity.ok()) {
    identity_ = nullptr;
    operation_.caller.clear();
    // One message for all reasons: which part was right is for nobody to learn.
    return Refuse(absl::UnauthenticatedError("no valid credentials"), identity.status().message());
  }
  identity_ = *std::move(identity);
  operation_.caller = identity_->name;
  return absl::OkStatus();
}

absl::Status Call::Authorise(absl::string_view tenant) {
  switch (method_->scope) {
    case Scope::kOpen:
      return absl::OkStatus();
    case Scope::kListed:
      return AuthoriseSomewhere();
    case Scope::kServer:
      if (identity_->HoldsEverywhere(method_->roles)) return absl::OkStatus();
      return Refuse(absl::PermissionDeniedError(absl::StrCat(
                        "needs the role ", method_->roles.Names(), " for the whole server")),
                    "role");
    case Scope::kTenant:
      return AuthoriseFor(tenant, method_->tenant_field, method_->roles);
  }
  return Refuse(absl::PermissionDeniedError("this call is not open to anybody"), "scope");
}

absl::Status Call::AuthoriseSomewhere() {
  if (identity_->HoldsSomewhere(method_->roles)) return absl::OkStatus();
  return Refuse(absl::PermissionDeniedError(absl::StrCat(
                    "needs one of the roles ", method_->roles.Names(), " for some tenant")),
                "role");
}

absl::Status Call::AuthoriseFor(absl::string_view tenant, absl::string_view field, RoleSet roles) {
  if (identity_->Holds(tenant, roles)) return absl::OkStatus();
  if (identity_->Knows(tenant)) {
    return Refuse(absl::PermissionDeniedError(
                      absl::StrCat(field, ": needs the role ", roles.Names(), " for the tenant")),
                  "role");
  }
  // As for one that does not exist, from the order of the checks to the words.
  LETHE_RETURN_IF_ERROR(service::CheckName(method_->tenant_field, tenant));
  return Refuse(service::NoSuchTenant(), "no grant for the tenant");
}

absl::Status Call::Refuse(absl::Status status, absl::string_view reason) {
  if (gate_.operations_ != nullptr) {
    gate_.Record(
        gate_.operations_->Denied(operation_, absl::StatusCodeToString(status.code()), reason));
  }
  return status;
}

bool Call::Sees(absl::string_view tenant) const {
  return !gate_.guarded() || (identity_ != nullptr && identity_->Knows(tenant));
}

}  // namespace lethe::access
