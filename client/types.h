// Plain values of the client's API; docs of the fields are in proto/lethe/v1, which they mirror.
// Users need neither generated code nor gRPC to include this header.
#ifndef LETHE_CLIENT_TYPES_H_
#define LETHE_CLIENT_TYPES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace lethe::client {

// The similarity of two keys.
struct Kernel {
  enum class Kind : uint8_t { kRbf = 1, kLaplacian = 2, kExpDot = 3 };
  Kind kind = Kind::kRbf;
  double parameter = 0.0;  // gamma, or scale for kExpDot; > 0

  // exp(-gamma |x - y|^2)
  static Kernel Rbf(double gamma) { return {.kind = Kind::kRbf, .parameter = gamma}; }
  // exp(-gamma |x - y|)
  static Kernel Laplacian(double gamma) { return {.kind = Kind::kLaplacian, .parameter = gamma}; }
  // exp(scale <x, y>)
  static Kernel ExpDot(double scale) { return {.kind = Kind::kExpDot, .parameter = scale}; }

  friend bool operator==(const Kernel&, const Kernel&) = default;
};

// How the weight of tokens with equal keys is divided among them.
enum class DuplicatesPolicy : uint8_t {
  kUnspecified = 0,  // the server reads it as kShared
  kShared = 1,
  kOldestFirst = 2,
  kNewestFirst = 3,
};

// What stands before a memory that has an encoder.
struct EncoderInfo {
  std::string sha256;              // of the artefact, hex
  uint32_t raw_key_dimension = 0;  // of what is sent
  uint32_t raw_value_dimension = 0;

  friend bool operator==(const EncoderInfo&, const EncoderInfo&) = default;
};

// Fixed when a memory is created. Exactly one of box and capacity is needed. With an encoder the
// kernel and the dimensions may be left out: they are the encoder's.
struct MemoryConfig {
  std::optional<Kernel> kernel = std::nullopt;
  std::optional<double> box = std::nullopt;       // the largest weight of a token, in (0, 1]
  std::optional<double> capacity = std::nullopt;  // at least this many tokens carry the answer
  DuplicatesPolicy duplicates = DuplicatesPolicy::kUnspecified;
  uint32_t key_dimension = 0;
  uint32_t value_dimension = 0;
  std::string encoder = {};  // an artefact, at most 4 MiB; empty in answers
  std::optional<EncoderInfo> encoder_info = std::nullopt;  // in answers

  friend bool operator==(const MemoryConfig&, const MemoryConfig&) = default;
};

// Which memory of which tenant.
struct MemoryName {
  std::string tenant;
  std::string memory;

  friend bool operator==(const MemoryName&, const MemoryName&) = default;
};

struct Token {
  std::string id = {};  // unique in its memory; empty: made by the server
  std::vector<double> key = {};
  std::vector<double> value = {};
  std::string subject = {};  // the data subject, if any
  std::string payload = {};  // opaque bytes
  std::map<std::string, std::string> labels = {};

  friend bool operator==(const Token&, const Token&) = default;
};

// How many tokens stand in each set of the optimal partition.
struct Partition {
  uint64_t margin = 0;   // 0 < weight < box
  uint64_t error = 0;    // weight = box
  uint64_t reserve = 0;  // weight = 0

  friend bool operator==(const Partition&, const Partition&) = default;
};

enum class MemoryPhase : uint8_t { kUnspecified = 0, kEmpty = 1, kWarming = 2, kActive = 3 };

enum class Verdict : uint8_t {
  kUnspecified = 0,
  kBitIdentical = 1,
  kProven = 2,
  kBounded = 3,
  kUncertified = 4,
};

struct Tenant {
  std::string name;
  std::string create_time;  // RFC 3339, UTC
  std::string log_origin;
  std::string verification_key;  // pin it: certificates are checked against it
  uint64_t certificate_count = 0;
  uint64_t memory_count = 0;
};

// What is claimed of one place that held erased bytes; docs/certificate_format.md has the words.
struct StoreLevel {
  std::string store;
  std::string level;
  std::string evidence;
};

