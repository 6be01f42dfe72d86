#include "server/service/service.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/encoding.h"
#include "audit/random.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "server/service/certificates.h"
#include "server/service/low_priority.h"
#include "server/service/names.h"
#include "server/service/write_ticket.h"
#include "store/sqlite_tenant_store.h"
#include "store/tenant_glance.h"

namespace lethe::service {
namespace {

constexpr size_t kLogIdBytes = 8;

// What these take on the disk: their content, and some for each in the indexes.
uint64_t RoughBytes(const std::vector<std::vector<TokenInput>>& batches) {
  constexpr uint64_t kTokenBytes = 512;
  uint64_t bytes = 0;
  for (const std::vector<TokenInput>& batch : batches) {
    for (const TokenInput& token : batch) {
      bytes += kTokenBytes + token.payload.size() +
               sizeof(double) * (token.key.size() + token.value.size());
    }
  }
  return bytes;
}

uint64_t CountTokens(const std::vector<std::vector<TokenInput>>& batches) {
  uint64_t tokens = 0;
  for (const std::vector<TokenInput>& batch : batches) tokens += batch.size();
  return tokens;
}

ServiceOptions WithCounters(ServiceOptions options, ServiceCounters* counters) {
  options.tenant.counters = counters;
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Service>> Service::Open(const ServiceOptions& options) {
  LETHE_CHECK(options.tenant.log != nullptr);
  LETHE_ASSIGN_OR_RETURN(std::unique_ptr<store::DataDirectory> directory,
                         store::DataDirectory::Open(options.data, options.vault));
  ServiceOptions resolved = options;
  resolved.tenant.vault = directory->vault_path();
  auto ballast =
      std::make_unique<Ballast>(directory->path(), directory->vault_path(), options.ballast_bytes,
                                options.ballast_disk, options.tenant.log);
  resolved.tenant.ballast = ballast.get();
  auto agenda = std::make_unique<ErasureAgenda>();
  resolved.tenant.agenda = agenda.get();
  std::unique_ptr<Jobs> jobs = Jobs::Open(
      {.place = {.folder = absl::StrCat(directory->path(), "/jobs"),
                 .vault = absl::StrCat(directory->vault_path(), "/jobs"),
                 .new_path = [folder = directory.get()] { return folder->NewTemporaryPath(); },
                 .kms = options.tenant.kms,
                 .keys = options.tenant.keys},
       .debts = absl::StrCat(directory->path(), "/jobs.owed"),
       .log = options.tenant.log,
       .ballast = ballast.get(),
       .limits = options.jobs,
       .now = options.tenant.now});
  resolved.tenant.jobs = jobs.get();
  std::unique_ptr<Service> service(new Service(std::move(resolved), std::move(directory),
                                               std::move(ballast), std::move(agenda),
                                               std::move(jobs)));
  LETHE_RETURN_IF_ERROR(service->OpenKeys());
  MutexLock lock(service->directory_mutex_);
  LETHE_RETURN_IF_ERROR(service->ListTenantsAtStart());
  if (service->keys_->rotating()) {
    // What cannot be done now is in the log and is tried again; everybody is served all the same.
    service->ContinueRotation({}).status().IgnoreError();
  }
  return service;
}

Service::Service(ServiceOptions options,
                 std::unique_ptr<store::DataDirectory> directory,
                 std::unique_ptr<Ballast> ballast,
                 std::unique_ptr<ErasureAgenda> agenda,
                 std::unique_ptr<Jobs> jobs)
    : options_(WithCounters(std::move(options), &counters_)),
      ballast_(std::move(ballast)),
      agenda_(std::move(agenda)),
      directory_(std::move(directory)),
      jobs_(std::move(jobs)),
      registry_(
          options_.limits,
          [this](const std::string& name, TenantRegistry::Depth depth) {
            const std::string path = directory_->tenant_path(name);
            return depth == TenantRegistry::Depth::kLog
                       ? Tenant::OpenLogOnly(path, keys_.get(), options_.tenant)
                       : Tenant::Open(path, keys_.get(), options_.tenant);
          },
          options_.tenant.log) {}

Service::~Service() { StopErasures(); }

absl::Status Service::OpenKeys() {
  LETHE_ASSIGN_OR_RETURN(const std::vector<std::string> tenants, directory_->ListTenants());
  LETHE_ASSIGN_OR_RETURN(const std::vector<std::string> closed, directory_->ListClosed());
  LETHE_ASSIGN_OR_RETURN(
      keys_, SigningKeys::Open(directory_->keys_path(), tenants.empty() && closed.empty(),
                               options_.rotation_fault));
  if (keys_->created())
    options_.tenant.log->Write(program::LogLevel::kInfo, "signing_key_created", {});
  return absl::OkStatus();
}

std::optional<TenantFacts> Service::LookAt(const std::string& name) const {
  const std::optional<store::TenantGlance> glance =
      store::GlanceAtTenant(directory_->tenant_path(name), directory_->vault_path());
  if (!glance.has_value() || glance->record.name != name) return std::nullopt;
  const absl::StatusOr<audit::Signer> signer = keys_->Find(glance->record.log_origin, glance->vkey);
  if (!signer.ok() || !VerifyHead(glance->head, signer->verification_key()).ok()) {
    return std::nullopt;
  }
  TenantFacts facts;
  facts.info = {.name = name,
                .create_time = FormatMicros(glance->record.create_time_micros),
                .log_origin = glance->record.log_origin,
                .verification_key = glance->vkey,
                .certificate_count = glance->head.count,
                .memory_count = glance->memories};
  facts.uid = glance->record.uid;
  agenda_->Replace(name, glance->cases);
  facts.bytes = Tenant::Size::kEmptyBytes + glance->file_bytes;
  return facts;
}

absl::Status Service::ListTenantsAtStart() {
  const absl::Time begin = absl::Now();
  LETHE_ASSIGN_OR_RETURN(const std::vector<std::string> names, directory_->ListTenants());
  int64_t opened = 0;
  for (const std::string& name : names) {
    std::optional<TenantFacts> facts = LookAt(name);
    const bool in_order = facts.has_value();
    registry_.Add(name, std::move(facts));
    if (in_order) continue;
    // A crash may have left an erasure in the write-ahead log, a deletion half done, a log not
    // begun; or the file is damaged, which only opening it explains.
    ++opened;
    const absl::Status status = registry_.WithLog(name, {}, TenantRegistry::Room::kWait,
                                                  [](Tenant&) { return absl::OkStatus(); });
    if (registry_.DeletedUid(name).has_value()) {
      // A crash came between the closing certificate and the move, or the move failed.
      const bool moved = MoveAway(name);
      options_.tenant.log->Write(program::LogLevel::kWarning, "tenant_close_finished",
                                 {{"tenant", name}, {"ok", int64_t{moved}}});
    } else if (status.ok()) {
      if (facts = LookAt(name); facts.has_value()) registry_.Add(name, std::move(facts));
    } else {
      agenda_->PutUnknown(name, NowMicros());
    }
  }
  // Of a tenant that cannot be read, or whose making a crash interrupted: for a person to judge.
  LETHE_ASSIGN_OR_RETURN(const std::vector<std::string> orphans,
                         directory_->ListOrphanVaults(registry_.KnownUids()));
  for (const std::string& path : orphans) {
    options_.tenant.log->Write(program::LogLevel::kWarning, "vault_of_no_tenant", {{"path", path}});
  }
  options_.tenant.log->Write(program::LogLevel::kInfo, "tenants_listed",
                             {{"tenants", static_cast<int64_t>(names.size())},
                              {"opened", opened},
                              {"milliseconds", absl::ToInt64Milliseconds(absl::Now() - begin)}});
  return absl::OkStatus();
}

absl::StatusOr<TenantHold> Service::Find(absl::string_view field,
                                         const std::string& name,
                                         TenantRegistry::Use use,
                                         const CallOptions& call,
                                         TenantRegistry::Depth depth) {
  LETHE_RETURN_IF_ERROR(CheckName(field, name));
  return registry_.Acquire(name, use, call, depth);
}

absl::StatusOr<TenantInfo> Service::CreateTenant(const std::string& name, const CallOptions& call) {
  LETHE_RETURN_IF_ERROR(CheckName("name", name));
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket, writes_.Take(WriteTickets::Use::kCall, name));
  LETHE_RETURN_IF_ERROR(ballast_->Admit(0));
  MutexLock directory_lock(directory_mutex_);
  if (registry_.Contains(name)) {
    return absl::AlreadyExistsError("name: there is a tenant with this name");
  }
  if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
  LETHE_ASSIGN_OR_RETURN(const TenantHold tenant,
                         registry_.AcquireNew(
                             name, call, [&] { return MakeTenant(name); },
                             [&](const absl::Status& why) { return CreateFailed(name, why); }));
  options_.tenant.log->Write(program::LogLevel::kInfo, "tenant_created", {{"tenant", name}});
  return tenant->Info();
}

absl::StatusOr<std::shared_ptr<Tenant>> Service::MakeTenant(const std::string& name) {
  store::TenantRecord record;
  record.name = name;
  record.uid = audit::RandomUid();
  record.log_origin =
      absl::StrCat(options_.origin, "/log/", audit::Hex(audit::RandomBytes(kLogIdBytes)));
  record.create_time_micros = absl::ToUnixMicros(options_.tenant.now());
  LETHE_RETURN_IF_ERROR(directory_->CreateTenant(name, [&](const std::string& path) {
    return store::CreateTenantStore(path, record,
                                    {.vault = options_.tenant.vault,
                                     .kms = options_.tenant.kms,
                                     .keys = options_.tenant.keys})
        .status();
  }));
  LETHE_ASSIGN_OR_RETURN(std::shared_ptr<Tenant> tenant,
                         Tenant::Open(directory_->tenant_path(name), keys_.get(), options_.tenant));
  if (keys_->rotating()) {
    // What fails here is done by the next call or start that goes on with the rotation.
    if (const absl::Status status = tenant->HandOver().status(); !status.ok()) {
      options_.tenant.log->Write(program::LogLevel::kError, "key_hand_over_failed",
                                 {{"tenant", name}, {"message", std::string(status.message())}});
    }
  }
  return tenant;
}

bool Service::FolderIsThere(const std::string& name) const {
  const absl::StatusOr<std::vector<std::string>> folders = directory_->ListTenants();
  return !folders.ok() || std::find(folders->begin(), folders->end(), name) != folders->end();
}

absl::Status Service::CreateFailed(const std::string& name, const absl::Status& status) {
  if (FolderIsThere(name)) {
    registry_.AddQuarantined(name, status);
    return absl::UnavailableError(
        "name: the tenant was made but could not be opened and is quarantined; the server's log "
        "says why, and a later call tries again");
  }
  options_.tenant.log->Write(program::LogLevel::kError, "tenant_not_made",
                             {{"tenant", name},
                              {"code", static_cast<int64_t>(status.code())},
                              {"message", std::string(status.message())}});
  if (absl::IsResourceExhausted(status)) {
    return absl::ResourceExhaustedError("the disk or a quota is full; nothing was changed");
  }
  return absl::InternalError("the tenant could not be made; the server's log says why");
}

absl::StatusOr<TenantInfo> Service::GetTenant(const std::string& name, const CallOptions& call) {
  LETHE_RETURN_IF_ERROR(CheckName("name", name));
  LETHE_ASSIGN_OR_RETURN(std::optional<TenantInfo> known, registry_.Info(name));
  if (known.has_value()) return *std::move(known);
  LETHE_ASSIGN_OR_RETURN(const TenantHold tenant,
                         registry_.Acquire(name, TenantRegistry::Use::kRead, call));
  if (tenant->gone()) return absl::NotFoundError("tenant: there is none with this name");
  return tenant->Info();
}

absl::StatusOr<Page<TenantInfo>> Service::ListTenants(const PageRequest& page,
                                                      const CallOptions& call) {
  constexpr absl::string_view kScope = "tenants";
  LETHE_ASSIGN_OR_RETURN(const size_t size, PageSize(page.size));
  LETHE_ASSIGN_OR_RETURN(const std::string after, DecodePageToken(kScope, page.token));
  Page<TenantInfo> result;
  bool more = false;
  std::tie(result.items, more) = registry_.List(after, size, call.sees);
  if (more) result.next_page_token = EncodePageToken(kScope, result.items.back().name);
  return result;
}

bool Service::MoveAway(const std::string& name) {
  const std::optional<std::string> uid = registry_.DeletedUid(name);
  if (!uid.has_value()) return false;
  const absl::StatusOr<std::string> moved = directory_->CloseTenant(name, *uid);
  if (!moved.ok()) {
    // The tenant is gone all the same; the next start or rotation moves its folder.
    options_.tenant.log->Write(
        program::LogLevel::kError, "tenant_move_failed",
        {{"tenant", name}, {"message", std::string(moved.status().message())}});
    registry_.MarkDeleted(name, *uid);
    return false;
  }
  registry_.Remove(name);
  return true;
}

absl::StatusOr<DeleteTenantReply> Service::DeleteTenant(const std::string& name,
                                                        const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket, writes_.Take(WriteTickets::Use::kErasure, name));
  // Opened before the directory is locked, so that a slow opening holds nobody else up; and let go,
  // since whoever has the directory may be waiting for room.
  const absl::Status opened = Find("name", name, TenantRegistry::Use::kRead, call).status();
  if (!opened.ok() && !absl::IsNotFound(opened)) return opened;
  MutexLock directory_lock(directory_mutex_);
  const absl::StatusOr<TenantHold> tenant = Find("name", name, TenantRegistry::Use::kWrite, call);
  if (!tenant.ok()) {
    // An earlier call may have closed it though its commit seemed to fail.
    if (absl::IsNotFound(tenant.status())) MoveAway(name);
    return tenant.status();
  }
  if ((*tenant)->closed()) {
    MoveAway(name);
    return absl::NotFoundError("tenant: there is none with this name");
  }
  absl::StatusOr<DeleteTenantReply> reply = (*tenant)->Close(call);
  if ((*tenant)->closed()) MoveAway(name);
  if (!reply.ok()) return reply.status();
  ballast_->Restore();
  options_.tenant.log->Write(program::LogLevel::kInfo, "tenant_deleted",
                             {{"tenant", name},
                              {"erased", static_cast<int64_t>(reply->erased_tokens)},
                              {"certificate", reply->certificate_id}});
  return reply;
}

absl::StatusOr<MemoryInfo> Service::CreateMemory(const std::string& tenant,
                                                 const std::string& name,
                                                 const MemoryConfig& config,
                                                 const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket, writes_.Take(WriteTickets::Use::kCall, tenant));
  LETHE_RETURN_IF_ERROR(ballast_->Admit(config.encoder.size()));
  LETHE_ASSIGN_OR_RETURN(const TenantHold found,
                         Find("tenant", tenant, TenantRegistry::Use::kWrite, call));
  return found->CreateMemory(name, config, call, quotas_.Of(tenant));
}

