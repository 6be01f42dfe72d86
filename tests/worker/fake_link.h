// A server for one worker, in this process: it has one job, checks the name of the lease, keeps
// checkpoints and the artefact, and does what a test wants on a call.
#ifndef LETHE_TESTS_WORKER_FAKE_LINK_H_
#define LETHE_TESTS_WORKER_FAKE_LINK_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "worker/link.h"

namespace lethe::worker {

class FakeLink : public Link {
 public:
  FakeLink() {
    offer.mutable_lease()->set_job("job1");
    offer.mutable_lease()->set_token("lease1");
    offer.set_lease_seconds(30);
    v1::Job& job = *offer.mutable_job();
    job.set_id("job1");
    job.set_tenant("t");
    job.set_memory("m");
    job.set_kind(v1::JOB_KIND_TRAIN_ENCODER);
    offer.mutable_memory_config()->mutable_kernel()->mutable_rbf()->set_gamma(0.5);
    offer.mutable_memory_config()->set_key_dimension(2);
    offer.mutable_memory_config()->set_value_dimension(1);
  }

  v1::LeaseJobResponse offer;
  std::vector<v1::TrainingTokens::Token> tokens;
  // Asked before each call, with its name and how often it came before; an error is its answer.
  using Ask = std::function<absl::Status(const std::string& call, int before)>;
  void OnCall(Ask ask) {
    MutexLock lock(mutex_);
    ask_ = std::move(ask);
  }
  bool cancel = false;

  struct Failure {
    v1::WorkerEnd end;
    std::string message;
  };
  std::vector<std::pair<uint64_t, std::string>> checkpoints;  // step and bytes
  std::optional<std::string> artefact;
  std::string manifest;
  std::optional<Failure> failure;

  v1::JobProgress progress() {
    MutexLock lock(mutex_);
    return progress_;
  }
  int calls(const std::string& call) {
    MutexLock lock(mutex_);
    return counts_[call];
  }

  absl::StatusOr<v1::LeaseJobResponse> Lease(const std::string&,
                                             const std::vector<jobs::JobKind>&,
                                             absl::Duration) override {
    return offer;
  }
  absl::StatusOr<v1::HeartbeatResponse> Heartbeat(const v1::JobLease& lease,
                                                  const v1::JobProgress& told,
                                                  absl::Duration) override {
    if (absl::Status status = Enter("Heartbeat", lease); !status.ok()) return status;
    MutexLock lock(mutex_);
    progress_ = told;
    return Beat();
  }
  absl::Status ReadTokens(
      const v1::JobLease& lease,
      const std::function<absl::Status(uint64_t count)>& begin,
      const std::function<absl::Status(const v1::TrainingTokens::Token&)>& visit) override {
    if (absl::Status status = Enter("ReadTokens", lease); !status.ok()) return status;
    if (absl::Status status = begin(tokens.size()); !status.ok()) return status;
    for (const auto& token : tokens) {
      if (absl::Status status = visit(token); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> LoadCheckpoint(const v1::JobLease& lease) override {
    if (absl::Status status = Enter("LoadCheckpoint", lease); !status.ok()) return status;
    if (checkpoints.empty()) return absl::NotFoundError("checkpoint: there is none");
    return checkpoints.back().second;
  }
  absl::StatusOr<v1::HeartbeatResponse> SaveCheckpoint(const v1::JobLease& lease,
                                                       const v1::JobProgress& told,
                                                       absl::string_view bytes) override {
    if (absl::Status status = Enter("SaveCheckpoint", lease); !status.ok()) return status;
    checkpoints.emplace_back(told.step(), bytes);
    MutexLock lock(mutex_);
    return Beat();
  }
  absl::StatusOr<v1::JobArtefact> Complete(const v1::JobLease& lease,
                                           const v1::JobProgress&,
                                           const std::string& told,
                                           absl::string_view bytes) override {
    if (absl::Status status = Enter("Complete", lease); !status.ok()) return status;
    manifest = told;
    artefact = std::string(bytes);
    return v1::JobArtefact();
  }
  absl::Status Fail(const v1::JobLease& lease,
                    v1::WorkerEnd end,
                    const std::string& message,
                    const v1::JobProgress&) override {
    if (absl::Status status = Enter("Fail", lease); !status.ok()) return status;
    failure = Failure{end, message};
    return absl::OkStatus();
  }

 private:
  absl::Status Enter(const std::string& call, const v1::JobLease& lease) {
    int before = 0;
    Ask ask;
    {
      MutexLock lock(mutex_);
      before = counts_[call]++;
      ask = ask_;
    }
    if (lease.token() != offer.lease().token()) {
      return absl::FailedPreconditionError("lease: is not in force");
    }
    return ask ? ask(call, before) : absl::OkStatus();
  }
  v1::HeartbeatResponse Beat() {
    v1::HeartbeatResponse answer;
    answer.set_lease_seconds(offer.lease_seconds());
    answer.set_cancel(cancel);
    return answer;
  }

  Mutex mutex_;
  Ask ask_;
  v1::JobProgress progress_;
  std::map<std::string, int> counts_;
};

}  // namespace lethe::worker

#endif  // LETHE_TESTS_WORKER_FAKE_LINK_H_
