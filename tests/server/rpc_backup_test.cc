// CreateBackup and RestoreBackup over gRPC.
#include <string>
#include <thread>
#include <vector>

#include "audit/backup_manifest.h"
#include "audit/hash.h"
#include "lethe/v1/backup_service.grpc.pb.h"
#include "tests/server/backup_testing.h"
#include "tests/server/rpc_testing.h"

namespace lethe::rpc {
namespace {

using grpc::StatusCode;
using service::BackupCopy;
using ::testing::IsEmpty;

class RpcBackupTest : public RpcTest {
 protected:
  RpcBackupTest() {
    harness_.Insert("m", service::Spiral(12));
    Connect({});
  }
  void Connect(const ServerOptions& options) {
    StartServer(options);
    backups_ = v1::BackupService::NewStub(channel_);
  }

  grpc::Status Create(std::vector<v1::BackupPiece>* pieces, const std::string& tenant = "t") {
    Context context;
    v1::CreateBackupRequest request;
    request.set_tenant(tenant);
    const auto reader = backups_->CreateBackup(&context, request);
    v1::BackupPiece piece;
    while (reader->Read(&piece)) pieces->push_back(piece);
    return reader->Finish();
  }
  BackupCopy Take() {
    std::vector<v1::BackupPiece> pieces;
    EXPECT_THAT(Create(&pieces), RpcOk());
    BackupCopy copy;
    for (const v1::BackupPiece& piece : pieces) copy.file += piece.data();
    copy.manifest = pieces.empty() ? "" : pieces.back().manifest();
    return copy;
  }

