#include "server/service/service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/encoding.h"
#include "audit/random.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "server/service/names.h"
#include "server/service/write_ticket.h"
#include "store/sqlite_tenant_store.h"

namespace lethe::service {
namespace {

constexpr size_t kLogIdBytes = 8;

absl::Status NoSuchTenant() { return absl::NotFoundError("tenant: there is none with this name"); }

}  // namespace

absl::StatusOr<std::unique_ptr<Service>> Service::Open(const ServiceOptions& options) {
  LETHE_CHECK(options.tenant.log != nullptr);
  LETHE_ASSIGN_OR_RETURN(std::unique_ptr<store::DataDirectory> directory,
                         store::DataDirectory::Open(options.data, options.vault));
  ServiceOptions resolved = options;
  resolved.tenant.vault = directory->vault_path();
  std::unique_ptr<Service> service(new Service(std::move(resolved), std::move(directory)));
  LETHE_RETURN_IF_ERROR(service->OpenKeys());
  LETHE_RETURN_IF_ERROR(service->OpenTenants());
  if (service->keys_->rotating()) {
    // What cannot be done now is in the log and is tried again; everybody is served all the same.
    MutexLock lock(service->directory_mutex_);
    service->ContinueRotation().status().IgnoreError();
  }
  return service;
}

Service::Service(ServiceOptions options, std::unique_ptr<store::DataDirectory> directory)
    : options_(std::move(options)), directory_(std::move(directory)) {}

absl::Status Service::OpenKeys() {
  LETHE_ASSIGN_OR_RETURN(const std::vector<std::string> tenants, directory_->ListTenants());
  LETHE_ASSIGN_OR_RETURN(const std::vector<std::string> closed, directory_->ListClosed());
  LETHE_ASSIGN_OR_RETURN(
      keys_, SigningKeys::Open(directory_->keys_path(), tenants.empty() && closed.empty(),
                               options_.rotation_fault));
  if (keys_->created()) options_.tenant.log->Write(LogLevel::kInfo, "signing_key_created", {});
  return absl::OkStatus();
}

absl::Status Service::OpenTenants() {
  LETHE_ASSIGN_OR_RETURN(const std::vector<std::string> names, directory_->ListTenants());
  for (const std::string& name : names) {
    absl::StatusOr<std::shared_ptr<Tenant>> tenant =
        Tenant::Open(directory_->tenant_path(name), keys_.get(), options_.tenant);
    if (tenant.ok() && (*tenant)->closed()) {
      // A crash came between the closing certificate and the move, or the move failed.
      {
        MutexLock lock(registry_mutex_);
        registry_[name] = Entry{*tenant};
      }
      const bool moved = MoveAway(name, **tenant);
      options_.tenant.log->Write(LogLevel::kWarning, "tenant_close_finished",
                                 {{"tenant", name}, {"ok", int64_t{moved}}});
      continue;
    }
    if (!tenant.ok()) {
      options_.tenant.log->Write(LogLevel::kError, "tenant_quarantined",
                                 {{"tenant", name},
                                  {"code", static_cast<int64_t>(tenant.status().code())},
                                  {"message", std::string(tenant.status().message())}});
    }
    MutexLock lock(registry_mutex_);
    registry_[name] = Entry{tenant.ok() ? *std::move(tenant) : nullptr};
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Tenant>> Service::Find(absl::string_view field,
                                                      const std::string& name) {
  LETHE_RETURN_IF_ERROR(CheckName(field, name));
  MutexLock lock(registry_mutex_);
  const auto found = registry_.find(name);
  if (found == registry_.end()) return NoSuchTenant();
  if (found->second.tenant == nullptr) {
    return absl::UnavailableError(
        "tenant: could not be opened when the server started and is quarantined; the server's log "
        "says why");
  }
  if (found->second.tenant->closed()) return NoSuchTenant();
  return found->second.tenant;
}

absl::StatusOr<TenantInfo> Service::CreateTenant(const std::string& name, const CallOptions& call) {
  LETHE_RETURN_IF_ERROR(CheckName("name", name));
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket,
                         WriteTicket::Take(&writes_, options_.max_waiting_writes));
  MutexLock directory_lock(directory_mutex_);
  {
    MutexLock lock(registry_mutex_);
    if (registry_.contains(name)) {
      return absl::AlreadyExistsError("name: there is a tenant with this name");
    }
  }
  if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
  store::TenantRecord record;
  record.name = name;
  record.uid = audit::RandomUid();
  record.log_origin =
      absl::StrCat(options_.origin, "/log/", audit::Hex(audit::RandomBytes(kLogIdBytes)));
  record.create_time_micros = absl::ToUnixMicros(options_.tenant.now());
  const absl::Status made = directory_->CreateTenant(name, [&](const std::string& path) {
    return store::CreateTenantStore(path, record,
                                    {.vault = options_.tenant.vault, .kms = options_.tenant.kms})
        .status();
  });
  if (!made.ok()) return CreateFailed(name, made);
  absl::StatusOr<std::shared_ptr<Tenant>> opened =
      Tenant::Open(directory_->tenant_path(name), keys_.get(), options_.tenant);
  if (!opened.ok()) return CreateFailed(name, opened.status());
  const std::shared_ptr<Tenant> tenant = *std::move(opened);
  if (keys_->rotating()) {
    // What fails here is done by the next call or start that goes on with the rotation.
    if (const absl::Status status = tenant->HandOver().status(); !status.ok()) {
      options_.tenant.log->Write(LogLevel::kError, "key_hand_over_failed",
                                 {{"tenant", name}, {"message", std::string(status.message())}});
    }
  }
  TenantInfo info = tenant->Info();
  {
    MutexLock lock(registry_mutex_);
    registry_[name] = Entry{tenant};
  }
  options_.tenant.log->Write(LogLevel::kInfo, "tenant_created", {{"tenant", name}});
  return info;
}

absl::Status Service::CreateFailed(const std::string& name, const absl::Status& status) {
  // When the folders cannot be listed, the worse is assumed.
  const absl::StatusOr<std::vector<std::string>> folders = directory_->ListTenants();
  const bool stays =
      !folders.ok() || std::find(folders->begin(), folders->end(), name) != folders->end();
  options_.tenant.log->Write(LogLevel::kError, stays ? "tenant_quarantined" : "tenant_not_made",
                             {{"tenant", name},
                              {"code", static_cast<int64_t>(status.code())},
                              {"message", std::string(status.message())}});
  if (stays) {
    MutexLock lock(registry_mutex_);
    registry_[name] = Entry{nullptr};
    return absl::UnavailableError(
        "name: the tenant was made but could not be opened and is quarantined; the server's log "
        "says why, and the next start tries again");
  }
  if (absl::IsResourceExhausted(status)) {
    return absl::ResourceExhaustedError("the disk or a quota is full; nothing was changed");
  }
  return absl::InternalError("the tenant could not be made; the server's log says why");
}

absl::StatusOr<TenantInfo> Service::GetTenant(const std::string& name) {
  LETHE_ASSIGN_OR_RETURN(const std::shared_ptr<Tenant> tenant, Find("name", name));
  if (tenant->gone()) return NoSuchTenant();
  return tenant->Info();
}

absl::StatusOr<Page<TenantInfo>> Service::ListTenants(const PageRequest& page) {
  constexpr absl::string_view kScope = "tenants";
  LETHE_ASSIGN_OR_RETURN(const size_t size, PageSize(page.size));
  LETHE_ASSIGN_OR_RETURN(const std::string after, DecodePageToken(kScope, page.token));
  // Copied first: no tenant may make the calls of another one wait.
  std::vector<std::pair<std::string, std::shared_ptr<Tenant>>> found;
  bool more = false;
  {
    MutexLock lock(registry_mutex_);
    auto next = registry_.upper_bound(after);
    for (; next != registry_.end() && found.size() < size; ++next) {
      // Deleted, though its folder could not be moved away yet.
      if (next->second.tenant != nullptr && next->second.tenant->gone()) continue;
      found.emplace_back(next->first, next->second.tenant);
    }
    more = next != registry_.end();
  }
  Page<TenantInfo> result;
  for (const auto& [name, tenant] : found) {
    if (tenant != nullptr) {
      result.items.push_back(tenant->Info());
    } else {
      result.items.emplace_back().name = name;
    }
  }
  if (more) result.next_page_token = EncodePageToken(kScope, found.back().first);
  return result;
}

bool Service::MoveAway(const std::string& name, const Tenant& tenant) {
  const absl::StatusOr<std::string> moved = directory_->CloseTenant(name, tenant.uid());
  if (!moved.ok()) {
    // The tenant is gone all the same; the next start or rotation moves its folder.
    options_.tenant.log->Write(
        LogLevel::kError, "tenant_move_failed",
        {{"tenant", name}, {"message", std::string(moved.status().message())}});
    return false;
  }
  MutexLock lock(registry_mutex_);
  registry_.erase(name);
  return true;
}

absl::StatusOr<DeleteTenantReply> Service::DeleteTenant(const std::string& name,
                                                        const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket,
                         WriteTicket::Take(&writes_, options_.max_waiting_writes));
  MutexLock directory_lock(directory_mutex_);
  LETHE_ASSIGN_OR_RETURN(const std::shared_ptr<Tenant> tenant, Find("name", name));
  absl::StatusOr<DeleteTenantReply> reply = tenant->Close(call);
  // Also when it turns out that an earlier call, whose commit seemed to fail, did close it.
  if (tenant->closed()) MoveAway(name, *tenant);
  if (!reply.ok()) return reply.status();
  options_.tenant.log->Write(LogLevel::kInfo, "tenant_deleted",
                             {{"tenant", name},
                              {"erased", static_cast<int64_t>(reply->erased_tokens)},
                              {"certificate", reply->certificate_id}});
  return reply;
}

absl::StatusOr<MemoryInfo> Service::CreateMemory(const std::string& tenant,
                                                 const std::string& name,
                                                 const MemoryConfig& config,
                                                 const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket,
                         WriteTicket::Take(&writes_, options_.max_waiting_writes));
  LETHE_ASSIGN_OR_RETURN(const std::shared_ptr<Tenant> found, Find("tenant", tenant));
  return found->CreateMemory(name, config, call);
}

