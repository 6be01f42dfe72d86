// A look at a tenant's file that nobody has open: what a server lists and checks of it at start,
// without opening the tenant.
//
// Reads a few pages of `<dir>/tenant.db` and of the anchor in its vault, as they stand, with
// neither lock nor write-ahead log (SQLite's immutable=1). So it answers only where the files were
// closed in order: no write-ahead log beside any file of the tenant, of the present format, its log
// begun, no erasure unfinished, the tenant not closed; and where the vault is the one that belongs
// to it, as far as can be seen without its keys: `<vault>/<uid>/keys.db` is there, and anchor.db is
// this tenant's, with as many certificates and the same last one. In every other case there may be
// something to finish or to explain, and the tenant has to be opened for it
// (sqlite_tenant_store.h): nullopt. Nothing is checked here beyond what is stated; the caller
// checks the signature over `head`.
//
// Requires: no connection to the files, of this or another process. Cost: some 0.2 ms, whatever the
// tenant holds. Errors: none of its own. Threads: safe.
// Source: https://sqlite.org/uri.html#uriimmutable
#ifndef LETHE_STORE_TENANT_GLANCE_H_
#define LETHE_STORE_TENANT_GLANCE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/tenant_store.h"

namespace lethe::store {

struct TenantGlance {
  TenantRecord record;
  LogHead head;      // without leaf_hash
  std::string vkey;  // the newest key of the log
  uint64_t memories = 0;
  uint64_t file_bytes = 0;
  std::vector<OpenCase> cases;  // ListOpenCases
};

std::optional<TenantGlance> GlanceAtTenant(const std::string& dir, const std::string& vault);

}  // namespace lethe::store

#endif  // LETHE_STORE_TENANT_GLANCE_H_
