// The log of a tenant through the service: checkpoints, proofs, witnesses, exports, files of
// another release.
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "audit/certificate.h"
#include "audit/encoding.h"
#include "audit/export_sinks.h"
#include "audit/merkle.h"
#include "audit/note.h"
#include "audit/tlog_proof.h"
#include "audit/tree_proof.h"
#include "audit/verify.h"
#include "audit/verify_export.h"
#include "audit/verify_proof.h"
#include "audit/witness.h"
#include "store/sqlite_tenant_store.h"
#include "tests/server/log_testing.h"

namespace lethe::service {
namespace {

using ::testing::HasSubstr;

constexpr absl::StatusCode kPrecondition = absl::StatusCode::kFailedPrecondition;

TEST(LogTest, ANewLogHasItsCheckpointBeforeItsFirstCertificate) {
  Harness service;
  const auto checkpoint = service->GetCheckpoint("t");
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_EQ(VerifiedCheckpoint(*checkpoint).root, audit::EmptyRoot());
  ASSERT_EQ(checkpoint->keys.size(), 1u);
  EXPECT_EQ(checkpoint->keys[0].first_sequence, 0u);
  EXPECT_EQ(checkpoint->keys[0].vkey, service->GetTenant("t")->verification_key);
  EXPECT_EQ(checkpoint->origin, service->GetTenant("t")->log_origin);
  service.Restart();
  EXPECT_EQ(service->GetCheckpoint("t")->note, checkpoint->note) << "signed once";
  EXPECT_THAT(service->GetInclusionProof("t", uint64_t{0}, 0), Fails(kInvalid, "sequence"));
  EXPECT_THAT(service->GetConsistencyProof("t", 1, 0), Fails(kInvalid, "old_size"));
  EXPECT_THAT(service->GetCheckpoint("nobody"), HasCode(kNotFound));
}

// A life of inserts, erasures, checks, rotations and restarts: each checkpoint that was ever
// released is a prefix of the log that stands at the end, and every proof between them holds.
TEST(LogTest, EveryReleasedCheckpointIsAPrefixOfTheLaterTree) {
  const char* fixed = std::getenv("LETHE_TEST_SEED");
  const uint64_t seed =
      fixed != nullptr ? std::strtoull(fixed, nullptr, 10) : std::random_device()();
  std::cout << "LETHE_TEST_SEED=" << seed << std::endl;
  std::mt19937_64 random(seed);
  Harness service;
  service.MakeMemory("m");
  const std::string pinned = service->GetTenant("t")->verification_key;
  std::vector<CheckpointInfo> released = {*service->GetCheckpoint("t")};
  int next = 0;
  std::set<std::string> live;
  for (int step = 0; step < 60; ++step) {
    switch (random() % 8) {
      case 0:
      case 1: {
        std::vector<TokenInput> tokens;
        for (int i = 0; i < 5; ++i) {
          tokens.push_back(RandomToken(random, absl::StrCat("id", next++)));
          live.insert(tokens.back().id);
        }
        service.Insert("m", tokens);
        break;
      }
      case 2:
      case 3:
        if (!live.empty()) {
          service.Forget("m", {*live.begin()});
          live.erase(live.begin());
        }
        break;
      case 4:
        if (!live.empty()) {
          EXPECT_THAT(service->Edit(EditOf("m", {RandomToken(random, *live.rbegin())}), {}),
                      IsOk());
        }
        break;
      case 5:
        EXPECT_THAT(service->Verify("t", "m", {}), IsOk());
        break;
      case 6:
        if (random() % 3 == 0) {
          EXPECT_THAT(service->RotateKey({}), IsOk());
        }
        break;
      default:
        service.Restart();
    }
    const auto checkpoint = service->GetCheckpoint("t");
    ASSERT_THAT(checkpoint, IsOk());
    if (checkpoint->note != released.back().note) {
      EXPECT_GT(checkpoint->size, released.back().size) << "one checkpoint a size";
      released.push_back(*checkpoint);
    }
  }
  const std::vector<audit::Digest> leaves = LeavesOf(service);
  ASSERT_EQ(leaves.size(), released.back().size);
  EXPECT_EQ(released.back().keys.front().vkey, pinned);
  for (const CheckpointInfo& checkpoint : released) {
    const audit::Checkpoint verified = VerifiedCheckpoint(checkpoint);
    EXPECT_EQ(verified.root, audit::MerkleRoot(std::span(leaves).first(checkpoint.size)));
    // What was a key then is one now.
    for (size_t i = 0; i < checkpoint.keys.size(); ++i) {
      EXPECT_EQ(checkpoint.keys[i].vkey, released.back().keys[i].vkey);
    }
    for (const CheckpointInfo& later : released) {
      if (checkpoint.size == 0 || later.size < checkpoint.size) continue;
      const auto proof = service->GetConsistencyProof("t", checkpoint.size, later.size);
      ASSERT_THAT(proof, IsOk());
      EXPECT_EQ(proof->old_root, checkpoint.root);
      EXPECT_EQ(proof->new_root, later.root);
      EXPECT_EQ(
          audit::VerifyConsistency(checkpoint.size, later.size, verified.root,
                                   *audit::DecodeDigest(later.root), ToDigests(proof->hashes)),
          absl::OkStatus());
    }
  }
  EXPECT_EQ(VerifiedLog(service).size(), leaves.size());
}

TEST(LogTest, InclusionIsProvenAtEverySize) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(14));
  for (int i = 0; i < 11; ++i) service.Forget("m", {absl::StrCat("a", i)});
  const std::vector<audit::Digest> leaves = LeavesOf(service);
  ASSERT_EQ(leaves.size(), 22u);  // each erasure and what became of its keys
  for (uint64_t size = 1; size <= leaves.size(); ++size) {
    const audit::Digest root = audit::MerkleRoot(std::span(leaves).first(size));
    for (uint64_t i = 0; i < size; ++i) {
      const auto proof = service->GetInclusionProof("t", i, size);
      ASSERT_THAT(proof, IsOk());
      EXPECT_EQ(proof->root, audit::Hex(root));
      EXPECT_EQ(audit::VerifyInclusion(i, size, leaves[i], ToDigests(proof->hashes), root),
                absl::OkStatus());
      EXPECT_EQ(proof->tlog_proof.empty(), size != leaves.size());
    }
    EXPECT_THAT(service->GetInclusionProof("t", size, size), Fails(kInvalid, "sequence"));
  }
  const std::string id = service->ListCertificates("t", "", {})->items[4].id;
  const auto by_id = service->GetInclusionProof("t", id, 0);
  ASSERT_THAT(by_id, IsOk());
  EXPECT_EQ(by_id->sequence, 4u);
  const auto parsed = audit::ParseTlogProof(by_id->tlog_proof);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->index, 4u);
  EXPECT_EQ(parsed->checkpoint_note, service->GetCheckpoint("t")->note);
  EXPECT_THAT(service->GetInclusionProof("t", id, 4), Fails(kInvalid, "certificate_id"));
  EXPECT_THAT(service->GetInclusionProof("t", std::string("x"), 0),
              Fails(kInvalid, "certificate_id"));
  EXPECT_THAT(service->GetInclusionProof("t", std::string(64, '0'), 0), HasCode(kNotFound));
  EXPECT_THAT(service->GetInclusionProof("t", {}, 0), Fails(kInvalid, "which"));
  EXPECT_THAT(service->GetInclusionProof("t", uint64_t{0}, 23), Fails(kInvalid, "size"));
  EXPECT_THAT(service->GetConsistencyProof("t", 0, 0), Fails(kInvalid, "old_size"));
  EXPECT_THAT(service->GetConsistencyProof("t", 5, 4), Fails(kInvalid, "old_size"));
  EXPECT_THAT(service->GetConsistencyProof("t", 5, 23), Fails(kInvalid, "new_size"));
  EXPECT_TRUE(service->GetConsistencyProof("t", 22, 0)->hashes.empty());
}