absl::StatusOr<MemoryInfo> Service::GetMemory(const std::string& tenant, const std::string& name) {
  LETHE_ASSIGN_OR_RETURN(const std::shared_ptr<Tenant> found, Find("tenant", tenant));
  LETHE_RETURN_IF_ERROR(CheckName("name", name));
  return found->GetMemory(name);
}

absl::StatusOr<Page<MemoryInfo>> Service::ListMemories(const std::string& tenant,
                                                       const PageRequest& page) {
  LETHE_ASSIGN_OR_RETURN(const std::shared_ptr<Tenant> found, Find("tenant", tenant));
  return found->ListMemories(page);
}

absl::StatusOr<DeleteMemoryReply> Service::DeleteMemory(const std::string& tenant,
                                                        const std::string& name,
                                                        const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket,
                         WriteTicket::Take(&writes_, options_.max_waiting_writes));
  LETHE_ASSIGN_OR_RETURN(const std::shared_ptr<Tenant> found, Find("tenant", tenant));
  LETHE_RETURN_IF_ERROR(CheckName("name", name));
  return found->DeleteMemory(name, call);
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
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket,
                         WriteTicket::Take(&writes_, options_.max_waiting_writes));
  LETHE_ASSIGN_OR_RETURN(const std::shared_ptr<Tenant> found, Find("tenant", tenant));
  LETHE_RETURN_IF_ERROR(CheckName("memory", memory));
  return found->Insert(memory, std::move(batches), call);
}

