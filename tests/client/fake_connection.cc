#include "tests/client/fake_connection.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "audit/backup_manifest.h"
#include "audit/checkpoint.h"
#include "audit/encoding.h"
#include "audit/export.h"
#include "audit/merkle.h"
#include "audit/tlog_proof.h"
#include "audit/tree_proof.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace lethe::client {
namespace {

constexpr char kOrigin[] = "lethe.test/log/1";

audit::Signer MakeSigner() {
  absl::StatusOr<audit::Signer> signer = audit::Signer::FromSeed(kOrigin, std::string(32, '\x42'));
  LETHE_CHECK(signer.ok());
  return *std::move(signer);
}

Destruction Destroyed() {
  return {.certificate_id = std::string(64, 'e'),
          .stores = {{"tokens", "rows-deleted", "no row is left"},
                     {"keys", "key-destroyed", "1 slots overwritten"},
                     {"write-ahead-log", "truncated", ""},
                     {"backups", "unreadable-without-key", "copies of the data"}},
          .exceptions = {"artefact x is not covered"}};
}

// Two items a page, so that every listing of more turns pages.
template <typename T>
Page<T> Cut(const std::vector<T>& all, const PageRequest& request) {
  const size_t from = request.page_token.empty() ? 0 : std::stoul(request.page_token);
  Page<T> page;
  for (size_t i = from; i < all.size() && i < from + 2; ++i) page.items.push_back(all[i]);
  if (from + 2 < all.size()) page.next_page_token = std::to_string(from + 2);
  return page;
}

}  // namespace

FakeConnection::FakeConnection() : signer_(MakeSigner()) {
  options_.initial_backoff = options_.max_backoff = absl::Milliseconds(1);
}

absl::Status FakeConnection::Called(const std::string& call) {
  calls.push_back(call);
  const auto failure = failures.find(call);
  return failure == failures.end() ? absl::OkStatus() : failure->second;
}

absl::StatusOr<FakeConnection::State*> FakeConnection::Find(const MemoryName& name) {
  const auto tenant = tenants.find(name.tenant);
  if (tenant == tenants.end()) return absl::NotFoundError("tenant: not found");
  const auto memory = tenant->second.find(name.memory);
  if (memory == tenant->second.end()) return absl::NotFoundError("memory: not found");
  return &memory->second;
}

Memory FakeConnection::View(const MemoryName& name, const State& state) const {
  return {.name = name,
          .config = state.config,
          .create_time = "2026-01-31T12:00:00Z",
          .phase = state.tokens.empty() ? MemoryPhase::kEmpty : MemoryPhase::kActive,
          .partition = {.margin = state.tokens.size()}};
}

absl::StatusOr<Tenant> FakeConnection::CreateTenant(const std::string& tenant) {
  LETHE_RETURN_IF_ERROR(Called("CreateTenant"));
  if (!tenants.try_emplace(tenant).second) return absl::AlreadyExistsError("name: exists");
  return GetTenant(tenant);
}

absl::StatusOr<Tenant> FakeConnection::GetTenant(const std::string& tenant) {
  LETHE_RETURN_IF_ERROR(Called("GetTenant"));
  const auto place = tenants.find(tenant);
  if (place == tenants.end()) return absl::NotFoundError("tenant: not found");
  return Tenant{.name = tenant,
                .create_time = "2026-01-31T12:00:00Z",
                .log_origin = kOrigin,
                .verification_key = vkey(),
                .certificate_count = log.size(),
                .memory_count = place->second.size()};
}

absl::StatusOr<Page<Tenant>> FakeConnection::ListTenants(const PageRequest& page) {
  LETHE_RETURN_IF_ERROR(Called("ListTenants"));
  std::vector<Tenant> all;
  for (const auto& [name, memories] : tenants) all.push_back(*GetTenant(name));
  return Cut(all, page);
}

