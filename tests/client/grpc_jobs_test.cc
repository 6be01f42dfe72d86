// Training jobs through the default connection, against a service of our own in this process.
#include <gmock/gmock.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/client.h"
#include "client/convert_jobs.h"
#include "lethe/v1/job_service.grpc.pb.h"

namespace lethe::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::Job WireJob(v1::JobState state, uint64_t step = 0) {
  v1::Job job;
  job.set_id("j1");
  job.set_kind(v1::JOB_KIND_TRAIN_LM);
  job.mutable_train_lm()->set_steps(40);
  job.set_state(state);
  job.mutable_progress()->set_step(step);
  return job;
}

class JobFake : public v1::JobService::Service {
 public:
  grpc::Status SubmitJob(grpc::ServerContext*,
                         const v1::SubmitJobRequest* request,
                         v1::Job* response) override {
    requests.push_back(*request);
    if (requests.size() <= lost_answers) return {grpc::StatusCode::UNAVAILABLE, "lost"};
    *response = WireJob(v1::JOB_STATE_QUEUED);
    return grpc::Status::OK;
  }
  grpc::Status WatchJob(grpc::ServerContext*,
                        const v1::WatchJobRequest*,
                        grpc::ServerWriter<v1::Job>* writer) override {
    const size_t call = watches++;
    if (call >= streams.size()) return {grpc::StatusCode::UNAVAILABLE, "no more"};
    for (const v1::Job& job : streams[call]) writer->Write(job);
    return call + 1 == streams.size() ? grpc::Status::OK
                                      : grpc::Status(grpc::StatusCode::UNAVAILABLE, "lost");
  }
  grpc::Status GetArtefact(grpc::ServerContext* context,
                           const v1::GetArtefactRequest*,
                           grpc::ServerWriter<v1::ArtefactPiece>* writer) override {
    for (const v1::ArtefactPiece& piece : pieces) writer->Write(piece);
    while (hang && !context->IsCancelled()) absl::SleepFor(absl::Milliseconds(5));
    return grpc::Status::OK;
  }

  std::vector<v1::SubmitJobRequest> requests;
  size_t lost_answers = 0;
  std::vector<std::vector<v1::Job>> streams;
  size_t watches = 0;
  std::vector<v1::ArtefactPiece> pieces;
  bool hang = false;
};

class GrpcJobsTest : public testing::Test {
 protected:
  GrpcJobsTest() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&fake_);
    server_ = builder.BuildAndStart();
    Options options;
    options.address = absl::StrCat("127.0.0.1:", port);
    options.initial_backoff = absl::Milliseconds(1);
    options.max_stream_attempts = 3;
    options.stream_stall = absl::Seconds(1);
    client_ = std::make_unique<Client>(MakeConnection(options));
  }
  ~GrpcJobsTest() override { server_->Shutdown(); }

  void Piece(const std::string& data) { fake_.pieces.emplace_back().set_data(data); }
  void Head(uint64_t bytes, const std::string& sha256) {
    v1::JobArtefact* artefact = fake_.pieces.emplace_back().mutable_artefact();
    artefact->set_bytes(bytes);
    artefact->set_sha256(sha256);
    artefact->set_manifest("{}");
  }
  absl::StatusOr<JobArtefact> Get(std::string* content) {
    return client_->GetArtefact("t", "j1", [content](absl::string_view piece) {
      content->append(piece.data(), piece.size());
      return absl::OkStatus();
    });
  }

  JobFake fake_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Client> client_;
};

// SHA-256 of "abc", from FIPS 180-2.
constexpr char kAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST_F(GrpcJobsTest, ALostAnswerIsAskedForAgainUnderTheSameId) {
  fake_.lost_answers = 2;
  const auto job = client_->SubmitJob({.tenant = "t", .memory = "m", .config = TrainLmConfig()});
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_EQ(fake_.requests.size(), 3u);
  EXPECT_FALSE(fake_.requests[0].request_id().empty());
  EXPECT_EQ(fake_.requests[0].request_id(), fake_.requests[2].request_id());
}