  static v1::RestoreBackupRequest First(const BackupCopy& copy, bool replace = true) {
    v1::RestoreBackupRequest message;
    message.set_manifest(copy.manifest);
    message.set_replace(replace);
    return message;
  }
  static v1::RestoreBackupRequest Data(const std::string& data) {
    v1::RestoreBackupRequest message;
    message.set_data(data);
    return message;
  }
  grpc::Status Restore(const std::vector<v1::RestoreBackupRequest>& messages,
                       v1::RestoreBackupResponse* response) {
    Context context;
    const auto writer = backups_->RestoreBackup(&context, response);
    for (const v1::RestoreBackupRequest& message : messages) {
      if (!writer->Write(message)) break;
    }
    writer->WritesDone();
    return writer->Finish();
  }
  void ExpectNothingLeft() {
    for (int i = 0; i < 1000 && !service::TemporaryFiles(harness_).empty(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_THAT(service::TemporaryFiles(harness_), IsEmpty());
  }

  std::unique_ptr<v1::BackupService::Stub> backups_;
};

TEST_F(RpcBackupTest, PiecesThenTheManifest) {
  std::vector<v1::BackupPiece> pieces;
  ASSERT_THAT(Create(&pieces), RpcOk());
  ASSERT_GE(pieces.size(), 2u);
  std::string file;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const bool last = i + 1 == pieces.size();
    EXPECT_EQ(pieces[i].manifest().empty(), !last) << i;
    EXPECT_EQ(pieces[i].data().empty(), last) << i;
    EXPECT_EQ(pieces[i].file_bytes() != 0, i == 0) << i;
    EXPECT_LE(pieces[i].data().size(), service::kBackupPieceBytes);
    file += pieces[i].data();
  }
  EXPECT_EQ(pieces[0].file_bytes(), file.size());
  const auto manifest = audit::ReadBackupManifest(pieces.back().manifest());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->file_sha256, audit::Sha256(file));
  EXPECT_THAT(Create(&pieces, "nobody"), RpcFails(StatusCode::NOT_FOUND, "tenant"));
  EXPECT_THAT(Create(&pieces, "No Name"), RpcFails(StatusCode::INVALID_ARGUMENT, "tenant"));
}

TEST_F(RpcBackupTest, ComesBack) {
  const std::string digest = harness_.Digest("m");
  const BackupCopy copy = Take();
  harness_.Forget("m", {"a3"});
  v1::RestoreBackupResponse response;
  const size_t half = copy.file.size() / 2;
  // The first message may have data, and others may have none.
  v1::RestoreBackupRequest first = First(copy);
  first.set_data(copy.file.substr(0, half));
  ASSERT_THAT(Restore({first, Data(""), Data(copy.file.substr(half))}, &response), RpcOk());
  EXPECT_EQ(response.tenant(), "t");
  EXPECT_EQ(response.copy_size(), 0u);
  EXPECT_EQ(response.reapplied(), 2u);
  EXPECT_EQ(response.removed(), 1u);
  EXPECT_EQ(response.certificate_id().size(), 64u);
  EXPECT_NE(harness_.Digest("m"), digest) << "what was forgotten since is not back";
  EXPECT_EQ(service::Tokens(harness_, "m"), 11u);
  service::VerifiedLog(harness_);
  ExpectNothingLeft();
}

TEST_F(RpcBackupTest, WrongStreamsAreRefusedAndTheFieldNamed) {
  const BackupCopy copy = Take();
  const std::string digest = harness_.Digest("m");
  const auto refused = [&](StatusCode code, const std::string& field,
                           const std::vector<v1::RestoreBackupRequest>& messages) {
    v1::RestoreBackupResponse response;
    EXPECT_THAT(Restore(messages, &response), RpcFails(code, field));
    ExpectNothingLeft();
    EXPECT_EQ(harness_.Digest("m"), digest) << field;
  };
  const StatusCode invalid = StatusCode::INVALID_ARGUMENT;
  refused(invalid, "manifest", {});
  refused(invalid, "manifest", {Data(copy.file)});
  refused(invalid, "manifest", {First({"a note", ""})});
  refused(invalid, "manifest", {First(copy), First(copy)});
  refused(invalid, "data", {First(copy), Data(std::string(service::kBackupPieceBytes + 1, 'x'))});
  refused(invalid, "file-bytes", {First(copy)});
  refused(invalid, "file-bytes", {First(copy), Data(copy.file), Data("x")});
  std::string flipped = copy.file;
  flipped[100] ^= 1;
  refused(invalid, "file-sha256", {First(copy), Data(flipped)});
  refused(StatusCode::FAILED_PRECONDITION, "tenant", {First(copy, false), Data(copy.file)});
}

TEST_F(RpcBackupTest, OnlySoManyRunAtOnce) {
  Connect({.max_backups = 1});
  service::Door door;
  harness_.hooks().before = [&](const std::string& called) {
    if (called == "CopyTo") door.WaitHere();
    return absl::OkStatus();
  };
  std::vector<v1::BackupPiece> pieces;
  grpc::Status first;
  std::thread running([&] { first = Create(&pieces); });
  door.WaitUntilSomebodyWaits();
  std::vector<v1::BackupPiece> none;
  EXPECT_THAT(Create(&none), RpcCode(StatusCode::RESOURCE_EXHAUSTED));
  door.Open();
  running.join();
  EXPECT_THAT(first, RpcOk());
  EXPECT_THAT(none, IsEmpty());
  std::vector<v1::BackupPiece> again;
  EXPECT_THAT(Create(&again), RpcOk());
}

TEST_F(RpcBackupTest, ACancelledStreamLeavesNothing) {
  const BackupCopy copy = Take();
  const std::string digest = harness_.Digest("m");
  {
    Context context;
    v1::RestoreBackupResponse response;
    const auto writer = backups_->RestoreBackup(&context, &response);
    ASSERT_TRUE(writer->Write(First(copy)));
    ASSERT_TRUE(writer->Write(Data(copy.file.substr(0, 5000))));
    for (int i = 0; i < 1000 && service::TemporaryFiles(harness_).empty(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(service::TemporaryFiles(harness_).size(), 1u) << "it is being received";
    context.TryCancel();
    EXPECT_THAT(writer->Finish(), RpcCode(StatusCode::CANCELLED));
  }
  ExpectNothingLeft();
  EXPECT_EQ(harness_.Digest("m"), digest);
  {
    // The whole file, and then no word that this is all.
    Context context;
    v1::RestoreBackupResponse response;
    const auto writer = backups_->RestoreBackup(&context, &response);
    ASSERT_TRUE(writer->Write(First(copy)));
    ASSERT_TRUE(writer->Write(Data(copy.file)));
    context.TryCancel();
    EXPECT_THAT(writer->Finish(), RpcCode(StatusCode::CANCELLED));
  }
  ExpectNothingLeft();
  EXPECT_EQ(harness_->GetTenant("t")->certificate_count, 0u);
}

TEST_F(RpcBackupTest, ASilentCallerIsNotWaitedFor) {
  const BackupCopy copy = Take();
  Connect({.max_backup_pause = absl::Milliseconds(200)});
  Context context;
  v1::RestoreBackupResponse response;
  const auto writer = backups_->RestoreBackup(&context, &response);
  ASSERT_TRUE(writer->Write(First(copy)));
  EXPECT_THAT(writer->Finish(), RpcCode(StatusCode::UNAVAILABLE));
  ExpectNothingLeft();
}

// The copy takes longer than a reader may: the server's own work is not the reader's fault.
TEST_F(RpcBackupTest, TheServersOwnWorkIsNoPause) {
  Connect({.max_backup_pause = absl::Milliseconds(100)});
  harness_.hooks().before = [&](const std::string& called) {
    if (called == "CopyTo") std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return absl::OkStatus();
  };
  std::vector<v1::BackupPiece> pieces;
  EXPECT_THAT(Create(&pieces), RpcOk());
}

}  // namespace
}  // namespace lethe::rpc
