// Tenant: a cold refit on request, with its certificate.
#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "server/service/certificates.h"
#include "server/service/tenant.h"

namespace lethe::service {
namespace {

// The largest difference of a weight, over all tokens; infinite when one is not a number.
double Deviation(const svdd::Snapshot& served, const svdd::Snapshot& refit) {
  std::map<svdd::TokenHandle, double> difference;
  for (const svdd::SupportToken& token : served.supports) difference[token.handle] += token.alpha;
  for (const svdd::SupportToken& token : refit.supports) difference[token.handle] -= token.alpha;
  double largest = 0.0;
  for (const auto& [handle, value] : difference) {
    const double size = value < 0.0 ? -value : value;
    if (!(size <= largest)) largest = size;
    if (!(size <= std::numeric_limits<double>::max())) {
      return std::numeric_limits<double>::infinity();
    }
  }
  return largest;
}

}  // namespace

absl::StatusOr<VerifyReply> Tenant::Verify(absl::string_view memory_name, const CallOptions& call) {
  MutexLock lock(writer_);
  LETHE_ASSIGN_OR_RETURN(const MemoryPtr memory, WritableMemory(memory_name));
  if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
  // Whatever ends this call early, a state that is in doubt is not kept.
  absl::Cleanup drop_state = [&memory] { memory->state.reset(); };
  const std::shared_ptr<const svdd::Snapshot> served = memory->state->exact().snapshot();
  const std::shared_ptr<const svdd::Snapshot> refit = options_.refit(memory->state->exact());
  const bool equal = svdd::SameBits(*served, *refit);
  const absl::Status checked = memory->state->Check();
  // Equal bits and yet no optimum: the refit is as wrong, and nothing true can be certified.
  if (equal) LETHE_RETURN_IF_ERROR(checked);

  VerifyReply reply;
  reply.bits_equal = equal;
  reply.deviation = equal ? 0.0 : Deviation(*served, *refit);
  reply.verdict = equal ? Verdict::kBitIdentical : Verdict::kUncertified;
  reply.partition = served->counts;
  reply.phase = served->phase;

  LETHE_ASSIGN_OR_RETURN(const store::LogHead head, ReadHead());
  const int64_t now = NowMicros();
  audit::CertificateBody body =
      BaseBody(record_.log_origin, head, audit::CertificateKind::kRetrainCheck, now);
  audit::StateChange change;
  change.memory_uid = memory->uid;
  change.config = ConfigDigestOf(memory->options);
  change.partition_before = ToSizes(served->counts);
  change.partition_after = change.partition_before;
  change.root_before = memory->state->BlindedState();
  change.root_after = change.root_before;
  change.residuals = ResidualsOf(*served, memory->state->last_check());
  change.verdict = equal ? audit::VerdictClass::kBitIdentical : audit::VerdictClass::kUncertified;
  change.refit = audit::RefitComparison{.deviation = reply.deviation, .bits_equal = equal};
  body.change = change;
  if (!equal) {
    body.exceptions.emplace_back(
        "the served state differed from a cold refit and was replaced by one solved from the "
        "stored "
        "tokens");
    options_.log->Write(LogLevel::kError, "check_failed",
                        {{"tenant", record_.name}, {"memory", memory->name}});
  }
  LETHE_ASSIGN_OR_RETURN(const store::CertificateRecord record,
                         AppendAlone(std::move(body), head, nullptr, memory.get(), now));
  reply.certificate_id = record.id;
  reply.sequence = record.sequence;
  if (equal) {
    PublishNext(*memory);  // the same state with the fresh check
  } else {
    // The tokens decide, not the state that went wrong. Until they are solved and proven, readers
    // keep what they have; if that fails, the next write tries again.
    memory->state.reset();
    LETHE_RETURN_IF_ERROR(Load(*memory));
  }
  std::move(drop_state).Cancel();
  reply.state_digest = StateDigestHex(*memory->published.Get());
  options_.log->Write(LogLevel::kInfo, "verified",
                      {{"tenant", record_.name},
                       {"memory", memory->name},
                       {"equal", int64_t{equal}},
                       {"certificate", reply.certificate_id}});
  return reply;
}

}  // namespace lethe::service