absl::StatusOr<TenantDeletion> FakeConnection::DeleteTenant(const std::string& tenant) {
  LETHE_RETURN_IF_ERROR(Called("DeleteTenant"));
  if (tenants.erase(tenant) == 0) return absl::NotFoundError("tenant: not found");
  TenantDeletion deletion{.erased_tokens = 3};
  deletion.certificate_id =
      Certify(audit::CertificateKind::kTenantClosed, "", {}, {}, {.matched = 3, .erased = 3});
  deletion.envelope = log.back().envelope;
  LETHE_ASSIGN_OR_RETURN(const Checkpoint checkpoint, GetCheckpoint(tenant));
  deletion.checkpoint = checkpoint.note;
  LETHE_ASSIGN_OR_RETURN(
      const InclusionProof proof,
      GetInclusionProof({.tenant = tenant, .certificate_id = deletion.certificate_id}));
  deletion.tlog_proof = proof.tlog_proof;
  deletion.stores = Destroyed().stores;
  if (bend_deletion) bend_deletion(deletion);
  return deletion;
}

absl::StatusOr<Memory> FakeConnection::CreateMemory(const MemoryName& name,
                                                    const MemoryConfig& config) {
  LETHE_RETURN_IF_ERROR(Called("CreateMemory"));
  const auto [place, fresh] = tenants[name.tenant].try_emplace(name.memory);
  if (!fresh) return absl::AlreadyExistsError("name: exists");
  place->second.config = config;
  return View(name, place->second);
}

absl::StatusOr<Memory> FakeConnection::GetMemory(const MemoryName& name) {
  LETHE_RETURN_IF_ERROR(Called("GetMemory"));
  LETHE_ASSIGN_OR_RETURN(const State* state, Find(name));
  return View(name, *state);
}

absl::StatusOr<Page<Memory>> FakeConnection::ListMemories(const std::string& tenant,
                                                          const PageRequest& page) {
  LETHE_RETURN_IF_ERROR(Called("ListMemories"));
  std::vector<Memory> all;
  for (const auto& [name, state] : tenants[tenant]) all.push_back(View({tenant, name}, state));
  return Cut(all, page);
}

absl::StatusOr<MemoryDeletion> FakeConnection::DeleteMemory(const MemoryName& name) {
  LETHE_RETURN_IF_ERROR(Called("DeleteMemory"));
  LETHE_ASSIGN_OR_RETURN(const State* state, Find(name));
  MemoryDeletion deletion{.erased_tokens = state->tokens.size()};
  if (deletion.erased_tokens > 0) {
    deletion.certificate_id = std::string(64, 'd');
    deletion.destruction = Destroyed();
  }
  tenants[name.tenant].erase(name.memory);
  return deletion;
}

absl::StatusOr<InsertResult> FakeConnection::Insert(const MemoryName& name,
                                                    const std::vector<Token>& tokens) {
  LETHE_RETURN_IF_ERROR(Called("Insert"));
  LETHE_ASSIGN_OR_RETURN(State * state, Find(name));
  InsertResult result;
  for (const Token& token : tokens) {
    const bool fresh = state->tokens.emplace(token.id, token).second;
    result.tokens.push_back(
        {.id = token.id, .outcome = fresh ? InsertOutcome::kInserted : InsertOutcome::kUnchanged});
    ++(fresh ? result.inserted : result.unchanged);
  }
  return result;
}

absl::StatusOr<QueryResult> FakeConnection::Query(const QueryRequest& request) {
  LETHE_RETURN_IF_ERROR(Called("Query"));
  LETHE_ASSIGN_OR_RETURN(const State* state, Find(request.name));
  QueryResult result;
  chunk = request.local;
  for (size_t i = 0; i < request.queries.size(); ++i) {
    if (request.queries[i].size() != state->config.key_dimension) {
      return absl::InvalidArgumentError("queries[" + std::to_string(i) + "]: has " +
                                        std::to_string(request.queries[i].size()) + " values");
    }
    QueryAnswer answer{.readout = {request.queries[i][0] / 3.0, 2.0},
                       .log_denominator = -1.5,
                       .position = QueryPosition::kUndefined};
    if (request.queries[i][0] >= 0) {
      answer.decision = request.queries[i][0];
      answer.position = QueryPosition::kInside;
    }
    if (request.local.has_value()) answer.local_share = 0.125;
    for (const auto& [id, token] : state->tokens) {
      if (answer.tokens.size() == request.top_tokens) break;
      answer.tokens.push_back({.id = id, .weight = 0.25, .share = 0.5});
    }
    result.answers.push_back(std::move(answer));
  }
  return result;
}

