// TenantStore: everything one tenant must not lose, behind an interface.
//
// What it holds: the tenant's description; its memories; their tokens; keyed hashes of erased ids
// (tombstones); the log of certificates; the answers to requests by request_id; per memory an
// optional opaque blob to start the solver from.
//
// Transactions: every changing operation is one transaction, all or nothing; OK means durable. An
// operation that erases carries its certificate, and both are committed together or not at all:
// there is no way to erase tokens through this interface without a certificate.
//
// Keys: rows are sealed with data keys that live apart from the data (store/vault), one for each
// subject of a memory, one for each token without a subject. An erasure is over in three steps, of
// which each can be repeated and is taken up after a crash:
//   1. EraseTokens, DeleteMemory: rows gone, certificate in the log, and the keys to destroy
//      written down beside it (PendingErasures), one transaction;
//   2. DestroyPendingKeys: the keys overwritten and looked for in the raw file;
//   3. AppendShredded: the certificate that says so, and what step 1 wrote down taken away.
// A tenant is closed in three steps of the same kind: BeginClose, DestroyAllKeys, FinishClose.
//
// Ensures: certificate sequences are dense from 0 and every certificate names the leaf hash before
// it; every append leaves a checkpoint over the whole log, written in the same transaction, and
// what was written proves itself from the bytes read back before the commit; a handle is never used
// twice in a memory; ids are unique among the live tokens of a memory; ids, subjects, keys, values,
// payloads and labels reach the disk sealed only, and what is indexed is a hash under a key that is
// sealed too; once the keys of an erasure are destroyed, no key that is left opens a row that any
// erasure took, in whatever copy of the file, and every key that is left is either that of a row
// or was never used.
//
// Errors:
//   INVALID_ARGUMENT     a bad call; names the field and index; nothing changed
//   NOT_FOUND            no such memory, handle, certificate
//   ALREADY_EXISTS       name, id or request_id is taken; nothing changed
//   FAILED_PRECONDITION  the tenant is closed or closing, a step is out of turn, or a certificate
//   or
//                        checkpoint does not continue the log
//   RESOURCE_EXHAUSTED   disk or quota full, or no key can be made; nothing changed. A disk that
//                        is found full only by COMMIT is indeterminate
//   DATA_LOSS            stored bytes are not what was written; names file, memory and handle
//   IsIndeterminate(s)   (sqlite.h) COMMIT failed: the change is there or it is not. From then on
//                        every call returns UNAVAILABLE until the store is closed and opened again;
//                        after that the caller decides by FindRequest or FindByIds.
// No message contains ids, subjects, keys, values, payloads or labels.
//
// Threads: compatible, not safe. One writer owns a store; readers use the core's snapshots.
// Source: certificate chain after RFC 6962 and docs/certificate_format.md.
#ifndef LETHE_STORE_TENANT_STORE_H_
#define LETHE_STORE_TENANT_STORE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lethe::store {

using Bytes32 = std::array<uint8_t, 32>;

// Limits of the store itself; callers may be stricter.
inline constexpr size_t kMaxInsertRows = 10'000;  // rows of one InsertTokens
inline constexpr size_t kMaxIdBytes = 256;        // token id, subject
inline constexpr size_t kMaxNameBytes = 63;       // tenant, memory
inline constexpr size_t kMaxRequestIdBytes = 128;
inline constexpr size_t kMaxRowBytes = 8u << 20;    // one sealed token
inline constexpr size_t kMaxBlobBytes = 16u << 20;  // config, answer, envelope, warm start
inline constexpr size_t kMaxEncoderBytes = 4u << 20;
inline constexpr size_t kMaxLeafBytes = 65'535;  // a tile of the log must hold it
inline constexpr uint32_t kMaxPageSize = 1'000;
inline constexpr size_t kMaxCaseBytes = 1u << 20;  // personal part of a case

enum class TenantState : uint8_t {
  kOpen = 0,
  kClosed = 1,
  kClosing = 2,  // the rows are gone; keys may be there, the closing certificate is not
};

struct TenantRecord {
  std::string name;
  std::string uid;         // 32 lower-case hex digits; tells a tenant from an earlier namesake
  std::string log_origin;  // name of the log of certificates
  int64_t create_time_micros = 0;  // since 1970-01-01T00:00:00Z
  TenantState state = TenantState::kOpen;
};

