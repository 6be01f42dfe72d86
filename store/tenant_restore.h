// A tenant from a copy of its database: the erasures that the copy does not know of are done again
// before anything can be served, with the certificates that they had, and the log says so.
//
// A copy (TenantStore::CopyTo) has sealed rows and no key. What it brings back of rows that were
// erased after it was made cannot be read: their keys are gone. But its log would be shorter than
// the one that was given out, erased ids would count as live, and handles be given out twice. The
// anchor in the vault (anchor.h) has every certificate and what it erased, so that the copy is
// brought up to it:
//
//   1. The copy is checked, as OpenTenantStore does and beyond: every page, every row that stays.
//      Its log must be the beginning of the anchor's, or all of it.
//   2. In one transaction the certificates that it lacks are put back as they were written, what
//      they erased is taken out again (rows leave tombstones, memories are removed), erasures whose
//      keys were not yet certified to be destroyed are pending again, rows under a key that is or
//      is to be destroyed are removed, handles and slots go on above all that were ever given out,
//      and the certificate that `certify` makes (`restored`) is appended.
//   3. The anchor gets that certificate. From here on what else there is of the tenant's database
//      is an older one.
//   4. Keys that no row and no pending erasure needs are destroyed: rows that came after the copy
//      are lost with it, and copies of them must not outlive an erasure that nobody can ask for.
//
// A case of the copy that has ended since stays ended: until its key is destroyed the anchor says
// how it ended, and afterwards the key that is gone says that it did. Any other is as the copy has
// it, so that a pending erasure request is pending again and finds what is left. No request that is
// open is worked on before a time that the caller gives, so that holds which are lost can be placed
// again first.
//
// What is lost: rows, memories, cases and answers to requests that came after the copy; the new
// content of tokens that were edited after it (the old one is erased again); rows of a subject of
// whom a part was erased after it, since what remained was sealed anew and the copy has it under
// the key that was destroyed. An empty memory that was deleted without a certificate is back. Later
// copies lose what came after this one too, with its keys: restore the newest that is whole.
//
// A crash or an error at any point changes nothing that is served; the restore is repeated with the
// copy itself, not with what an attempt left of it. Every attempt that came to step 3 leaves its
// certificate.
//
// Errors: FAILED_PRECONDITION, with what to do, for a tenant that is not open, a copy of another
// tenant or of another log, one that is newer than the anchor, a vault that is not there or does
// not fit; DATA_LOSS for a damaged copy, anchor or keys; UNAVAILABLE when the tenant is open
// elsewhere; those of `certify`. Before step 3 an error has changed nothing in the vault.
// Cost: O(file + keys + certificates), every row is opened once. RAM: a byte for each key, 8 bytes
// for each row that is removed. Threads: compatible.
#ifndef LETHE_STORE_TENANT_RESTORE_H_
#define LETHE_STORE_TENANT_RESTORE_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/sqlite_tenant_store.h"
#include "store/tenant_store.h"

namespace lethe::store {

struct RestoreReport {
  TenantRecord tenant;
  uint64_t copy_size = 0;   // certificates in the copy
  uint64_t reapplied = 0;   // certificates after it that were put back
  uint64_t removed = 0;     // tokens of the copy that were erased since: taken out again
  uint64_t unreadable = 0;  // tokens of the copy that were not erased, but whose key was destroyed
                            // or is to be, with a part of their subject or by an earlier restore
  uint64_t memories_removed = 0;
  // By step 4, so that `certify` sees 0: those that rows which came after the copy may have had,
  // and those that were in reserve.
  uint64_t keys_destroyed = 0;
  // Erasure requests and holds that were made after the copy: there are none of them any more, and
  // what such a hold kept is not kept. One too many where a crash came between.
  CaseCounts cases_lost;
  // Requests of the copy that ended after it: as they ended where the anchor says how, else
  // kFailed. Holds of the copy that were released after it: they stay released.
  CaseCounts cases_ended;
  CaseCounts cases;  // that the restored file has
};

// Makes the `restored` certificate for the log as it stands after the certificates were put back:
// its head, and its keys, oldest first. It is appended as any certificate is.
using RestoreCertifier =
    std::function<absl::StatusOr<CertificateAppend>(const RestoreReport& report,
                                                    const LogHead& head,
                                                    std::span<const LogKey> keys)>;

// `<dir>/tenant.db` is the copy; it is changed, and closed on return. The tenant must be open
// nowhere. After OK the caller moves `dir` into its place and calls FinishRestore; after an error
// it is of no use.
absl::StatusOr<RestoreReport> RestoreTenantStore(const std::string& dir,
                                                 const SqliteTenantOptions& options,
                                                 const RestoreCertifier& certify,
                                                 int64_t held_back_until_micros);

// With the restored file in its place: from now on what was lost is not counted again. Not before,
// so that a restore which is repeated says the same. What fails here, or is cut off, makes a later
// restore say too much and has no other effect.
absl::Status FinishRestore(const SqliteTenantOptions& options, const RestoreReport& report);

}  // namespace lethe::store

#endif  // LETHE_STORE_TENANT_RESTORE_H_