absl::StatusOr<ForgetResult> FakeConnection::Forget(const ForgetRequest& request) {
  LETHE_RETURN_IF_ERROR(Called(request.dry_run ? "Forget(dry_run)" : "Forget"));
  LETHE_ASSIGN_OR_RETURN(State * state, Find(request.name));
  std::vector<std::string> ids = request.ids;
  for (const auto& [id, token] : state->tokens) {
    if (request.everything || (request.subject.has_value() && token.subject == *request.subject)) {
      ids.push_back(id);
    }
  }
  ForgetResult result;
  result.before.margin = state->tokens.size();
  result.after = result.before;
  result.request_id = request.request_id;
  for (const std::string& id : ids) {
    if (state->tokens.count(id) > 0) {
      ++result.matched;
      --result.after.margin;
      if (request.dry_run) continue;
      ++result.erased;
      state->tokens.erase(id);
      state->erased[id] = true;
    } else {
      ++(state->erased.count(id) > 0 ? result.already_erased : result.not_found);
    }
  }
  if (request.dry_run || result.erased == 0) return result;
  result.verdict = Verdict::kProven;
  result.receipt = {.request_salt = std::string(32, '\xff'),
                    .subject_salt = std::string(32, '\xff')};
  result.state_digest = std::string(64, 'a');
  result.destruction = Destroyed();
  result.certificate_id =
      Certify(audit::CertificateKind::kForget, request.name.memory, result.before, result.after,
              {.matched = result.matched,
               .erased = result.erased,
               .not_found = result.not_found,
               .already_erased = result.already_erased,
               .held = result.held});
  return result;
}

absl::StatusOr<EvictResult> FakeConnection::Evict(const EvictRequest& request) {
  LETHE_RETURN_IF_ERROR(Called(request.dry_run ? "Evict(dry_run)" : "Evict"));
  LETHE_ASSIGN_OR_RETURN(State * state, Find(request.name));
  EvictResult result;
  result.before.margin = state->tokens.size();
  result.retained = std::min<uint64_t>(state->tokens.size(), std::max<uint64_t>(request.budget, 2));
  result.surplus = result.evicted = state->tokens.size() - result.retained;
  result.budget_reached = result.retained <= request.budget;
  result.after.margin = result.retained;
  result.verdict = Verdict::kProven;
  result.request_id = request.request_id;
  result.state_digest = std::string(64, 'b');
  if (request.dry_run || result.evicted == 0) return result;
  while (state->tokens.size() > result.retained) {
    const auto last = std::prev(state->tokens.end());
    state->erased[last->first] = true;
    state->tokens.erase(last);
  }
  result.receipt = {.request_salt = std::string(32, '\xff'), .subject_salt = ""};
  result.destruction = Destroyed();
  result.certificate_id =
      Certify(audit::CertificateKind::kEvict, request.name.memory, result.before, result.after,
              {.matched = result.evicted, .erased = result.evicted},
              audit::Selection{.budget = request.budget,
                               .reserve = 0,
                               .surplus = result.surplus,
                               .retained = result.retained});
  return result;
}

