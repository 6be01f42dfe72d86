// The calls about the log over a real connection: values, repetition, exports that end early.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "client/retry.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "lethe/v1/certificate_service.grpc.pb.h"
#include "lethe/v1/memory_service.grpc.pb.h"

namespace lethe::client {
namespace {

using ::testing::ElementsAre;

// Fails the first calls of each method with UNAVAILABLE.
class Script {
 public:
  grpc::Status Next(const std::string& method) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (calls_[method]++ < failures) return {grpc::StatusCode::UNAVAILABLE, "scripted"};
    return grpc::Status::OK;
  }
  int calls(const std::string& method) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return calls_[method];
  }
  int failures = 0;

 private:
  std::mutex mutex_;
  std::map<std::string, int> calls_;
};

class CertificateFake : public v1::CertificateService::Service {
 public:
  explicit CertificateFake(Script& s) : script(s) {}

  grpc::Status GetCheckpoint(grpc::ServerContext*,
                             const v1::GetCheckpointRequest* request,
                             v1::Checkpoint* checkpoint) override {
    checkpoint->set_note("note of " + request->tenant());
    checkpoint->set_origin("o");
    checkpoint->set_size(9);
    checkpoint->set_root("r");
    checkpoint->add_keys()->set_vkey("one");
    checkpoint->add_keys()->set_vkey("two");
    checkpoint->mutable_keys(1)->set_first_sequence(4);
    return script.Next("GetCheckpoint");
  }
  grpc::Status GetInclusionProof(grpc::ServerContext*,
                                 const v1::GetInclusionProofRequest* request,
                                 v1::InclusionProof* proof) override {
    // Which of the two was asked for shows in the answer.
    proof->set_leaf_hash(request->certificate_id());
    proof->set_sequence(request->has_sequence() ? request->sequence() : 77);
    proof->set_size(request->size());
    proof->set_root(request->tenant());
    proof->add_hashes(std::string("h\0h", 3));
    proof->set_tlog_proof("p");
    return script.Next("GetInclusionProof");
  }
  grpc::Status GetConsistencyProof(grpc::ServerContext*,
                                   const v1::GetConsistencyProofRequest* request,
                                   v1::ConsistencyProof* proof) override {
    proof->set_old_size(request->old_size());
    proof->set_new_size(request->new_size());
    proof->set_old_root(request->tenant());
    proof->set_new_root("n");
    proof->add_hashes("h");
    return script.Next("GetConsistencyProof");
  }
  grpc::Status AddCosignature(grpc::ServerContext*,
                              const v1::AddCosignatureRequest* request,
                              v1::Checkpoint* checkpoint) override {
    checkpoint->set_note(request->tenant() + request->line());
    return script.Next("AddCosignature");
  }
  grpc::Status RotateKey(grpc::ServerContext*,
                         const v1::RotateKeyRequest*,
                         v1::RotateKeyResponse* response) override {
    response->set_complete(true);
    response->set_handed_over(3);
    response->add_pending("x");
    return script.Next("RotateKey");
  }
  grpc::Status RewrapKeys(grpc::ServerContext*,
                          const v1::RewrapKeysRequest* request,
                          v1::RewrapKeysResponse* response) override {
    response->set_keys(12);
    response->set_epoch(7);
    response->set_certificate_id(request->tenant());
    return script.Next("RewrapKeys");
  }
  grpc::Status Export(grpc::ServerContext* context,
                      const v1::ExportRequest* request,
                      grpc::ServerWriter<v1::ExportPiece>* writer) override {
    exported = *request;
    for (const v1::ExportPiece& piece : pieces) {
      const absl::Time due = absl::Now() + pause;
      while (absl::Now() < due && !context->IsCancelled()) {
        absl::SleepFor(absl::Milliseconds(5));
      }
      if (!writer->Write(piece)) return grpc::Status::CANCELLED;
    }
    const grpc::Status status = script.Next("Export");
    return status.ok() ? export_status : status;
  }

  // Export sends these, each after a pause, and then ends so.
  std::vector<v1::ExportPiece> pieces;
  absl::Duration pause = absl::ZeroDuration();
  grpc::Status export_status;
  v1::ExportRequest exported;
  Script& script;
};

class MemoryFake : public v1::MemoryService::Service {
 public:
  explicit MemoryFake(Script& s) : script(s) {}
  grpc::Status Verify(grpc::ServerContext*,
                      const v1::VerifyRequest* request,
                      v1::VerifyResponse* response) override {
    response->set_verdict(v1::VERDICT_UNCERTIFIED);
    response->set_deviation(0.25);
    response->set_certificate_id(request->tenant());
    response->set_sequence(8);
    response->set_state_digest(request->memory());
    response->mutable_partition()->set_error(5);
    response->set_phase(v1::MEMORY_PHASE_WARMING);
    return script.Next("Verify");
  }
  Script& script;
};

