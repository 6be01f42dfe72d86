#include "server/calls/convert.h"

#include "server/service/names.h"

namespace lethe::calls {
namespace {

// Both sides number these alike; a change on either side must not pass unnoticed.
template <auto kService, auto kProto>
constexpr bool kSame = static_cast<int>(kService) == static_cast<int>(kProto);
static_assert(kSame<svdd::Phase::kEmpty, v1::MEMORY_PHASE_EMPTY>);
static_assert(kSame<svdd::Phase::kWarming, v1::MEMORY_PHASE_WARMING>);
static_assert(kSame<svdd::Phase::kActive, v1::MEMORY_PHASE_ACTIVE>);
static_assert(kSame<svdd::DuplicatesPolicy::kShared, v1::DUPLICATES_POLICY_SHARED>);
static_assert(kSame<svdd::DuplicatesPolicy::kOldestFirst, v1::DUPLICATES_POLICY_OLDEST_FIRST>);
static_assert(kSame<svdd::DuplicatesPolicy::kNewestFirst, v1::DUPLICATES_POLICY_NEWEST_FIRST>);
static_assert(kSame<service::Verdict::kBitIdentical, v1::VERDICT_BIT_IDENTICAL>);
static_assert(kSame<service::Verdict::kProven, v1::VERDICT_PROVEN>);
static_assert(kSame<service::Verdict::kBounded, v1::VERDICT_BOUNDED>);
static_assert(kSame<service::Verdict::kUncertified, v1::VERDICT_UNCERTIFIED>);
static_assert(kSame<service::InsertOutcome::kInserted, v1::INSERT_OUTCOME_INSERTED>);
static_assert(kSame<service::InsertOutcome::kUnchanged, v1::INSERT_OUTCOME_UNCHANGED>);
static_assert(kSame<service::InsertOutcome::kRejected, v1::INSERT_OUTCOME_REJECTED>);
static_assert(kSame<service::QueryPosition::kInside, v1::QUERY_POSITION_INSIDE>);
static_assert(kSame<service::QueryPosition::kOutside, v1::QUERY_POSITION_OUTSIDE>);
static_assert(kSame<service::QueryPosition::kBoundary, v1::QUERY_POSITION_BOUNDARY>);
static_assert(kSame<service::QueryPosition::kUndefined, v1::QUERY_POSITION_UNDEFINED>);

v1::MemoryPhase ToProto(svdd::Phase phase) { return static_cast<v1::MemoryPhase>(phase); }

void ToProto(const svdd::PartitionCounts& from, v1::Partition* to) {
  to->set_margin(from.margin);
  to->set_error(from.error);
  to->set_reserve(from.reserve);
}

void ToProto(const service::StoreLevel& from, v1::StoreLevel* to) {
  to->set_store(from.store);
  to->set_level(from.level);
  to->set_evidence(from.evidence);
}

void ToProto(const service::Destruction& from, v1::Destruction* to) {
  to->set_certificate_id(from.certificate_id);
  for (const service::StoreLevel& level : from.stores) ToProto(level, to->add_stores());
  for (const std::string& exception : from.exceptions) to->add_exceptions(exception);
}

// What the answers of Forget, Evict and Edit have in common.
template <typename Reply, typename Response>
void SetOutcome(const Reply& from, Response* to) {
  ToProto(from.partition_before, to->mutable_partition_before());
  ToProto(from.partition_after, to->mutable_partition_after());
  to->set_verdict(static_cast<v1::Verdict>(from.verdict));
  to->set_certificate_id(from.certificate_id);
  to->set_request_id(from.request_id);
  to->set_state_digest(from.state_digest);
  to->set_replayed(from.replayed);
  if (from.receipt.has_value()) {
    to->mutable_receipt()->set_request_salt(from.receipt->request_salt);
    to->mutable_receipt()->set_subject_salt(from.receipt->subject_salt);
  }
  if (from.destruction.has_value()) ToProto(*from.destruction, to->mutable_destruction());
}

template <typename Repeated>
void Assign(const std::vector<double>& from, Repeated* to) {
  to->Add(from.begin(), from.end());
}

}  // namespace

void ToProto(const service::MemoryConfig& from, v1::MemoryConfig* to) {
  if (from.kernel.has_value()) {
    switch (from.kernel->kind) {
      case kernel::KernelKind::kRbf:
        to->mutable_kernel()->mutable_rbf()->set_gamma(from.kernel->parameter);
        break;
      case kernel::KernelKind::kLaplacian:
        to->mutable_kernel()->mutable_laplacian()->set_gamma(from.kernel->parameter);
        break;
      case kernel::KernelKind::kExpDot:
        to->mutable_kernel()->mutable_exp_dot()->set_scale(from.kernel->parameter);
        break;
    }
  }
  if (from.box.has_value()) to->set_box(*from.box);
  if (from.capacity.has_value()) to->set_capacity(*from.capacity);
  to->set_duplicates(static_cast<v1::DuplicatesPolicy>(from.duplicates));
  to->set_key_dimension(from.key_dimension);
  to->set_value_dimension(from.value_dimension);
  if (!from.encoder_info.has_value()) return;
  v1::EncoderInfo* const info = to->mutable_encoder_info();
  info->set_sha256(from.encoder_info->sha256);
  info->set_raw_key_dimension(from.encoder_info->raw_key_dimension);
  info->set_raw_value_dimension(from.encoder_info->raw_value_dimension);
}

void ToProto(const service::DeleteTenantReply& from, v1::DeleteTenantResponse* to) {
  to->set_erased_tokens(from.erased_tokens);
  to->set_certificate_id(from.certificate_id);
  to->set_envelope(from.envelope);
  to->set_checkpoint(from.checkpoint);
  to->set_tlog_proof(from.tlog_proof);
  for (const service::StoreLevel& level : from.stores) ToProto(level, to->add_stores());
}

void ToProto(const service::DeleteMemoryReply& from, v1::DeleteMemoryResponse* to) {
  to->set_erased_tokens(from.erased_tokens);
  to->set_certificate_id(from.certificate_id);
  if (from.destruction.has_value()) ToProto(*from.destruction, to->mutable_destruction());
}

absl::StatusOr<service::MemoryConfig> FromProto(const v1::MemoryConfig& config) {
  service::MemoryConfig out;
  switch (config.kernel().kind_case()) {
    case v1::Kernel::kRbf:
      out.kernel = kernel::Kernel{kernel::KernelKind::kRbf, config.kernel().rbf().gamma()};
      break;
    case v1::Kernel::kLaplacian:
      out.kernel =
          kernel::Kernel{kernel::KernelKind::kLaplacian, config.kernel().laplacian().gamma()};
      break;
    case v1::Kernel::kExpDot:
      out.kernel = kernel::Kernel{kernel::KernelKind::kExpDot, config.kernel().exp_dot().scale()};
      break;
    case v1::Kernel::KIND_NOT_SET:
      break;
  }
  if (config.size_case() == v1::MemoryConfig::kBox) out.box = config.box();
  if (config.size_case() == v1::MemoryConfig::kCapacity) out.capacity = config.capacity();
  switch (config.duplicates()) {
    case v1::DUPLICATES_POLICY_UNSPECIFIED:
    case v1::DUPLICATES_POLICY_SHARED:
      out.duplicates = svdd::DuplicatesPolicy::kShared;
      break;
    case v1::DUPLICATES_POLICY_OLDEST_FIRST:
      out.duplicates = svdd::DuplicatesPolicy::kOldestFirst;
      break;
    case v1::DUPLICATES_POLICY_NEWEST_FIRST:
      out.duplicates = svdd::DuplicatesPolicy::kNewestFirst;
      break;
    default:
      return service::FieldError("config.duplicates", "is not a policy that this version knows");
  }
  out.key_dimension = config.key_dimension();
  out.value_dimension = config.value_dimension();
  out.encoder = config.encoder();
  if (config.has_encoder_info()) {
    out.encoder_info =
        service::EncoderInfo{.sha256 = config.encoder_info().sha256(),
                             .raw_key_dimension = config.encoder_info().raw_key_dimension(),
                             .raw_value_dimension = config.encoder_info().raw_value_dimension()};
  }
  return out;
}

service::TokenInput FromProto(const v1::Token& token) {
  service::TokenInput out;
  out.id = token.id();
  out.key.assign(token.key().begin(), token.key().end());
  out.value.assign(token.value().begin(), token.value().end());
  out.subject = token.subject();
  out.payload = token.payload();
  out.labels.insert(token.labels().begin(), token.labels().end());
  return out;
}

std::vector<service::TokenInput> FromProto(
    const google::protobuf::RepeatedPtrField<v1::Token>& tokens) {
  std::vector<service::TokenInput> out;
  out.reserve(static_cast<size_t>(tokens.size()));
  for (const v1::Token& token : tokens) out.push_back(FromProto(token));
  return out;
}

service::QueryInput FromProto(const v1::QueryRequest& request) {
  service::QueryInput out;
  out.tenant = request.tenant();
  out.memory = request.memory();
  out.queries.reserve(static_cast<size_t>(request.queries_size()));
  for (const v1::Vector& query : request.queries()) {
    out.queries.emplace_back(query.values().begin(), query.values().end());
  }
  out.top_tokens = request.top_tokens();
  if (request.has_local()) {
    service::LocalChunkInput& local = out.local.emplace();
    for (const v1::Vector& key : request.local().keys()) {
      local.keys.emplace_back(key.values().begin(), key.values().end());
    }
    for (const v1::Vector& value : request.local().values()) {
      local.values.emplace_back(value.values().begin(), value.values().end());
    }
    if (request.local().has_scale()) local.scale = request.local().scale();
    if (request.local().has_gate()) local.gate = request.local().gate();
    local.causal = request.local().causal();
  }
  return out;
}

absl::StatusOr<service::ForgetInput> FromProto(const v1::ForgetRequest& request) {
  service::ForgetInput out;
  out.tenant = request.tenant();
  out.memory = request.memory();
  switch (request.target_case()) {
    case v1::ForgetRequest::kTokens:
      out.target = service::ForgetIds{
          std::vector<std::string>(request.tokens().ids().begin(), request.tokens().ids().end())};
      break;
    case v1::ForgetRequest::kSubject:
      out.target = service::ForgetSubject{request.subject()};
      break;
    case v1::ForgetRequest::kEverything:
      if (!request.everything()) return service::FieldError("everything", "must be true");
      out.target = service::ForgetEverything{};
      break;
    case v1::ForgetRequest::TARGET_NOT_SET:
      break;
  }
  out.dry_run = request.dry_run();
  out.request_id = request.request_id();
  return out;
}

service::EvictInput FromProto(const v1::EvictRequest& request) {
  return {.tenant = request.tenant(),
          .memory = request.memory(),
          .budget = request.budget(),
          .dry_run = request.dry_run(),
          .request_id = request.request_id()};
}

service::EditInput FromProto(const v1::EditRequest& request) {
  return {.tenant = request.tenant(),
          .memory = request.memory(),
          .tokens = FromProto(request.tokens()),
          .dry_run = request.dry_run(),
          .request_id = request.request_id()};
}

service::CertificateName FromProto(const v1::GetInclusionProofRequest& request) {
  switch (request.which_case()) {
    case v1::GetInclusionProofRequest::kCertificateId:
      return request.certificate_id();
    case v1::GetInclusionProofRequest::kSequence:
      return request.sequence();
    case v1::GetInclusionProofRequest::WHICH_NOT_SET:
      break;
  }
  return {};
}

audit::ExportRange FromProto(const v1::ExportRequest& request) {
  audit::ExportRange range;
  range.first = request.first();
  if (request.has_last()) range.last = request.last();
  return range;
}

void ToProto(const service::TenantInfo& from, v1::Tenant* to) {
  to->set_name(from.name);
  to->set_create_time(from.create_time);
  to->set_log_origin(from.log_origin);
  to->set_verification_key(from.verification_key);
  to->set_certificate_count(from.certificate_count);
  to->set_memory_count(from.memory_count);
}

void ToProto(const service::MemoryInfo& from, v1::Memory* to) {
  to->set_tenant(from.tenant);
  to->set_name(from.name);
  ToProto(from.config, to->mutable_config());
  to->set_create_time(from.create_time);
  to->set_phase(ToProto(from.phase));
  ToProto(from.partition, to->mutable_partition());
}

void ToProto(const service::ItemError& from, v1::ItemError* to) {
  to->set_code(static_cast<int32_t>(from.code));
  to->set_field(from.field);
  to->set_message(from.message);
}

void SetState(const service::InsertReply& from, v1::InsertStreamResponse* to) {
  to->set_phase(ToProto(from.phase));
  ToProto(from.partition, to->mutable_partition());
  to->set_verdict(static_cast<v1::Verdict>(from.verdict));
}

void ToProto(const service::InsertReply& from, v1::InsertResponse* to) {
  for (const service::InsertItem& item : from.results) {
    v1::InsertResult* result = to->add_results();
    result->set_id(item.id);
    result->set_outcome(static_cast<v1::InsertOutcome>(item.outcome));
    if (item.error.has_value()) ToProto(*item.error, result->mutable_error());
  }
  to->set_inserted(from.inserted);
  to->set_unchanged(from.unchanged);
  to->set_rejected(from.rejected);
  to->set_phase(ToProto(from.phase));
  ToProto(from.partition, to->mutable_partition());
  to->set_verdict(static_cast<v1::Verdict>(from.verdict));
}

void ToProto(const service::QueryReply& from, v1::QueryResponse* to) {
  for (const service::QueryItem& item : from.results) {
    v1::QueryResult* result = to->add_results();
    Assign(item.readout, result->mutable_readout());
    result->set_log_denominator(item.log_denominator);
    if (item.decision.has_value()) result->set_decision(*item.decision);
    result->set_position(static_cast<v1::QueryPosition>(item.position));
    result->set_readout_bound(item.readout_bound);
    if (item.decision_bound.has_value()) result->set_decision_bound(*item.decision_bound);
    if (item.local_share.has_value()) result->set_local_share(*item.local_share);
    for (const service::QueryToken& token : item.tokens) {
      v1::QueryToken* out = result->add_tokens();
      out->set_id(token.id);
      out->set_weight(token.weight);
      out->set_share(token.share);
    }
  }
  to->set_phase(ToProto(from.phase));
  ToProto(from.partition, to->mutable_partition());
}

void ToProto(const service::ForgetReply& from, v1::ForgetResponse* to) {
  to->set_matched(from.matched);
  to->set_erased(from.erased);
  to->set_not_found(from.not_found);
  to->set_already_erased(from.already_erased);
  to->set_held(from.held);
  SetOutcome(from, to);
}

void ToProto(const service::EvictReply& from, v1::EvictResponse* to) {
  to->set_evicted(from.reserve + from.surplus);
  to->set_reserve(from.reserve);
  to->set_surplus(from.surplus);
  to->set_held(from.held);
  to->set_retained(from.retained);
  to->set_budget_reached(from.budget_reached);
  SetOutcome(from, to);
}

void ToProto(const service::EditReply& from, v1::EditResponse* to) {
  to->set_edited(from.edited);
  to->set_unchanged(from.unchanged);
  SetOutcome(from, to);
}

void ToProto(const service::DescribeReply& from, v1::DescribeResponse* to) {
  ToProto(from.memory, to->mutable_memory());
  if (from.mu.has_value()) to->set_mu(*from.mu);
  if (from.mu_is_interval) {
    v1::MuInterval* interval = to->mutable_mu_interval();
    if (from.mu_low.has_value()) interval->set_low(*from.mu_low);
    if (from.mu_high.has_value()) interval->set_high(*from.mu_high);
  }
  if (from.radius_squared.has_value()) to->set_radius_squared(*from.radius_squared);
  to->set_state_digest(from.state_digest);
  v1::SolverHealth* solver = to->mutable_solver();
  solver->set_condition(from.solver.condition);
  solver->set_kkt_residual(from.solver.kkt_residual);
  solver->set_duality_gap(from.solver.duality_gap);
  solver->set_slack(from.solver.slack);
  solver->set_precision_bits(from.solver.precision_bits);
  solver->set_climbs(from.solver.climbs);
  solver->set_fallbacks(from.solver.fallbacks);
  solver->set_residual(from.solver.residual);
  solver->set_weight_bound(from.solver.weight_bound);
  solver->set_decision_bound(from.solver.decision_bound);
  solver->set_readout_bound(from.solver.readout_bound);
  solver->set_gap_bound(from.solver.gap_bound);
  solver->set_lambda_min(from.solver.lambda_min);
  to->set_verdict(static_cast<v1::Verdict>(from.verdict));
  to->set_subjects(from.subjects);
}

void ToProto(const service::CertificateInfo& from, v1::Certificate* to) {
  to->set_id(from.id);
  to->set_sequence(from.sequence);
  to->set_kind(from.kind);
  to->set_memory(from.memory);
  to->set_create_time(from.create_time);
  to->set_envelope(from.envelope);
  to->set_leaf(from.leaf);
  to->set_leaf_hash(from.leaf_hash);
  to->set_previous_leaf_hash(from.previous_leaf_hash);
}

void ToProto(const service::VerifyReply& from, v1::VerifyResponse* to) {
  to->set_verdict(static_cast<v1::Verdict>(from.verdict));
  to->set_bits_equal(from.bits_equal);
  to->set_deviation(from.deviation);
  to->set_certificate_id(from.certificate_id);
  to->set_sequence(from.sequence);
  to->set_state_digest(from.state_digest);
  ToProto(from.partition, to->mutable_partition());
  to->set_phase(ToProto(from.phase));
}

void ToProto(const service::CheckpointInfo& from, v1::Checkpoint* to) {
  to->set_note(from.note);
  to->set_origin(from.origin);
  to->set_size(from.size);
  to->set_root(from.root);
  for (const service::LogKeyInfo& key : from.keys) {
    v1::LogKey* added = to->add_keys();
    added->set_first_sequence(key.first_sequence);
    added->set_vkey(key.vkey);
  }
}

void ToProto(const service::InclusionProofReply& from, v1::InclusionProof* to) {
  to->set_sequence(from.sequence);
  to->set_size(from.size);
  to->set_leaf_hash(from.leaf_hash);
  to->set_root(from.root);
  for (const std::string& hash : from.hashes) to->add_hashes(hash);
  to->set_tlog_proof(from.tlog_proof);
}

void ToProto(const service::ConsistencyProofReply& from, v1::ConsistencyProof* to) {
  to->set_old_size(from.old_size);
  to->set_new_size(from.new_size);
  to->set_old_root(from.old_root);
  to->set_new_root(from.new_root);
  for (const std::string& hash : from.hashes) to->add_hashes(hash);
}

void ToProto(const service::RotateKeyReply& from, v1::RotateKeyResponse* to) {
  to->set_complete(from.complete);
  to->set_handed_over(from.handed_over);
  for (const std::string& tenant : from.pending) to->add_pending(tenant);
}

void ToProto(const service::RestoreReply& from, v1::RestoreBackupResponse* to) {
  to->set_tenant(from.tenant);
  to->set_certificate_id(from.certificate_id);
  to->set_copy_size(from.copy_size);
  to->set_reapplied(from.reapplied);
  to->set_removed(from.removed);
  to->set_unreadable(from.unreadable);
  to->set_memories_removed(from.memories_removed);
  to->set_keys_destroyed(from.keys_destroyed);
  to->set_requests_lost(from.requests_lost);
  to->set_holds_lost(from.holds_lost);
  to->set_requests_ended(from.requests_ended);
  to->set_holds_released(from.holds_released);
}

void ToProto(const service::RewrapReply& from, v1::RewrapKeysResponse* to) {
  to->set_keys(from.keys);
  to->set_epoch(from.epoch);
  to->set_certificate_id(from.certificate_id);
}

}  // namespace lethe::calls