absl::StatusOr<EditResult> FakeConnection::Edit(const EditRequest& request) {
  LETHE_RETURN_IF_ERROR(Called(request.dry_run ? "Edit(dry_run)" : "Edit"));
  LETHE_ASSIGN_OR_RETURN(State * state, Find(request.name));
  EditResult result;
  result.before.margin = result.after.margin = state->tokens.size();
  result.request_id = request.request_id;
  result.verdict = Verdict::kProven;
  for (size_t i = 0; i < request.tokens.size(); ++i) {
    const Token& token = request.tokens[i];
    const std::string place = "tokens[" + std::to_string(i) + "].";
    if (token.key.size() != state->config.key_dimension) {
      return absl::InvalidArgumentError(place + "key: has another dimension");
    }
    const auto found = state->tokens.find(token.id);
    if (found == state->tokens.end()) {
      return absl::NotFoundError(place + "id: there is no token with this id");
    }
    ++(found->second == token ? result.unchanged : result.edited);
  }
  if (request.dry_run || result.edited == 0) return result;
  for (const Token& token : request.tokens) state->tokens[token.id] = token;
  result.receipt = {.request_salt = std::string(32, '\xff'), .subject_salt = ""};
  result.state_digest = std::string(64, 'd');
  result.destruction = Destroyed();
  result.certificate_id =
      Certify(audit::CertificateKind::kEdit, request.name.memory, result.before, result.after,
              {.matched = result.edited, .erased = result.edited});
  return result;
}

std::string FakeConnection::Certify(audit::CertificateKind kind,
                                    const std::string& memory,
                                    const Partition& before,
                                    const Partition& after,
                                    const audit::ErasureCounts& counts,
                                    std::optional<audit::Selection> selection) {
  audit::CertificateBody body;
  body.origin = kOrigin;
  body.sequence = log.size();
  body.previous_leaf_hash = last_leaf_hash_;
  body.kind = kind;
  body.build = "fake";
  body.time = "2026-01-31T12:00:00Z";
  audit::StateChange change;
  change.memory_uid = std::string(32, '7');
  change.partition_before.margin = before.margin;
  change.partition_after.margin = after.margin;
  change.root_before = audit::Sha256("before " + std::to_string(log.size()));
  change.root_after = audit::Sha256("after " + std::to_string(log.size()));
  change.verdict = audit::VerdictClass::kProven;
  change.residuals.slack = 0.25;
  change.residuals.precision_bits = 106;
  change.residuals.gap_bound = 0x1p-60;
  change.residuals.readout_bound = 0x1p-50;
  change.selection = selection;
  if (kind != audit::CertificateKind::kTenantClosed) body.change = change;
  body.counts = counts;
  body.stores = {{.store = "tokens", .level = "rows-deleted", .evidence = "one transaction"}};
  const absl::StatusOr<audit::SignedCertificate> made = audit::BuildCertificate(body, signer_);
  LETHE_CHECK(made.ok());
  last_leaf_hash_ = made->leaf_hash;
  const absl::string_view kind_name = audit::Name(kind);
  log.push_back({.id = made->id,
                 .sequence = body.sequence,
                 .kind = std::string(kind_name.data(), kind_name.size()),
                 .memory = memory,
                 .create_time = body.time,
                 .envelope = made->envelope,
                 .leaf = made->leaf});
  return made->id;
}

absl::StatusOr<Description> FakeConnection::Describe(const MemoryName& name, bool refit) {
  LETHE_RETURN_IF_ERROR(Called(refit ? "Describe(refit)" : "Describe"));
  LETHE_ASSIGN_OR_RETURN(const State* state, Find(name));
  Description description;
  description.memory = View(name, *state);
  description.mu_interval = MuInterval{.low = 0.25};
  description.state_digest = std::string(64, 'e');
  description.verdict = refit ? Verdict::kBitIdentical : Verdict::kProven;
  return description;
}

namespace {

// Nodes straight from the leaves.
class LeafNodes {
 public:
  explicit LeafNodes(std::vector<audit::Digest> leaves) : leaves_(std::move(leaves)) {}
  absl::StatusOr<audit::Digest> operator()(int level, uint64_t index) const {
    const size_t width = size_t{1} << level;
    return audit::MerkleRoot(std::span(leaves_).subspan(index * width, width));
  }

