#include "tests/server/service_testing.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "absl/strings/str_cat.h"
#include "audit/checkpoint.h"
#include "audit/encoding.h"
#include "audit/merkle.h"
#include "audit/verify.h"
#include "store/sqlite_tenant_store.h"

namespace lethe::service {
namespace {

using store::TenantStore;

class HookedStore final : public TenantStore {
 public:
  HookedStore(std::unique_ptr<TenantStore> inner, std::shared_ptr<StoreHooks> hooks)
      : inner_(std::move(inner)), hooks_(std::move(hooks)) {}

  absl::StatusOr<store::TenantRecord> GetTenant() override { return inner_->GetTenant(); }
  absl::StatusOr<store::EraseResult> BeginClose() override {
    return WithCheckpoint(Around("BeginClose", [&] { return inner_->BeginClose(); }));
  }
  absl::StatusOr<store::KeysDestroyed> DestroyAllKeys() override {
    return Around("DestroyAllKeys", [&] { return inner_->DestroyAllKeys(); });
  }
  absl::Status FinishClose(const store::CertificateAppend& certificate) override {
    return Around("FinishClose", [&] { return inner_->FinishClose(certificate); });
  }
  absl::Status CreateMemory(const store::MemoryRecord& memory, absl::string_view encoder) override {
    return Around("CreateMemory", [&] { return inner_->CreateMemory(memory, encoder); });
  }
  absl::StatusOr<std::string> GetEncoder(absl::string_view uid) override {
    return Around("GetEncoder", [&] { return inner_->GetEncoder(uid); });
  }
  absl::StatusOr<store::MemoryRecord> GetMemory(absl::string_view uid) override {
    return inner_->GetMemory(uid);
  }
  absl::StatusOr<store::MemoryRecord> GetMemoryByName(absl::string_view name) override {
    return inner_->GetMemoryByName(name);
  }
  absl::StatusOr<std::vector<store::MemoryRecord>> ListMemories(absl::string_view after_name,
                                                                uint32_t limit) override {
    if (failed_.has_value()) return *failed_;
    return inner_->ListMemories(after_name, limit);
  }
  absl::StatusOr<uint64_t> CountMemories() override { return inner_->CountMemories(); }
  absl::StatusOr<store::MemoryCounts> CountMemory(absl::string_view uid) override {
    return Around("CountMemory", [&] { return inner_->CountMemory(uid); });
  }
  absl::StatusOr<store::EraseResult> DeleteMemory(
      const store::DeleteMemoryRequest& request) override {
    return WithCheckpoint(Around("DeleteMemory", [&] { return inner_->DeleteMemory(request); }));
  }
  absl::Status InsertTokens(absl::string_view memory_uid,
                            std::span<const store::TokenRow> rows) override {
    return Around("InsertTokens", [&] { return inner_->InsertTokens(memory_uid, rows); });
  }
  absl::StatusOr<store::EraseResult> EraseTokens(const store::EraseRequest& request) override {
    return WithCheckpoint(Around("EraseTokens", [&] { return inner_->EraseTokens(request); }));
  }
  absl::StatusOr<std::vector<store::IdLookup>> FindByIds(
      absl::string_view memory_uid,
      std::span<const std::string> ids) override {
    return inner_->FindByIds(memory_uid, ids);
  }
  absl::StatusOr<std::vector<uint64_t>> FindBySubject(absl::string_view memory_uid,
                                                      absl::string_view subject) override {
    return inner_->FindBySubject(memory_uid, subject);
  }
  absl::StatusOr<std::vector<store::TokenRow>> GetTokens(
      absl::string_view memory_uid,
      std::span<const uint64_t> handles) override {
    return inner_->GetTokens(memory_uid, handles);
  }
  absl::Status LoadTokens(absl::string_view memory_uid,
                          absl::FunctionRef<absl::Status(store::TokenRow&)> visit) override {
    return Around("LoadTokens", [&] { return inner_->LoadTokens(memory_uid, visit); });
  }
  absl::StatusOr<std::vector<store::PendingErasure>> PendingErasures() override {
    return Around("PendingErasures", [&] { return inner_->PendingErasures(); });
  }
  absl::StatusOr<store::KeysDestroyed> DestroyPendingKeys(uint64_t through_sequence) override {
    return Around("DestroyPendingKeys",
                  [&] { return inner_->DestroyPendingKeys(through_sequence); });
  }
  absl::Status AppendShredded(const store::CertificateAppend& certificate,
                              uint64_t through_sequence) override {
    return Around("AppendShredded",
                  [&] { return inner_->AppendShredded(certificate, through_sequence); });
  }
  absl::StatusOr<store::KeysRewrapped> RotateKeys() override {
    return Around("RotateKeys", [&] { return inner_->RotateKeys(); });
  }
  absl::StatusOr<store::KeysRewrapped> FinishRotation() override {
    return Around("FinishRotation", [&] { return inner_->FinishRotation(); });
  }
  absl::StatusOr<std::vector<uint32_t>> EndedEpochs() override {
    return Around("EndedEpochs", [&] { return inner_->EndedEpochs(); });
  }
  absl::Status ForgetEndedEpochs(uint32_t through) override {
    return Around("ForgetEndedEpochs", [&] { return inner_->ForgetEndedEpochs(through); });
  }
  absl::StatusOr<std::optional<store::RequestRecord>> FindRequest(
      absl::string_view request_id) override {
    return inner_->FindRequest(request_id);
  }
  absl::Status RecordRequest(const store::RequestRecord& request) override {
    return Around("RecordRequest", [&] { return inner_->RecordRequest(request); });
  }
  absl::StatusOr<store::CaseRecord> CreateCase(const store::CaseCreation& creation) override {
    return Around("CreateCase", [&] { return inner_->CreateCase(creation); });
  }
  absl::Status UpdateCase(const store::CaseUpdate& update) override {
    return Around("UpdateCase", [&] { return inner_->UpdateCase(update); });
  }
  absl::StatusOr<store::CaseRecord> GetCase(absl::string_view id) override {
    return inner_->GetCase(id);
  }
  absl::StatusOr<store::CaseRecord> GetCaseByNumber(uint64_t number) override {
    return inner_->GetCaseByNumber(number);
  }
  absl::StatusOr<std::string> GetCasePersonal(absl::string_view id) override {
    return inner_->GetCasePersonal(id);
  }
  absl::StatusOr<std::vector<store::CaseRecord>> ListCases(const store::CaseQuery& query) override {
    return inner_->ListCases(query);
  }
  absl::StatusOr<std::vector<store::OpenCase>> ListOpenCases() override {
    return inner_->ListOpenCases();
  }
  absl::StatusOr<store::KeysDestroyed> DestroyEndedKeys() override {
    return Around("DestroyEndedKeys", [&] { return inner_->DestroyEndedKeys(); });
  }
  absl::Status FinishEndedKeys() override {
    return Around("FinishEndedKeys", [&] { return inner_->FinishEndedKeys(); });
  }
  absl::StatusOr<std::vector<store::HeldSubject>> ListHeldSubjects() override {
    return inner_->ListHeldSubjects();
  }
  store::HoldKey HoldKeyOf(absl::string_view subject) const override {
    return inner_->HoldKeyOf(subject);
  }
  absl::StatusOr<store::LogHead> GetLogHead() override { return inner_->GetLogHead(); }
  absl::Status StartLog(const store::LogStart& start) override {
    return Around("StartLog", [&] { return inner_->StartLog(start); });
  }
  absl::Status AppendCertificate(const store::CertificateAppend& certificate) override {
    return Around("AppendCertificate", [&] { return inner_->AppendCertificate(certificate); });
  }
  absl::StatusOr<uint64_t> UsedBytes() override { return inner_->UsedBytes(); }
  absl::StatusOr<store::TenantCopy> CopyTo(const std::string& path) override {
    return Around("CopyTo", [&] { return inner_->CopyTo(path); });
  }
  absl::StatusOr<std::vector<store::LogKey>> GetLogKeys() override { return inner_->GetLogKeys(); }
  absl::StatusOr<std::vector<store::Bytes32>> GetLogNodes(int level,
                                                          uint64_t first,
                                                          uint32_t limit) override {
    return Around("GetLogNodes", [&] { return inner_->GetLogNodes(level, first, limit); });
  }
  absl::Status PutCosignature(const store::Cosignature& cosignature) override {
    return Around("PutCosignature", [&] { return inner_->PutCosignature(cosignature); });
  }
  absl::StatusOr<std::vector<store::Cosignature>> GetCosignatures() override {
    return inner_->GetCosignatures();
  }
  absl::StatusOr<store::CertificateRecord> GetCertificate(absl::string_view id) override {
    return inner_->GetCertificate(id);
  }
  absl::StatusOr<std::vector<store::CertificateRecord>> ListCertificates(
      const store::CertificateQuery& query) override {
    return inner_->ListCertificates(query);
  }
  absl::Status Checkpoint() override {
    return Around("Checkpoint", [&] { return inner_->Checkpoint(); });
  }
  absl::Status Health() const override { return failed_ ? *failed_ : inner_->Health(); }

