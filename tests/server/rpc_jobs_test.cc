// Training jobs over gRPC: a tenant and a worker, end to end.
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lethe/v1/job_service.grpc.pb.h"
#include "lethe/v1/worker_service.grpc.pb.h"
#include "tests/server/rpc_testing.h"

namespace lethe::rpc {
namespace {

using grpc::StatusCode;

class RpcJobsTest : public RpcTest {
 protected:
  RpcJobsTest()
      : jobs_(v1::JobService::NewStub(channel_)), workers_(v1::WorkerService::NewStub(channel_)) {}

  v1::Job Submit(uint64_t steps) {
    v1::SubmitJobRequest request;
    request.set_tenant("t");
    request.set_memory("m");
    request.mutable_train_encoder()->set_steps(steps);
    v1::Job job;
    EXPECT_THAT(Call(*jobs_, &v1::JobService::Stub::SubmitJob, request, &job), RpcOk());
    return job;
  }
  v1::Job Get(const std::string& id) {
    v1::GetJobRequest request;
    request.set_tenant("t");
    request.set_id(id);
    v1::Job job;
    EXPECT_THAT(Call(*jobs_, &v1::JobService::Stub::GetJob, request, &job), RpcOk());
    return job;
  }
  grpc::Status Artefact(const std::string& id, std::string* content, v1::JobArtefact* about) {
    Context context;
    v1::GetArtefactRequest request;
    request.set_tenant("t");
    request.set_id(id);
    const auto reader = jobs_->GetArtefact(&context, request);
    v1::ArtefactPiece piece;
    while (reader->Read(&piece)) {
      if (piece.has_artefact()) *about = piece.artefact();
      content->append(piece.data());
    }
    return reader->Finish();
  }

  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::unique_ptr<v1::WorkerService::Stub> workers_;
};

// A worker that adds keys up, a step each, as a real one trains: it can be killed at any step, and
// another one goes on from the last checkpoint.
class FakeWorker {
 public:
  FakeWorker(v1::WorkerService::Stub* stub, std::string name)
      : stub_(stub), name_(std::move(name)) {}

  bool Lease(double wait = 0.0) {
    v1::LeaseJobRequest request;
    request.set_worker(name_);
    request.set_wait_seconds(wait);
    EXPECT_THAT(Call(*stub_, &v1::WorkerService::Stub::LeaseJob, request, &offer_), RpcOk());
    return offer_.has_lease();
  }
  grpc::Status Beat(uint64_t step, v1::HeartbeatResponse* answer) {
    v1::HeartbeatRequest request;
    *request.mutable_lease() = offer_.lease();
    request.mutable_progress()->set_step(step);
    request.mutable_progress()->set_steps(Steps());
    return Call(*stub_, &v1::WorkerService::Stub::Heartbeat, request, answer);
  }
  grpc::Status Read() {
    Context context;
    v1::ReadTokensRequest request;
    *request.mutable_lease() = offer_.lease();
    const auto reader = stub_->ReadTokens(&context, request);
    v1::TrainingTokens page;
    uint64_t count = 0;
    tokens_.clear();
    while (reader->Read(&page)) {
      if (page.tokens().empty()) count = page.count();
      for (const auto& token : page.tokens()) tokens_.push_back(token.key(0) + token.value(0));
    }
    const grpc::Status status = reader->Finish();
    if (status.ok()) {
      EXPECT_EQ(tokens_.size(), count);
    }
    return status;
  }
  grpc::Status PutCheckpoint(uint64_t step) {
    Context context;
    v1::HeartbeatResponse answer;
    const auto writer = stub_->SaveCheckpoint(&context, &answer);
    v1::SaveCheckpointRequest message;
    *message.mutable_lease() = offer_.lease();
    message.mutable_progress()->set_step(step);
    message.mutable_progress()->set_steps(Steps());
    writer->Write(message);
    message.Clear();
    message.set_data(state_);
    writer->Write(message);
    writer->WritesDone();
    return writer->Finish();
  }
  grpc::Status GetCheckpoint() {
    Context context;
    v1::LoadCheckpointRequest request;
    *request.mutable_lease() = offer_.lease();
    const auto reader = stub_->LoadCheckpoint(&context, request);
    v1::CheckpointPiece piece;
    std::string state;
    while (reader->Read(&piece)) state.append(piece.data());
    const grpc::Status status = reader->Finish();
    if (status.ok()) state_ = state;
    return status;
  }
  grpc::Status Complete(const std::string& manifest = R"({"backend":"test"})") {
    Context context;
    v1::CompleteJobResponse answer;
    const auto writer = stub_->CompleteJob(&context, &answer);
    v1::CompleteJobRequest message;
    *message.mutable_lease() = offer_.lease();
    message.set_manifest(manifest);
    writer->Write(message);
    message.Clear();
    message.set_data(state_);
    writer->Write(message);
    writer->WritesDone();
    return writer->Finish();
  }
  grpc::Status Fail(v1::WorkerEnd end, v1::FailJobResponse* answer) {
    v1::FailJobRequest request;
    *request.mutable_lease() = offer_.lease();
    request.set_end(end);
    return Call(*stub_, &v1::WorkerService::Stub::FailJob, request, answer);
  }