struct MemoryRecord {
  std::string uid;     // 32 lower-case hex digits, given by the caller, never used twice
  std::string name;    // unique among the live memories
  std::string config;  // opaque; the caller's encoding
  int64_t create_time_micros = 0;
  // Smallest handle that InsertTokens accepts. Set by the store: 1 for a new memory, and above
  // every handle ever used, erased ones included.
  uint64_t next_handle = 1;
};

struct TokenRow {
  uint64_t handle = 0;  // 1 to 2^63 - 1; increasing within a memory
  std::string id;       // 1 to kMaxIdBytes bytes
  std::vector<double> key;
  std::vector<double> value;
  std::string subject;  // empty: none
  std::string payload;
  std::string labels;                                // opaque; the caller's encoding
  Bytes32 salt{};                                    // of the token's commitment
  bool operator==(const TokenRow&) const = default;  // by ==, so a NaN never equals itself
};

struct CertificateRecord {
  uint64_t sequence = 0;
  std::string id;          // 64 lower-case hex digits
  std::string kind;        // 1 to 64 bytes
  std::string memory_uid;  // both empty when the certificate concerns no single memory
  std::string memory_name;
  int64_t create_time_micros = 0;
  std::string envelope;  // exactly as signed
  std::string leaf;      // the log entry, at most kMaxLeafBytes
  Bytes32 leaf_hash{};
  std::optional<Bytes32> previous_leaf_hash;  // absent for sequence 0 and only there
  bool operator==(const CertificateRecord&) const = default;
};

// A key of the log: it signs the certificates from this sequence on, until the next key's, and
// every checkpoint of a size above its own and up to the next key's first sequence.
struct LogKey {
  uint64_t first_sequence = 0;
  std::string vkey;
  bool operator==(const LogKey&) const = default;
};

// What an append wrote, every byte of it read back from the database: the certificate, the root and
// the proofs made from the stored nodes.
struct WrittenCertificate {
  CertificateRecord record;
  std::string checkpoint;  // the signed note
  Bytes32 root{};          // RFC 6962, of the log with the certificate
  std::vector<Bytes32> inclusion;
  Bytes32 old_root{};                // of the log before it
  std::vector<Bytes32> consistency;  // from old_root to root; empty when the log was empty
};

// The public check of what was written, run inside the transaction: a bit that flips between
// hashing and storing must never reach the log. Anything but OK rolls the whole operation back and
// is returned to the caller.
using CertificateVerifier = std::function<absl::Status(const WrittenCertificate&)>;

struct CertificateAppend {
  CertificateRecord record;
  // The signed note over the log with this certificate: its origin, size and root are the store's.
  std::string checkpoint;
  // Of a hand-over: the key that signs from the next sequence on, and `checkpoint` already.
  std::optional<std::string> next_vkey;
  CertificateVerifier verify;  // required
};

// The beginning of a log.
struct LogStart {
  std::string vkey;        // of the log's first key
  std::string checkpoint;  // over the empty log
  // Required. Asked about the checkpoint as read back, as CertificateVerifier is.
  std::function<absl::Status(absl::string_view checkpoint)> verify;
};

// A witness's signature of a checkpoint.
struct Cosignature {
  std::string key_id;  // 4 bytes
  uint64_t size = 0;   // of the checkpoint
  std::string line;    // as in the note, with its newline; at most kMaxCosignatureBytes
  bool operator==(const Cosignature&) const = default;
};
inline constexpr size_t kMaxCosignatureBytes = 1024;
inline constexpr size_t kMaxVkeyBytes = 512;

// The first answer to a request, kept so that a repeated request_id returns it.
struct RequestRecord {
  std::string request_id;  // 1 to kMaxRequestIdBytes bytes; unique in the tenant
  Bytes32 fingerprint{};   // of the request's content: tells a retry from a reuse
  std::string answer;      // opaque
  int64_t create_time_micros = 0;
  bool operator==(const RequestRecord&) const = default;
};

