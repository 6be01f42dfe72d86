// Tenant: what training jobs read of it, and what erasures tell them.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/certificate.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "server/service/names.h"
#include "server/service/tenant.h"

namespace lethe::service {
namespace {

// The writer waits while a page is read.
constexpr size_t kPageTokens = 256;
constexpr size_t kPageBytes = size_t{1} << 20;

}  // namespace

absl::StatusOr<JobInfo> Tenant::SubmitJob(const JobInput& input, const TenantQuotas& quotas) {
  LETHE_CHECK(options_.jobs != nullptr);
  LETHE_RETURN_IF_ERROR(Jobs::Check(input));
  // Under the lock, so that no job is made of a tenant whose end has begun.
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  const MemoryPtr memory = FindMemory(input.memory);
  if (memory == nullptr) return absl::NotFoundError("memory: there is none with this name");
  return options_.jobs->Submit(record_.uid, memory->uid, memory->config, input,
                               quotas[Quota::kJobs], options_.counters);
}

absl::StatusOr<std::vector<TrainingToken>> Tenant::ReadForJob(const LeaseName& lease,
                                                              JobReader& reader) {
  LETHE_CHECK(options_.jobs != nullptr);
  // Nothing is erased while the lock is held, and an erasure ends the leases of those that read
  // what it takes: a lease that is in force here reads nothing that is gone.
  MutexLock lock(writer_);
  const absl::StatusOr<MemoryPtr> found = WritableMemory(reader.reading.memory);
  if ((absl::IsNotFound(found.status()) && !gone()) ||
      (found.ok() && (*found)->uid != reader.reading.memory_uid)) {
    LETHE_RETURN_IF_ERROR(options_.jobs->LoseMemory(lease));
    return absl::FailedPreconditionError("lease: the memory was deleted, and the job has failed");
  }
  LETHE_RETURN_IF_ERROR(found.status());
  const Memory& memory = **found;
  if (reader.snapshot.has_value()) {
    LETHE_RETURN_IF_ERROR(options_.jobs->BeginReading(lease).status());
  } else {
    LETHE_RETURN_IF_ERROR(options_.jobs->TakeSnapshot(lease, memory.state->handles()));
    LETHE_ASSIGN_OR_RETURN(reader.snapshot, options_.jobs->Snapshot(lease));
  }
  // Handles that are gone without a word to the job: a file of jobs that was put back.
  if (reader.next == 0 && !std::ranges::includes(memory.state->handles(), *reader.snapshot)) {
    options_.jobs->StartOver(record_.uid);
    return absl::FailedPreconditionError(
        "lease: is not in force; tokens that the job had read are gone, and it starts over");
  }
  std::vector<TrainingToken> tokens;
  size_t bytes = 0;
  while (reader.next < reader.snapshot->size() && tokens.size() < kPageTokens &&
         bytes < kPageBytes) {
    absl::StatusOr<std::vector<store::TokenRow>> rows =
        store_->GetTokens(memory.uid, {&(*reader.snapshot)[reader.next], 1});
    if (!rows.ok()) return StoreFailed(nullptr, rows.status());
    store::TokenRow& row = rows->front();
    bytes += sizeof(double) * (row.key.size() + row.value.size()) + row.payload.size();
    tokens.push_back({.key = std::move(row.key),
                      .value = std::move(row.value),
                      .payload = std::move(row.payload)});
    ++reader.next;
  }
  return tokens;
}

std::vector<std::string> Tenant::TellJobs(const Memory& memory,
                                          std::span<const svdd::TokenHandle> handles) {
  std::vector<std::string> exceptions;
  if (options_.jobs == nullptr) return exceptions;
  const JobsTold told = options_.jobs->BeforeErase(record_.uid, memory.uid, handles);
  if (told.unknown || told.unfinished) {
    options_.log->Write(program::LogLevel::kError, "erasure_without_jobs",
                        {{"tenant", record_.name},
                         {"memory", memory.name},
                         {"unknown", int64_t{told.unknown}},
                         {"unfinished", int64_t{told.unfinished}}});
  }
  if (told.unknown) {
    exceptions.push_back(
        "training artefacts are not known: the file of jobs could not be read or written; those"
        " that were made from erased tokens are not covered");
  }
  if (told.unfinished) {
    exceptions.push_back(
        "keys of training jobs that started over or were deleted are not all shown to be "
        "destroyed");
  }
  // The last place is for the rest, where there are too many.
  const size_t all = told.artefacts.size() + told.doubtful.size();
  const size_t places = audit::kMaxExceptions - exceptions.size();
  const size_t named = all <= places ? all : places - 1;
  for (size_t i = 0; i < named; ++i) {
    const bool certain = i < told.artefacts.size();
    exceptions.push_back(absl::StrCat(
        "artefact ", certain ? told.artefacts[i] : told.doubtful[i - told.artefacts.size()],
        certain ? " of a training job was made from erased tokens before and is not covered"
                : " of a training job may have been made from erased tokens before, which could"
                  " not be determined, and is not covered"));
  }
  if (named < all) {
    exceptions.push_back(absl::StrCat(all - named,
                                      " more artefacts of training jobs were made from erased"
                                      " tokens before and are not covered"));
  }
  return exceptions;
}

}  // namespace lethe::service
