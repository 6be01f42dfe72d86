// The training jobs of FakeConnection.
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "audit/hash.h"
#include "core/base/status_macros.h"
#include "tests/client/fake_connection.h"

namespace lethe::client {

absl::StatusOr<Job> FakeConnection::Worked(const std::string& call, const std::string& tenant) {
  LETHE_RETURN_IF_ERROR(Called(call));
  if (tenants.count(tenant) == 0) return absl::NotFoundError("tenant: there is none");
  Job answer = job;
  answer.tenant = tenant;
  if (answer.id.empty()) answer.id = std::string(32, 'd');
  return answer;
}

absl::StatusOr<Job> FakeConnection::SubmitJob(const NewJob& asked) {
  submitted = asked;
  LETHE_ASSIGN_OR_RETURN(Job answer, Worked("SubmitJob", asked.tenant));
  answer.memory = asked.memory;
  answer.kind = KindOf(asked.config);
  answer.config = asked.config;
  return answer;
}

absl::StatusOr<Job> FakeConnection::GetJob(const std::string& tenant, const std::string&) {
  return Worked("GetJob", tenant);
}

absl::StatusOr<Page<Job>> FakeConnection::ListJobs(const std::string& tenant,
                                                   std::optional<JobState>,
                                                   const PageRequest&) {
  LETHE_ASSIGN_OR_RETURN(Job answer, Worked("ListJobs", tenant));
  return Page<Job>{.items = {answer}, .next_page_token = ""};
}

absl::StatusOr<Job> FakeConnection::CancelJob(const std::string& tenant, const std::string&) {
  return Worked("CancelJob", tenant);
}

absl::Status FakeConnection::DeleteJob(const std::string& tenant, const std::string&) {
  return Worked("DeleteJob", tenant).status();
}

absl::Status FakeConnection::WatchJob(const std::string& tenant,
                                      const std::string&,
                                      const std::function<absl::Status(const Job&)>& visit) {
  LETHE_RETURN_IF_ERROR(Worked("WatchJob", tenant).status());
  for (const Job& one : watched) LETHE_RETURN_IF_ERROR(visit(one));
  return absl::OkStatus();
}

absl::StatusOr<JobArtefact> FakeConnection::GetArtefact(
    const std::string& tenant,
    const std::string&,
    const std::function<absl::Status(absl::string_view piece)>& visit) {
  LETHE_RETURN_IF_ERROR(Worked("GetArtefact", tenant).status());
  for (const std::string& piece : artefact_pieces) LETHE_RETURN_IF_ERROR(visit(piece));
  if (job.artefact.has_value()) return *job.artefact;
  const std::string whole = absl::StrJoin(artefact_pieces, "");
  return JobArtefact{.bytes = whole.size(),
                     .sha256 = absl::BytesToHexString(audit::AsBytes(audit::Sha256(whole))),
                     .manifest = "{}"};
}

}  // namespace lethe::client
