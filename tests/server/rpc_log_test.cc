// The log over a real connection: checkpoint, proofs, cosignatures, a rotation, Verify, an export.
#include <algorithm>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "audit/checkpoint.h"
#include "audit/encoding.h"
#include "audit/merkle.h"
#include "audit/note.h"
#include "audit/tree_proof.h"
#include "audit/witness.h"
#include "server/rpc/export_stream.h"
#include "tests/server/rpc_testing.h"

namespace lethe::rpc {
namespace {

using grpc::StatusCode;
using Certificates = v1::CertificateService::Stub;

std::vector<audit::Digest> Digests(const google::protobuf::RepeatedPtrField<std::string>& hashes) {
  std::vector<audit::Digest> digests;
  for (const std::string& hash : hashes) {
    EXPECT_EQ(hash.size(), 32u);
    std::copy_n(hash.begin(), 32, digests.emplace_back().begin());
  }
  return digests;
}

class RpcLogTest : public RpcTest {
 protected:
  RpcLogTest() {
    harness_.Insert("m", service::Spiral(12));
    for (int i = 0; i < 5; ++i) harness_.Forget("m", {absl::StrCat("a", i)});
  }
  static constexpr uint64_t kCertificates = 10;  // five erasures, and what became of their keys

  v1::Checkpoint GetCheckpoint() {
    v1::GetCheckpointRequest request;
    request.set_tenant("t");
    v1::Checkpoint checkpoint;
    EXPECT_THAT(Call(*certificates_, &Certificates::GetCheckpoint, request, &checkpoint), RpcOk());
    return checkpoint;
  }

