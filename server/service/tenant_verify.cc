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

void Tenant::LogFailedCheck(const Memory& memory) const {
  ++options_.counters->failed_checks;
  options_.log->Write(program::LogLevel::kError, "check_failed",
                      {{"tenant", record_.name}, {"memory", memory.name}});
}

absl::StatusOr<VerifyReply> Tenant::Verify(absl::string_view memory_name, const CallOptions& call) {
  MutexLock lock(writer_);
  LETHE_ASSIGN_OR_RETURN(const MemoryPtr memory, WritableMemory(memory_name));
  if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
  // Whatever ends this call early, a state that is in doubt is not kept.
  absl::Cleanup drop_state = [&memory] { memory->state.reset(); };
  const std::shared_ptr<const svdd::Snapshot> refit = options_.refit(memory->state->exact());
  // What readers are given and what writers go on from: one and the same, unless something is wrong
  // with one of them. The certificate is about the one that differs.
  const std::shared_ptr<const svdd::Snapshot> served = memory->published.Get()->snapshot;
  const std::shared_ptr<const svdd::Snapshot> written = memory->state->exact().snapshot();
  const bool served_equal = svdd::SameBits(*served, *refit);
  const svdd::Snapshot& judged = served_equal ? *written : *served;
  const bool equal = svdd::SameBits(judged, *refit);
  if (equal) {
    // Equal bits and yet no optimum: the refit is as wrong, and nothing true can be certified.
    if (const absl::Status checked = memory->state->Check(); !checked.ok()) {
      LogFailedCheck(*memory);
      Renew(*memory).IgnoreError();
      return checked;
    }
  }

  VerifyReply reply;
  reply.bits_equal = equal;
  reply.deviation = equal ? 0.0 : Deviation(judged, *refit);
  reply.verdict = equal ? Verdict::kBitIdentical : Verdict::kUncertified;
  reply.partition = judged.counts;
  reply.phase = judged.phase;

  audit::StateChange change;
  change.memory_uid = memory->uid;
  change.config = DigestOf(*memory);
  change.partition_before = ToSizes(judged.counts);
  change.partition_after = change.partition_before;
  change.root_before = memory->state->BlindedStateOf(judged);
  change.root_after = change.root_before;
  change.residuals =
      ResidualsOf(judged, equal ? memory->state->last_check() : memory->state->Judge(judged));
  change.verdict = equal ? audit::VerdictClass::kBitIdentical : audit::VerdictClass::kUncertified;
  change.refit = audit::RefitComparison{.deviation = reply.deviation, .bits_equal = equal};
  // Before anything is signed: the certificate says what has been done, not what is about to be.
  // The tokens decide, not the state that went wrong.
  absl::Status renewed;
  if (!equal) {
    LogFailedCheck(*memory);
    renewed = Renew(*memory);
  }

  LETHE_ASSIGN_OR_RETURN(const store::LogHead head, ReadHead());
  const int64_t now = NowMicros();
  audit::CertificateBody body =
      BaseBody(record_.log_origin, head, audit::CertificateKind::kRetrainCheck, now);
  body.change = change;
  if (!equal) {
    body.exceptions.push_back(absl::StrCat(
        served_equal ? "the state that writes go on from" : "the served state",
        " differed from a cold refit",
        renewed.ok() ? " and was replaced by one solved from the stored tokens"
                     : "; solving the stored tokens again failed, and the memory is not served "
                       "until that succeeds"));
  }
  LETHE_ASSIGN_OR_RETURN(const store::CertificateRecord record,
                         AppendAlone(std::move(body), head, nullptr, memory.get(), now));
  options_.counters->Add(reply.verdict);
  LETHE_RETURN_IF_ERROR(renewed);
  reply.certificate_id = record.id;
  reply.sequence = record.sequence;
  if (equal) PublishNext(*memory);  // the same state with the fresh check
  std::move(drop_state).Cancel();
  reply.state_digest = StateDigestHex(*memory->published.Get());
  options_.log->Write(program::LogLevel::kInfo, "verified",
                      {{"tenant", record_.name},
                       {"memory", memory->name},
                       {"equal", int64_t{equal}},
                       {"certificate", reply.certificate_id}});
  return reply;
}

}  // namespace lethe::service