absl::StatusOr<MemoryInfo> Service::GetMemory(const std::string& tenant,
                                              const std::string& name,
                                              const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const TenantHold found,
                         Find("tenant", tenant, TenantRegistry::Use::kRead, call));
  LETHE_RETURN_IF_ERROR(CheckName("name", name));
  return found->GetMemory(name);
}

absl::StatusOr<Page<MemoryInfo>> Service::ListMemories(const std::string& tenant,
                                                       const PageRequest& page,
                                                       const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const TenantHold found,
                         Find("tenant", tenant, TenantRegistry::Use::kRead, call));
  return found->ListMemories(page);
}

absl::StatusOr<DeleteMemoryReply> Service::DeleteMemory(const std::string& tenant,
                                                        const std::string& name,
                                                        const CallOptions& call) {
  return AtRate(Quota::kErasures, tenant, 1, [&]() -> absl::StatusOr<DeleteMemoryReply> {
    LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket,
                           writes_.Take(WriteTickets::Use::kErasure, tenant));
    ballast_->Restore();
    LETHE_ASSIGN_OR_RETURN(const TenantHold found,
                           Find("tenant", tenant, TenantRegistry::Use::kWrite, call));
    LETHE_RETURN_IF_ERROR(CheckName("name", name));
    return AtLowPriority([&] { return found->DeleteMemory(name, call); });
  });
}

