#include "tests/fuzz/world.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "audit/checkpoint.h"
#include "audit/note.h"
#include "audit/witness.h"
#include "server/http/callback_policy.h"
#include "tests/fuzz/input.h"

namespace lethe::fuzz {
namespace {

using service::TokenInput;

constexpr int64_t kStartSeconds = 1770000000;  // February 2026
constexpr int64_t kMicros = 1000000;
constexpr uint64_t kMostTokens = 64;
constexpr uint64_t kMostMemories = 8;

audit::WitnessSigner Witness() {
  absl::StatusOr<audit::WitnessSigner> signer =
      audit::WitnessSigner::FromSeed("witness.example/w1", std::string(32, 'w'));
  RequireOk(signer.status(), "a witness can be made");
  return *std::move(signer);
}

TokenInput MakeToken(const std::string& id,
                     std::vector<double> key,
                     double value,
                     const std::string& subject) {
  TokenInput token;
  token.id = id;
  token.key = std::move(key);
  token.value = {value};
  token.subject = subject;
  token.payload = "payload";
  token.labels = {{"ward", "7"}};
  return token;
}

service::MemoryConfig ConfigOf(kernel::Kernel kernel, uint32_t key_dimension) {
  service::MemoryConfig config;
  config.kernel = kernel;
  config.key_dimension = key_dimension;
  config.value_dimension = 1;
  return config;
}

template <typename T>
T Must(absl::StatusOr<T> result, absl::string_view what) {
  RequireOk(result.status(), what);
  return *std::move(result);
}

}  // namespace

World::World(const std::string& name)
    : prepared_(absl::StrCat(ScratchFolder(), "/", name, ".prepared")),
      live_(absl::StrCat(ScratchFolder(), "/", name)),
      now_micros_(kStartSeconds * kMicros) {
  Open(prepared_);
  Prepare();
  service_.reset();
  prepared_micros_ = now_micros_;
  EndInput(/*changed=*/false);
}

service::ServiceOptions World::Options(const std::string& data) {
  service::ServiceOptions options;
  options.data = data;
  options.origin = "lethe.example";
  options.tenant.log = &log_;
  // From the thread of the input alone: no thread of the service's own works on requests.
  options.tenant.now = [this] { return absl::FromUnixMicros(now_micros_ += 1000); };
  options.tenant.witnesses = {Witness().key()};
  options.tenant.erasures.check_callback = [](const std::string& url) {
    return http::CallbackPolicy{.hosts = {"controller.example"}}.Check(url).status();
  };
  options.limits.max_open = 8;
  options.quotas.defaults[service::Quota::kTokens] = kMostTokens;
  options.quotas.defaults[service::Quota::kMemories] = kMostMemories;
  return options;
}

void World::Open(const std::string& data) {
  service_ = Must(service::Service::Open(Options(data)), "a folder can be opened");
  ++generation_;
}

void World::Prepare() {
  using kernel::KernelKind;
  Must(service_->CreateTenant("t", {}), "a tenant");
  service::MemoryConfig plane = ConfigOf({KernelKind::kRbf, 0.5}, 2);
  plane.capacity = 3;
  service::MemoryConfig line = ConfigOf({KernelKind::kExpDot, 1.0}, 1);
  line.box = 0.5;
  Must(service_->CreateMemory("t", "m", plane, {}), "a memory");
  Must(service_->CreateMemory("t", "dot", line, {}), "a memory");
  Must(service_->CreateMemory("t", "empty", plane, {}), "a memory");
  Must(service_->Insert("t", "m",
                        {MakeToken("a0", {0, 0}, 1, std::string(kCanary)),
                         MakeToken("a1", {1, 0}, 2, std::string(kCanary)),
                         MakeToken("a2", {0, 1}, 3, "held"), MakeToken("a3", {1, 1}, 4, "later"),
                         MakeToken("a4", {0.5, 0.25}, 5, ""), MakeToken("a5", {-2, 3}, 6, ""),
                         MakeToken("b", {-2, 3}, 7, ""), MakeToken("gone", {4, 4}, 8, "")},
                        {}),
       "tokens");
  Must(service_->Insert("t", "dot",
                        {MakeToken("c0", {0.5}, 1, ""), MakeToken("c1", {-0.25}, 2, "held"),
                         MakeToken("c2", {0.125}, 3, std::string(kCanary))},
                        {}),
       "tokens");
  const service::ForgetInput forget = {
      .tenant = "t", .memory = "m", .target = service::ForgetIds{{"gone"}}};
  words_["@certificate@"] = Must(service_->Forget(forget, {}), "an erasure").certificate_id;
  words_["@hold@"] =
      Must(service_->PlaceHold({.tenant = "t", .subject = "held", .reason = "a case"}, {}),
           "a hold")
          .id;
  const service::ErasureRequestInput request = {
      .tenant = "t",
      .identities = {{.type = "customer",
                      .format = service::IdentityFormat::kRaw,
                      .value = "later"}},
      .idempotency_key = "prepared",
      .start_time = absl::FromUnixMicros(now_micros_) + absl::Hours(24)};
  words_["@request@"] = Must(service_->CreateErasureRequest(request, {}), "a request").id;
  const audit::Note note =
      Must(audit::ParseNote(Must(service_->GetCheckpoint("t"), "a checkpoint").note), "a note");
  words_["@cosignature@"] = audit::SerializeSignatureLine(
      Must(Witness().Cosign(note.text, kStartSeconds), "a cosignature"));
  if (words_["@cosignature@"].back() == '\n') words_["@cosignature@"].pop_back();

  Must(service_->CreateTenant("u", {}), "a tenant");
  Must(service_->CreateMemory("u", "m", plane, {}), "a memory");
  Must(service_->Insert("u", "m", {MakeToken("a0", {0, 0}, 1, "")}, {}), "a token");
  RequireOk(service_->Checkpoint(), "an orderly stop");
}

std::string World::Fill(absl::string_view text) const { return absl::StrReplaceAll(text, words_); }

std::map<std::string, std::string> World::Digests() {
  std::map<std::string, std::string> digests;
  const auto tenants = Must(service_->ListTenants({.size = 1000, .token = ""}), "the tenants");
  for (const service::TenantInfo& tenant : tenants.items) {
    Require(!tenant.log_origin.empty(), "no tenant is quarantined");
    const auto memories =
        Must(service_->ListMemories(tenant.name, {.size = 1000, .token = ""}), "the memories");
    for (const service::MemoryInfo& memory : memories.items) {
      digests[absl::StrCat(tenant.name, "/", memory.name)] =
          Must(service_->Describe(tenant.name, memory.name, /*refit=*/false, {}), "a memory")
              .state_digest;
    }
  }
  return digests;
}

void World::Restart() {
  const std::map<std::string, std::string> before = Digests();
  service_.reset();
  Open(live_);
  Require(Digests() == before, "every memory is after a restart what it was");
}

void World::EndInput(bool changed) {
  if (changed) Restart();
  if (!changed && service_ != nullptr) return;
  service_.reset();
  std::filesystem::remove_all(live_);
  std::filesystem::copy(prepared_, live_, std::filesystem::copy_options::recursive);
  now_micros_ = prepared_micros_;
  Open(live_);
}

void World::CheckCode(absl::string_view call, const absl::Status& status) {
  Say(absl::StrCat(call, ": ", status.ToString()));
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kResourceExhausted:
      CheckMessage(call, std::string(status.message()));
      return;
    default:
      Fail("a call is answered with a code that says what is wrong with it",
           absl::StrCat(std::string(call), ": ", status.ToString()));
  }
}

}  // namespace lethe::fuzz