// --- Erasure requests and legal holds, which the store calls cases.
//
// What stays of a case is what it says of itself in clear: times, a state, and `facts`, in which
// the caller puts nothing personal. Who and why is its personal part, sealed under a key that is
// its alone and that ends with it, so that afterwards no copy of the file tells who asked.
enum class CaseKind : uint8_t { kErasureRequest = 1, kHold = 2 };
enum class CaseState : uint8_t {
  kPending = 1,
  kInProgress = 2,
  kCompleted = 3,
  kDenied = 4,
  kCancelled = 5,
  kFailed = 6,
  kHeld = 7,  // of a hold: in force
  kReleased = 8,
};
// Of a request: that it came to its end. Of a hold: that it was released.
inline bool HasEnded(CaseState state) {
  return state != CaseState::kPending && state != CaseState::kInProgress &&
         state != CaseState::kHeld;
}

struct CaseRecord {
  uint64_t number = 0;  // increasing in a tenant; set by the store
  std::string id;       // 32 lower-case hex digits, given by the caller, never used twice
  CaseKind kind = CaseKind::kErasureRequest;
  CaseState state = CaseState::kPending;
  int64_t received_micros = 0;
  int64_t due_micros = 0;
  std::optional<int64_t> wake_micros;      // when the server has something to do about it
  std::optional<int64_t> callback_micros;  // when somebody is to be told about it
  std::string facts;                       // opaque, and nothing personal; at most kMaxBlobBytes
  bool personal = false;                   // set by the store: the personal part is there
  bool operator==(const CaseRecord&) const = default;
};

struct CaseCreation {
  CaseRecord record;     // `number` and `personal` are ignored
  std::string personal;  // 1 to kMaxCaseBytes
  std::string subject;   // of a hold, and only there: whose tokens it keeps
  std::optional<RequestRecord> request = {};
};

struct CaseUpdate {
  CaseRecord record;  // id, kind and received_micros stay as they are; `personal` is ignored
  std::optional<std::string> personal = {};  // absent: as it is
  // The personal part ends: DestroyEndedKeys takes its key. A hold is in force no more.
  bool end_personal = false;
};

// What is to be known of the cases that want something, without anything personal.
struct OpenCase {
  uint64_t number = 0;
  CaseState state = CaseState::kPending;
  int64_t received_micros = 0;
  int64_t due_micros = 0;
  std::optional<int64_t> wake_micros;
  std::optional<int64_t> callback_micros;
  bool operator==(const OpenCase&) const = default;
};

struct CaseQuery {
  CaseKind kind = CaseKind::kErasureRequest;
  std::optional<CaseState> state;  // absent: any
  uint64_t after_number = 0;
  uint32_t limit = 100;  // 1 to kMaxPageSize
};

// A keyed hash of a subject in all memories of the tenant.
using HoldKey = std::array<uint8_t, 16>;
struct HeldSubject {
  HoldKey key{};
  std::string hold_id;
};

struct CaseCounts {
  uint64_t requests = 0;
  uint64_t holds = 0;
  bool operator==(const CaseCounts&) const = default;
};

struct EraseRequest {
  std::string memory_uid;
  std::vector<uint64_t> handles;  // at least one; present and distinct; any order
  CertificateAppend certificate;
  std::optional<RequestRecord> request;
  // Rows that come in with the same transaction, as InsertTokens requires them; at most
  // kMaxInsertRows. A row may have the id of an erased one, which then is no tombstone.
  std::vector<TokenRow> replacements = {};
  // Of the erasure request that wants it, in the same transaction; it does not end by that.
  std::optional<CaseUpdate> update = {};
};

struct DeleteMemoryRequest {
  std::string memory_uid;
  // Required when the memory holds tokens; may be absent for an empty one.
  std::optional<CertificateAppend> certificate;
  std::optional<RequestRecord> request;
};

struct EraseResult {
  uint64_t erased = 0;
  // The erase is committed whatever this says. Not OK: the old pages may still stand in the
  // write-ahead log; call Checkpoint() again (or reopen the store when it says UNAVAILABLE) before
  // claiming that the file no longer holds the rows.
  absl::Status checkpoint;
};

// A certificate whose keys wait to be destroyed, or whose `shredded` leaf is missing.
struct PendingErasure {
  uint64_t sequence = 0;
  uint64_t keys = 0;
  bool operator==(const PendingErasure&) const = default;
};