absl::StatusOr<InsertReply> Service::Insert(const std::string& tenant,
                                            const std::string& memory,
                                            std::vector<TokenInput> tokens,
                                            const CallOptions& call) {
  std::vector<std::vector<TokenInput>> batches;
  batches.push_back(std::move(tokens));
  LETHE_ASSIGN_OR_RETURN(std::vector<InsertReply> replies,
                         InsertBatches(tenant, memory, std::move(batches), call));
  LETHE_CHECK(replies.size() == 1);
  return std::move(replies.front());
}

absl::StatusOr<std::vector<InsertReply>> Service::InsertBatches(
    const std::string& tenant,
    const std::string& memory,
    std::vector<std::vector<TokenInput>> batches,
    const CallOptions& call) {
  return AtRate(Quota::kInserts, tenant, CountTokens(batches),
                [&]() -> absl::StatusOr<std::vector<InsertReply>> {
                  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket,
                                         writes_.Take(WriteTickets::Use::kCall, tenant));
                  LETHE_RETURN_IF_ERROR(ballast_->Admit(RoughBytes(batches)));
                  LETHE_ASSIGN_OR_RETURN(const TenantHold found,
                                         Find("tenant", tenant, TenantRegistry::Use::kWrite, call));
                  LETHE_RETURN_IF_ERROR(CheckName("memory", memory));
                  return found->Insert(memory, std::move(batches), call, quotas_.Of(tenant));
                });
}