 private:
  // A hook that refuses "Checkpoint" also makes the one that ends an erasure fail.
  absl::StatusOr<store::EraseResult> WithCheckpoint(absl::StatusOr<store::EraseResult> result) {
    if (result.ok() && hooks_->before) result->checkpoint.Update(hooks_->before("Checkpoint"));
    return result;
  }

  template <typename Call>
  auto Around(const std::string& operation, const Call& call) -> decltype(call()) {
    if (hooks_->before) {
      if (absl::Status status = hooks_->before(operation); !status.ok()) return status;
    }
    auto result = call();
    if (hooks_->after) {
      const absl::Status before = StatusOf(result);
      absl::Status after = hooks_->after(operation, before);
      if (after != before) {
        // As a real store after a failed COMMIT: useless until it is opened again.
        failed_ = absl::UnavailableError("closed after a failed commit");
        return after;
      }
    }
    return result;
  }

  const std::unique_ptr<TenantStore> inner_;
  const std::shared_ptr<StoreHooks> hooks_;
  std::optional<absl::Status> failed_;
};

}  // namespace

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "lethe-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) std::abort();
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string Describe(const absl::Status& status) { return status.ToString(); }

std::unique_ptr<TenantStore> Hooked(std::unique_ptr<TenantStore> inner,
                                    std::shared_ptr<StoreHooks> hooks) {
  return std::make_unique<HookedStore>(std::move(inner), std::move(hooks));
}

Harness::Harness(bool with_tenant) {
  options_.data = folder_.path() + "/data";
  options_.origin = "lethe.test";
  options_.tenant.log = &log_;
  // What is quarantined stays so, however slow the machine is.
  options_.limits.first_retry = absl::Hours(1);
  options_.tenant.wrap_store = [hooks = hooks_](std::unique_ptr<TenantStore> inner) {
    return Hooked(std::move(inner), hooks);
  };
  Restart();
  if (with_tenant) {
    EXPECT_THAT(service_->CreateTenant("t", {}), IsOk());
  }
}

void Harness::Restart() {
  service_.reset();
  absl::StatusOr<std::unique_ptr<Service>> opened = Service::Open(options_);
  EXPECT_THAT(opened, IsOk());
  if (!opened.ok()) std::abort();
  service_ = *std::move(opened);
}

void Harness::MakeMemory(const std::string& name, double capacity) {
  EXPECT_THAT(service_->CreateMemory("t", name, SmallConfig(capacity), {}), IsOk());
}

InsertReply Harness::Insert(const std::string& memory, std::vector<TokenInput> tokens) {
  absl::StatusOr<InsertReply> reply = service_->Insert("t", memory, std::move(tokens), {});
  EXPECT_THAT(reply, IsOk());
  return reply.ok() ? *std::move(reply) : InsertReply{};
}

ForgetReply Harness::Forget(const std::string& memory, std::vector<std::string> ids) {
  absl::StatusOr<ForgetReply> reply = service_->Forget(ForgetOf(memory, std::move(ids)), {});
  EXPECT_THAT(reply, IsOk());
  return reply.ok() ? *std::move(reply) : ForgetReply{};
}

std::string Harness::Digest(const std::string& memory) {
  absl::StatusOr<DescribeReply> reply = service_->Describe("t", memory, false, {});
  EXPECT_THAT(reply, IsOk());
  return reply.ok() ? reply->state_digest : "";
}

MemoryConfig SmallConfig(double capacity) {
  MemoryConfig config;
  config.kernel = kernel::Kernel{kernel::KernelKind::kRbf, 0.5};
  config.capacity = capacity;
  config.key_dimension = 2;
  config.value_dimension = 1;
  return config;
}

TokenInput MakeToken(const std::string& id, double x, double y, double value) {
  TokenInput token;
  token.id = id;
  token.key = {x, y};
  token.value = {value};
  return token;
}

TokenInput RandomToken(std::mt19937_64& random, const std::string& id) {
  std::uniform_int_distribution<int> grid(-16, 16);
  std::uniform_int_distribution<int> person(0, 6);
  TokenInput token = MakeToken(id, grid(random) / 8.0, grid(random) / 8.0, grid(random) / 4.0);
  if (const int number = person(random); number > 0) token.subject = absl::StrCat("p", number);
  token.payload = absl::StrCat("payload of ", id);
  token.labels = {{"ward", absl::StrCat(person(random))}};
  return token;
}

std::vector<TokenInput> Spiral(int count, const std::string& prefix) {
  std::vector<TokenInput> tokens;
  for (int i = 0; i < count; ++i) {
    const double turn = 0.7 * i;
    const double radius = 0.2 + 0.15 * i;
    tokens.push_back(
        MakeToken(absl::StrCat(prefix, i), radius * std::cos(turn), radius * std::sin(turn), i));
  }
  return tokens;
}

ForgetInput ForgetOf(const std::string& memory, std::vector<std::string> ids) {
  ForgetInput input;
  input.tenant = "t";
  input.memory = memory;
  input.target = ForgetIds{std::move(ids)};
  return input;
}

ForgetInput ForgetSubjectOf(const std::string& memory, const std::string& subject) {
  ForgetInput input = ForgetOf(memory, {});
  input.target = ForgetSubject{subject};
  return input;
}

ForgetInput ForgetAllOf(const std::string& memory) {
  ForgetInput input = ForgetOf(memory, {});
  input.target = ForgetEverything{};
  return input;
}

EvictInput EvictOf(const std::string& memory, uint64_t budget, const std::string& request_id) {
  return {.tenant = "t", .memory = memory, .budget = budget, .request_id = request_id};
}

EditInput EditOf(const std::string& memory,
                 std::vector<TokenInput> tokens,
                 const std::string& request_id) {
  return {.tenant = "t", .memory = memory, .tokens = std::move(tokens), .request_id = request_id};
}

uint64_t Total(const svdd::PartitionCounts& partition) {
  return partition.margin + partition.error + partition.reserve;
}

std::vector<audit::CertificateBody> VerifiedLog(Harness& service) {
  const auto tenant = service->GetTenant("t");
  const auto checkpoint = service->GetCheckpoint("t");
  EXPECT_THAT(checkpoint, IsOk());
  // The first key, which a verifier pins when the tenant is made; the others follow from it.
  const auto key = audit::VerificationKey::Parse(checkpoint->keys.front().vkey);
  EXPECT_TRUE(key.ok());
  audit::ChainVerifier verifier(*key, {.origin = tenant->log_origin,
                                       .size = tenant->certificate_count,
                                       .last_leaf_hash = std::nullopt});
  std::vector<audit::CertificateBody> bodies;
  PageRequest page{.size = 2, .token = ""};  // small, so that paging is used
  do {
    const auto certificates = service->ListCertificates("t", "", page);
    EXPECT_THAT(certificates, IsOk());
    if (!certificates.ok()) break;
    for (const CertificateInfo& info : certificates->items) {
      const audit::CertificateResult result =
          verifier.Add({.envelope = info.envelope, .leaf = info.leaf, .sequence = info.sequence});
      EXPECT_TRUE(result.ok()) << result.message;
      EXPECT_EQ(result.id, info.id);
      EXPECT_EQ(audit::Hex(result.leaf_hash), info.leaf_hash);
      if (result.body.has_value()) bodies.push_back(*result.body);
    }
    page.token = certificates->next_page_token;
  } while (!page.token.empty());
  const audit::ChainResult chain = verifier.Finish();
  EXPECT_TRUE(chain.ok() || bodies.empty()) << chain.message;
  // The checkpoint is over exactly these leaves, under the key that the hand-overs lead to.
  const audit::CheckpointResult signed_root =
      audit::VerifyCheckpoint(checkpoint->note, verifier.key());
  EXPECT_TRUE(signed_root.ok()) << signed_root.message;
  EXPECT_EQ(signed_root.checkpoint.size, bodies.size());
  EXPECT_EQ(signed_root.checkpoint.root, bodies.empty() ? audit::EmptyRoot() : chain.root);
  EXPECT_EQ(verifier.key().vkey(), tenant->verification_key);
  return bodies;
}

std::vector<audit::CertificateBody> ErasureLog(Harness& service) {
  std::vector<audit::CertificateBody> others;
  std::map<uint64_t, int> destroyed;  // by the erasure's sequence: how often
  for (audit::CertificateBody& body : VerifiedLog(service)) {
    if (body.kind != audit::CertificateKind::kShredded) {
      if (body.kind == audit::CertificateKind::kForget ||
          body.kind == audit::CertificateKind::kEvict ||
          body.kind == audit::CertificateKind::kEdit) {
        EXPECT_GT(body.counts.erased, 0u) << body.sequence;
        destroyed.emplace(body.sequence, 0);
      }
      others.push_back(std::move(body));
      continue;
    }
    if (!body.destruction.has_value() || !body.destruction->erasures.has_value()) {
      EXPECT_TRUE(body.destruction.has_value() && !body.destruction->epochs.empty())
          << body.sequence << ": covers no erasure and ends no epoch";
      continue;
    }
    const audit::SequenceSpan& span = *body.destruction->erasures;
    EXPECT_LT(span.last, body.sequence);
    EXPECT_EQ(destroyed.count(span.first), 1u) << body.sequence;
    EXPECT_EQ(destroyed.count(span.last), 1u) << body.sequence;
    for (auto& [sequence, times] : destroyed) {
      if (sequence >= span.first && sequence <= span.last) ++times;
    }
  }
  for (const auto& [sequence, times] : destroyed) EXPECT_EQ(times, 1) << "erasure " << sequence;
  return others;
}

uint64_t Tokens(Harness& service, const std::string& memory) {
  return Total(service->GetMemory("t", memory)->partition);
}

void FailOnce(Harness& service, const std::string& operation, const absl::Status& status) {
  service.hooks().before = [operation, status, fired = false](const std::string& called) mutable {
    if (fired || called != operation) return absl::OkStatus();
    fired = true;
    return status;
  };
}

void LieOnce(Harness& service, const std::string& operation) {
  service.hooks().after = [operation, fired = false](const std::string& called,
                                                     const absl::Status& status) mutable {
    if (fired || called != operation) return status;
    fired = true;
    return absl::UnavailableError("the outcome of the commit is unknown");
  };
}

bool FilesHold(const Harness& service, const std::string& bytes) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(service.data())) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(file), {}};
    if (content.find(bytes) != std::string::npos) return true;
  }
  return false;
}

