// The one table of what can be called: which roles may, where the call names its tenant, what it
// does. A call that is not in the table is refused, whoever asks (gate.h).
//
// A new RPC needs a row here, or it answers PERMISSION_DENIED; tests/server/access_matrix_test.cc
// walks every service by its descriptor and holds the rows against a running server, and
// docs/access.md has the same table, held by a test too.
#ifndef LETHE_SERVER_ACCESS_METHODS_H_
#define LETHE_SERVER_ACCESS_METHODS_H_

#include <cstdint>
#include <span>

#include "absl/strings/string_view.h"
#include "server/access/identity.h"

namespace lethe::access {

enum class Scope : uint8_t {
  kOpen,    // for everybody, without credentials
  kServer,  // of the whole server: the role is needed for every tenant
  kTenant,  // of the tenant that each request names
  kListed,  // the role for any tenant; the answer shows only what the caller may know of
};

// What is written to the operations log: the last two, before and after; the others when refused.
enum class Effect : uint8_t { kReads, kAdds, kAdministers, kDestroys };

struct Method {
  absl::string_view name;  // "/package.Service/Method", or "GET /path/{variable}", which may have
                           // a second row, ", public", for when the settings open it
  Scope scope = Scope::kServer;
  // Of each request. With kTenant whom it is about; with kServer for the operations log alone.
  absl::string_view tenant_field;
  absl::string_view memory_field;  // of each request, for the operations log; empty for none
  RoleSet roles;                   // none with kOpen
  Effect effect = Effect::kReads;
  // A switch of the request, for the tenant that it names, which needs one of other roles when it
  // is on; empty for none.
  absl::string_view switch_field = {};
  RoleSet switch_roles = {};

  bool recorded() const { return effect == Effect::kAdministers || effect == Effect::kDestroys; }
};

// "of everybody", "of the server", ...: for documents and messages.
absl::string_view ScopeName(Scope scope);
absl::string_view EffectName(Effect effect);

// Sorted by name, each name once.
std::span<const Method> Methods();
// Null when it is not in the table.
const Method* FindMethod(absl::string_view name);

}  // namespace lethe::access

#endif  // LETHE_SERVER_ACCESS_METHODS_H_
