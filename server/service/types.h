// What goes into the service and what comes out: plain values, the same facts as proto/lethe/v1
// without its library.
#ifndef LETHE_SERVER_SERVICE_TYPES_H_
#define LETHE_SERVER_SERVICE_TYPES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/kernel/kernel.h"
#include "core/svdd/problem.h"

namespace lethe::service {

// Whether a caller may know that there is a tenant of this name. Empty: of every one.
using TenantFilter = std::function<bool(absl::string_view tenant)>;

// What a caller can say about one call.
struct CallOptions {
  // Asked before a commit starts: OK while somebody still waits for the answer, otherwise the
  // status to end with (CANCELLED, DEADLINE_EXCEEDED). Empty: always OK.
  std::function<absl::Status()> still_wanted = {};
  // Which tenants a list of them shows.
  TenantFilter sees = {};
};

struct TenantInfo {
  std::string name;
  std::string create_time;  // RFC 3339, UTC
  std::string log_origin;
  std::string verification_key;
  uint64_t certificate_count = 0;
  uint64_t memory_count = 0;
};

// What stands before a memory that has an encoder.
struct EncoderInfo {
  std::string sha256;              // of the artefact, hex
  uint32_t raw_key_dimension = 0;  // of what clients send
  uint32_t raw_value_dimension = 0;
};

// A memory's configuration as a client states it; ToOptions (validate.h) checks it.
struct MemoryConfig {
  std::optional<kernel::Kernel> kernel;
  std::optional<double> box;  // exactly one of box and capacity
  std::optional<double> capacity;
  svdd::DuplicatesPolicy duplicates = svdd::DuplicatesPolicy::kShared;
  uint32_t key_dimension = 0;  // of what is kept: behind the encoder
  uint32_t value_dimension = 0;
  // An artefact, on the way in; afterwards what is known of it (encoder.h).
  std::string encoder = {};
  std::optional<EncoderInfo> encoder_info = {};
};

struct MemoryInfo {
  std::string tenant;
  std::string name;
  MemoryConfig config;
  std::string create_time;  // RFC 3339, UTC
  svdd::Phase phase = svdd::Phase::kEmpty;
  svdd::PartitionCounts partition;
};

// What is claimed of one place that held erased bytes, in the words of docs/certificate_format.md.
struct StoreLevel {
  std::string store;
  std::string level;
  std::string evidence;
};

// How an erasure ended: its keys are destroyed.
struct Destruction {
  std::string certificate_id;  // of the certificate that says so
  std::vector<StoreLevel> stores;
  std::vector<std::string> exceptions = {};  // what the certificate of the erasure does not cover
};

struct DeleteMemoryReply {
  uint64_t erased_tokens = 0;
  std::string certificate_id;
  std::optional<Destruction> destruction = {};  // with a certificate
};

struct DeleteTenantReply {
  uint64_t erased_tokens = 0;
  std::string certificate_id;
  std::string envelope;
  std::string checkpoint;  // the signed note over the whole log
  std::string tlog_proof;  // of the certificate, under that checkpoint
  std::vector<StoreLevel> stores;
};

struct TokenInput {
  std::string id;  // empty: the server chooses
  std::vector<double> key;
  std::vector<double> value;
  std::string subject;
  std::string payload;
  std::map<std::string, std::string> labels;
};

// Why one item of a batch was refused.
struct ItemError {
  absl::StatusCode code = absl::StatusCode::kUnknown;
  std::string field;
  std::string message;
};

// Numbered as in proto/lethe/v1. What is not proven is not served.
enum class Verdict : uint8_t { kBitIdentical = 1, kProven = 2, kBounded = 3, kUncertified = 4 };

enum class InsertOutcome : uint8_t { kInserted = 1, kUnchanged = 2, kRejected = 3 };

struct InsertItem {
  std::string id;
  InsertOutcome outcome = InsertOutcome::kRejected;
  std::optional<ItemError> error;  // with kRejected
};

struct InsertReply {
  std::vector<InsertItem> results;
  uint64_t inserted = 0;
  uint64_t unchanged = 0;
  uint64_t rejected = 0;
  svdd::Phase phase = svdd::Phase::kEmpty;
  svdd::PartitionCounts partition;
  Verdict verdict = Verdict::kProven;  // on the state after
};

// Keys and values beside the memory (core/svdd/gated.h).
struct LocalChunkInput {
  std::vector<std::vector<double>> keys;
  std::vector<std::vector<double>> values;
  std::optional<double> scale;  // 1 / sqrt(key dimension) where absent
  std::optional<double> gate;   // 1 where absent
  bool causal = false;          // query i sees the first i + 1 keys
};

struct QueryInput {
  std::string tenant;
  std::string memory;
  std::vector<std::vector<double>> queries;
  uint32_t top_tokens = 0;
  std::optional<LocalChunkInput> local;
};

enum class QueryPosition : uint8_t { kInside = 1, kOutside = 2, kBoundary = 3, kUndefined = 4 };

struct QueryToken {
  std::string id;
  double weight = 0.0;
  double share = 0.0;
};

struct QueryItem {
  std::vector<double> readout;
  double log_denominator = 0.0;
  std::optional<double> decision;
  QueryPosition position = QueryPosition::kUndefined;
  std::vector<QueryToken> tokens;
  double readout_bound = 0.0;            // on each number of the readout
  std::optional<double> decision_bound;  // with decision
  std::optional<double> local_share;     // with a local chunk
};

struct QueryReply {
  std::vector<QueryItem> results;
  svdd::Phase phase = svdd::Phase::kEmpty;
  svdd::PartitionCounts partition;
};

struct ForgetIds {
  std::vector<std::string> ids;
};
struct ForgetSubject {
  std::string subject;
};
struct ForgetEverything {};

struct ForgetInput {
  std::string tenant;
  std::string memory;
  // monostate: the request named no target.
  std::variant<std::monostate, ForgetIds, ForgetSubject, ForgetEverything> target;
  bool dry_run = false;
  std::string request_id;
};

// The salts of a certificate's commitments. Goes to the requester and is not kept.
struct Receipt {
  std::string request_salt;
  std::string subject_salt;  // empty unless the request named a subject
};

struct ForgetReply {
  uint64_t matched = 0;
  uint64_t erased = 0;
  uint64_t not_found = 0;
  uint64_t already_erased = 0;
  uint64_t held = 0;
  svdd::PartitionCounts partition_before;
  svdd::PartitionCounts partition_after;
  Verdict verdict = Verdict::kProven;
  std::string certificate_id;
  std::string request_id;
  std::string state_digest;
  bool replayed = false;
  std::optional<Receipt> receipt = {};          // with a certificate, in the first answer only
  std::optional<Destruction> destruction = {};  // with a certificate
};

struct EvictInput {
  std::string tenant;
  std::string memory;
  uint64_t budget = 0;
  bool dry_run = false;
  std::string request_id;
};

struct EvictReply {
  uint64_t reserve = 0;
  uint64_t surplus = 0;
  uint64_t held = 0;
  uint64_t retained = 0;
  bool budget_reached = false;
  svdd::PartitionCounts partition_before;
  svdd::PartitionCounts partition_after;
  Verdict verdict = Verdict::kProven;
  std::string certificate_id;
  std::string request_id;
  std::string state_digest;
  bool replayed = false;
  std::optional<Receipt> receipt = {};
  std::optional<Destruction> destruction = {};
};

struct EditInput {
  std::string tenant;
  std::string memory;
  std::vector<TokenInput> tokens;
  bool dry_run = false;
  std::string request_id;
};

struct EditReply {
  uint64_t edited = 0;
  uint64_t unchanged = 0;
  svdd::PartitionCounts partition_before;
  svdd::PartitionCounts partition_after;
  Verdict verdict = Verdict::kProven;
  std::string certificate_id;
  std::string request_id;
  std::string state_digest;
  bool replayed = false;
  std::optional<Receipt> receipt = {};
  std::optional<Destruction> destruction = {};
};

// The answer to a change that erases.
using Answer = std::variant<ForgetReply, EvictReply, EditReply>;

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

struct DescribeReply {
  MemoryInfo memory;
  std::optional<double> mu;
  bool mu_is_interval = false;
  std::optional<double> mu_low;
  std::optional<double> mu_high;
  std::optional<double> radius_squared;
  std::string state_digest;
  SolverHealth solver;
  Verdict verdict = Verdict::kProven;
  uint64_t subjects = 0;
};

struct VerifyReply {
  Verdict verdict = Verdict::kUncertified;  // kBitIdentical or kUncertified
  bool bits_equal = false;
  double deviation = 0.0;  // largest difference of a weight
  std::string certificate_id;
  uint64_t sequence = 0;
  std::string state_digest;  // of what is served now
  svdd::PartitionCounts partition;
  svdd::Phase phase = svdd::Phase::kEmpty;
};

struct CertificateInfo {
  std::string id;
  uint64_t sequence = 0;
  std::string kind;
  std::string memory;
  std::string create_time;
  std::string envelope;
  std::string leaf;
  std::string leaf_hash;
  std::string previous_leaf_hash;
};

struct LogKeyInfo {
  uint64_t first_sequence = 0;
  std::string vkey;
};

struct CheckpointInfo {
  std::string note;
  std::string origin;
  uint64_t size = 0;
  std::string root;              // hex
  std::vector<LogKeyInfo> keys;  // oldest first
};

// A certificate by its id or by its place in the log.
using CertificateName = std::variant<std::monostate, std::string, uint64_t>;

struct InclusionProofReply {
  uint64_t sequence = 0;
  uint64_t size = 0;
  std::string leaf_hash;  // hex
  std::string root;       // hex
  std::vector<std::string> hashes;
  std::string tlog_proof;  // empty unless the size is the present one
};

struct ConsistencyProofReply {
  uint64_t old_size = 0;
  uint64_t new_size = 0;
  std::string old_root;  // hex
  std::string new_root;  // hex
  std::vector<std::string> hashes;
};

struct RewrapReply {
  uint64_t keys = 0;   // wrapped under the new key-encryption key
  uint32_t epoch = 0;  // of that
  std::string certificate_id;
};

struct RotateKeyReply {
  bool complete = false;
  uint64_t handed_over = 0;
  std::vector<std::string> pending;  // tenants
};

struct RestoreInput {
  std::string manifest;  // the signed note
  bool replace = false;  // also a tenant that is served
};

struct RestoreReply {
  std::string tenant;
  std::string certificate_id;
  uint64_t copy_size = 0;   // certificates in the copy
  uint64_t reapplied = 0;   // certificates after them that were put back
  uint64_t removed = 0;     // tokens taken out again
  uint64_t unreadable = 0;  // tokens that no erasure named, lost with their keys
  uint64_t memories_removed = 0;
  uint64_t keys_destroyed = 0;
  // Made after the copy, and not there any more: who asked must ask again, who held must hold
  // again.
  uint64_t requests_lost = 0;
  uint64_t holds_lost = 0;
  // Open in the copy, and ended since.
  uint64_t requests_ended = 0;
  uint64_t holds_released = 0;
};

template <typename T>
struct Page {
  std::vector<T> items;
  std::string next_page_token;
};

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_TYPES_H_