// Two writers that fork the chain: sixteen threads erase at once, others read what is released.
TEST(LogTest, SixteenThreadsDoNotForkTheLog) {
  constexpr int kThreads = 16;
  constexpr int kEach = 8;
  Harness service;
  service.MakeMemory("m");
  for (int i = 0; i < kThreads; ++i) service.Insert("m", Spiral(kEach, absl::StrCat("t", i, "-")));
  std::mutex mutex;
  std::map<uint64_t, std::string> roots;  // by size, as released
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        EXPECT_THAT(service->Forget(ForgetOf("m", {absl::StrCat("t", t, "-", i)}), {}), IsOk());
        const auto checkpoint = service->GetCheckpoint("t");
        ASSERT_THAT(checkpoint, IsOk());
        const std::lock_guard<std::mutex> lock(mutex);
        const auto [at, fresh] = roots.emplace(checkpoint->size, checkpoint->root);
        EXPECT_EQ(at->second, checkpoint->root) << "two roots of size " << checkpoint->size;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<audit::CertificateBody> log = VerifiedLog(service);  // dense and linked
  ASSERT_EQ(log.size(), 2 * size_t{kThreads} * kEach);
  EXPECT_EQ(ErasureLog(service).size(), size_t{kThreads} * kEach);
  const std::vector<audit::Digest> leaves = LeavesOf(service);
  std::set<audit::Digest> previous;
  for (const audit::CertificateBody& body : log) {
    if (body.previous_leaf_hash.has_value()) {
      EXPECT_TRUE(previous.insert(*body.previous_leaf_hash).second) << body.sequence;
    }
  }
  for (const auto& [size, root] : roots) {
    EXPECT_EQ(root, audit::Hex(audit::MerkleRoot(std::span(leaves).first(size)))) << size;
  }
  service.Restart();
  EXPECT_EQ(service->GetCheckpoint("t")->size, leaves.size());
}

