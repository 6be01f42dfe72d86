// What the tests of jobs share: a service with a clock of the test's, and the calls of a worker.
#ifndef LETHE_TESTS_SERVER_JOB_TESTING_H_
#define LETHE_TESTS_SERVER_JOB_TESTING_H_

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "server/service/service.h"
#include "store/vault/file_kms.h"
#include "tests/server/service_testing.h"

namespace lethe::service {

inline constexpr absl::StatusCode kNotNow = absl::StatusCode::kFailedPrecondition;

// These tests write much that is synced and ask nothing of the disk.
inline const bool kFilesInRam = [] {
  return ::access("/dev/shm", W_OK) == 0 && ::setenv("TMPDIR", "/dev/shm", 1) == 0;
}();

// What fails of the keys of jobs; those of tenants are left alone.
struct KmsTrouble {
  std::atomic<bool> wraps{false};
  std::atomic<bool> ends{false};  // a new epoch, and the end of an old one
};

class TroubledKms final : public store::Kms {
 public:
  TroubledKms(std::unique_ptr<store::Kms> inner, std::shared_ptr<KmsTrouble> trouble)
      : inner_(std::move(inner)), trouble_(std::move(trouble)) {}
  std::string Location() const override { return inner_->Location(); }
  absl::StatusOr<std::vector<uint32_t>> Epochs() override { return inner_->Epochs(); }
  absl::StatusOr<std::vector<std::string>> Wrap(uint32_t epoch,
                                                std::span<const store::KeyToWrap> keys) override {
    if (trouble_->wraps) return absl::UnavailableError("no wrapping now");
    return inner_->Wrap(epoch, keys);
  }
  absl::StatusOr<std::vector<store::SecretBytes>> Unwrap(
      uint32_t epoch,
      std::span<const store::KeyToUnwrap> keys) override {
    return inner_->Unwrap(epoch, keys);
  }
  absl::StatusOr<uint32_t> Rotate() override {
    if (trouble_->ends) return absl::UnavailableError("no new epoch now");
    return inner_->Rotate();
  }
  absl::Status Destroy(uint32_t epoch) override {
    return trouble_->ends ? absl::UnavailableError("no end of an epoch now")
                          : inner_->Destroy(epoch);
  }
  absl::Status DestroyAll() override { return inner_->DestroyAll(); }

 private:
  const std::unique_ptr<store::Kms> inner_;
  const std::shared_ptr<KmsTrouble> trouble_;
};

class JobHarness : public Harness {
 public:
  JobHarness() {
    options().tenant.now = [this] { return absl::FromUnixMicros(micros_.load()); };
    options().tenant.kms =
        [trouble = trouble_](
            store::KmsUse use, const std::string& folder,
            const std::string& uid) -> absl::StatusOr<std::unique_ptr<store::Kms>> {
      absl::StatusOr<std::unique_ptr<store::Kms>> kms = store::MakeFileKms(use, folder, uid);
      if (!kms.ok() || !absl::EndsWith(folder, "/jobs")) return kms;
      return std::make_unique<TroubledKms>(*std::move(kms), trouble);
    };
    options().jobs.lease = absl::Seconds(30);
    Restart();
    MakeMemory("m");
  }
  void Pass(absl::Duration time) { micros_ += absl::ToInt64Microseconds(time); }
  Jobs& jobs() { return (*this)->jobs(); }
  KmsTrouble& trouble() { return *trouble_; }

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
  const std::shared_ptr<KmsTrouble> trouble_ = std::make_shared<KmsTrouble>();
  std::atomic<int64_t> micros_{1'700'000'000'000'000};
};

}  // namespace lethe::service

#endif  // LETHE_TESTS_SERVER_JOB_TESTING_H_