struct KeysDestroyed {
  uint64_t destroyed = 0;          // alive before this call
  uint64_t already_destroyed = 0;  // by an earlier one
  // OK: nothing of them is left in the file of keys (KeyStore::Destroy). Otherwise the keys are
  // destroyed all the same; repeating the call looks again. DATA_LOSS: copies stayed in the file,
  // which RotateKeys makes worthless.
  absl::Status evidence;
  uint64_t bytes_read = 0;  // by the search that the evidence rests on
  bool rewritten = false;   // the file of keys was written anew to get rid of copies
  uint32_t epoch = 0;       // the KEK's under which keys are wrapped now; 0: there is none
};

struct KeysRewrapped {
  uint64_t keys = 0;   // wrapped anew
  uint32_t epoch = 0;  // of the KEK under which keys are wrapped now
  // OK: the file of keys holds no copy that was wrapped under a KEK that ended. Otherwise such
  // copies stayed, and nothing can unwrap them any more.
  absl::Status evidence;
};

enum class IdState : uint8_t {
  kUnknown = 0,  // never seen, or its memory's rows are gone
  kLive = 1,
  kErased = 2,  // erased by an earlier request and not inserted again
};
struct IdLookup {
  IdState state = IdState::kUnknown;
  uint64_t handle = 0;  // only with kLive
};

struct MemoryCounts {
  uint64_t tokens = 0;
  uint64_t subjects = 0;  // distinct
  uint64_t tombstones = 0;
};

struct LogHead {
  uint64_t count = 0;                // also the next sequence
  std::optional<Bytes32> leaf_hash;  // of the last certificate; absent for an empty log
  std::vector<Bytes32> range;        // roots of the complete subtrees, largest first
  std::string checkpoint;            // the signed note; empty until StartLog
};

struct CertificateQuery {
  std::optional<uint64_t> after_sequence;  // absent: from the start
  std::string memory_name;                 // empty: all
  uint32_t limit = 100;                    // 1 to kMaxPageSize
};

// A copy that CopyTo made.
struct TenantCopy {
  TenantRecord tenant;
  LogHead log;
  uint64_t bytes = 0;  // of the file
};

class TenantStore {
 public:
  virtual ~TenantStore() = default;

  // --- The tenant.
  virtual absl::StatusOr<TenantRecord> GetTenant() = 0;
  // Erases every memory, its tokens and tombstones, all stored answers and what is pending; sets
  // the state to kClosing. Afterwards the log can be read, started and appended to, and
  // FinishClose is the only way on. Idempotent until FinishClose; `erased` counts the rows that
  // the first call took.
  virtual absl::StatusOr<EraseResult> BeginClose() = 0;
  // Only after BeginClose. Destroys the KEKs first, which ends every data key wherever a copy of
  // it lies, then the data keys, then removes their files. OK when they are gone already, and only
  // when their bytes were overwritten and read back: `evidence` is always OK here.
  virtual absl::StatusOr<KeysDestroyed> DestroyAllKeys() = 0;
  // Only after DestroyAllKeys. Rewrites the file so that it holds the log and nothing else, appends
  // the closing certificate and sets the state to kClosed: the log can be read and nothing can
  // change. OK when this certificate has closed the tenant already. Any error may come after it was
  // closed: repeat it, or see after opening.
  virtual absl::Status FinishClose(const CertificateAppend& certificate) = 0;

  // --- Memories.
  // `memory.next_handle` is ignored. `encoder`: opaque bytes, at most kMaxEncoderBytes, sealed as
  // rows are; they end with the memory, and DestroyEndedKeys takes their key.
  virtual absl::Status CreateMemory(const MemoryRecord& memory, absl::string_view encoder = "") = 0;
  // NOT_FOUND "memory" where it has none.
  virtual absl::StatusOr<std::string> GetEncoder(absl::string_view memory_uid) = 0;
  virtual absl::StatusOr<MemoryRecord> GetMemory(absl::string_view uid) = 0;
  virtual absl::StatusOr<MemoryRecord> GetMemoryByName(absl::string_view name) = 0;
  // In the order of names, those above `after_name` (empty: from the start); limit 1 to
  // kMaxPageSize.
  virtual absl::StatusOr<std::vector<MemoryRecord>> ListMemories(absl::string_view after_name,
                                                                 uint32_t limit) = 0;
  virtual absl::StatusOr<uint64_t> CountMemories() = 0;
  // Cost O(tokens + tombstones) of this memory, over index pages only.
  virtual absl::StatusOr<MemoryCounts> CountMemory(absl::string_view uid) = 0;
  // Removes the memory with everything in it. Its certificates stay; the keys of its rows are
  // pending under the sequence of `certificate`.
  virtual absl::StatusOr<EraseResult> DeleteMemory(const DeleteMemoryRequest& request) = 0;