// --- The answer of DeleteTenant.

// What an export of the closed log would hold, from its file.
struct ClosedLog {
  std::vector<std::string> envelopes;
  std::string checkpoint;
  std::string last_proof;
};

ClosedLog ReadClosed(Harness& service) {
  service.Stop();
  ClosedLog log;
  std::string folder;
  for (const auto& entry : std::filesystem::directory_iterator(service.data() + "/closed")) {
    EXPECT_EQ(folder, "") << "one closed log";
    folder = entry.path();
  }
  const auto file = store::OpenTenantStore(folder, {.vault = service.data() + "/vault"});
  EXPECT_THAT(file, IsOk());
  if (!file.ok()) return log;
  store::CertificateQuery query;
  query.limit = store::kMaxPageSize;
  const auto records = (*file)->ListCertificates(query);
  EXPECT_THAT(records, IsOk());
  std::vector<audit::Digest> leaves;
  for (const store::CertificateRecord& record : *records) {
    log.envelopes.push_back(record.envelope);
    leaves.push_back(audit::LeafHash(record.leaf));
  }
  log.checkpoint = (*file)->GetLogHead()->checkpoint;
  const auto node = [&leaves](int level, uint64_t index) -> absl::StatusOr<audit::Digest> {
    const size_t width = size_t{1} << level;
    return audit::MerkleRoot(std::span(leaves).subspan(index * width, width));
  };
  const auto hashes = audit::InclusionProof(leaves.size() - 1, leaves.size(), node);
  EXPECT_THAT(hashes, IsOk());
  log.last_proof = audit::TlogProof(leaves.size() - 1, *hashes, log.checkpoint);
  return log;
}