// How an erasure ended: the keys of what was erased are destroyed.
struct Destruction {
  std::string certificate_id;  // of the certificate that says so
  std::vector<StoreLevel> stores;
  std::vector<std::string> exceptions = {};  // what the certificate of the erasure does not cover
};

struct TenantDeletion {
  uint64_t erased_tokens = 0;
  std::string certificate_id;  // of the certificate that closes the log
  std::string envelope;        // that certificate itself
  std::string checkpoint;      // C2SP signed note over the whole log
  std::string tlog_proof;      // c2sp.org/tlog-proof@v1 of the certificate, with that checkpoint
  std::vector<StoreLevel> stores;  // what the certificate claims of each place
};

struct Memory {
  MemoryName name;
  MemoryConfig config;
  std::string create_time;
  MemoryPhase phase = MemoryPhase::kUnspecified;
  Partition partition;
};

struct MemoryDeletion {
  uint64_t erased_tokens = 0;
  std::string certificate_id;                   // empty when the memory was empty
  std::optional<Destruction> destruction = {};  // with a certificate
};

// Why one item of a batch was refused.
struct ItemError {
  absl::StatusCode code = absl::StatusCode::kUnknown;
  std::string field;  // for example "tokens[3].key[1]"
  std::string message;

  friend bool operator==(const ItemError&, const ItemError&) = default;
};

enum class InsertOutcome : uint8_t {
  kUnspecified = 0,
  kInserted = 1,
  kUnchanged = 2,
  kRejected = 3
};

struct InsertedToken {
  std::string id;
  InsertOutcome outcome = InsertOutcome::kUnspecified;
  ItemError error;  // only with kRejected
};

// Of a memory after a change.
struct StateAfter {
  MemoryPhase phase = MemoryPhase::kUnspecified;
  Partition partition;
  Verdict verdict = Verdict::kUnspecified;
};

struct InsertResult {
  std::vector<InsertedToken> tokens;  // one a token, in the order of the call
  uint64_t inserted = 0;
  uint64_t unchanged = 0;
  uint64_t rejected = 0;
  StateAfter state;
};

enum class QueryPosition : uint8_t {
  kUnspecified = 0,
  kInside = 1,
  kOutside = 2,
  kBoundary = 3,
  kUndefined = 4,  // empty or warming, or the radius is an interval that contains the query
};

// Keys and values beside the memory: the answer is the gated softmax over both, with logits
// scale <q, x>, each weight of the memory times `gate`, and 1 for a key of this chunk.
struct LocalChunk {
  std::vector<std::vector<double>> keys;  // at most 1,024
  std::vector<std::vector<double>> values;
  std::optional<double> scale;  // 1 / sqrt(key dimension) where absent
  std::optional<double> gate;   // 1 where absent
  bool causal = false;          // query i sees the first i + 1 keys; needs one query a key
};

struct QueryRequest {
  MemoryName name;
  std::vector<std::vector<double>> queries;
  uint32_t top_tokens = 0;  // also return the tokens that carried the answer, at most this many
  std::optional<LocalChunk> local;
};

struct QueryToken {
  std::string id;
  double weight = 0.0;
  double share = 0.0;  // of the answer; all shares of a query sum to 1
};

struct QueryAnswer {
  std::vector<double> readout;  // empty for an empty memory
  double log_denominator = 0.0;
  std::optional<double> decision;  // absent where the radius is not unique, and with a chunk
  QueryPosition position = QueryPosition::kUnspecified;
  std::vector<QueryToken> tokens;
  // How far each number of the readout, and the decision, can be from the exact problem's.
  double readout_bound = 0.0;
  std::optional<double> decision_bound;
  std::optional<double> local_share;  // of the local chunk, where there is one
};

struct QueryResult {
  std::vector<QueryAnswer> answers;  // one a query, in order
  MemoryPhase phase = MemoryPhase::kUnspecified;
  Partition partition;
};

// Exactly one of ids, subject and everything must be set.
struct ForgetRequest {
  MemoryName name;
  std::vector<std::string> ids = {};
  std::optional<std::string> subject = std::nullopt;
  bool everything = false;
  bool dry_run = false;
  // A repeated request with the same id returns the first answer; without one a request is never
  // retried. NewRequestId() makes one.
  std::string request_id = {};
};