constexpr absl::Duration kStall = absl::Seconds(1);

class GrpcLogTest : public testing::Test {
 protected:
  GrpcLogTest() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&certificates_);
    builder.RegisterService(&memories_);
    server_ = builder.BuildAndStart();
    Options options;
    options.address = absl::StrCat("127.0.0.1:", port);
    options.max_attempts = 4;
    options.stream_stall = kStall;
    client_ = std::make_unique<Client>(MakeConnection(options, {.now = [] { return absl::Now(); },
                                                                .sleep = [](absl::Duration) {},
                                                                .uniform = [] { return 0.5; }}));
  }
  ~GrpcLogTest() override { server_->Shutdown(); }

  void Piece(const std::string& path, const std::string& data) {
    v1::ExportPiece& piece = certificates_.pieces.emplace_back();
    piece.set_path(path);
    piece.set_data(data);
  }
  void Done(uint64_t files, uint64_t bytes) {
    v1::ExportPiece& piece = certificates_.pieces.emplace_back();
    piece.set_done(true);
    piece.set_files(files);
    piece.set_bytes(bytes);
  }
  absl::StatusOr<ExportSummary> Export() {
    received_.clear();
    return client_->Export({.tenant = "t", .first = 2, .last = 5},
                           [this](const ExportPiece& piece) {
                             received_ += "[" + piece.path + "|" + piece.data + "]";
                             return visited_;
                           });
  }

  Script script_;
  CertificateFake certificates_{script_};
  MemoryFake memories_{script_};
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Client> client_;
  std::string received_;
  absl::Status visited_;
};

// Longer than the limit in all, and never still for so long.
TEST_F(GrpcLogTest, AnExportMayTakeAsLongAsItLikes) {
  for (int i = 0; i < 6; ++i) Piece(absl::StrCat("f", i), "x");
  Done(6, 6);
  certificates_.pause = kStall / 4;
  const auto summary = Export();
  EXPECT_TRUE(summary.ok()) << summary.status();
}

TEST_F(GrpcLogTest, AnExportThatStandsStillEnds) {
  Piece("f", "x");
  Done(1, 1);
  certificates_.pause = absl::Seconds(60);
  const absl::Time begin = absl::Now();
  const auto summary = Export();
  EXPECT_EQ(summary.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(summary.status().message()), testing::HasSubstr("stood still for 1s"));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(20));
}

TEST_F(GrpcLogTest, ValuesCrossTheWire) {
  const auto checkpoint = client_->GetCheckpoint("t");
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(checkpoint->note, "note of t");
  EXPECT_EQ(checkpoint->origin, "o");
  EXPECT_EQ(checkpoint->size, 9u);
  EXPECT_EQ(checkpoint->root, "r");
  EXPECT_THAT(checkpoint->keys, ElementsAre(LogKey{0, "one"}, LogKey{4, "two"}));

  const auto by_sequence = client_->GetInclusionProof({.tenant = "t", .sequence = 0, .size = 6});
  ASSERT_TRUE(by_sequence.ok());
  EXPECT_EQ(by_sequence->sequence, 0u);
  EXPECT_EQ(by_sequence->leaf_hash, "");
  EXPECT_EQ(by_sequence->size, 6u);
  EXPECT_EQ(by_sequence->root, "t");
  EXPECT_THAT(by_sequence->hashes, ElementsAre(std::string("h\0h", 3)));
  EXPECT_EQ(by_sequence->tlog_proof, "p");
  const auto by_id = client_->GetInclusionProof({.tenant = "t", .certificate_id = "id"});
  ASSERT_TRUE(by_id.ok());
  EXPECT_EQ(by_id->sequence, 77u);
  EXPECT_EQ(by_id->leaf_hash, "id");

  const auto consistency = client_->GetConsistencyProof("t", 3, 8);
  ASSERT_TRUE(consistency.ok());
  EXPECT_EQ(consistency->old_size, 3u);
  EXPECT_EQ(consistency->new_size, 8u);
  EXPECT_EQ(consistency->old_root, "t");
  EXPECT_EQ(consistency->new_root, "n");
  EXPECT_THAT(consistency->hashes, ElementsAre("h"));

  EXPECT_EQ(client_->AddCosignature("t", "line")->note, "tline");
  const auto rotation = client_->RotateKey();
  ASSERT_TRUE(rotation.ok());
  EXPECT_TRUE(rotation->complete);
  EXPECT_EQ(rotation->handed_over, 3u);
  EXPECT_THAT(rotation->pending, ElementsAre("x"));
  const auto rewrap = client_->RewrapKeys("t");
  ASSERT_TRUE(rewrap.ok());
  EXPECT_EQ(rewrap->keys, 12u);
  EXPECT_EQ(rewrap->epoch, 7u);
  EXPECT_EQ(rewrap->certificate_id, "t");

  const auto verification = client_->Verify({"t", "m"});
  ASSERT_TRUE(verification.ok());
  EXPECT_EQ(verification->verdict, Verdict::kUncertified);
  EXPECT_FALSE(verification->bits_equal);
  EXPECT_EQ(verification->deviation, 0.25);
  EXPECT_EQ(verification->certificate_id, "t");
  EXPECT_EQ(verification->sequence, 8u);
  EXPECT_EQ(verification->state_digest, "m");
  EXPECT_EQ(verification->partition.error, 5u);
  EXPECT_EQ(verification->phase, MemoryPhase::kWarming);
}