// The answer, byte by byte what the closed log's file has, and accepted with the pinned key.
void ExpectProves(const DeleteTenantReply& reply,
                  Harness& service,
                  const audit::VerificationKey& key) {
  const audit::CertificateResult certificate =
      audit::VerifyCertificate(reply.envelope, std::nullopt, key);
  ASSERT_TRUE(certificate.ok()) << certificate.message;
  EXPECT_EQ(certificate.id, reply.certificate_id);
  EXPECT_EQ(certificate.body->kind, audit::CertificateKind::kTenantClosed);
  const std::vector<audit::VerificationKey> keys = {key};
  const audit::ProofResult proof = audit::VerifyCertificateProof(reply.tlog_proof, reply.envelope,
                                                                 certificate, key, keys, nullptr);
  ASSERT_TRUE(proof.ok()) << proof.message;
  EXPECT_EQ(proof.checkpoint.size, certificate.body->sequence + 1);
  const ClosedLog log = ReadClosed(service);
  ASSERT_EQ(log.envelopes.size(), proof.checkpoint.size);
  EXPECT_EQ(log.envelopes.back(), reply.envelope);
  EXPECT_EQ(log.checkpoint, reply.checkpoint);
  EXPECT_EQ(log.last_proof, reply.tlog_proof);
}

TEST(ClosingProofTest, ProvesTheLastCertificateOfLogsOfAllShapes) {
  for (int before = 0; before <= 9; ++before) {
    SCOPED_TRACE(before);
    Harness service;
    service.MakeMemory("m");
    for (int i = 0; i < before; ++i) ASSERT_THAT(service->Verify("t", "m", {}), IsOk());
    const audit::VerificationKey key = FirstKey(service);
    const auto reply = service->DeleteTenant("t", {});
    ASSERT_THAT(reply, IsOk());
    ExpectProves(*reply, service, key);
  }
}

TEST(ClosingProofTest, IsSignedByTheKeyOfThatTime) {
  Harness service;
  service.MakeMemory("m");
  ASSERT_THAT(service->RotateKey({}), IsOk());
  const auto key = audit::VerificationKey::Parse(service->GetTenant("t")->verification_key);
  ASSERT_NE(key->vkey(), FirstKey(service).vkey());
  const auto reply = service->DeleteTenant("t", {});
  ASSERT_THAT(reply, IsOk());
  ExpectProves(*reply, service, *key);
}

TEST(ClosingProofTest, NothingIsAnsweredAndNothingChangesWhenTheStoreFails) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(4));
  FailOnce(service, "BeginClose", absl::ResourceExhaustedError("full"));
  EXPECT_THAT(service->DeleteTenant("t", {}), HasCode(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(service->GetTenant("t")->certificate_count, 0u);
  const audit::VerificationKey key = FirstKey(service);
  const auto reply = service->DeleteTenant("t", {});
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->erased_tokens, 4u);
  ExpectProves(*reply, service, key);
}

// --- Witnesses.

