#include "server/access/methods.h"

#include <algorithm>
#include <array>
#include <vector>

namespace lethe::access {
namespace {

constexpr RoleSet kEverybody = {Role::kApp, Role::kEraser, Role::kAuditor, Role::kAdmin};
// Certificates hold nothing of a token. Who erases needs those of his erasures.
constexpr RoleSet kReadersOfLogs = {Role::kEraser, Role::kAuditor};
// A state is solved again from all its tokens.
constexpr RoleSet kVerifiers = {Role::kAuditor, Role::kAdmin};

constexpr Method Open(absl::string_view name) { return {.name = name, .scope = Scope::kOpen}; }

constexpr Method OfServer(absl::string_view name, RoleSet roles, Effect effect) {
  return {.name = name, .scope = Scope::kServer, .roles = roles, .effect = effect};
}

constexpr Method OfTenant(absl::string_view name,
                          absl::string_view tenant_field,
                          absl::string_view memory_field,
                          RoleSet roles,
                          Effect effect) {
  return {.name = name,
          .scope = Scope::kTenant,
          .tenant_field = tenant_field,
          .memory_field = memory_field,
          .roles = roles,
          .effect = effect};
}

// app      writes tokens and reads them
// eraser   makes tokens go, and sees to it that it is done
// auditor  reads the logs of certificates and has states checked; sees no token
// admin    tenants, memories' configuration, keys, backups; sees no token and chooses none to erase
// worker   is given training jobs, and reads what these may read; a process of whoever runs the
// server
constexpr std::array kMethods = {
    // Watched by load balancers, which have no credentials; says nothing of tenants.
    Open("/grpc.health.v1.Health/Check"),
    Open("/grpc.health.v1.Health/Watch"),
    // Served only where there is no access control at all: its handler is gRPC's own, which asks
    // nobody (server/rpc/server.cc).
    Open("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"),

    OfTenant("/lethe.v1.BackupService/CreateBackup",
             "tenant",
             "",
             {Role::kAdmin},
             Effect::kAdministers),
    // Names its tenant in a signed manifest, may bring back one that is gone, and loses what came
    // after the backup.
    OfServer("/lethe.v1.BackupService/RestoreBackup", {Role::kAdmin}, Effect::kDestroys),

    OfTenant("/lethe.v1.CertificateService/AddCosignature",
             "tenant",
             "",
             {Role::kAuditor},
             Effect::kAdds),
    OfTenant("/lethe.v1.CertificateService/Export", "tenant", "", {Role::kAuditor}, Effect::kReads),
    OfTenant("/lethe.v1.CertificateService/GetCertificate",
             "tenant",
             "",
             kReadersOfLogs,
             Effect::kReads),
    OfTenant("/lethe.v1.CertificateService/GetCheckpoint",
             "tenant",
             "",
             kReadersOfLogs,
             Effect::kReads),
    OfTenant("/lethe.v1.CertificateService/GetConsistencyProof",
             "tenant",
             "",
             kReadersOfLogs,
             Effect::kReads),
    OfTenant("/lethe.v1.CertificateService/GetInclusionProof",
             "tenant",
             "",
             kReadersOfLogs,
             Effect::kReads),
    OfTenant("/lethe.v1.CertificateService/ListCertificates",
             "tenant",
             "memory",
             kReadersOfLogs,
             Effect::kReads),
    OfTenant("/lethe.v1.CertificateService/RewrapKeys",
             "tenant",
             "",
             {Role::kAdmin},
             Effect::kDestroys),
    OfServer("/lethe.v1.CertificateService/RotateKey", {Role::kAdmin}, Effect::kDestroys),

    OfTenant("/lethe.v1.ErasureService/CancelErasureRequest",
             "tenant",
             "",
             {Role::kEraser},
             Effect::kAdministers),
    // What it erases goes later, without a caller: this is the call that decides it.
    OfTenant("/lethe.v1.ErasureService/CreateErasureRequest",
             "tenant",
             "",
             {Role::kEraser},
             Effect::kDestroys),
    OfTenant("/lethe.v1.ErasureService/Discover", "tenant", "", {Role::kEraser}, Effect::kReads),
    OfTenant("/lethe.v1.ErasureService/ExtendErasureRequest",
             "tenant",
             "",
             {Role::kEraser},
             Effect::kAdministers),
    // With what the controller calls it and why it was extended, which can name a person.
    OfTenant("/lethe.v1.ErasureService/GetErasureRequest",
             "tenant",
             "",
             {Role::kEraser},
             Effect::kReads),
    // States, times and counts, and nothing personal.
    OfTenant("/lethe.v1.ErasureService/ListErasureRequests",
             "tenant",
             "",
             kReadersOfLogs,
             Effect::kReads),
    // With the subjects. A hold keeps tokens from every eraser, so another role has no say in it.
    OfTenant("/lethe.v1.ErasureService/ListHolds", "tenant", "", {Role::kEraser}, Effect::kReads),
    OfTenant("/lethe.v1.ErasureService/PlaceHold",
             "tenant",
             "",
             {Role::kEraser},
             Effect::kAdministers),
    OfTenant("/lethe.v1.ErasureService/ReleaseHold",
             "tenant",
             "",
             {Role::kEraser},
             Effect::kAdministers),
    // For the requester; can end them.
    OfTenant("/lethe.v1.ErasureService/TakeErasureReceipts",
             "tenant",
             "",
             {Role::kEraser},
             Effect::kAdministers),

    // States, times, counts, and what went wrong; nothing of a token.
    OfTenant("/lethe.v1.JobService/CancelJob",
             "tenant",
             "",
             {Role::kApp, Role::kAdmin},
             Effect::kAdministers),
    // An artefact may have to go because of an erasure.
    OfTenant("/lethe.v1.JobService/DeleteJob",
             "tenant",
             "",
             {Role::kApp, Role::kEraser},
             Effect::kDestroys),
    // Made from tokens: for who may read those.
    OfTenant("/lethe.v1.JobService/GetArtefact", "tenant", "", {Role::kApp}, Effect::kReads),
    OfTenant("/lethe.v1.JobService/GetJob", "tenant", "", kEverybody, Effect::kReads),
    OfTenant("/lethe.v1.JobService/ListJobs", "tenant", "", kEverybody, Effect::kReads),
    // Lets a worker read every token of the memory.
    OfTenant("/lethe.v1.JobService/SubmitJob", "tenant", "memory", {Role::kApp}, Effect::kAdds),
    OfTenant("/lethe.v1.JobService/WatchJob", "tenant", "", kEverybody, Effect::kReads),

    OfTenant("/lethe.v1.MemoryService/CreateMemory",
             "tenant",
             "name",
             {Role::kAdmin},
             Effect::kAdministers),
    OfTenant("/lethe.v1.MemoryService/DeleteMemory",
             "tenant",
             "name",
             {Role::kEraser},
             Effect::kDestroys),
    // Counts, the state digest and the health of the solver: nothing of a token. A refit costs what
    // Verify costs.
    Method{.name = "/lethe.v1.MemoryService/Describe",
           .scope = Scope::kTenant,
           .tenant_field = "tenant",
           .memory_field = "memory",
           .roles = kEverybody,
           .switch_field = "refit",
           .switch_roles = kVerifiers},
    OfTenant("/lethe.v1.MemoryService/Edit",
             "tenant",
             "memory",
             {Role::kEraser},
             Effect::kDestroys),
    OfTenant("/lethe.v1.MemoryService/Evict",
             "tenant",
             "memory",
             {Role::kEraser},
             Effect::kDestroys),
    OfTenant("/lethe.v1.MemoryService/Forget",
             "tenant",
             "memory",
             {Role::kEraser},
             Effect::kDestroys),
    OfTenant("/lethe.v1.MemoryService/GetMemory", "tenant", "name", kEverybody, Effect::kReads),
    OfTenant("/lethe.v1.MemoryService/Insert", "tenant", "memory", {Role::kApp}, Effect::kAdds),
    OfTenant("/lethe.v1.MemoryService/InsertStream",
             "tenant",
             "memory",
             {Role::kApp},
             Effect::kAdds),
    OfTenant("/lethe.v1.MemoryService/ListMemories", "tenant", "", kEverybody, Effect::kReads),
    OfTenant("/lethe.v1.MemoryService/Query", "tenant", "memory", {Role::kApp}, Effect::kReads),
    OfTenant("/lethe.v1.MemoryService/QueryStream",
             "tenant",
             "memory",
             {Role::kApp},
             Effect::kReads),
    // Appends what it found to the log.
    OfTenant("/lethe.v1.MemoryService/Verify", "tenant", "memory", kVerifiers, Effect::kAdds),

    // Whoever may do it for one tenant only was given that tenant; new ones are the server's.
    Method{.name = "/lethe.v1.TenantService/CreateTenant",
           .scope = Scope::kServer,
           .tenant_field = "name",
           .roles = {Role::kAdmin},
           .effect = Effect::kAdministers},
    OfTenant("/lethe.v1.TenantService/DeleteTenant", "name", "", {Role::kAdmin}, Effect::kDestroys),
    OfTenant("/lethe.v1.TenantService/GetTenant", "name", "", kEverybody, Effect::kReads),
    Method{.name = "/lethe.v1.TenantService/ListTenants",
           .scope = Scope::kListed,
           .roles = kEverybody},

    // A worker serves every tenant, and reads what jobs of tenants let it: a lease names the job.
    OfServer("/lethe.v1.WorkerService/CompleteJob", {Role::kWorker}, Effect::kAdds),
    OfServer("/lethe.v1.WorkerService/FailJob", {Role::kWorker}, Effect::kAdds),
    OfServer("/lethe.v1.WorkerService/Heartbeat", {Role::kWorker}, Effect::kReads),
    OfServer("/lethe.v1.WorkerService/LeaseJob", {Role::kWorker}, Effect::kReads),
    OfServer("/lethe.v1.WorkerService/LoadCheckpoint", {Role::kWorker}, Effect::kReads),
    OfServer("/lethe.v1.WorkerService/ReadTokens", {Role::kWorker}, Effect::kReads),
    OfServer("/lethe.v1.WorkerService/SaveCheckpoint", {Role::kWorker}, Effect::kAdds),

    // Routes of HTTP that are no RPC (server/http/router.h). Metrics have an address of their own,
    // where nothing else is served; what the server can do is no secret. A log tells that there is
    // a tenant, and how much it erases: it is for everybody only where whoever runs the server
    // wants it so (--public-logs), or asks nobody anyway.
    Open("GET /metrics"),
    Open("GET /openapi.json"),
    Open("GET /v1/discovery"),
    OfTenant("GET /v1/tenants/{tenant}/log/checkpoint",
             "tenant",
             "",
             kReadersOfLogs,
             Effect::kReads),
    Open("GET /v1/tenants/{tenant}/log/checkpoint, public"),
    OfTenant("GET /v1/tenants/{tenant}/log/keys", "tenant", "", kReadersOfLogs, Effect::kReads),
    Open("GET /v1/tenants/{tenant}/log/keys, public"),
    OfTenant("GET /v1/tenants/{tenant}/log/tile/{tile...}",
             "tenant",
             "",
             kReadersOfLogs,
             Effect::kReads),
    Open("GET /v1/tenants/{tenant}/log/tile/{tile...}, public"),
};

constexpr bool Before(const Method& a, const Method& b) { return a.name < b.name; }

static_assert(std::adjacent_find(kMethods.begin(),
                                 kMethods.end(),
                                 [](const Method& a, const Method& b) { return !Before(a, b); }) ==
                  kMethods.end(),
              "the table is sorted, each name once");
static_assert(std::all_of(kMethods.begin(),
                          kMethods.end(),
                          [](const Method& method) {
                            return (method.scope == Scope::kOpen) == method.roles.empty() &&
                                   (method.scope != Scope::kTenant ||
                                    !method.tenant_field.empty()) &&
                                   method.switch_field.empty() == method.switch_roles.empty() &&
                                   (method.scope == Scope::kTenant || method.switch_field.empty());
                          }),
              "roles and a field for the tenant where the scope wants them");

}  // namespace

absl::string_view ScopeName(Scope scope) {
  switch (scope) {
    case Scope::kOpen:
      return "open";
    case Scope::kServer:
      return "server";
    case Scope::kTenant:
      return "tenant";
    case Scope::kListed:
      return "listed";
  }
  return "";
}

absl::string_view EffectName(Effect effect) {
  switch (effect) {
    case Effect::kReads:
      return "reads";
    case Effect::kAdds:
      return "adds";
    case Effect::kAdministers:
      return "administers";
    case Effect::kDestroys:
      return "destroys";
  }
  return "";
}

std::span<const Method> Methods() { return kMethods; }

const Method* FindMethod(absl::string_view name) {
  const auto found = std::lower_bound(
      kMethods.begin(), kMethods.end(), name,
      [](const Method& method, absl::string_view wanted) { return method.name < wanted; });
  return found != kMethods.end() && found->name == name ? &*found : nullptr;
}

}  // namespace lethe::access