absl::StatusOr<QueryReply> Service::Query(const QueryInput& input, const CallOptions& call) {
  return AtRate(
      Quota::kQueries, input.tenant, input.queries.size(), [&]() -> absl::StatusOr<QueryReply> {
        LETHE_ASSIGN_OR_RETURN(const TenantHold found,
                               Find("tenant", input.tenant, TenantRegistry::Use::kRead, call));
        LETHE_RETURN_IF_ERROR(CheckName("memory", input.memory));
        absl::StatusOr<QueryReply> reply = found->Query(input, call);
        if (reply.ok()) counters_.queries += reply->results.size();
        return reply;
      });
}

absl::StatusOr<ForgetReply> Service::Forget(const ForgetInput& input, const CallOptions& call) {
  return AtRate(Quota::kErasures, input.tenant, 1, [&]() -> absl::StatusOr<ForgetReply> {
    LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket,
                           writes_.Take(WriteTickets::Use::kErasure, input.tenant));
    ballast_->Restore();
    LETHE_ASSIGN_OR_RETURN(const TenantHold found,
                           Find("tenant", input.tenant, TenantRegistry::Use::kWrite, call));
    LETHE_RETURN_IF_ERROR(CheckName("memory", input.memory));
    return AtLowPriority([&] { return found->Forget(input, call); });
  });
}