  // --- Tokens.
  // Handles must increase strictly, from the memory's next_handle. An id that was erased before
  // stops being "already erased". The whole batch or nothing.
  virtual absl::Status InsertTokens(absl::string_view memory_uid,
                                    std::span<const TokenRow> rows) = 0;
  // Deletes the rows, leaves tombstones, seals what remains of their subjects with a new key each,
  // inserts the replacements (never under a key that is to be destroyed), appends the certificate,
  // stores the answer, notes the keys to destroy under the certificate's sequence; then cleans the
  // write-ahead log. Cost O(rows named + remaining rows of their subjects).
  virtual absl::StatusOr<EraseResult> EraseTokens(const EraseRequest& request) = 0;
  // One lookup an id, in order.
  virtual absl::StatusOr<std::vector<IdLookup>> FindByIds(absl::string_view memory_uid,
                                                          std::span<const std::string> ids) = 0;
  // Handles of the live tokens with this subject, increasing. `subject` must not be empty.
  virtual absl::StatusOr<std::vector<uint64_t>> FindBySubject(absl::string_view memory_uid,
                                                              absl::string_view subject) = 0;
  // One row a handle, in order; NOT_FOUND names the index of one that is not there.
  virtual absl::StatusOr<std::vector<TokenRow>> GetTokens(absl::string_view memory_uid,
                                                          std::span<const uint64_t> handles) = 0;
  // Every token of the memory in the order of handles, one at a time; the visitor may move from the
  // row. Stops at the first status that is not OK and returns it. DATA_LOSS at the end when a token
  // was missing, as far as two indexes tell. The visitor must not call the store.
  virtual absl::Status LoadTokens(absl::string_view memory_uid,
                                  absl::FunctionRef<absl::Status(TokenRow&)> visit) = 0;

  // --- Keys of erased rows.
  // Oldest first, at most kMaxPageSize.
  virtual absl::StatusOr<std::vector<PendingErasure>> PendingErasures() = 0;
  // Destroys the keys of every pending erasure up to this sequence. Idempotent; OK with zeros when
  // nothing is pending. Cost: one commit and one pass over the file of keys, however many they are.
  virtual absl::StatusOr<KeysDestroyed> DestroyPendingKeys(uint64_t through_sequence) = 0;
  // Appends the certificate and takes the pending erasures up to this sequence off the list.
  // FAILED_PRECONDITION when none is pending or a key of theirs is not destroyed. The quota does
  // not stop it.
  virtual absl::Status AppendShredded(const CertificateAppend& certificate,
                                      uint64_t through_sequence) = 0;

  // --- The key-encryption key (KEK), under which the keys of the rows are wrapped.
  // Finishes what an earlier call left, makes a new KEK, wraps every key under it and destroys the
  // old one: from then on no older copy of the file of keys is of use to anybody. Rows are not
  // touched. Cost O(keys that are alive). After an error the old KEK may still be there: repeat it,
  // or call FinishRotation, which makes no other KEK.
  virtual absl::StatusOr<KeysRewrapped> RotateKeys() = 0;
  virtual absl::StatusOr<KeysRewrapped> FinishRotation() = 0;
  // The epochs of KEKs that were destroyed, increasing, until they are forgotten: to be named in
  // the next certificate, whenever the destruction itself was. A crash between the certificate and
  // ForgetEndedEpochs lists them once more.
  virtual absl::StatusOr<std::vector<uint32_t>> EndedEpochs() = 0;
  virtual absl::Status ForgetEndedEpochs(uint32_t through) = 0;

  // --- Requests.
  virtual absl::StatusOr<std::optional<RequestRecord>> FindRequest(
      absl::string_view request_id) = 0;
  // For an answer that goes with no erasure (nothing matched).
  virtual absl::Status RecordRequest(const RequestRecord& request) = 0;