TEST_F(GrpcLogTest, OnlyWhatIsSafeIsRepeated) {
  script_.failures = 2;
  const std::vector<std::pair<std::string, std::function<absl::Status()>>> safe = {
      {"GetCheckpoint", [&] { return client_->GetCheckpoint("t").status(); }},
      {"GetInclusionProof", [&] { return client_->GetInclusionProof({.tenant = "t"}).status(); }},
      {"GetConsistencyProof", [&] { return client_->GetConsistencyProof("t", 1).status(); }},
      {"AddCosignature", [&] { return client_->AddCosignature("t", "l").status(); }}};
  for (const auto& [method, call] : safe) {
    EXPECT_TRUE(call().ok()) << method;
    EXPECT_EQ(script_.calls(method), 3) << method;
  }
  Done(0, 0);
  const std::vector<std::pair<std::string, std::function<absl::Status()>>> not_safe = {
      {"RotateKey", [&] { return client_->RotateKey().status(); }},
      {"RewrapKeys", [&] { return client_->RewrapKeys("t").status(); }},
      {"Verify",
       [&] {
         return client_->Verify({"t", "m"}).status();
       }},
      {"Export", [&] { return Export().status(); }}};
  for (const auto& [method, call] : not_safe) {
    EXPECT_TRUE(absl::IsUnavailable(call())) << method;
    EXPECT_EQ(script_.calls(method), 1) << method;
  }
}

TEST_F(GrpcLogTest, AnExportArrivesPieceByPiece) {
  Piece("a", "12");
  Piece("", "345");
  Piece("b", "");
  Done(2, 5);
  const auto summary = Export();
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->files, 2u);
  EXPECT_EQ(summary->bytes, 5u);
  EXPECT_EQ(received_, "[a|12][|345][b|]");
  EXPECT_EQ(certificates_.exported.tenant(), "t");
  EXPECT_EQ(certificates_.exported.first(), 2u);
  EXPECT_EQ(certificates_.exported.last(), 5u);
  ASSERT_TRUE(
      client_->Export({.tenant = "t"}, [](const ExportPiece&) { return absl::OkStatus(); }).ok());
  EXPECT_FALSE(certificates_.exported.has_last());
}

TEST_F(GrpcLogTest, AnExportThatIsNotWholeIsNoExport) {
  Piece("a", "12");
  EXPECT_TRUE(absl::IsDataLoss(Export().status())) << "ended well, but before its last word";
  certificates_.export_status = {grpc::StatusCode::UNAVAILABLE, "stopping"};
  EXPECT_TRUE(absl::IsUnavailable(Export().status()));
  certificates_.export_status = grpc::Status::OK;
  Done(2, 2);
  EXPECT_TRUE(absl::IsDataLoss(Export().status())) << "a file is missing";
  certificates_.pieces.back().set_files(1);
  certificates_.pieces.back().set_bytes(3);
  EXPECT_TRUE(absl::IsDataLoss(Export().status())) << "a byte is missing";
  certificates_.pieces.back().set_bytes(2);
  EXPECT_TRUE(Export().ok());
  Piece("late", "");
  EXPECT_TRUE(absl::IsDataLoss(Export().status())) << "goes on after its end";
  certificates_.pieces.pop_back();
  visited_ = absl::ResourceExhaustedError("disk full");
  EXPECT_EQ(Export().status(), visited_);
  EXPECT_EQ(received_, "[a|12]");
}

}  // namespace
}  // namespace lethe::client