absl::StatusOr<QueryReply> Service::Query(const QueryInput& input, const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const std::shared_ptr<Tenant> found, Find("tenant", input.tenant));
  LETHE_RETURN_IF_ERROR(CheckName("memory", input.memory));
  return found->Query(input, call);
}

absl::StatusOr<ForgetReply> Service::Forget(const ForgetInput& input, const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket,
                         WriteTicket::Take(&writes_, options_.max_waiting_writes));
  LETHE_ASSIGN_OR_RETURN(const std::shared_ptr<Tenant> found, Find("tenant", input.tenant));
  LETHE_RETURN_IF_ERROR(CheckName("memory", input.memory));
  return found->Forget(input, call);
}

absl::StatusOr<EvictReply> Service::Evict(const EvictInput& input, const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket,
                         WriteTicket::Take(&writes_, options_.max_waiting_writes));
  LETHE_ASSIGN_OR_RETURN(const std::shared_ptr<Tenant> found, Find("tenant", input.tenant));
  LETHE_RETURN_IF_ERROR(CheckName("memory", input.memory));
  return found->Evict(input, call);
}

absl::StatusOr<EditReply> Service::Edit(EditInput input, const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket,
                         WriteTicket::Take(&writes_, options_.max_waiting_writes));
  LETHE_ASSIGN_OR_RETURN(const std::shared_ptr<Tenant> found, Find("tenant", input.tenant));
  LETHE_RETURN_IF_ERROR(CheckName("memory", input.memory));
  return found->Edit(std::move(input), call);
}

absl::StatusOr<DescribeReply> Service::Describe(const std::string& tenant,
                                                const std::string& memory,
                                                bool refit,
                                                const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const std::shared_ptr<Tenant> found, Find("tenant", tenant));
  LETHE_RETURN_IF_ERROR(CheckName("memory", memory));
  if (!refit) return found->Describe(memory, refit, call);
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket,
                         WriteTicket::Take(&writes_, options_.max_waiting_writes));
  return found->Describe(memory, refit, call);
}

absl::StatusOr<CertificateInfo> Service::GetCertificate(const std::string& tenant,
                                                        const std::string& id) {
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket,
                         WriteTicket::Take(&writes_, options_.max_waiting_writes));
  LETHE_ASSIGN_OR_RETURN(const std::shared_ptr<Tenant> found, Find("tenant", tenant));
  if (!audit::DecodeDigest(id).ok()) {
    return FieldError("id", "must be 64 lower-case hex digits");
  }
  return found->GetCertificate(id);
}

absl::StatusOr<Page<CertificateInfo>> Service::ListCertificates(const std::string& tenant,
                                                                const std::string& memory,
                                                                const PageRequest& page) {
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket,
                         WriteTicket::Take(&writes_, options_.max_waiting_writes));
  LETHE_ASSIGN_OR_RETURN(const std::shared_ptr<Tenant> found, Find("tenant", tenant));
  if (!memory.empty()) LETHE_RETURN_IF_ERROR(CheckName("memory", memory));
  return found->ListCertificates(memory, page);
}

absl::Status Service::Checkpoint() {
  std::vector<std::shared_ptr<Tenant>> tenants;
  {
    MutexLock lock(registry_mutex_);
    for (const auto& [name, entry] : registry_) {
      if (entry.tenant != nullptr) tenants.push_back(entry.tenant);
    }
  }
  absl::Status first;
  for (const std::shared_ptr<Tenant>& tenant : tenants) first.Update(tenant->Checkpoint());
  return first;
}

}  // namespace lethe::service
