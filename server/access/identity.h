// Who calls, and what he may do: roles, grants, identities. Threads: values.
#ifndef LETHE_SERVER_ACCESS_IDENTITY_H_
#define LETHE_SERVER_ACCESS_IDENTITY_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace lethe::access {

// docs/access.md says in words what each may do; methods.cc says it for every call.
enum class Role : uint8_t { kApp = 0, kEraser = 1, kAuditor = 2, kAdmin = 3, kWorker = 4 };
inline constexpr std::array<Role, 5> kRoles = {Role::kApp, Role::kEraser, Role::kAuditor,
                                               Role::kAdmin, Role::kWorker};

// "app", "eraser", "auditor", "admin", "worker".
absl::string_view RoleName(Role role);

class RoleSet {
 public:
  constexpr RoleSet() = default;
  constexpr RoleSet(std::initializer_list<Role> roles) {
    for (const Role role : roles) bits_ = static_cast<uint8_t>(bits_ | Bit(role));
  }
  constexpr bool Has(Role role) const { return (bits_ & Bit(role)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  // "app, eraser", in the order of kRoles.
  std::string Names() const;

 private:
  static constexpr uint8_t Bit(Role role) {
    return static_cast<uint8_t>(1u << static_cast<unsigned>(role));
  }
  uint8_t bits_ = 0;
};

// A role for one tenant, or for every one and for the server itself.
inline constexpr absl::string_view kEveryTenant = "*";
struct Grant {
  std::string tenant;  // a name, or kEveryTenant
  Role role = Role::kApp;

  friend bool operator==(const Grant&, const Grant&) = default;
};

// "clinic:app", "*:auditor". INVALID_ARGUMENT says what is wrong with it, in words that do not
// repeat it.
absl::StatusOr<Grant> ParseGrant(absl::string_view text);

struct Identity {
  // For log lines: as configured, never anything of a credential.
  std::string name;
  std::vector<Grant> grants;
  // From then on it counts for nothing.
  absl::Time expires = absl::InfiniteFuture();

  // Whether one of the roles is granted for this tenant, or for every one.
  bool Holds(absl::string_view tenant, RoleSet roles) const;
  // Whether one of the roles is granted for every tenant.
  bool HoldsEverywhere(RoleSet roles) const;
  // Whether one of the roles is granted for any tenant.
  bool HoldsSomewhere(RoleSet roles) const;
  // Whether any role is granted for this tenant: it may be known that there is one of this name.
  bool Knows(absl::string_view tenant) const;
};

}  // namespace lethe::access

#endif  // LETHE_SERVER_ACCESS_IDENTITY_H_