// Opens the commitments of a certificate (docs/certificate_format.md). The server gives it once and
// keeps no copy: keep it with the certificate.
struct Receipt {
  std::string request_salt;  // 32 bytes
  std::string subject_salt;  // 32 bytes; empty unless the request named a subject
};

struct ForgetResult {
  uint64_t matched = 0;
  uint64_t erased = 0;
  uint64_t not_found = 0;
  uint64_t already_erased = 0;
  uint64_t held = 0;
  Partition before;
  Partition after;
  Verdict verdict = Verdict::kUnspecified;
  std::string certificate_id;  // empty in a dry run and when nothing was erased
  std::string request_id;
  std::string state_digest;             // hex, of the state after
  bool replayed = false;                // the stored answer to an earlier request with this id
  std::optional<Receipt> receipt = {};  // with a certificate, in the first answer only
  std::optional<Destruction> destruction = {};  // with a certificate
};

// Takes out what no query reads now, until at most `budget` tokens are retained.
struct EvictRequest {
  MemoryName name;
  uint64_t budget = 0;  // at least 1
  bool dry_run = false;
  std::string request_id = {};  // as in ForgetRequest
};

struct EvictResult {
  uint64_t evicted = 0;  // reserve + surplus
  uint64_t reserve = 0;  // tokens of weight 0, of keys without weight
  uint64_t surplus = 0;  // copies that the group of their key can do without
  uint64_t held = 0;
  uint64_t retained = 0;
  bool budget_reached = false;
  Partition before;
  Partition after;
  Verdict verdict = Verdict::kUnspecified;
  std::string certificate_id;  // empty in a dry run and when nothing was taken out
  std::string request_id;
  std::string state_digest;
  bool replayed = false;
  std::optional<Receipt> receipt = {};
  std::optional<Destruction> destruction = {};
};

// Gives tokens that are there new content under their ids; all of it or nothing.
struct EditRequest {
  MemoryName name;
  std::vector<Token> tokens = {};  // 1 to 10,000, distinct ids
  bool dry_run = false;
  std::string request_id = {};  // as in ForgetRequest
};

struct EditResult {
  uint64_t edited = 0;
  uint64_t unchanged = 0;  // had this content already
  Partition before;
  Partition after;
  Verdict verdict = Verdict::kUnspecified;
  std::string certificate_id;  // empty in a dry run and when nothing was changed
  std::string request_id;
  std::string state_digest;
  bool replayed = false;
  std::optional<Receipt> receipt = {};
  std::optional<Destruction> destruction = {};
};

struct MuInterval {
  std::optional<double> low;   // absent: unbounded
  std::optional<double> high;  // absent: unbounded
};

struct SolverHealth {
  double condition = 0.0;
  double kkt_residual = 0.0;
  double duality_gap = 0.0;
  double slack = 0.0;
  uint32_t precision_bits = 0;
  uint64_t climbs = 0;
  uint64_t fallbacks = 0;
  double residual = 0.0;
  double weight_bound = 0.0;
  double decision_bound = 0.0;
  double readout_bound = 0.0;
  double gap_bound = 0.0;
  double lambda_min = 0.0;
};

struct Description {
  Memory memory;
  std::optional<double> mu;
  std::optional<MuInterval> mu_interval;
  std::optional<double> radius_squared;
  std::string state_digest;
  SolverHealth solver;
  Verdict verdict = Verdict::kUnspecified;
  uint64_t subjects = 0;
};

struct Certificate {
  std::string id;  // lower-case hex SHA-256 of the envelope
  uint64_t sequence = 0;
  std::string kind;
  std::string memory;
  std::string create_time;
  std::string envelope;  // exactly as signed and stored
  std::string leaf;      // the log entry
  std::string leaf_hash;
  std::string previous_leaf_hash;
};

// A key of a log, and the first certificate that it signs.
struct LogKey {
  uint64_t first_sequence = 0;
  std::string vkey;

  friend bool operator==(const LogKey&, const LogKey&) = default;
};