  // --- Cases.
  // Returns the record as stored. The quota does not stop this, nor UpdateCase. ALREADY_EXISTS for
  // an id or a request id that is there. INDETERMINATE also where the anchor could not follow.
  virtual absl::StatusOr<CaseRecord> CreateCase(const CaseCreation& creation) = 0;
  // NOT_FOUND. FAILED_PRECONDITION where a personal part that has ended would be written.
  virtual absl::Status UpdateCase(const CaseUpdate& update) = 0;
  virtual absl::StatusOr<CaseRecord> GetCase(absl::string_view id) = 0;
  virtual absl::StatusOr<CaseRecord> GetCaseByNumber(uint64_t number) = 0;
  // NOT_FOUND also when it has ended.
  virtual absl::StatusOr<std::string> GetCasePersonal(absl::string_view id) = 0;
  // In the order of numbers.
  virtual absl::StatusOr<std::vector<CaseRecord>> ListCases(const CaseQuery& query) = 0;
  // Those with a time to wake or a callback, in the order of numbers.
  virtual absl::StatusOr<std::vector<OpenCase>> ListOpenCases() = 0;
  // Destroys the keys of all personal parts and encoders that have ended. Idempotent; OK with zeros
  // where there is none. `evidence` as in DestroyPendingKeys. They stay on the list until
  // FinishEndedKeys.
  virtual absl::StatusOr<KeysDestroyed> DestroyEndedKeys() = 0;
  // Takes the destroyed ones off the list; their cases want nothing any more.
  virtual absl::Status FinishEndedKeys() = 0;
  // Of the holds that are in force.
  virtual absl::StatusOr<std::vector<HeldSubject>> ListHeldSubjects() = 0;
  virtual HoldKey HoldKeyOf(absl::string_view subject) const = 0;

  // --- The log of certificates.
  virtual absl::StatusOr<LogHead> GetLogHead() = 0;
  // Gives the log its first key and the checkpoint that every append continues. Once: afterwards
  // FAILED_PRECONDITION. Needed before anything can be appended. A closed tenant's can be started
  // too.
  virtual absl::Status StartLog(const LogStart& start) = 0;
  // A certificate about no change of tokens (a hand-over, a check). The quota does not stop it.
  virtual absl::Status AppendCertificate(const CertificateAppend& certificate) = 0;
  // Oldest first; empty until StartLog.
  virtual absl::StatusOr<std::vector<LogKey>> GetLogKeys() = 0;
  // Roots over the leaves [index 2^level, (index + 1) 2^level) for index = first, first + 1, ...,
  // as far as they are complete, at most `limit` (1 to kMaxPageSize). Level 0: leaf hashes.
  virtual absl::StatusOr<std::vector<Bytes32>> GetLogNodes(int level,
                                                           uint64_t first,
                                                           uint32_t limit) = 0;
  // Keeps one for each key, the last. FAILED_PRECONDITION unless its size is the log's.
  virtual absl::Status PutCosignature(const Cosignature& cosignature) = 0;
  // Those of the present size, in the order of key ids.
  virtual absl::StatusOr<std::vector<Cosignature>> GetCosignatures() = 0;
  virtual absl::StatusOr<CertificateRecord> GetCertificate(absl::string_view id) = 0;
  // In the order of the log.
  virtual absl::StatusOr<std::vector<CertificateRecord>> ListCertificates(
      const CertificateQuery& query) = 0;

  // --- Copies.
  // Writes what is stored, as it stands and whole, to a new file: rows sealed as they are, and no
  // key. RestoreTenantStore (tenant_restore.h) makes a tenant of it again. Durable on return;
  // changes nothing here; after an error there is no file. ALREADY_EXISTS when there is one;
  // FAILED_PRECONDITION unless the tenant is open. Cost O(file).
  virtual absl::StatusOr<TenantCopy> CopyTo(const std::string& path) = 0;

  // Of the database and of what waits in its write-ahead log, without pages that erasures freed.
  virtual absl::StatusOr<uint64_t> UsedBytes() = 0;
  // Moves the write-ahead log into the database and empties it. UNAVAILABLE when something held it.
  virtual absl::Status Checkpoint() = 0;
  // OK, or why the store must be closed and opened again.
  virtual absl::Status Health() const = 0;
};

}  // namespace lethe::store

#endif  // LETHE_STORE_TENANT_STORE_H_