StolenRows::StolenRows(Harness& service) : service_(&service) {
  service.Stop();
  std::filesystem::copy(service.data() + "/tenants/t", folder_.path() + "/t",
                        std::filesystem::copy_options::recursive);
  // The anchor says how far the log was, so that the copy is not refused for being old.
  for (const auto& vault : std::filesystem::directory_iterator(service.data() + "/vault")) {
    std::filesystem::copy_file(vault.path() / "anchor.db",
                               folder_.path() + "/" + vault.path().filename().string());
  }
  service.Restart();
}

void StolenRows::WithStore(const std::function<void(store::TenantStore& store)>& look) {
  service_->Stop();
  // The keys of today, beside the anchor of the copy's time.
  const TempDir keys;
  const std::string vault = keys.path() + "/vault";
  std::filesystem::copy(service_->data() + "/vault", vault,
                        std::filesystem::copy_options::recursive);
  for (const auto& of_tenant : std::filesystem::directory_iterator(vault)) {
    const std::string then = folder_.path() + "/" + of_tenant.path().filename().string();
    if (!std::filesystem::exists(then)) continue;
    std::filesystem::copy_file(then, of_tenant.path() / "anchor.db",
                               std::filesystem::copy_options::overwrite_existing);
  }
  {
    const auto copy = store::OpenTenantStore(folder_.path() + "/t", {.vault = vault});
    EXPECT_THAT(copy, IsOk());
    if (!copy.ok()) std::abort();
    look(**copy);
  }
  service_->Restart();
}

std::set<std::string> StolenRows::Readable(const std::string& memory,
                                           const std::vector<std::string>& ids) {
  std::set<std::string> readable;
  WithStore([&](TenantStore& store) {
    const std::string uid = store.GetMemoryByName(memory)->uid;
    const auto found = store.FindByIds(uid, ids);
    EXPECT_THAT(found, IsOk());
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ((*found)[i].state, store::IdState::kLive) << ids[i];
      const auto row = store.GetTokens(uid, std::vector<uint64_t>{(*found)[i].handle});
      if (row.ok()) {
        readable.insert(ids[i]);
      } else {
        EXPECT_THAT(row, HasCode(absl::StatusCode::kDataLoss));
      }
    }
  });
  return readable;
}

bool StolenRows::CaseIsReadable(const std::string& id) {
  bool readable = false;
  WithStore([&](TenantStore& store) {
    EXPECT_TRUE(store.GetCase(id)->personal) << "the copy has it, sealed";
    const auto personal = store.GetCasePersonal(id);
    readable = personal.ok();
    if (!readable) {
      EXPECT_THAT(personal, HasCode(absl::StatusCode::kDataLoss));
    }
  });
  return readable;
}

}  // namespace lethe::service