class WitnessTest : public testing::Test {
 protected:
  WitnessTest() {
    service_.options().tenant.witnesses = {one_.key(), two_.key()};
    service_.Restart();
    service_.MakeMemory("m");
    service_.Insert("m", Spiral(6));
    service_.Forget("m", {"a0"});
  }
  std::string LineOf(const audit::WitnessSigner& witness, const std::string& note) {
    return audit::SerializeSignatureLine(
        *witness.Cosign(audit::ParseNote(note)->text, 1'700'000'000));
  }

  const audit::WitnessSigner one_ = *audit::WitnessSigner::Generate("witness.example/one");
  const audit::WitnessSigner two_ = *audit::WitnessSigner::Generate("witness.example/two");
  const audit::WitnessSigner stranger_ = *audit::WitnessSigner::Generate("witness.example/three");
  Harness service_;
};

TEST_F(WitnessTest, CosignaturesStandInTheCheckpointUntilTheLogGrows) {
  const CheckpointInfo before = *service_->GetCheckpoint("t");
  const auto policy = audit::ParsePolicy(absl::StrCat("witness one ", one_.key().vkey(),
                                                      "\nwitness two ", two_.key().vkey(),
                                                      "\ngroup both all one two\nquorum both\n"));
  ASSERT_TRUE(policy.ok()) << policy.status();
  const std::string line = LineOf(one_, before.note);
  const auto added = service_->AddCosignature("t", line);
  ASSERT_THAT(added, IsOk());
  EXPECT_EQ(added->note, before.note + line);
  EXPECT_EQ(VerifiedCheckpoint(*added).size, 2u);
  EXPECT_FALSE(audit::CheckQuorum(*audit::ParseNote(added->note), *policy).ok());
  // Without its line break, a second time, and after a restart.
  EXPECT_THAT(service_->AddCosignature("t", line.substr(0, line.size() - 1)), IsOk());
  ASSERT_THAT(service_->AddCosignature("t", LineOf(two_, added->note)), IsOk());
  service_.Restart();
  const CheckpointInfo both = *service_->GetCheckpoint("t");
  EXPECT_EQ(audit::ParseNote(both.note)->signatures.size(), 3u);
  EXPECT_TRUE(audit::CheckQuorum(*audit::ParseNote(both.note), *policy).ok());
  EXPECT_THAT(service_->GetInclusionProof("t", uint64_t{0}, 0)->tlog_proof, HasSubstr(line));
  service_.Forget("m", {"a1"});
  const CheckpointInfo grown = *service_->GetCheckpoint("t");
  EXPECT_EQ(audit::ParseNote(grown.note)->signatures.size(), 1u);
  EXPECT_THAT(service_->AddCosignature("t", line), Fails(kPrecondition, "line"));
  EXPECT_THAT(service_->AddCosignature("t", LineOf(one_, grown.note)), IsOk());
}

TEST_F(WitnessTest, AWitnessThatIsConfiguredNoMoreLeavesTheNote) {
  const CheckpointInfo before = *service_->GetCheckpoint("t");
  const std::string kept = LineOf(one_, before.note);
  ASSERT_THAT(service_->AddCosignature("t", LineOf(two_, before.note)), IsOk());
  ASSERT_THAT(service_->AddCosignature("t", kept), IsOk());
  service_.options().tenant.witnesses = {one_.key()};
  service_.Restart();
  EXPECT_EQ(service_->GetCheckpoint("t")->note, before.note + kept);
  service_.options().tenant.witnesses.clear();
  service_.Restart();
  EXPECT_EQ(service_->GetCheckpoint("t")->note, before.note);
}

// A witness signed the log as it was before; that says nothing about the checkpoint of the closing.
TEST_F(WitnessTest, TheClosingCheckpointHasNoCosignatureOfAnEarlierOne) {
  const CheckpointInfo before = *service_->GetCheckpoint("t");
  ASSERT_THAT(service_->AddCosignature("t", LineOf(one_, before.note)), IsOk());
  const audit::VerificationKey key = FirstKey(service_);
  const auto reply = service_->DeleteTenant("t", {});
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(audit::ParseNote(reply->checkpoint)->signatures.size(), 1u);
  ExpectProves(*reply, service_, key);
}

TEST_F(WitnessTest, OnlyConfiguredWitnessesAreTaken) {
  const CheckpointInfo checkpoint = *service_->GetCheckpoint("t");
  EXPECT_THAT(service_->AddCosignature("t", LineOf(stranger_, checkpoint.note)),
              Fails(kInvalid, "line"));
  EXPECT_THAT(service_->AddCosignature("t", ""), Fails(kInvalid, "line"));
  EXPECT_THAT(service_->AddCosignature("t", "no line"), Fails(kInvalid, "line"));
  EXPECT_THAT(service_->AddCosignature("t", std::string(5000, 'x')), Fails(kInvalid, "line"));
  const std::string line = LineOf(one_, checkpoint.note);
  EXPECT_THAT(service_->AddCosignature("t", line + line), Fails(kInvalid, "line"));
  // The log's own line is no witness's.
  const std::string own =
      absl::StrCat(std::vector<std::string>(absl::StrSplit(checkpoint.note, "\n\n"))[1]);
  EXPECT_THAT(service_->AddCosignature("t", own), Fails(kInvalid, "line"));
  // Of another text, and with each byte of the signature changed in turn.
  std::string other = checkpoint.note;
  other[other.find("\n2\n") + 1] = '3';
  EXPECT_THAT(service_->AddCosignature("t", LineOf(one_, other)), Fails(kPrecondition, "line"));
  audit::NoteSignature signature = *audit::ParseSignatureLine(line);
  for (size_t i = 0; i < signature.signature.size(); ++i) {
    audit::NoteSignature bad = signature;
    bad.signature[i] = static_cast<char>(bad.signature[i] ^ 1);
    EXPECT_FALSE(service_->AddCosignature("t", audit::SerializeSignatureLine(bad)).ok()) << i;
  }
  EXPECT_EQ(service_->GetCheckpoint("t")->note, checkpoint.note);
}

// --- Exports.

TEST(LogTest, AnExportSeesOneMomentAndVerifies) {
  Harness service;
  const audit::VerificationKey pinned = FirstKey(service);
  service.MakeMemory("m");
  service.Insert("m", Spiral(40));
  for (int i = 0; i < 9; ++i) service.Forget("m", {absl::StrCat("a", i)});
  ASSERT_THAT(service->RotateKey({}), IsOk());
  for (int i = 9; i < 19; ++i) service.Forget("m", {absl::StrCat("a", i)});
  const CheckpointInfo checkpoint = *service->GetCheckpoint("t");
  // The log grows under the export's hands, between one file and the next.
  class Growing : public audit::ExportSink {
   public:
    Growing(Harness& harness, audit::ExportSink& inner) : harness_(harness), inner_(inner) {}
    absl::Status Begin(absl::string_view path) override {
      if (files_++ < 12) harness_.Forget("m", {absl::StrCat("a", 20 + files_)});
      return inner_.Begin(path);
    }
    absl::Status Write(absl::string_view bytes) override { return inner_.Write(bytes); }
    absl::Status End() override { return inner_.End(); }

   private:
    Harness& harness_;
    audit::ExportSink& inner_;
    int files_ = 0;
  };
  TempDir folder;
  const std::string path = folder.path() + "/export.tar";
  auto sink = audit::CreateTarSink(path);
  ASSERT_THAT(sink, IsOk());
  Growing growing(service, **sink);
  ASSERT_THAT(service->Export("t", {}, growing), IsOk());
  ASSERT_THAT((*sink)->Finish(), IsOk());
  audit::ExportExpectations expectations;
  expectations.keys = {pinned};
  const audit::ExportResult result = audit::VerifyExport(path, expectations);
  EXPECT_TRUE(result.ok()) << result.finding.message;
  EXPECT_EQ(result.verified, 2u * 9 + 1 + 2 * 10);
  EXPECT_EQ(audit::Hex(result.checkpoint.root), checkpoint.root);
  ASSERT_EQ(result.keys.size(), 2u);
  EXPECT_EQ(result.keys[1].first_sequence, 19u);
  EXPECT_GT(service->GetCheckpoint("t")->size, checkpoint.size);

  auto range = audit::CreateFolderSink(folder.path() + "/range");
  ASSERT_THAT(range, IsOk());
  ASSERT_THAT(service->Export("t", {.first = 3, .last = 7}, **range), IsOk());
  ASSERT_THAT((*range)->Finish(), IsOk());
  expectations.first = 3;
  expectations.last = 7;
  // The hand-over is not in the range, so the key that signed the checkpoint has to be told.
  expectations.keys.push_back(
      *audit::VerificationKey::Parse(service->GetTenant("t")->verification_key));
  const audit::ExportResult part = audit::VerifyExport(folder.path() + "/range", expectations);
  EXPECT_TRUE(part.ok()) << part.finding.message;

  EXPECT_THAT(service->Export("t", {.first = 5, .last = 400}, growing), HasCode(kInvalid));
  EXPECT_THAT(service->Export("nobody", {}, growing), HasCode(kNotFound));
}

TEST(LogTest, AnExportFailsWithItsStoreAndTheServiceGoesOn) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(8));
  for (int i = 0; i < 4; ++i) service.Forget("m", {absl::StrCat("a", i)});
  TempDir folder;
  auto sink = audit::CreateFolderSink(folder.path() + "/out");
  FailOnce(service, "GetLogNodes", absl::DataLossError("/data/t/tenant.db: a page is damaged"));
  const absl::Status status = service->Export("t", {}, **sink);
  EXPECT_THAT(status, HasCode(absl::StatusCode::kDataLoss));
  EXPECT_EQ(std::string(status.message()).find("tenant.db"), std::string::npos);
  auto again = audit::CreateFolderSink(folder.path() + "/again");
  EXPECT_THAT(service->Export("t", {}, **again), IsOk());
}