// The signed size and root of a log.
struct Checkpoint {
  std::string note;  // C2SP signed note, with the witnesses' lines
  std::string origin;
  uint64_t size = 0;
  std::string root;          // hex
  std::vector<LogKey> keys;  // oldest first; trust the one you pinned and what it hands over to
};

// Of the certificate with this id or, when it is empty, at this sequence.
struct InclusionProofRequest {
  std::string tenant;
  std::string certificate_id = {};
  uint64_t sequence = 0;
  uint64_t size = 0;  // of the log; 0 for the present one
};
struct InclusionProof {
  uint64_t sequence = 0;
  uint64_t size = 0;
  std::string leaf_hash;            // hex
  std::string root;                 // hex
  std::vector<std::string> hashes;  // 32 bytes each
  std::string tlog_proof;           // c2sp.org/tlog-proof@v1; only for the present size
};

struct ConsistencyProof {
  uint64_t old_size = 0;
  uint64_t new_size = 0;
  std::string old_root;             // hex
  std::string new_root;             // hex
  std::vector<std::string> hashes;  // 32 bytes each
};

struct ExportRequest {
  std::string tenant;
  uint64_t first = 0;
  std::optional<uint64_t> last = std::nullopt;  // absent: to the end
};
// A part of a file; the files come one after another.
struct ExportPiece {
  std::string path;  // only with the first piece of each file
  std::string data;
};
struct ExportSummary {
  uint64_t files = 0;
  uint64_t bytes = 0;  // over all files
};

// A part of a backup's file, in order.
struct BackupPiece {
  std::string data;
  uint64_t file_bytes = 0;  // of the whole file
};
struct RestoreRequest {
  std::string manifest;  // as CreateBackup gave it
  bool replace = false;  // also a tenant that is served
};
struct RestoreResult {
  std::string tenant;
  std::string certificate_id;  // of kind restored
  uint64_t copy_size = 0;      // certificates in the copy
  uint64_t reapplied = 0;      // certificates after them that were put back
  uint64_t removed = 0;        // tokens taken out again
  uint64_t unreadable = 0;     // tokens that no erasure named, lost with their keys
  uint64_t memories_removed = 0;
  uint64_t keys_destroyed = 0;  // of rows that came after the copy
  // Made after the copy, and not there any more.
  uint64_t requests_lost = 0;
  uint64_t holds_lost = 0;
  // Open in the copy, and ended since.
  uint64_t requests_ended = 0;
  uint64_t holds_released = 0;
};

// A new key-encryption key for the rows of one tenant.
struct KeyRewrap {
  uint64_t keys = 0;           // of rows, wrapped under the new key
  uint32_t epoch = 0;          // its number
  std::string certificate_id;  // names the epochs that ended
};

struct KeyRotation {
  bool complete = false;     // every log that opens has handed over; the old key is destroyed
  uint64_t handed_over = 0;  // logs
  std::vector<std::string> pending;  // tenants that could not; the old key is kept for them
};

// A cold refit, compared bit for bit with what was served.
struct Verification {
  Verdict verdict = Verdict::kUnspecified;
  bool bits_equal = false;
  double deviation = 0.0;
  std::string certificate_id;
  uint64_t sequence = 0;
  std::string state_digest;  // of what is served now
  Partition partition;
  MemoryPhase phase = MemoryPhase::kUnspecified;
};

// One page of a listing. page_size 0 leaves the choice to the server.
struct PageRequest {
  uint32_t page_size = 0;
  std::string page_token = {};
};
template <typename T>
struct Page {
  std::vector<T> items;
  std::string next_page_token;  // empty: the last page
};

// Upper-case words of the wire for an enumerator, without its prefix: "ACTIVE", "BIT_IDENTICAL".
std::string ToString(Kernel::Kind kind);  // "rbf", "laplacian", "exp_dot"
std::string ToString(DuplicatesPolicy policy);
std::string ToString(MemoryPhase phase);
std::string ToString(Verdict verdict);
std::string ToString(InsertOutcome outcome);
std::string ToString(QueryPosition position);

// 128 random bits as 32 hex digits.
std::string NewRequestId();

}  // namespace lethe::client

#endif  // LETHE_CLIENT_TYPES_H_
