// What is known of a tenant's log outside its database: every entry that the database has ever
// committed, with what it erased, the checkpoint over them, and a number above every handle.
//
//   <vault>/<uid>/anchor.db    tables: log (tenant_uid, origin, checkpoint, next_handle, requests,
//                              holds), entries (one a certificate), ended (one a case)
//
// Two things rest on it. A database that is put back from a copy, or rolled back, has a log that is
// shorter than the anchor or differs from it, and is not served as if nothing had happened. And the
// erasures that such a copy does not know of are done again, with the certificates that they had
// (tenant_restore.h). It holds no token content: certificates are public, and of what was erased it
// keeps the handles and the slots of the keys.
//
// An entry comes in after the database has committed it and before anybody is told. So the anchor
// is never ahead of the database that it belongs to. It may be one entry behind it after a crash,
// and any number when it was put back from a copy; OpenTenantStore then brings it up to date. Of
// erasures that are over by then it does not learn the handles and slots, which only tell erased
// rows of a copy from rows that lost their key with them. Handles are noted before they are given
// out, a block of kHandleBlock at a time, so that no restore gives one out again. Of erasure
// requests and holds it knows how many there ever were, so that a restore can say how many are lost
// with what came after the copy; and from the end of one until its key is destroyed, how it ended,
// so that no copy brings it back. Afterwards the key that is gone says that it has ended.
//
// Ensures: sequences are dense from 0; OK from Append and RaiseHandles means durable. Cost: Append
// one commit; Visit O(entries). Errors: those of store/sqlite.h; FAILED_PRECONDITION for an anchor
// of another tenant or an entry that does not continue it. Threads: compatible, not safe. Source:
// audit.md of the design, section 4 ("an anchor kept outside the database").
#ifndef LETHE_STORE_ANCHOR_H_
#define LETHE_STORE_ANCHOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/sqlite.h"
#include "store/tenant_store.h"

namespace lethe::store {

inline constexpr DatabaseIdentity kAnchorIdentity = {
    .application_id = 0x4c744131,  // "LtA1"
    .user_version = 4,
    .least_version = 4,
    .older_advice =
        "; it lacks what a restore needs, and no release has written one: make the tenant anew",
};

// How many handles are noted at a time; what a restore leaves out at most.
inline constexpr uint64_t kHandleBlock = uint64_t{1} << 20;

// What to do about an anchor that is missing or damaged. An older one has less to say about a copy
// of the database, and nothing wrong: what it lacks comes from the log.
inline constexpr absl::string_view kAnchorAdvice =
    "; put anchor.db back from a copy of this vault, with no anchor.db-wal beside it; it may be "
    "older,"
    " and follows the log again";

// In the folder of the tenant's vault.
std::string AnchorFileOf(const std::string& vault_folder);

// What an entry took out of a memory.
struct ErasedTokens {
  std::string memory_uid;         // empty: nothing
  bool whole_memory = false;      // the memory is gone, and handles is empty
  std::vector<uint64_t> handles;  // increasing
  bool operator==(const ErasedTokens&) const = default;
};

// memory uid (32), 1 when the memory is gone and else 0, then the handles, each as the difference
// from the one before in LEB128. Empty when nothing was taken.
std::string EncodeErased(const ErasedTokens& erased);
// DATA_LOSS for anything else.
absl::StatusOr<ErasedTokens> DecodeErased(absl::string_view bytes);

struct AnchorEntry {
  CertificateRecord record;
  std::optional<std::string> next_vkey = {};  // of a hand-over
  ErasedTokens erased = {};
  std::vector<uint64_t> slots = {};  // of the keys of what was erased, increasing
  // When it was committed every erasure before this sequence was over: its keys destroyed, and a
  // certificate of that in the log.
  uint64_t pending_from = 0;
  bool operator==(const AnchorEntry&) const = default;
};

struct AnchorHead {
  uint64_t size = 0;
  std::optional<Bytes32> leaf_hash;  // of the last entry
  std::string checkpoint;            // the signed note over all of them; empty with size 0
  uint64_t pending_from = 0;         // of the last entry
  uint64_t next_handle = 1;          // above every handle that any memory has given out
  CaseCounts cases;                  // ever made
};

class Anchor {
 public:
  // Makes the file, durable on return. ALREADY_EXISTS when there is one.
  static absl::StatusOr<std::unique_ptr<Anchor>> Create(const std::string& path,
                                                        absl::string_view tenant_uid,
                                                        absl::string_view origin);
  static absl::StatusOr<std::unique_ptr<Anchor>> Open(const std::string& path,
                                                      absl::string_view tenant_uid,
                                                      absl::string_view origin);
  Anchor(const Anchor&) = delete;
  Anchor& operator=(const Anchor&) = delete;

  const AnchorHead& head() const { return head_; }
  const std::string& path() const { return database_->path(); }

  // All of them or none; the first has sequence head().size, and each names the leaf before it.
  // `checkpoint`: over the log with them. An indeterminate failure ends this object (Health).
  absl::Status Append(std::span<const AnchorEntry> entries, absl::string_view checkpoint);
  // To be called before rows with handles below `next_handle` are committed. Nothing to write for
  // handles that are within the block that was noted last.
  absl::Status RaiseHandles(uint64_t next_handle);
  // To be called after such cases were committed, before anybody is told. Nothing to write for
  // counts that are known.
  absl::Status RaiseCases(const CaseCounts& cases);
  // After a restore: there are as many as the copy has.
  absl::Status SetCases(const CaseCounts& cases);
  // A case that has ended, as it stands; in the place of what was known of it. To be called after
  // its end was committed, before anybody is told and before its key is destroyed.
  absl::Status PutEnded(const CaseRecord& record);
  // Those whose keys are destroyed, or which there are no more. Others are passed over.
  absl::Status DropEnded(std::span<const std::string> ids);
  // In no order; `kind` and `received_micros` are not kept.
  absl::StatusOr<std::vector<CaseRecord>> Ended();
  // From `first` on, in order. Stops at the first status that is not OK and returns it.
  absl::Status Visit(uint64_t first, absl::FunctionRef<absl::Status(AnchorEntry& entry)> visit);

  const absl::Status& Health() const { return database_->health(); }

 private:
  explicit Anchor(std::unique_ptr<Database> database) : database_(std::move(database)) {}
  absl::Status MakeTables(absl::string_view tenant_uid, absl::string_view origin);
  absl::Status Load(absl::string_view tenant_uid, absl::string_view origin);
  absl::Status Insert(const AnchorEntry& entry);

  std::unique_ptr<Database> database_;
  AnchorHead head_;
};

}  // namespace lethe::store

#endif  // LETHE_STORE_ANCHOR_H_
