#include "server/access/identity.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "server/service/names.h"

namespace lethe::access {
namespace {

bool Covers(const Grant& grant, absl::string_view tenant) {
  return grant.tenant == kEveryTenant || grant.tenant == tenant;
}

}  // namespace

absl::string_view RoleName(Role role) {
  switch (role) {
    case Role::kApp:
      return "app";
    case Role::kEraser:
      return "eraser";
    case Role::kAuditor:
      return "auditor";
    case Role::kAdmin:
      return "admin";
    case Role::kWorker:
      return "worker";
  }
  return "";
}

std::string RoleSet::Names() const {
  std::string names;
  for (const Role role : kRoles) {
    if (Has(role)) absl::StrAppend(&names, names.empty() ? "" : ", ", RoleName(role));
  }
  return names;
}

absl::StatusOr<Grant> ParseGrant(absl::string_view text) {
  const size_t colon = text.find(':');
  if (colon == absl::string_view::npos) {
    return absl::InvalidArgumentError("must be TENANT:ROLE, or *:ROLE for every tenant");
  }
  Grant grant;
  grant.tenant = std::string(text.substr(0, colon));
  if (grant.tenant != kEveryTenant) {
    LETHE_RETURN_IF_ERROR(service::CheckName("tenant", grant.tenant));
  }
  const absl::string_view role = text.substr(colon + 1);
  const auto found = std::find_if(kRoles.begin(), kRoles.end(),
                                  [role](Role known) { return RoleName(known) == role; });
  if (found == kRoles.end()) {
    return absl::InvalidArgumentError("role: must be app, eraser, auditor, admin or worker");
  }
  grant.role = *found;
  return grant;
}

bool Identity::Holds(absl::string_view tenant, RoleSet roles) const {
  return std::any_of(grants.begin(), grants.end(), [&](const Grant& grant) {
    return roles.Has(grant.role) && Covers(grant, tenant);
  });
}

bool Identity::HoldsEverywhere(RoleSet roles) const {
  return std::any_of(grants.begin(), grants.end(), [&](const Grant& grant) {
    return roles.Has(grant.role) && grant.tenant == kEveryTenant;
  });
}

bool Identity::HoldsSomewhere(RoleSet roles) const {
  return std::any_of(grants.begin(), grants.end(),
                     [&](const Grant& grant) { return roles.Has(grant.role); });
}

bool Identity::Knows(absl::string_view tenant) const {
  return std::any_of(grants.begin(), grants.end(),
                     [&](const Grant& grant) { return Covers(grant, tenant); });
}

}  // namespace lethe::access
