// What the tests of jobs share: a service with a clock of the test's, and the calls of a worker.
#ifndef LETHE_TESTS_SERVER_JOB_TESTING_H_
#define LETHE_TESTS_SERVER_JOB_TESTING_H_

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "server/service/service.h"
#include "tests/server/service_testing.h"

namespace lethe::service {

inline constexpr absl::StatusCode kNotNow = absl::StatusCode::kFailedPrecondition;

// These tests write much that is synced and ask nothing of the disk.
inline const bool kFilesInRam = [] {
  return ::access("/dev/shm", W_OK) == 0 && ::setenv("TMPDIR", "/dev/shm", 1) == 0;
}();

class JobHarness : public Harness {
 public:
  JobHarness() {
    options().tenant.now = [this] { return absl::FromUnixMicros(micros_.load()); };
    options().jobs.lease = absl::Seconds(30);
    Restart();
    MakeMemory("m");
  }
  void Pass(absl::Duration time) { micros_ += absl::ToInt64Microseconds(time); }
  Jobs& jobs() { return (*this)->jobs(); }

  absl::StatusOr<JobInfo> TrySubmit(const std::string& memory = "m",
                                    const std::string& request_id = "") {
    return (*this)->SubmitJob({.tenant = "t",
                               .memory = memory,
                               .config = TrainEncoderConfig{.steps = 10},
                               .request_id = request_id},
                              {});
  }
  std::string Submit(const std::string& memory = "m") {
    const absl::StatusOr<JobInfo> job = TrySubmit(memory);
    EXPECT_THAT(job, IsOk());
    return job.ok() ? job->id : std::string();
  }
  JobInfo Job(const std::string& id) {
    const absl::StatusOr<JobInfo> job = (*this)->GetJob("t", id);
    EXPECT_THAT(job, IsOk());
    return job.ok() ? *job : JobInfo();
  }
  // A job if there is one now.
  std::optional<LeaseOffer> TryLease(const std::string& worker = "w1") {
    const auto offer = jobs().Lease({.worker = worker, .kinds = {}, .wait = {}}, {});
    EXPECT_THAT(offer, IsOk());
    return offer.ok() ? *offer : std::nullopt;
  }
  LeaseName Lease(const std::string& worker = "w1") {
    const std::optional<LeaseOffer> offer = TryLease(worker);
    EXPECT_TRUE(offer.has_value());
    return offer.has_value() ? offer->lease : LeaseName();
  }
  absl::Status Checkpoint(const LeaseName& lease, uint64_t step, const std::string& bytes) {
    return jobs().PutCheckpoint(lease, {.step = step, .steps = 100}, Pieces(bytes)).status();
  }
  absl::StatusOr<std::string> ReadCheckpoint(const LeaseName& lease) {
    std::string content;
    const absl::Status status = jobs().GetCheckpoint(
        lease, [](const store::JobFile&) { return absl::OkStatus(); },
        [&](absl::string_view piece) {
          content.append(piece.data(), piece.size());
          return absl::OkStatus();
        });
    if (!status.ok()) return status;
    return content;
  }
  absl::Status Complete(const LeaseName& lease, const std::string& bytes) {
    return jobs().Complete(lease, R"({"backend":"cpu"})", std::nullopt, Pieces(bytes)).status();
  }
  absl::StatusOr<std::string> Artefact(const std::string& id) {
    std::string content;
    const absl::Status status = (*this)->ReadArtefact(
        "t", id, {}, [](const JobArtefact&) { return absl::OkStatus(); },
        [&](absl::string_view piece) {
          content.append(piece.data(), piece.size());
          return absl::OkStatus();
        });
    if (!status.ok()) return status;
    return content;
  }
  absl::StatusOr<std::vector<TrainingToken>> Read(const LeaseName& lease) {
    std::vector<TrainingToken> all;
    const absl::Status status = (*this)->ReadTrainingTokens(
        lease, {}, [](uint64_t) { return absl::OkStatus(); },
        [&](std::vector<TrainingToken> tokens) {
          std::move(tokens.begin(), tokens.end(), std::back_inserter(all));
          return absl::OkStatus();
        });
    if (!status.ok()) return status;
    return all;
  }
  // Leases a job, reads its tokens and finishes it.
  void Work(const std::string& artefact) {
    const LeaseName lease = Lease();
    ASSERT_THAT(Read(lease), IsOk());
    ASSERT_THAT(Complete(lease, artefact), IsOk());
  }
  size_t Files() const {
    const std::string folder = data() + "/jobs/files";
    if (!std::filesystem::exists(folder)) return 0;
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
  }

  // Gives the bytes in pieces of some hundred KiB. Lives until the end of the full expression.
  class Pieces {
   public:
    explicit Pieces(std::string bytes) : left_(std::move(bytes)) {}
    absl::StatusOr<std::optional<std::string>> operator()() const {
      if (left_.empty()) return std::nullopt;
      std::string piece = left_.substr(0, 300'000);
      left_.erase(0, piece.size());
      return piece;
    }

   private:
    mutable std::string left_;
  };

 private:
  std::atomic<int64_t> micros_{1'700'000'000'000'000};
};

}  // namespace lethe::service

#endif  // LETHE_TESTS_SERVER_JOB_TESTING_H_