  // Works until the end, or until it is killed before this step (true: it finished).
  bool Work(std::optional<uint64_t> killed_at) {
    EXPECT_THAT(Read(), RpcOk());
    uint64_t step = 0;
    state_.clear();
    if (offer_.checkpoint_bytes() > 0) {
      EXPECT_THAT(GetCheckpoint(), RpcOk());
      step = offer_.checkpoint_step();
    }
    for (; step < Steps(); ++step) {
      if (killed_at == step) return false;
      absl::StrAppend(&state_, step, ":", tokens_[step % tokens_.size()], ";");
      v1::HeartbeatResponse answer;
      EXPECT_THAT(Beat(step + 1, &answer), RpcOk());
      if (step % 3 == 2) {
        EXPECT_THAT(PutCheckpoint(step + 1), RpcOk());
      }
    }
    EXPECT_THAT(Complete(), RpcOk());
    return true;
  }

  const v1::LeaseJobResponse& offer() const { return offer_; }
  uint64_t Steps() const { return offer_.job().train_encoder().steps(); }

 private:
  v1::WorkerService::Stub* const stub_;
  const std::string name_;
  v1::LeaseJobResponse offer_;
  std::vector<double> tokens_;
  std::string state_;
};

// The harness's service has no clock of the test's, so its leases are short.
class RpcJobsLeaseTest : public RpcJobsTest {
 protected:
  RpcJobsLeaseTest() {
    server_.reset();
    harness_.options().jobs.lease = absl::Milliseconds(700);
    harness_.options().jobs.first_retry = absl::Milliseconds(1);
    harness_.Restart();
    StartServer({});
    jobs_ = v1::JobService::NewStub(channel_);
    workers_ = v1::WorkerService::NewStub(channel_);
  }
};

TEST_F(RpcJobsLeaseTest, KilledWorkersAreFollowedByOthersAndTheArtefactIsTheSame) {
  harness_.Insert("m", service::Spiral(9));
  FakeWorker undisturbed(workers_.get(), "w0");
  const std::string plain = Submit(10).id();
  ASSERT_TRUE(undisturbed.Lease());
  ASSERT_TRUE(undisturbed.Work(std::nullopt));
  const std::string disturbed = Submit(10).id();
  int workers = 0;
  std::optional<FakeWorker> killed;
  for (const std::optional<uint64_t> at :
       {std::optional<uint64_t>(4), std::optional<uint64_t>(8), std::optional<uint64_t>()}) {
    FakeWorker worker(workers_.get(), absl::StrCat("w", ++workers));
    // The lease of the one before has to end first.
    ASSERT_TRUE(worker.Lease(30.0));
    EXPECT_EQ(worker.offer().job().id(), disturbed);
    EXPECT_EQ(worker.Work(at), !at.has_value());
    if (!killed.has_value()) killed.emplace(worker);
  }
  std::string one, other;
  v1::JobArtefact about, same;
  ASSERT_THAT(Artefact(plain, &one, &about), RpcOk());
  ASSERT_THAT(Artefact(disturbed, &other, &same), RpcOk());
  EXPECT_EQ(one, other);
  EXPECT_EQ(about.sha256(), same.sha256());
  EXPECT_EQ(about.bytes(), one.size());
  EXPECT_NE(about.manifest().find("no deletion certificate"), std::string::npos);
  EXPECT_EQ(Get(disturbed).leases(), 3u);
  // An erasure of what they were made from says so to its caller.
  v1::ForgetRequest forget;
  forget.set_tenant("t");
  forget.set_memory("m");
  forget.mutable_tokens()->add_ids("a1");
  v1::ForgetResponse forgotten;
  ASSERT_THAT(Call(*memories_, &v1::MemoryService::Stub::Forget, forget, &forgotten), RpcOk());
  ASSERT_EQ(forgotten.destruction().exceptions_size(), 2);
  EXPECT_NE(forgotten.destruction().exceptions(0).find(plain), std::string::npos);
  EXPECT_NE(forgotten.destruction().exceptions(1).find(disturbed), std::string::npos);
  // The first one wakes up.
  v1::HeartbeatResponse answer;
  EXPECT_THAT(killed->Beat(9, &answer), RpcFails(StatusCode::FAILED_PRECONDITION, "lease"));
  EXPECT_THAT(killed->PutCheckpoint(9), RpcFails(StatusCode::FAILED_PRECONDITION, "lease"));
  EXPECT_THAT(killed->Complete(), RpcFails(StatusCode::FAILED_PRECONDITION, "lease"));
}

TEST_F(RpcJobsTest, AWatchSeesProgressAndEnd) {
  harness_.Insert("m", service::Spiral(5));
  const std::string id = Submit(3).id();
  Context context;
  v1::WatchJobRequest request;
  request.set_tenant("t");
  request.set_id(id);
  const auto reader = jobs_->WatchJob(&context, request);
  v1::Job job;
  ASSERT_TRUE(reader->Read(&job));
  EXPECT_EQ(job.state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(job.train_encoder().steps(), 3u);
  EXPECT_EQ(job.train_encoder().episodes(), 8u) << "defaults are shown";
  std::thread worker([&] {
    FakeWorker fake(workers_.get(), "w");
    ASSERT_TRUE(fake.Lease());
    fake.Work(std::nullopt);
  });
  while (reader->Read(&job)) {
  }
  worker.join();
  EXPECT_THAT(reader->Finish(), RpcOk());
  EXPECT_EQ(job.state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(job.progress().step(), 3u);
}

TEST_F(RpcJobsTest, ACancellationTravelsOnTheHeartbeat) {
  const std::string id = Submit(10).id();
  FakeWorker worker(workers_.get(), "w");
  ASSERT_TRUE(worker.Lease());
  v1::HeartbeatResponse answer;
  ASSERT_THAT(worker.Beat(1, &answer), RpcOk());
  EXPECT_FALSE(answer.cancel());
  EXPECT_GT(answer.lease_seconds(), 1.0);
  v1::CancelJobRequest request;
  request.set_tenant("t");
  request.set_id(id);
  v1::Job job;
  ASSERT_THAT(Call(*jobs_, &v1::JobService::Stub::CancelJob, request, &job), RpcOk());
  EXPECT_TRUE(job.cancel_requested());
  ASSERT_THAT(worker.Beat(2, &answer), RpcOk());
  EXPECT_TRUE(answer.cancel());
  v1::FailJobResponse failed;
  EXPECT_THAT(worker.Fail(v1::WORKER_END_UNSPECIFIED, &failed),
              RpcFails(StatusCode::INVALID_ARGUMENT, "end"));
  ASSERT_THAT(worker.Fail(v1::WORKER_END_CANCELLED, &failed), RpcOk());
  EXPECT_EQ(failed.state(), v1::JOB_STATE_CANCELLED);
  v1::DeleteJobRequest deletion;
  deletion.set_tenant("t");
  deletion.set_id(id);
  v1::DeleteJobResponse deleted;
  EXPECT_THAT(Call(*jobs_, &v1::JobService::Stub::DeleteJob, deletion, &deleted), RpcOk());
  EXPECT_THAT(Call(*jobs_, &v1::JobService::Stub::DeleteJob, deletion, &deleted),
              RpcFails(StatusCode::NOT_FOUND, "job"));
}

TEST_F(RpcJobsTest, UploadsAreReadStrictly) {
  Submit(10);
  FakeWorker worker(workers_.get(), "w");
  ASSERT_TRUE(worker.Lease());
  const auto send = [&](const std::vector<v1::SaveCheckpointRequest>& messages) {
    Context context;
    v1::HeartbeatResponse answer;
    const auto writer = workers_->SaveCheckpoint(&context, &answer);
    for (const auto& message : messages) writer->Write(message);
    writer->WritesDone();
    return writer->Finish();
  };
  v1::SaveCheckpointRequest first;
  *first.mutable_lease() = worker.offer().lease();
  v1::SaveCheckpointRequest data;
  data.set_data("state");
  EXPECT_THAT(send({}), RpcFails(StatusCode::INVALID_ARGUMENT, "lease"));
  EXPECT_THAT(send({data}), RpcFails(StatusCode::INVALID_ARGUMENT, "lease"));
  EXPECT_THAT(send({first, first}), RpcFails(StatusCode::INVALID_ARGUMENT, "lease"));
  EXPECT_THAT(send({first}), RpcFails(StatusCode::INVALID_ARGUMENT, "data"));
  v1::SaveCheckpointRequest large;
  large.set_data(std::string((1 << 20) + 1, 'x'));
  EXPECT_THAT(send({first, large}), RpcFails(StatusCode::INVALID_ARGUMENT, "data"));
  EXPECT_THAT(send({first, data}), RpcOk());
}

TEST_F(RpcJobsTest, AStopDoesNotWaitForWorkersThatWait) {
  grpc::Status status;
  std::thread waiting([&] {
    Context context;
    v1::LeaseJobRequest request;
    request.set_worker("w");
    request.set_wait_seconds(30.0);
    v1::LeaseJobResponse answer;
    status = workers_->LeaseJob(&context, request, &answer);
  });
  const absl::Time begin = absl::Now();
  server_->Drain(absl::Seconds(20));
  waiting.join();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(15));
  EXPECT_FALSE(status.ok());
}

}  // namespace
}  // namespace lethe::rpc