// --- Files of another release, and what must not be served.

// What ever held rows in clear cannot carry the claim, so such a file is not taken over.
TEST(LogTest, AFileOfAnotherFormatQuarantinesItsTenantAlone) {
  Harness service;
  ASSERT_THAT(service->CreateTenant("other", {}), IsOk());
  service.MakeMemory("m");
  service.Insert("m", Spiral(8));
  service.Forget("m", {"a0"});
  const CheckpointInfo before = *service->GetCheckpoint("t");
  service.Stop();
  const std::string version = RawText(service, "PRAGMA user_version");
  for (const char* format : {"1", "2", "99"}) {
    SCOPED_TRACE(format);
    ASSERT_NE(version, format);
    service.Stop();
    Raw(service, absl::StrCat("PRAGMA user_version = ", format));
    service.Restart();
    EXPECT_THAT(service->GetCheckpoint("t"), HasCode(absl::StatusCode::kUnavailable));
    EXPECT_THAT(service->GetCheckpoint("other"), IsOk());
  }
  service.Stop();
  Raw(service, absl::StrCat("PRAGMA user_version = ", version));
  service.Restart();
  EXPECT_EQ(service->GetCheckpoint("t")->note, before.note);
}

// What shows only with the key: the store cannot tell.
TEST(LogTest, ACheckpointThatTheKeyDidNotSignQuarantinesTheTenant) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(4));
  service.Forget("m", {"a1"});
  const std::string note = service->GetCheckpoint("t")->note;
  audit::Note forged = *audit::ParseNote(note);
  forged.signatures[0].signature[7] = static_cast<char>(forged.signatures[0].signature[7] ^ 1);
  service.Stop();
  const auto store = [&](const std::string& text) {
    Raw(service, absl::StrCat("UPDATE log_head SET checkpoint = CAST('", text, "' AS BLOB)"));
    service.Restart();
    return service->GetCheckpoint("t").status();
  };
  EXPECT_THAT(store(audit::SerializeNote(forged)), HasCode(absl::StatusCode::kUnavailable));
  service.Stop();
  EXPECT_THAT(store(note), IsOk());
}

TEST(LogTest, AKeyThatNoFileHoldsQuarantinesTheTenant) {
  Harness service;
  ASSERT_THAT(service->CreateTenant("other", {}), IsOk());
  service.Stop();
  Raw(service, "UPDATE log_keys SET vkey = 'x' || vkey");
  service.Restart();
  EXPECT_THAT(service->GetCheckpoint("t"), HasCode(absl::StatusCode::kUnavailable));
  EXPECT_THAT(service->GetCheckpoint("other"), IsOk());
}

}  // namespace
}  // namespace lethe::service