absl::StatusOr<EvictReply> Service::Evict(const EvictInput& input, const CallOptions& call) {
  return AtRate(Quota::kErasures, input.tenant, 1, [&]() -> absl::StatusOr<EvictReply> {
    LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket,
                           writes_.Take(WriteTickets::Use::kErasure, input.tenant));
    ballast_->Restore();
    LETHE_ASSIGN_OR_RETURN(const TenantHold found,
                           Find("tenant", input.tenant, TenantRegistry::Use::kWrite, call));
    LETHE_RETURN_IF_ERROR(CheckName("memory", input.memory));
    return AtLowPriority([&] { return found->Evict(input, call); });
  });
}

absl::StatusOr<EditReply> Service::Edit(EditInput input, const CallOptions& call) {
  return AtRate(Quota::kErasures, input.tenant, 1, [&]() -> absl::StatusOr<EditReply> {
    LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket,
                           writes_.Take(WriteTickets::Use::kErasure, input.tenant));
    ballast_->Restore();
    LETHE_ASSIGN_OR_RETURN(const TenantHold found,
                           Find("tenant", input.tenant, TenantRegistry::Use::kWrite, call));
    LETHE_RETURN_IF_ERROR(CheckName("memory", input.memory));
    return AtLowPriority([&] { return found->Edit(std::move(input), call); });
  });
}

absl::StatusOr<DescribeReply> Service::Describe(const std::string& tenant,
                                                const std::string& memory,
                                                bool refit,
                                                const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const TenantHold found,
                         Find("tenant", tenant, TenantRegistry::Use::kWrite, call));
  LETHE_RETURN_IF_ERROR(CheckName("memory", memory));
  if (!refit) return found->Describe(memory, refit, call);
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket, writes_.Take(WriteTickets::Use::kCall, tenant));
  return AtLowPriority([&] { return found->Describe(memory, refit, call); });
}

absl::StatusOr<CertificateInfo> Service::GetCertificate(const std::string& tenant,
                                                        const std::string& id,
                                                        const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket, writes_.Take(WriteTickets::Use::kCall, tenant));
  LETHE_ASSIGN_OR_RETURN(const TenantHold found,
                         Find("tenant", tenant, TenantRegistry::Use::kRead, call));
  if (!audit::DecodeDigest(id).ok()) {
    return FieldError("id", "must be 64 lower-case hex digits");
  }
  return found->GetCertificate(id);
}

absl::StatusOr<Page<CertificateInfo>> Service::ListCertificates(const std::string& tenant,
                                                                const std::string& memory,
                                                                const PageRequest& page,
                                                                const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket, writes_.Take(WriteTickets::Use::kCall, tenant));
  LETHE_ASSIGN_OR_RETURN(const TenantHold found,
                         Find("tenant", tenant, TenantRegistry::Use::kRead, call));
  if (!memory.empty()) LETHE_RETURN_IF_ERROR(CheckName("memory", memory));
  return found->ListCertificates(memory, page);
}

absl::Status Service::Checkpoint() {
  absl::Status first = jobs_->Checkpoint();
  for (const TenantHold& tenant : registry_.AcquireOpen()) first.Update(tenant->Checkpoint());
  return first;
}

}  // namespace lethe::service
