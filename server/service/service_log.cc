// Service: the logs of the tenants as wholes, and the key that signs them.
#include <utility>

#include "absl/time/time.h"
#include "audit/encoding.h"
#include "core/base/status_macros.h"
#include "server/service/low_priority.h"
#include "server/service/names.h"
#include "server/service/service.h"
#include "server/service/write_ticket.h"

namespace lethe::service {
namespace {

// A log that keeps its tenant open.
class HeldLog final : public audit::LogSource {
 public:
  HeldLog(TenantHold hold, std::unique_ptr<audit::LogSource> view)
      : hold_(std::move(hold)), view_(std::move(view)) {}

  uint64_t size() const override { return view_->size(); }
  std::string checkpoint() const override { return view_->checkpoint(); }
  std::vector<std::pair<uint64_t, audit::VerificationKey>> keys() const override {
    return view_->keys();
  }
  absl::StatusOr<audit::Digest> Node(int level, uint64_t index) override {
    return view_->Node(level, index);
  }
  absl::Status Entries(uint64_t first,
                       uint64_t last,
                       absl::FunctionRef<absl::Status(const audit::ExportEntry&)> visit) override {
    return view_->Entries(first, last, visit);
  }

 private:
  const TenantHold hold_;
  const std::unique_ptr<audit::LogSource> view_;  // goes first
};

}  // namespace

absl::StatusOr<VerifyReply> Service::Verify(const std::string& tenant,
                                            const std::string& memory,
                                            const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket, writes_.Take(WriteTickets::Use::kCall, tenant));
  LETHE_ASSIGN_OR_RETURN(const TenantHold found,
                         Find("tenant", tenant, TenantRegistry::Use::kWrite, call));
  LETHE_RETURN_IF_ERROR(CheckName("memory", memory));
  return AtLowPriority([&] { return found->Verify(memory, call); });
}

absl::StatusOr<CheckpointInfo> Service::GetCheckpoint(const std::string& tenant,
                                                      TenantRegistry::Depth depth,
                                                      const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket, writes_.Take(WriteTickets::Use::kCall, tenant));
  LETHE_ASSIGN_OR_RETURN(const TenantHold found,
                         Find("tenant", tenant, TenantRegistry::Use::kRead, call, depth));
  return found->GetCheckpoint();
}

absl::StatusOr<InclusionProofReply> Service::GetInclusionProof(const std::string& tenant,
                                                               const CertificateName& which,
                                                               uint64_t size,
                                                               const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket, writes_.Take(WriteTickets::Use::kCall, tenant));
  LETHE_ASSIGN_OR_RETURN(const TenantHold found,
                         Find("tenant", tenant, TenantRegistry::Use::kRead, call));
  const auto* id = std::get_if<std::string>(&which);
  if (id != nullptr && !audit::DecodeDigest(*id).ok()) {
    return FieldError("certificate_id", "must be 64 lower-case hex digits");
  }
  return found->GetInclusionProof(which, size);
}

absl::StatusOr<ConsistencyProofReply> Service::GetConsistencyProof(const std::string& tenant,
                                                                   uint64_t old_size,
                                                                   uint64_t new_size,
                                                                   const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket, writes_.Take(WriteTickets::Use::kCall, tenant));
  LETHE_ASSIGN_OR_RETURN(const TenantHold found,
                         Find("tenant", tenant, TenantRegistry::Use::kRead, call));
  return found->GetConsistencyProof(old_size, new_size);
}

absl::StatusOr<CheckpointInfo> Service::AddCosignature(const std::string& tenant,
                                                       const std::string& line,
                                                       const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket, writes_.Take(WriteTickets::Use::kCall, tenant));
  LETHE_ASSIGN_OR_RETURN(const TenantHold found,
                         Find("tenant", tenant, TenantRegistry::Use::kRead, call));
  return found->AddCosignature(line, call);
}

absl::Status Service::Export(const std::string& tenant,
                             const audit::ExportRange& range,
                             audit::ExportSink& sink,
                             const CallOptions& call) {
  // No ticket: an export lives as long as its reader likes. Who starts them bounds their number.
  LETHE_ASSIGN_OR_RETURN(const std::unique_ptr<audit::LogSource> log,
                         OpenLog(tenant, TenantRegistry::Depth::kMemories, call));
  return audit::WriteExport(*log, range, absl::ToUnixSeconds(options_.tenant.now()), sink);
}