  struct Exported {
    std::map<std::string, std::string> files;
    std::vector<std::string> order;
    size_t largest = 0;
    v1::ExportPiece last;
    grpc::Status status;
  };
  Exported Export(const v1::ExportRequest& request) {
    Context context;
    const auto reader = certificates_->Export(&context, request);
    Exported exported;
    v1::ExportPiece piece;
    while (reader->Read(&piece)) {
      EXPECT_FALSE(exported.last.done()) << "nothing follows the last word";
      if (!piece.path().empty()) exported.order.push_back(piece.path());
      if (!piece.done()) exported.files[exported.order.back()] += piece.data();
      exported.largest = std::max(exported.largest, piece.data().size());
      exported.last = piece;
    }
    exported.status = reader->Finish();
    return exported;
  }
};

TEST_F(RpcLogTest, CheckpointAndProofs) {
  const v1::Checkpoint checkpoint = GetCheckpoint();
  ASSERT_EQ(checkpoint.keys_size(), 1);
  const auto key = audit::VerificationKey::Parse(checkpoint.keys(0).vkey());
  const audit::CheckpointResult verified = audit::VerifyCheckpoint(checkpoint.note(), *key);
  ASSERT_TRUE(verified.ok()) << verified.message;
  EXPECT_EQ(verified.checkpoint.size, kCertificates);
  EXPECT_EQ(checkpoint.size(), kCertificates);
  EXPECT_EQ(checkpoint.origin(), verified.checkpoint.origin);
  EXPECT_EQ(checkpoint.root(), audit::Hex(verified.checkpoint.root));

  v1::GetInclusionProofRequest inclusion;
  inclusion.set_tenant("t");
  v1::InclusionProof proof;
  EXPECT_THAT(Call(*certificates_, &Certificates::GetInclusionProof, inclusion, &proof),
              RpcFails(StatusCode::INVALID_ARGUMENT, "which"));
  inclusion.set_sequence(0);  // present, though it is the default
  ASSERT_THAT(Call(*certificates_, &Certificates::GetInclusionProof, inclusion, &proof), RpcOk());
  EXPECT_EQ(audit::VerifyInclusion(0, kCertificates, *audit::DecodeDigest(proof.leaf_hash()),
                                   Digests(proof.hashes()), verified.checkpoint.root),
            absl::OkStatus());
  EXPECT_NE(proof.tlog_proof().find(checkpoint.note()), std::string::npos);
  inclusion.set_certificate_id(std::string(64, '0'));
  EXPECT_THAT(Call(*certificates_, &Certificates::GetInclusionProof, inclusion, &proof),
              RpcCode(StatusCode::NOT_FOUND));

  v1::GetConsistencyProofRequest consistency;
  consistency.set_tenant("t");
  consistency.set_old_size(3);
  v1::ConsistencyProof continued;
  ASSERT_THAT(Call(*certificates_, &Certificates::GetConsistencyProof, consistency, &continued),
              RpcOk());
  EXPECT_EQ(continued.new_size(), kCertificates);
  EXPECT_EQ(audit::VerifyConsistency(3, kCertificates, *audit::DecodeDigest(continued.old_root()),
                                     verified.checkpoint.root, Digests(continued.hashes())),
            absl::OkStatus());
  consistency.set_new_size(kCertificates + 1);
  EXPECT_THAT(Call(*certificates_, &Certificates::GetConsistencyProof, consistency, &continued),
              RpcFails(StatusCode::INVALID_ARGUMENT, "new_size"));
}

TEST_F(RpcLogTest, AWitnessCosigns) {
  server_.reset();
  const auto witness = audit::WitnessSigner::Generate("witness.example/w");
  harness_.options().tenant.witnesses = {witness->key()};
  harness_.Restart();
  StartServer({});
  const v1::Checkpoint checkpoint = GetCheckpoint();
  v1::AddCosignatureRequest request;
  request.set_tenant("t");
  request.set_line(audit::SerializeSignatureLine(
      *witness->Cosign(audit::ParseNote(checkpoint.note())->text, 1'700'000'000)));
  v1::Checkpoint cosigned;
  ASSERT_THAT(Call(*certificates_, &Certificates::AddCosignature, request, &cosigned), RpcOk());
  EXPECT_EQ(cosigned.note(), checkpoint.note() + request.line());
  EXPECT_EQ(GetCheckpoint().note(), cosigned.note());
  request.set_line("x");
  EXPECT_THAT(Call(*certificates_, &Certificates::AddCosignature, request, &cosigned),
              RpcFails(StatusCode::INVALID_ARGUMENT, "line"));
}

TEST_F(RpcLogTest, RotationAndVerify) {
  v1::RotateKeyResponse rotated;
  ASSERT_THAT(Call(*certificates_, &Certificates::RotateKey, v1::RotateKeyRequest(), &rotated),
              RpcOk());
  EXPECT_TRUE(rotated.complete());
  EXPECT_EQ(rotated.handed_over(), 1u);
  EXPECT_EQ(rotated.pending_size(), 0);
  const v1::Checkpoint checkpoint = GetCheckpoint();
  ASSERT_EQ(checkpoint.keys_size(), 2);
  EXPECT_EQ(checkpoint.keys(1).first_sequence(), kCertificates + 1);

  v1::VerifyRequest verify;
  verify.set_tenant("t");
  verify.set_memory("m");
  v1::VerifyResponse verified;
  ASSERT_THAT(Call(*memories_, &v1::MemoryService::Stub::Verify, verify, &verified), RpcOk());
  EXPECT_EQ(verified.verdict(), v1::VERDICT_BIT_IDENTICAL);
  EXPECT_TRUE(verified.bits_equal());
  EXPECT_EQ(verified.deviation(), 0.0);
  EXPECT_EQ(verified.sequence(), kCertificates + 1);
  EXPECT_EQ(verified.state_digest(), harness_.Digest("m"));
  EXPECT_EQ(verified.phase(), v1::MEMORY_PHASE_ACTIVE);
  const v1::Partition& partition = verified.partition();
  EXPECT_EQ(partition.margin() + partition.error() + partition.reserve(), 7u);
  EXPECT_EQ(harness_->GetCertificate("t", verified.certificate_id())->kind, "retrain-check");
  verify.set_memory("none");
  EXPECT_THAT(Call(*memories_, &v1::MemoryService::Stub::Verify, verify, &verified),
              RpcCode(StatusCode::NOT_FOUND));
}

TEST_F(RpcLogTest, AnExportArrivesInPiecesAndSaysWhenItIsWhole) {
  v1::ExportRequest request;
  request.set_tenant("t");
  const Exported whole = Export(request);
  ASSERT_THAT(whole.status, RpcOk());
  EXPECT_TRUE(whole.last.done());
  EXPECT_EQ(whole.last.files(), whole.files.size());
  EXPECT_EQ(whole.order.size(), whole.files.size()) << "each path once";
  EXPECT_LE(whole.largest, kMaxPieceBytes);
  uint64_t bytes = 0;
  for (const auto& [path, content] : whole.files) bytes += content.size();
  EXPECT_EQ(whole.last.bytes(), bytes);
  EXPECT_EQ(whole.files.at("checkpoint"), GetCheckpoint().note());
  EXPECT_EQ(whole.files.count("certificates/000/000009.envelope.json"), 1u);

  request.set_first(2);
  request.set_last(2);
  const Exported one = Export(request);
  ASSERT_THAT(one.status, RpcOk());
  EXPECT_EQ(one.files.count("certificates/000/000002.envelope.json"), 1u);
  EXPECT_EQ(one.files.count("certificates/000/000003.envelope.json"), 0u);

  request.set_last(70);
  const Exported none = Export(request);
  EXPECT_THAT(none.status, RpcCode(StatusCode::INVALID_ARGUMENT));
  EXPECT_TRUE(none.files.empty());
  request.set_tenant("nobody");
  EXPECT_THAT(Export(request).status, RpcCode(StatusCode::NOT_FOUND));
}

TEST_F(RpcLogTest, AReaderThatGoesAwayEndsItsExport) {
  v1::ExportRequest request;
  request.set_tenant("t");
  for (int i = 0; i < 3; ++i) {
    Context context;
    const auto reader = certificates_->Export(&context, request);
    v1::ExportPiece piece;
    ASSERT_TRUE(reader->Read(&piece));
    context.TryCancel();
    while (reader->Read(&piece)) {
    }
    EXPECT_THAT(reader->Finish(), RpcCode(StatusCode::CANCELLED));
  }
  // Its place is free again.
  StartServer({.max_exports = 1});
  EXPECT_THAT(Export(request).status, RpcOk());
  EXPECT_THAT(Export(request).status, RpcOk());
}

TEST_F(RpcLogTest, AReaderThatStopsReadingLosesItsPlace) {
  // More than the windows of flow control hold.
  for (int i = 0; i < 400; ++i) harness_->Verify("t", "m", {}).status().IgnoreError();
  StartServer({.max_exports = 1, .max_export_write = absl::Seconds(2)});
  v1::ExportRequest request;
  request.set_tenant("t");
  Context context;
  const auto reader = certificates_->Export(&context, request);
  v1::ExportPiece piece;
  ASSERT_TRUE(reader->Read(&piece));
  // It reads no more. Another connection: this one's windows may be full.
  grpc::ChannelArguments own;
  own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto other = v1::CertificateService::NewStub(grpc::CreateCustomChannel(
      absl::StrCat("127.0.0.1:", server_->port()), grpc::InsecureChannelCredentials(), own));
  grpc::Status status;
  bool was_refused = false;
  for (int tries = 0; tries < 400; ++tries) {
    Context second;
    const auto again = other->Export(&second, request);
    while (again->Read(&piece)) {
    }
    status = again->Finish();
    if (status.error_code() != StatusCode::RESOURCE_EXHAUSTED) break;
    was_refused = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_TRUE(was_refused) << "the first export was over before anybody stopped it";
  EXPECT_THAT(status, RpcOk());
}

TEST(ExportStreamTest, PiecesHaveAtMostTheirSizeAndPathsStandOnce) {
  std::vector<v1::ExportPiece> sent;
  bool broken = false;
  ExportStream stream(
      [&](const v1::ExportPiece& piece) {
        sent.push_back(piece);
        return !broken;
      },
      {});
  ASSERT_TRUE(stream.Begin("a").ok());
  ASSERT_TRUE(stream.Write(std::string(kMaxPieceBytes, 'x')).ok());
  ASSERT_TRUE(stream.End().ok());
  ASSERT_TRUE(stream.Begin("b").ok());
  ASSERT_TRUE(stream.End().ok());
  ASSERT_TRUE(stream.Begin("c").ok());
  ASSERT_TRUE(stream.Write("12").ok());
  ASSERT_TRUE(stream.Write(std::string(2 * kMaxPieceBytes, 'y')).ok());
  ASSERT_TRUE(stream.End().ok());
  ASSERT_TRUE(stream.Done().ok());
  std::vector<std::string> shapes;
  for (const v1::ExportPiece& piece : sent) {
    shapes.push_back(absl::StrCat(piece.path(), ":", piece.data().size()));
  }
  EXPECT_THAT(shapes, testing::ElementsAre("a:65536", "b:0", "c:65536", ":65536", ":2", ":0"));
  EXPECT_TRUE(sent.back().done());
  EXPECT_EQ(sent.back().files(), 3u);
  EXPECT_EQ(sent.back().bytes(), 3 * kMaxPieceBytes + 2);
  broken = true;
  ASSERT_TRUE(stream.Begin("d").ok());
  EXPECT_TRUE(absl::IsCancelled(stream.End()));
}

}  // namespace
}  // namespace lethe::rpc