// Every field arrives, and the defaults of this side are said, so that they are the ones that
// count.
TEST_F(GrpcJobsTest, ConfigurationsGoThereAndBack) {
  const std::vector<JobConfig> configs = {
      CalibrateConfig{.boxes = {0.5}, .kernel = jobs::JobKernel::kExpDot, .seed = 7},
      TrainEncoderConfig{.unit_length = true, .width = 0.5, .held_out = 0.0},
      TrainLmConfig{.attention = jobs::LmAttention::kLinearDecay,
                    .normalise = true,
                    .mlp = jobs::LmMlp::kSwiglu,
                    .norm = jobs::LmNorm::kLayer}};
  for (const JobConfig& config : configs) {
    ASSERT_TRUE(client_->SubmitJob({.tenant = "t", .memory = "m", .config = config}).ok());
    const v1::SubmitJobRequest& sent = fake_.requests.back();
    v1::Job wire;
    if (sent.has_calibrate()) *wire.mutable_calibrate() = sent.calibrate();
    if (sent.has_train_encoder()) *wire.mutable_train_encoder() = sent.train_encoder();
    if (sent.has_train_lm()) *wire.mutable_train_lm() = sent.train_lm();
    EXPECT_EQ(convert::ConfigOf(wire), config);
  }
  EXPECT_TRUE(fake_.requests.back().train_lm().has_steps());
  // Of a newer server: nothing is better than half of it.
  v1::Job newer;
  newer.mutable_train_lm()->set_steps(3);
  ASSERT_TRUE(convert::ConfigOf(newer).has_value());
  newer.mutable_train_lm()
      ->GetReflection()
      ->MutableUnknownFields(newer.mutable_train_lm())
      ->AddVarint(900, 1);
  EXPECT_FALSE(convert::ConfigOf(newer).has_value());
  EXPECT_FALSE(convert::ConfigOf(v1::Job()).has_value());
}

TEST_F(GrpcJobsTest, AWatchOutlivesLostConnections) {
  fake_.streams = {{WireJob(v1::JOB_STATE_RUNNING, 1)},
                   {},
                   {WireJob(v1::JOB_STATE_RUNNING, 2)},
                   {WireJob(v1::JOB_STATE_RUNNING, 2), WireJob(v1::JOB_STATE_SUCCEEDED, 3)}};
  std::vector<uint64_t> steps;
  const absl::StatusOr<Job> job = client_->WatchJob("t", "j1", [&](const Job& now) {
    steps.push_back(now.progress.step);
    return absl::OkStatus();
  });
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->state, JobState::kSucceeded);
  EXPECT_THAT(steps, ElementsAre(1, 2, 2, 3));
  EXPECT_EQ(fake_.watches, 4u);
  // In the end it is given up, with the server's word.
  fake_.streams.clear();
  fake_.watches = 0;
  const absl::StatusOr<Job> none =
      client_->WatchJob("t", "j1", [](const Job&) { return absl::OkStatus(); });
  EXPECT_TRUE(absl::IsUnavailable(none.status()));
  EXPECT_EQ(fake_.watches, 3u);
  fake_.streams = {{WireJob(v1::JOB_STATE_RUNNING, 1)}};
  fake_.watches = 0;
  EXPECT_EQ(client_->WatchJob("t", "j1", [](const Job&) { return absl::AbortedError("enough"); })
                .status(),
            absl::AbortedError("enough"));
}

TEST_F(GrpcJobsTest, AnArtefactIsHeldAgainstItsDigest) {
  Head(3, kAbc);
  Piece("a");
  Piece("bc");
  std::string content;
  const absl::StatusOr<JobArtefact> artefact = Get(&content);
  ASSERT_TRUE(artefact.ok()) << artefact.status();
  EXPECT_EQ(content, "abc");
  EXPECT_EQ(artefact->manifest, "{}");
  fake_.pieces.back().set_data("bd");
  EXPECT_THAT(std::string(Get(&content).status().message()), HasSubstr("SHA-256 differs"));
  fake_.pieces.pop_back();
  EXPECT_TRUE(absl::IsDataLoss(Get(&content).status()));
  fake_.pieces.clear();
  EXPECT_TRUE(absl::IsDataLoss(Get(&content).status())) << "nothing is named";
  Head(3, kAbc);
  fake_.hang = true;
  EXPECT_TRUE(absl::IsUnavailable(Get(&content).status())) << "it stood still";
}

}  // namespace
}  // namespace lethe::client