 private:
  std::vector<audit::Digest> leaves_;
};

std::vector<std::string> Strings(const std::vector<audit::Digest>& hashes) {
  std::vector<std::string> strings;
  for (const audit::Digest& hash : hashes) {
    strings.emplace_back(reinterpret_cast<const char*>(hash.data()), hash.size());
  }
  return strings;
}

class FakeLog : public audit::LogSource {
 public:
  FakeLog(const std::vector<Certificate>& log,
          std::string checkpoint,
          const audit::VerificationKey& key,
          std::vector<audit::Digest> leaves)
      : log_(log), checkpoint_(std::move(checkpoint)), key_(key), nodes_(std::move(leaves)) {}
  uint64_t size() const override { return log_.size(); }
  std::string checkpoint() const override { return checkpoint_; }
  std::vector<std::pair<uint64_t, audit::VerificationKey>> keys() const override {
    return {{0, key_}};
  }
  absl::StatusOr<audit::Digest> Node(int level, uint64_t index) override {
    return nodes_(level, index);
  }
  absl::Status Entries(uint64_t first,
                       uint64_t last,
                       absl::FunctionRef<absl::Status(const audit::ExportEntry&)> visit) override {
    for (uint64_t i = first; i <= last; ++i) {
      LETHE_RETURN_IF_ERROR(visit({i, log_.at(i).envelope, log_.at(i).leaf}));
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<Certificate>& log_;
  std::string checkpoint_;
  audit::VerificationKey key_;
  LeafNodes nodes_;
};

class PieceSink : public audit::ExportSink {
 public:
  explicit PieceSink(std::function<absl::Status(ExportPiece)> send) : send_(std::move(send)) {}
  absl::Status Begin(absl::string_view path) override {
    ++summary.files;
    piece_ = {std::string(path), ""};
    return absl::OkStatus();
  }
  absl::Status Write(absl::string_view bytes) override {
    summary.bytes += bytes.size();
    piece_.data.append(bytes.data(), bytes.size());
    if (piece_.data.size() < 1000) return absl::OkStatus();  // several pieces a file
    return send_(std::exchange(piece_, {}));
  }
  absl::Status End() override {
    if (piece_.path.empty() && piece_.data.empty()) return absl::OkStatus();
    return send_(std::exchange(piece_, {}));
  }
  ExportSummary summary;

 private:
  std::function<absl::Status(ExportPiece)> send_;
  ExportPiece piece_;
};

}  // namespace

std::vector<audit::Digest> FakeConnection::LeafHashes() const {
  std::vector<audit::Digest> leaves;
  for (const Certificate& certificate : log) leaves.push_back(audit::LeafHash(certificate.leaf));
  return leaves;
}

absl::StatusOr<Verification> FakeConnection::Verify(const MemoryName& name) {
  LETHE_RETURN_IF_ERROR(Called("Verify"));
  LETHE_ASSIGN_OR_RETURN(const State* state, Find(name));
  return Verification{.verdict = refit_differs ? Verdict::kUncertified : Verdict::kBitIdentical,
                      .bits_equal = !refit_differs,
                      .deviation = refit_differs ? 0.5 : 0.0,
                      .certificate_id = std::string(64, 'c'),
                      .sequence = log.size(),
                      .state_digest = std::string(64, 'e'),
                      .partition = View(name, *state).partition,
                      .phase = MemoryPhase::kActive};
}

absl::StatusOr<Checkpoint> FakeConnection::GetCheckpoint(const std::string&) {
  LETHE_RETURN_IF_ERROR(Called("GetCheckpoint"));
  const audit::Digest root = audit::MerkleRoot(LeafHashes());
  const std::string origin = signer_.verification_key().name();
  LETHE_ASSIGN_OR_RETURN(std::string note,
                         audit::SignCheckpoint({origin, log.size(), root}, signer_));
  return Checkpoint{.note = note + cosignatures,
                    .origin = origin,
                    .size = log.size(),
                    .root = audit::Hex(root),
                    .keys = {{0, vkey()}}};
}

absl::StatusOr<InclusionProof> FakeConnection::GetInclusionProof(
    const InclusionProofRequest& request) {
  LETHE_RETURN_IF_ERROR(Called("GetInclusionProof"));
  const std::vector<audit::Digest> leaves = LeafHashes();
  InclusionProof proof;
  proof.sequence = request.sequence;
  for (const Certificate& certificate : log) {
    if (certificate.id == request.certificate_id) proof.sequence = certificate.sequence;
  }
  proof.size = request.size == 0 ? leaves.size() : request.size;
  if (proof.sequence >= proof.size || proof.size > leaves.size()) {
    return absl::InvalidArgumentError("sequence: not there");
  }
  const LeafNodes nodes(leaves);
  LETHE_ASSIGN_OR_RETURN(const std::vector<audit::Digest> hashes,
                         audit::InclusionProof(proof.sequence, proof.size, nodes));
  LETHE_ASSIGN_OR_RETURN(const audit::Digest root, audit::RootAt(proof.size, nodes));
  proof.hashes = Strings(hashes);
  proof.root = audit::Hex(root);
  proof.leaf_hash = audit::Hex(leaves[proof.sequence]);
  if (proof.size == leaves.size()) {
    LETHE_ASSIGN_OR_RETURN(const Checkpoint checkpoint, GetCheckpoint(request.tenant));
    proof.tlog_proof = audit::TlogProof(proof.sequence, hashes, checkpoint.note);
  }
  if (bend_inclusion) bend_inclusion(proof);
  return proof;
}

absl::StatusOr<ConsistencyProof> FakeConnection::GetConsistencyProof(const std::string&,
                                                                     uint64_t old_size,
                                                                     uint64_t new_size) {
  LETHE_RETURN_IF_ERROR(Called("GetConsistencyProof"));
  const std::vector<audit::Digest> leaves = LeafHashes();
  ConsistencyProof proof;
  proof.old_size = old_size;
  proof.new_size = new_size == 0 ? leaves.size() : new_size;
  const LeafNodes nodes(leaves);
  LETHE_ASSIGN_OR_RETURN(const std::vector<audit::Digest> hashes,
                         audit::ConsistencyProof(old_size, proof.new_size, nodes));
  LETHE_ASSIGN_OR_RETURN(const audit::Digest old_root, audit::RootAt(old_size, nodes));
  LETHE_ASSIGN_OR_RETURN(const audit::Digest new_root, audit::RootAt(proof.new_size, nodes));
  proof.hashes = Strings(hashes);
  proof.old_root = audit::Hex(old_root);
  proof.new_root = audit::Hex(new_root);
  if (bend_consistency) bend_consistency(proof);
  return proof;
}

absl::StatusOr<Checkpoint> FakeConnection::AddCosignature(const std::string& tenant,
                                                          const std::string& line) {
  LETHE_RETURN_IF_ERROR(Called("AddCosignature"));
  cosignatures += line;
  return GetCheckpoint(tenant);
}

absl::StatusOr<ExportSummary> FakeConnection::Export(
    const ExportRequest& request,
    const std::function<absl::Status(const ExportPiece&)>& visit) {
  LETHE_RETURN_IF_ERROR(Called("Export"));
  LETHE_ASSIGN_OR_RETURN(const Checkpoint checkpoint, GetCheckpoint(request.tenant));
  FakeLog source(log, checkpoint.note, signer_.verification_key(), LeafHashes());
  PieceSink sink([&](ExportPiece piece) {
    if (!export_filter(piece)) return absl::UnavailableError("the server is stopping");
    return visit(piece);
  });
  LETHE_RETURN_IF_ERROR(
      audit::WriteExport(source, {request.first, request.last}, 1'700'000'000, sink));
  return sink.summary;
}

absl::StatusOr<KeyRotation> FakeConnection::RotateKey() {
  LETHE_RETURN_IF_ERROR(Called("RotateKey"));
  return KeyRotation{
      .complete = pending.empty(), .handed_over = tenants.size(), .pending = pending};
}

absl::StatusOr<std::string> FakeConnection::CreateBackup(
    const std::string& tenant,
    const std::function<absl::Status(const BackupPiece&)>& visit) {
  LETHE_RETURN_IF_ERROR(Called("CreateBackup"));
  if (!tenants.contains(tenant)) return absl::NotFoundError("tenant: there is none");
  if (const auto failure = failures.find("CreateBackup " + tenant); failure != failures.end()) {
    return failure->second;
  }
  audit::BackupManifest manifest;
  manifest.origin = kOrigin;
  manifest.tenant = tenant;
  manifest.uid = std::string(32, 'a');
  manifest.time = "2026-01-31T12:00:00.000001Z";
  manifest.log_size = 7;
  manifest.file_bytes = backup_file.size();
  manifest.file_sha256 = audit::Sha256(backup_file);
  for (size_t at = 0; at < backup_file.size(); at += 1000) {
    BackupPiece piece{.data = backup_file.substr(at, 1000), .file_bytes = backup_file.size()};
    if (!backup_filter(piece)) return absl::UnavailableError("the server is stopping");
    LETHE_RETURN_IF_ERROR(visit(piece));
  }
  LETHE_ASSIGN_OR_RETURN(std::string note, audit::SignBackupManifest(manifest, signer_));
  if (bend_manifest) bend_manifest(note);
  return note;
}

absl::StatusOr<RestoreResult> FakeConnection::RestoreBackup(
    const RestoreRequest& request,
    const std::function<absl::StatusOr<std::string>()>& next) {
  LETHE_RETURN_IF_ERROR(Called("RestoreBackup"));
  Restored& got = restored.emplace_back(Restored{request, ""});
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const std::string piece, next());
    if (piece.empty()) break;
    if (piece.size() > (size_t{1} << 20)) return absl::InvalidArgumentError("data: too long");
    got.file += piece;
  }
  LETHE_ASSIGN_OR_RETURN(const audit::BackupManifest manifest,
                         audit::ReadBackupManifest(request.manifest));
  return RestoreResult{.tenant = manifest.tenant,
                       .certificate_id = std::string(64, 'c'),
                       .copy_size = manifest.log_size,
                       .reapplied = 1234,
                       .removed = 5678,
                       .unreadable = 91,
                       .memories_removed = 2,
                       .keys_destroyed = 345};
}

absl::StatusOr<KeyRewrap> FakeConnection::RewrapKeys(const std::string& tenant) {
  LETHE_RETURN_IF_ERROR(Called("RewrapKeys"));
  if (tenants.count(tenant) == 0) return absl::NotFoundError("tenant: there is none");
  if (std::find(pending.begin(), pending.end(), tenant) != pending.end()) {
    return absl::UnavailableError("tenant: is quarantined");
  }
  return KeyRewrap{.keys = 12, .epoch = 2, .certificate_id = std::string(64, 'c')};
}

absl::StatusOr<Certificate> FakeConnection::GetCertificate(const std::string&,
                                                           const std::string& id) {
  LETHE_RETURN_IF_ERROR(Called("GetCertificate"));
  for (const Certificate& certificate : log) {
    if (certificate.id == id) return certificate;
  }
  return absl::NotFoundError("id: not found");
}

absl::StatusOr<Page<Certificate>> FakeConnection::ListCertificates(const MemoryName& name,
                                                                   const PageRequest& page) {
  LETHE_RETURN_IF_ERROR(Called("ListCertificates"));
  std::vector<Certificate> all;
  for (const Certificate& certificate : log) {
    if (name.memory.empty() || certificate.memory == name.memory) all.push_back(certificate);
  }
  return Cut(all, page);
}

}  // namespace lethe::client
