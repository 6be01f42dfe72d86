// Backups through the default connection, against a service of our own in this process.
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
#include "lethe/v1/backup_service.grpc.pb.h"

namespace lethe::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kStall = absl::Seconds(1);

class BackupFake : public v1::BackupService::Service {
 public:
  grpc::Status CreateBackup(grpc::ServerContext* context,
                            const v1::CreateBackupRequest* request,
                            grpc::ServerWriter<v1::BackupPiece>* writer) override {
    ++calls;
    tenant = request->tenant();
    for (const v1::BackupPiece& piece : pieces) {
      if (!writer->Write(piece)) return grpc::Status::CANCELLED;
    }
    while (hang && !context->IsCancelled()) absl::SleepFor(absl::Milliseconds(5));
    return status;
  }
  grpc::Status RestoreBackup(grpc::ServerContext* context,
                             grpc::ServerReader<v1::RestoreBackupRequest>* reader,
                             v1::RestoreBackupResponse* response) override {
    ++calls;
    v1::RestoreBackupRequest message;
    while (reader->Read(&message)) {
      received.push_back(message);
      if (received.size() == stop_after) return status;
    }
    while (hang && !context->IsCancelled()) absl::SleepFor(absl::Milliseconds(5));
    cancelled = context->IsCancelled();
    response->set_tenant("t");
    response->set_certificate_id("id");
    response->set_copy_size(1);
    response->set_reapplied(2);
    response->set_removed(3);
    response->set_unreadable(4);
    response->set_memories_removed(5);
    response->set_keys_destroyed(6);
    return status;
  }

  int calls = 0;
  std::string tenant;
  std::vector<v1::BackupPiece> pieces;
  std::vector<v1::RestoreBackupRequest> received;
  size_t stop_after = 0;
  bool hang = false;
  bool cancelled = false;
  grpc::Status status;
};

class GrpcBackupTest : public testing::Test {
 protected:
  GrpcBackupTest() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&fake_);
    server_ = builder.BuildAndStart();
    Options options;
    options.address = absl::StrCat("127.0.0.1:", port);
    options.stream_stall = kStall;
    client_ = std::make_unique<Client>(MakeConnection(options));
  }
  ~GrpcBackupTest() override { server_->Shutdown(); }

  void Piece(const std::string& data, const std::string& manifest = "", uint64_t bytes = 0) {
    v1::BackupPiece& piece = fake_.pieces.emplace_back();
    piece.set_data(data);
    piece.set_manifest(manifest);
    piece.set_file_bytes(bytes);
  }
  absl::StatusOr<std::string> Create() {
    received_.clear();
    return client_->CreateBackup("t", [this](const BackupPiece& piece) {
      received_ += absl::StrCat("[", piece.data, "|", piece.file_bytes, "]");
      return visited_;
    });
  }
  absl::StatusOr<RestoreResult> Restore(std::vector<std::string> pieces,
                                        absl::Status failure = absl::OkStatus()) {
    size_t at = 0;
    return client_->RestoreBackup({.manifest = "note", .replace = true},
                                  [&]() -> absl::StatusOr<std::string> {
                                    if (at < pieces.size()) return pieces[at++];
                                    if (!failure.ok()) return failure;
                                    return "";
                                  });
  }

  BackupFake fake_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Client> client_;
  std::string received_;
  absl::Status visited_;
};

TEST_F(GrpcBackupTest, ABackupArrivesPieceByPieceAndItsManifestLast) {
  Piece("12", "", 5);
  Piece("345");
  Piece("", "note");
  const auto manifest = Create();
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(*manifest, "note");
  EXPECT_EQ(received_, "[12|5][345|5]");
  EXPECT_EQ(fake_.tenant, "t");
}

TEST_F(GrpcBackupTest, WhatIsNotWholeIsNoBackup) {
  Piece("12", "", 5);
  EXPECT_EQ(Create().status().code(), absl::StatusCode::kDataLoss) << "no manifest";
  Piece("", "note");
  EXPECT_EQ(Create().status().code(), absl::StatusCode::kDataLoss) << "three bytes are missing";
  fake_.pieces.clear();
  Piece("12345", "", 5);
  Piece("", "note");
  Piece("more");
  EXPECT_EQ(Create().status().code(), absl::StatusCode::kDataLoss) << "more after the manifest";
  fake_.pieces.pop_back();
  fake_.status = {grpc::StatusCode::UNAVAILABLE, "stopping"};
  const int calls = fake_.calls;
  EXPECT_EQ(Create().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(fake_.calls, calls + 1) << "not repeated";
  visited_ = absl::ResourceExhaustedError("disk full");
  EXPECT_EQ(Create().status(), visited_);
}

TEST_F(GrpcBackupTest, WhatStandsStillEnds) {
  fake_.hang = true;
  Piece("12345", "", 5);
  const auto backup = Create();
  EXPECT_EQ(backup.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(backup.status().message()), HasSubstr("the backup stood still for 1s"));
  const auto restore = Restore({"a"});
  EXPECT_EQ(restore.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(restore.status().message()), HasSubstr("the restore stood still"));
}

TEST_F(GrpcBackupTest, ARestoreSendsTheManifestThenTheFile) {
  const auto result = Restore({"abc", "de"});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(fake_.received.size(), 3u);
  EXPECT_EQ(fake_.received[0].manifest(), "note");
  EXPECT_TRUE(fake_.received[0].replace());
  EXPECT_EQ(fake_.received[0].data(), "");
  EXPECT_EQ(fake_.received[1].data(), "abc");
  EXPECT_EQ(fake_.received[2].data(), "de");
  EXPECT_EQ(fake_.received[2].manifest(), "");
  EXPECT_FALSE(fake_.received[2].replace());
  EXPECT_EQ(result->tenant, "t");
  EXPECT_EQ(result->certificate_id, "id");
  EXPECT_THAT(
      (std::vector<uint64_t>{result->copy_size, result->reapplied, result->removed,
                             result->unreadable, result->memories_removed, result->keys_destroyed}),
      ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(GrpcBackupTest, ARefusalArrivesBeforeTheFileIsSent) {
  fake_.stop_after = 1;
  fake_.status = {grpc::StatusCode::FAILED_PRECONDITION, "tenant: is served"};
  const auto result = Restore(std::vector<std::string>(1000, std::string(100'000, 'x')));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::string(result.status().message()), "tenant: is served");
  EXPECT_EQ(fake_.calls, 1);
}

TEST_F(GrpcBackupTest, AFileThatCannotBeReadIsNoEndOfIt) {
  fake_.hang = true;  // until it is cancelled
  const absl::Status unreadable = absl::DataLossError("bad sector");
  EXPECT_EQ(Restore({"abc"}, unreadable).status(), unreadable);
  server_->Shutdown();
  EXPECT_TRUE(fake_.cancelled || fake_.received.empty());
}

}  // namespace
}  // namespace lethe::client
