#include "client/convert.h"

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "client/retry.h"
#include "lethe/internal/error_details.pb.h"

namespace lethe::client::convert {
namespace {

constexpr absl::Duration kLongestDelay = absl::Minutes(10);

// A newer server may send a value that this client does not know; it reads as unspecified.
template <typename Enum>
Enum EnumFromWire(int value, Enum largest) {
  return value >= 0 && value <= static_cast<int>(largest) ? static_cast<Enum>(value)
                                                          : static_cast<Enum>(0);
}

MemoryPhase PhaseFromWire(v1::MemoryPhase phase) {
  return EnumFromWire(static_cast<int>(phase), MemoryPhase::kActive);
}

Verdict VerdictFromWire(v1::Verdict verdict) {
  return EnumFromWire(static_cast<int>(verdict), Verdict::kUncertified);
}

std::vector<StoreLevel> LevelsFromWire(
    const google::protobuf::RepeatedPtrField<v1::StoreLevel>& wire) {
  std::vector<StoreLevel> levels;
  for (const v1::StoreLevel& level : wire) {
    levels.push_back(
        {.store = level.store(), .level = level.level(), .evidence = level.evidence()});
  }
  return levels;
}

template <typename Response>
std::optional<Destruction> DestructionFromWire(const Response& wire) {
  if (!wire.has_destruction()) return std::nullopt;
  return Destruction{.certificate_id = wire.destruction().certificate_id(),
                     .stores = LevelsFromWire(wire.destruction().stores()),
                     .exceptions = {wire.destruction().exceptions().begin(),
                                    wire.destruction().exceptions().end()}};
}

// What the answers of Forget, Evict and Edit have in common.
template <typename Response, typename Result>
void SetOutcome(const Response& wire, Result& result) {
  result.before = FromWire(wire.partition_before());
  result.after = FromWire(wire.partition_after());
  result.verdict = VerdictFromWire(wire.verdict());
  result.certificate_id = wire.certificate_id();
  result.request_id = wire.request_id();
  result.state_digest = wire.state_digest();
  result.replayed = wire.replayed();
  if (wire.has_receipt()) {
    result.receipt = {.request_salt = wire.receipt().request_salt(),
                      .subject_salt = wire.receipt().subject_salt()};
  }
  result.destruction = DestructionFromWire(wire);
}

}  // namespace

absl::Status FromWire(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status converted(static_cast<absl::StatusCode>(status.error_code()),
                         status.error_message());
  internal::Status details;
  if (status.error_details().empty() || !details.ParseFromString(status.error_details())) {
    return converted;
  }
  for (const google::protobuf::Any& any : details.details()) {
    internal::RetryInfo retry;
    if (any.type_url() != "type.googleapis.com/google.rpc.RetryInfo" ||
        !retry.ParseFromString(any.value())) {
      continue;
    }
    // A server of somebody else may say anything.
    const absl::Duration delay = absl::Seconds(retry.retry_delay().seconds()) +
                                 absl::Nanoseconds(retry.retry_delay().nanos());
    converted = WithRetryDelay(std::move(converted),
                               std::clamp(delay, absl::ZeroDuration(), kLongestDelay));
  }
  return converted;
}

Tenant FromWire(const v1::Tenant& wire) {
  return {.name = wire.name(),
          .create_time = wire.create_time(),
          .log_origin = wire.log_origin(),
          .verification_key = wire.verification_key(),
          .certificate_count = wire.certificate_count(),
          .memory_count = wire.memory_count()};
}

TenantDeletion FromWire(const v1::DeleteTenantResponse& wire) {
  return {.erased_tokens = wire.erased_tokens(),
          .certificate_id = wire.certificate_id(),
          .envelope = wire.envelope(),
          .checkpoint = wire.checkpoint(),
          .tlog_proof = wire.tlog_proof(),
          .stores = LevelsFromWire(wire.stores())};
}

MemoryConfig FromWire(const v1::MemoryConfig& wire) {
  MemoryConfig config;
  switch (wire.kernel().kind_case()) {
    case v1::Kernel::kRbf:
      config.kernel = Kernel::Rbf(wire.kernel().rbf().gamma());
      break;
    case v1::Kernel::kLaplacian:
      config.kernel = Kernel::Laplacian(wire.kernel().laplacian().gamma());
      break;
    case v1::Kernel::kExpDot:
      config.kernel = Kernel::ExpDot(wire.kernel().exp_dot().scale());
      break;
    case v1::Kernel::KIND_NOT_SET:
      break;
  }
  if (wire.has_box()) config.box = wire.box();
  if (wire.has_capacity()) config.capacity = wire.capacity();
  config.duplicates =
      EnumFromWire(static_cast<int>(wire.duplicates()), DuplicatesPolicy::kNewestFirst);
  config.key_dimension = wire.key_dimension();
  config.value_dimension = wire.value_dimension();
  if (wire.has_encoder_info()) {
    config.encoder_info = {.sha256 = wire.encoder_info().sha256(),
                           .raw_key_dimension = wire.encoder_info().raw_key_dimension(),
                           .raw_value_dimension = wire.encoder_info().raw_value_dimension()};
  }
  return config;
}

Partition FromWire(const v1::Partition& wire) {
  return {.margin = wire.margin(), .error = wire.error(), .reserve = wire.reserve()};
}

Memory FromWire(const v1::Memory& wire) {
  return {.name = {wire.tenant(), wire.name()},
          .config = FromWire(wire.config()),
          .create_time = wire.create_time(),
          .phase = PhaseFromWire(wire.phase()),
          .partition = FromWire(wire.partition())};
}

MemoryDeletion FromWire(const v1::DeleteMemoryResponse& wire) {
  return {.erased_tokens = wire.erased_tokens(),
          .certificate_id = wire.certificate_id(),
          .destruction = DestructionFromWire(wire)};
}

ItemError FromWire(const v1::ItemError& wire) {
  return {.code = static_cast<absl::StatusCode>(wire.code()),
          .field = wire.field(),
          .message = wire.message()};
}

template <typename Wire>
StateAfter StateFromWire(const Wire& wire) {
  return {.phase = PhaseFromWire(wire.phase()),
          .partition = FromWire(wire.partition()),
          .verdict = VerdictFromWire(wire.verdict())};
}

InsertResult FromWire(const v1::InsertResponse& wire) {
  InsertResult result;
  result.tokens.reserve(static_cast<size_t>(wire.results_size()));
  for (const v1::InsertResult& item : wire.results()) {
    result.tokens.push_back(
        {.id = item.id(),
         .outcome = EnumFromWire(static_cast<int>(item.outcome()), InsertOutcome::kRejected),
         .error = item.has_error() ? FromWire(item.error()) : ItemError{}});
  }
  result.inserted = wire.inserted();
  result.unchanged = wire.unchanged();
  result.rejected = wire.rejected();
  result.state = StateFromWire(wire);
  return result;
}

InsertAck FromWire(const v1::InsertStreamResponse& wire) {
  InsertAck ack;
  ack.acknowledged_sequence = wire.acknowledged_sequence();
  ack.inserted = wire.inserted();
  ack.unchanged = wire.unchanged();
  ack.rejected = wire.rejected();
  for (const v1::InsertStreamResponse::Rejection& rejection : wire.rejections()) {
    ack.rejections.push_back({.sequence = rejection.sequence(),
                              .index = rejection.index(),
                              .id = rejection.id(),
                              .error = FromWire(rejection.error())});
  }
  ack.state = StateFromWire(wire);
  return ack;
}

QueryResult FromWire(const v1::QueryResponse& wire) {
  QueryResult result;
  result.answers.reserve(static_cast<size_t>(wire.results_size()));
  for (const v1::QueryResult& item : wire.results()) {
    QueryAnswer answer;
    answer.readout.assign(item.readout().begin(), item.readout().end());
    answer.log_denominator = item.log_denominator();
    if (item.has_decision()) answer.decision = item.decision();
    answer.position = EnumFromWire(static_cast<int>(item.position()), QueryPosition::kUndefined);
    answer.readout_bound = item.readout_bound();
    if (item.has_decision_bound()) answer.decision_bound = item.decision_bound();
    if (item.has_local_share()) answer.local_share = item.local_share();
    for (const v1::QueryToken& token : item.tokens()) {
      answer.tokens.push_back({.id = token.id(), .weight = token.weight(), .share = token.share()});
    }
    result.answers.push_back(std::move(answer));
  }
  result.phase = PhaseFromWire(wire.phase());
  result.partition = FromWire(wire.partition());
  return result;
}

ForgetResult FromWire(const v1::ForgetResponse& wire) {
  ForgetResult result;
  result.matched = wire.matched();
  result.erased = wire.erased();
  result.not_found = wire.not_found();
  result.already_erased = wire.already_erased();
  result.held = wire.held();
  SetOutcome(wire, result);
  return result;
}

EvictResult FromWire(const v1::EvictResponse& wire) {
  EvictResult result;
  result.evicted = wire.evicted();
  result.reserve = wire.reserve();
  result.surplus = wire.surplus();
  result.held = wire.held();
  result.retained = wire.retained();
  result.budget_reached = wire.budget_reached();
  SetOutcome(wire, result);
  return result;
}

EditResult FromWire(const v1::EditResponse& wire) {
  EditResult result;
  result.edited = wire.edited();
  result.unchanged = wire.unchanged();
  SetOutcome(wire, result);
  return result;
}

Description FromWire(const v1::DescribeResponse& wire) {
  Description description;
  description.memory = FromWire(wire.memory());
  if (wire.has_mu()) description.mu = wire.mu();
  if (wire.has_mu_interval()) {
    MuInterval interval;
    if (wire.mu_interval().has_low()) interval.low = wire.mu_interval().low();
    if (wire.mu_interval().has_high()) interval.high = wire.mu_interval().high();
    description.mu_interval = interval;
  }
  if (wire.has_radius_squared()) description.radius_squared = wire.radius_squared();
  description.state_digest = wire.state_digest();
  const v1::SolverHealth& solver = wire.solver();
  description.solver = {.condition = solver.condition(),
                        .kkt_residual = solver.kkt_residual(),
                        .duality_gap = solver.duality_gap(),
                        .slack = solver.slack(),
                        .precision_bits = solver.precision_bits(),
                        .climbs = solver.climbs(),
                        .fallbacks = solver.fallbacks(),
                        .residual = solver.residual(),
                        .weight_bound = solver.weight_bound(),
                        .decision_bound = solver.decision_bound(),
                        .readout_bound = solver.readout_bound(),
                        .gap_bound = solver.gap_bound(),
                        .lambda_min = solver.lambda_min()};
  description.verdict = VerdictFromWire(wire.verdict());
  description.subjects = wire.subjects();
  return description;
}

Certificate FromWire(const v1::Certificate& wire) {
  return {.id = wire.id(),
          .sequence = wire.sequence(),
          .kind = wire.kind(),
          .memory = wire.memory(),
          .create_time = wire.create_time(),
          .envelope = wire.envelope(),
          .leaf = wire.leaf(),
          .leaf_hash = wire.leaf_hash(),
          .previous_leaf_hash = wire.previous_leaf_hash()};
}

Verification FromWire(const v1::VerifyResponse& wire) {
  return {.verdict = VerdictFromWire(wire.verdict()),
          .bits_equal = wire.bits_equal(),
          .deviation = wire.deviation(),
          .certificate_id = wire.certificate_id(),
          .sequence = wire.sequence(),
          .state_digest = wire.state_digest(),
          .partition = FromWire(wire.partition()),
          .phase = PhaseFromWire(wire.phase())};
}

Checkpoint FromWire(const v1::Checkpoint& wire) {
  Checkpoint checkpoint{.note = wire.note(),
                        .origin = wire.origin(),
                        .size = wire.size(),
                        .root = wire.root(),
                        .keys = {}};
  for (const v1::LogKey& key : wire.keys()) {
    checkpoint.keys.push_back({key.first_sequence(), key.vkey()});
  }
  return checkpoint;
}

InclusionProof FromWire(const v1::InclusionProof& wire) {
  return {.sequence = wire.sequence(),
          .size = wire.size(),
          .leaf_hash = wire.leaf_hash(),
          .root = wire.root(),
          .hashes = {wire.hashes().begin(), wire.hashes().end()},
          .tlog_proof = wire.tlog_proof()};
}

ConsistencyProof FromWire(const v1::ConsistencyProof& wire) {
  return {.old_size = wire.old_size(),
          .new_size = wire.new_size(),
          .old_root = wire.old_root(),
          .new_root = wire.new_root(),
          .hashes = {wire.hashes().begin(), wire.hashes().end()}};
}

RestoreResult FromWire(const v1::RestoreBackupResponse& wire) {
  return {.tenant = wire.tenant(),
          .certificate_id = wire.certificate_id(),
          .copy_size = wire.copy_size(),
          .reapplied = wire.reapplied(),
          .removed = wire.removed(),
          .unreadable = wire.unreadable(),
          .memories_removed = wire.memories_removed(),
          .keys_destroyed = wire.keys_destroyed(),
          .requests_lost = wire.requests_lost(),
          .holds_lost = wire.holds_lost(),
          .requests_ended = wire.requests_ended(),
          .holds_released = wire.holds_released()};
}

KeyRotation FromWire(const v1::RotateKeyResponse& wire) {
  return {.complete = wire.complete(),
          .handed_over = wire.handed_over(),
          .pending = {wire.pending().begin(), wire.pending().end()}};
}

KeyRewrap FromWire(const v1::RewrapKeysResponse& wire) {
  return {.keys = wire.keys(), .epoch = wire.epoch(), .certificate_id = wire.certificate_id()};
}

namespace {

void ToWire(const Kernel& kernel, v1::Kernel& wire) {
  switch (kernel.kind) {
    case Kernel::Kind::kRbf:
      wire.mutable_rbf()->set_gamma(kernel.parameter);
      break;
    case Kernel::Kind::kLaplacian:
      wire.mutable_laplacian()->set_gamma(kernel.parameter);
      break;
    case Kernel::Kind::kExpDot:
      wire.mutable_exp_dot()->set_scale(kernel.parameter);
      break;
  }
}

}  // namespace

void ToWire(const MemoryConfig& config, v1::MemoryConfig& wire) {
  if (config.kernel.has_value()) ToWire(*config.kernel, *wire.mutable_kernel());
  if (config.box.has_value()) wire.set_box(*config.box);
  if (config.capacity.has_value()) wire.set_capacity(*config.capacity);
  wire.set_duplicates(static_cast<v1::DuplicatesPolicy>(config.duplicates));
  wire.set_key_dimension(config.key_dimension);
  wire.set_value_dimension(config.value_dimension);
  wire.set_encoder(config.encoder);
  if (config.encoder_info.has_value()) {  // the server refuses it: the artefact is what it needs
    wire.mutable_encoder_info()->set_sha256(config.encoder_info->sha256);
  }
}

void ToWire(const Token& token, v1::Token& wire) {
  wire.set_id(token.id);
  wire.mutable_key()->Assign(token.key.begin(), token.key.end());
  wire.mutable_value()->Assign(token.value.begin(), token.value.end());
  wire.set_subject(token.subject);
  wire.set_payload(token.payload);
  for (const auto& [name, value] : token.labels) (*wire.mutable_labels())[name] = value;
}

v1::QueryRequest ToWire(const QueryRequest& request) {
  v1::QueryRequest wire;
  wire.set_tenant(request.name.tenant);
  wire.set_memory(request.name.memory);
  for (const std::vector<double>& query : request.queries) {
    wire.add_queries()->mutable_values()->Assign(query.begin(), query.end());
  }
  wire.set_top_tokens(request.top_tokens);
  if (request.local.has_value()) {
    v1::LocalChunk* local = wire.mutable_local();
    for (const std::vector<double>& key : request.local->keys) {
      local->add_keys()->mutable_values()->Assign(key.begin(), key.end());
    }
    for (const std::vector<double>& value : request.local->values) {
      local->add_values()->mutable_values()->Assign(value.begin(), value.end());
    }
    if (request.local->scale.has_value()) local->set_scale(*request.local->scale);
    if (request.local->gate.has_value()) local->set_gate(*request.local->gate);
    local->set_causal(request.local->causal);
  }
  return wire;
}

v1::ForgetRequest ToWire(const ForgetRequest& request) {
  v1::ForgetRequest wire;
  wire.set_tenant(request.name.tenant);
  wire.set_memory(request.name.memory);
  if (request.everything) {
    wire.set_everything(true);
  } else if (request.subject.has_value()) {
    wire.set_subject(*request.subject);
  } else {
    wire.mutable_tokens()->mutable_ids()->Assign(request.ids.begin(), request.ids.end());
  }
  wire.set_dry_run(request.dry_run);
  wire.set_request_id(request.request_id);
  return wire;
}

v1::EvictRequest ToWire(const EvictRequest& request) {
  v1::EvictRequest wire;
  wire.set_tenant(request.name.tenant);
  wire.set_memory(request.name.memory);
  wire.set_budget(request.budget);
  wire.set_dry_run(request.dry_run);
  wire.set_request_id(request.request_id);
  return wire;
}

v1::EditRequest ToWire(const EditRequest& request) {
  v1::EditRequest wire;
  wire.set_tenant(request.name.tenant);
  wire.set_memory(request.name.memory);
  wire.mutable_tokens()->Reserve(static_cast<int>(request.tokens.size()));
  for (const Token& token : request.tokens) ToWire(token, *wire.add_tokens());
  wire.set_dry_run(request.dry_run);
  wire.set_request_id(request.request_id);
  return wire;
}

}  // namespace lethe::client::convert