absl::StatusOr<std::unique_ptr<audit::LogSource>> Service::OpenLog(const std::string& tenant,
                                                                   TenantRegistry::Depth depth,
                                                                   const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(TenantHold found,
                         Find("tenant", tenant, TenantRegistry::Use::kRead, call, depth));
  LETHE_ASSIGN_OR_RETURN(std::unique_ptr<audit::LogSource> view, found->OpenLogView());
  return std::make_unique<HeldLog>(std::move(found), std::move(view));
}

absl::StatusOr<RewrapReply> Service::RewrapKeys(const std::string& tenant,
                                                const CallOptions& call) {
  LETHE_RETURN_IF_ERROR(CheckName("tenant", tenant));
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket, writes_.Take(WriteTickets::Use::kCall, tenant));
  RewrapReply reply;
  LETHE_RETURN_IF_ERROR(registry_.WithLog(tenant, call, TenantRegistry::Room::kWait,
                                          [&](Tenant& opened) -> absl::Status {
                                            LETHE_ASSIGN_OR_RETURN(reply, opened.Rewrap(call));
                                            return absl::OkStatus();
                                          }));
  return reply;
}

absl::StatusOr<RotateKeyReply> Service::RotateKey(const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket, writes_.Take(WriteTickets::Use::kCall, ""));
  MutexLock lock(directory_mutex_);
  if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
  if (absl::Status begun = keys_->Begin(); !begun.ok()) {
    // File names are for the server's log alone.
    options_.tenant.log->Write(program::LogLevel::kError, "key_rotation_failed",
                               {{"message", std::string(begun.message())}});
    return absl::InternalError("the new key could not be made; the server's log says why");
  }
  return ContinueRotation(call);
}

absl::StatusOr<RotateKeyReply> Service::ContinueRotation(const CallOptions& call) {
  RotateKeyReply reply;
  TenantRegistry::Room room = TenantRegistry::Room::kWait;
  const auto failed = [this](const absl::Status& status) {
    options_.tenant.log->Write(program::LogLevel::kError, "key_rotation_failed",
                               {{"message", std::string(status.message())}});
    return absl::InternalError(
        "the rotation of the key stopped midway; the server's log says why, and the next call or "
        "start goes on");
  };
  for (const std::string& name : registry_.Names()) {
    // A closed log is signed no more and needs no private key, also where its folder stays.
    if (registry_.DeletedUid(name).has_value()) {
      MoveAway(name);
      continue;
    }
    // Known of a tenant that is open, or from its file; what failed midway is not known.
    const absl::StatusOr<std::optional<TenantInfo>> known = registry_.Info(name);
    if (known.ok() && known->has_value()) {
      const absl::StatusOr<audit::Signer> newest = keys_->Newest((*known)->log_origin);
      if (newest.ok() && newest->verification_key().vkey() == (*known)->verification_key) continue;
    }
    bool reached = false;
    bool handed_over = false;
    const absl::Status status =
        registry_.WithLog(name, call, room, [&](Tenant& tenant) -> absl::Status {
          reached = true;
          // A deletion that stopped on the way: nobody else sees the tenant, so its end is made
          // here.
          if (tenant.gone()) return tenant.Close({}).status();
          LETHE_ASSIGN_OR_RETURN(handed_over, tenant.HandOver());
          return absl::OkStatus();
        });
    if (registry_.DeletedUid(name).has_value()) {
      const bool moved = MoveAway(name);
      options_.tenant.log->Write(program::LogLevel::kWarning, "tenant_close_finished",
                                 {{"tenant", name}, {"ok", int64_t{moved}}});
      continue;
    }
    if (!status.ok() && call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
    // Where one has waited for room in vain the others need not try as long.
    if (!reached && absl::IsResourceExhausted(status)) room = TenantRegistry::Room::kNow;
    if (!status.ok()) {
      options_.tenant.log->Write(program::LogLevel::kError, "key_hand_over_failed",
                                 {{"tenant", name}, {"message", std::string(status.message())}});
      reply.pending.push_back(name);
      continue;
    }
    if (!handed_over) continue;
    ++reply.handed_over;
    if (absl::Status seam = keys_->Reached("handed-over"); !seam.ok()) return failed(seam);
  }
  reply.complete = reply.pending.empty();
  if (reply.complete) {
    if (absl::Status status = keys_->Finish(); !status.ok()) return failed(status);
  }
  options_.tenant.log->Write(
      reply.complete ? program::LogLevel::kInfo : program::LogLevel::kWarning,
      reply.complete ? "key_rotated" : "key_rotation_pending",
      {{"handed_over", static_cast<int64_t>(reply.handed_over)},
       {"pending", static_cast<int64_t>(reply.pending.size())}});
  return reply;
}

}  // namespace lethe::service
