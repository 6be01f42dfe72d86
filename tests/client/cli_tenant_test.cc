// lethe tenant delete: what proves the closing of the log reaches whoever asked for it.
#include <gmock/gmock.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "audit/checkpoint.h"
#include "audit/encoding.h"
#include "audit/note.h"
#include "audit/tlog_proof.h"
#include "audit/verify.h"
#include "audit/verify_proof.h"
#include "client/cli/exit_codes.h"
#include "client/cli/render.h"
#include "tests/client/cli_testing.h"

namespace lethe::cli {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class DeleteTenantTest : public CliTest {
 protected:
  DeleteTenantTest() {
    Fill({"a", "b", "c"});
    for (const char* id : {"a", "b"}) {
      EXPECT_EQ(RunIn({"forget", "--id", id, "-y"}).status, kExitOk);
    }
  }

  // What lethe-verify certificate --proof does, with the pinned key.
  void ExpectProves(const std::string& envelope, const std::string& proof) {
    const std::vector<audit::VerificationKey> keys = {
        *audit::VerificationKey::Parse(server_->vkey())};
    const audit::CertificateResult certificate =
        audit::VerifyCertificate(envelope, std::nullopt, keys[0]);
    ASSERT_TRUE(certificate.ok()) << certificate.message;
    EXPECT_EQ(certificate.body->kind, audit::CertificateKind::kTenantClosed);
    const audit::ProofResult result =
        audit::VerifyCertificateProof(proof, envelope, certificate, keys[0], keys, nullptr);
    EXPECT_TRUE(result.ok()) << result.message;
    EXPECT_EQ(result.checkpoint.size, 3u);
  }
};

TEST_F(DeleteTenantTest, WritesWhatProvesTheClosing) {
  const std::string folder = folder_ + "/closed";
  const CliResult result = Run({"tenant", "delete", "t", "--yes", "--out", folder});
  EXPECT_EQ(result.status, kExitOk) << result.err;
  EXPECT_EQ(result.out, "erased tokens  3\ncertificate    " + server_->log.back().id +
                            "\n  tokens           rows-deleted\n  keys             key-destroyed\n"
                            "  write-ahead-log  truncated\n"
                            "  backups          unreadable-without-key\nwritten to     " +
                            folder + "\n");
  const std::string envelope = ReadFile(folder + "/closing.envelope.json");
  EXPECT_EQ(envelope, server_->log.back().envelope);
  ExpectProves(envelope, ReadFile(folder + "/closing.tlog-proof"));
  const auto checkpoint = audit::VerifyCheckpoint(ReadFile(folder + "/checkpoint"),
                                                  *audit::VerificationKey::Parse(server_->vkey()));
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.message;
  EXPECT_EQ(checkpoint.checkpoint.size, 3u);
}

TEST_F(DeleteTenantTest, PrintsItWithoutAFolder) {
  const CliResult result = Run({"tenant", "delete", "t", "--yes"});
  EXPECT_EQ(result.status, kExitOk) << result.err;
  const size_t envelope = result.out.find("\n{") + 1;
  const size_t end = result.out.find('\n', envelope);
  const size_t proof = result.out.find("c2sp.org/tlog-proof@v1\n");
  ASSERT_NE(proof, std::string::npos) << result.out;
  ExpectProves(result.out.substr(envelope, end - envelope), result.out.substr(proof));
}

TEST_F(DeleteTenantTest, JsonHasAllOfIt) {
  const Json json = Json::parse(Run({"tenant", "delete", "t", "--yes", "-o", "json"}).out);
  EXPECT_EQ(json["erased_tokens"], 3);
  EXPECT_EQ(json["certificate_id"], server_->log.back().id);
  ASSERT_EQ(json["stores"].size(), 4u);
  EXPECT_EQ(
      json["stores"][1],
      (Json{{"store", "keys"}, {"level", "key-destroyed"}, {"evidence", "1 slots overwritten"}}));
  ExpectProves(*audit::DecodeBase64(json["envelope"].get<std::string>()),
               json["tlog_proof"].get<std::string>());
  EXPECT_THAT(json["tlog_proof"].get<std::string>(),
              testing::EndsWith("\n\n" + json["checkpoint"].get<std::string>()));
}

TEST_F(DeleteTenantTest, AFolderThatCannotTakeItDeletesNothing) {
  const std::string file = WriteFile("file", "x");
  for (const std::string& out : {folder_, file, folder_ + "/none/below", file + "/below"}) {
    const CliResult result = Run({"tenant", "delete", "t", "--yes", "--out", out});
    EXPECT_EQ(result.status, kExitFile) << out;
    EXPECT_THAT(result.err, HasSubstr("--out: ")) << out;
    EXPECT_EQ(result.out, "");
  }
  EXPECT_THAT(server_->calls, Not(Contains("DeleteTenant")));
  EXPECT_EQ(ReadFile(file), "x");
}

// The disk fails behind the deletion: what cannot be asked for again is printed all the same.
TEST_F(DeleteTenantTest, PrintsWhatCouldNotBeWritten) {
  const std::string folder = folder_ + "/closed";
  server_->bend_deletion = [&](client::TenantDeletion&) {
    WriteFile("closed/closing.tlog-proof", "in the way");
  };
  const CliResult result = Run({"tenant", "delete", "t", "--yes", "--out", folder});
  EXPECT_EQ(result.status, kExitFile);
  EXPECT_THAT(result.err, HasSubstr("--out: "));
  const size_t proof = result.out.find("c2sp.org/tlog-proof@v1\n");
  ASSERT_NE(proof, std::string::npos) << result.out;
  ExpectProves(server_->log.back().envelope, result.out.substr(proof));
  EXPECT_THAT(result.out, HasSubstr("\n" + server_->log.back().envelope + "\n"));
  EXPECT_EQ(ReadFile(folder + "/closing.tlog-proof"), "in the way");
}

TEST_F(DeleteTenantTest, AnAnswerThatContradictsItselfIsNamed) {
  const client::InclusionProof older = *server_->GetInclusionProof({.tenant = "t", .sequence = 1});
  const std::vector<std::function<void(client::TenantDeletion&)>> lies = {
      [](client::TenantDeletion& deletion) { deletion.envelope.back() = ' '; },
      [](client::TenantDeletion& deletion) { deletion.tlog_proof.clear(); },
      [](client::TenantDeletion& deletion) { deletion.checkpoint += "\n"; },
      [&](client::TenantDeletion& deletion) { deletion.tlog_proof = older.tlog_proof; },
      // A proof of another certificate than the last one, true in itself.
      [&](client::TenantDeletion& deletion) {
        deletion.tlog_proof =
            server_->GetInclusionProof({.tenant = "t", .sequence = 1})->tlog_proof;
      },
      // A proof that leads nowhere: one hash of its path is another.
      [](client::TenantDeletion& deletion) {
        audit::ParsedTlogProof proof = *audit::ParseTlogProof(deletion.tlog_proof);
        ASSERT_FALSE(proof.proof.empty());
        proof.proof.front()[0] ^= 1;
        deletion.tlog_proof = audit::TlogProof(proof.index, proof.proof, proof.checkpoint_note);
      },
      // A checkpoint over another tree of the same size, the same in both places.
      [](client::TenantDeletion& deletion) {
        const audit::ParsedTlogProof proof = *audit::ParseTlogProof(deletion.tlog_proof);
        audit::Note note = *audit::ParseNote(proof.checkpoint_note);
        audit::Checkpoint checkpoint = *audit::ParseCheckpointText(note.text);
        checkpoint.root[0] ^= 1;
        const std::string text = audit::CheckpointText(checkpoint);
        deletion.checkpoint = text + deletion.checkpoint.substr(note.text.size());
        deletion.tlog_proof = audit::TlogProof(proof.index, proof.proof, deletion.checkpoint);
      },
      // The last certificate of the log, included as it should be, and of another kind.
      [&](client::TenantDeletion& deletion) {
        Fill({"c"});
        EXPECT_TRUE(server_->Forget({.name = {"t", "m"}, .ids = {"c"}}).ok());
        deletion.certificate_id = server_->log.back().id;
        deletion.envelope = server_->log.back().envelope;
        deletion.checkpoint = server_->GetCheckpoint("t")->note;
        deletion.tlog_proof =
            server_->GetInclusionProof({.tenant = "t", .certificate_id = deletion.certificate_id})
                ->tlog_proof;
      },
  };
  for (size_t i = 0; i < lies.size(); ++i) {
    Fill({"a"});
    server_->bend_deletion = lies[i];
    const CliResult result = Run({"tenant", "delete", "t", "--yes"});
    EXPECT_EQ(result.status, kExitNotVerified) << i << result.err;
    EXPECT_THAT(result.err, HasSubstr("the tenant is deleted, but its proof is wrong")) << i;
    EXPECT_THAT(result.out, StartsWith("erased tokens  3\n")) << i;
  }
}

TEST_F(DeleteTenantTest, SaysWhereTheProofIsAfterALostAnswer) {
  const std::string folder = folder_ + "/closed";
  for (const auto code : {absl::StatusCode::kUnavailable, absl::StatusCode::kDeadlineExceeded,
                          absl::StatusCode::kNotFound, absl::StatusCode::kInvalidArgument}) {
    server_->failures["DeleteTenant"] = absl::Status(code, "no");
    const CliResult result = Run({"tenant", "delete", "t", "--yes", "--out", folder});
    EXPECT_EQ(result.status, kExitRpcBase + static_cast<int>(code));
    EXPECT_FALSE(std::filesystem::exists(folder)) << "a folder for nothing";
    const bool asked_in_vain = code == absl::StatusCode::kInvalidArgument;
    EXPECT_EQ(result.err.find("docs/operations.md") == std::string::npos, asked_in_vain)
        << result.err;
    const bool open = code != absl::StatusCode::kNotFound && !asked_in_vain;
    EXPECT_EQ(result.err.find("send it again until") != std::string::npos, open) << result.err;
  }
  // A folder that was there before stays.
  std::filesystem::create_directory(folder);
  Run({"tenant", "delete", "t", "--yes", "--out", folder});
  EXPECT_TRUE(std::filesystem::exists(folder));
}

// After a deletion that stopped on the way the tenant is not to be seen, and asking for it again is
// what ends it: with consent, not only with --yes.
TEST_F(DeleteTenantTest, ADeletionThatBeganCanBeEndedByAPerson) {
  server_->failures["GetTenant"] = absl::NotFoundError("tenant: there is none with this name");
  const std::string folder = folder_ + "/closed";
  const std::vector<std::string> verb = {"tenant", "delete", "t", "--out", folder};
  EXPECT_EQ(Run(verb).status, kExitUsage);
  terminal_ = true;
  EXPECT_EQ(Run(verb, "n\n").status, kExitUsage);
  EXPECT_THAT(server_->calls, Not(Contains("DeleteTenant")));
  const CliResult result = Run(verb, "y\n");
  EXPECT_EQ(result.status, kExitOk) << result.err;
  EXPECT_THAT(result.err, HasSubstr("began and did not"));
  EXPECT_THAT(result.err, HasSubstr("signatures are not checked"));
  ExpectProves(ReadFile(folder + "/closing.envelope.json"),
               ReadFile(folder + "/closing.tlog-proof"));
  // There is really none.
  const CliResult again = Run({"tenant", "delete", "t"}, "y\n");
  EXPECT_EQ(again.status, kExitRpcBase + 5) << again.err;
  EXPECT_THAT(again.err, HasSubstr("docs/operations.md"));
  // Anything else that the preview meets is the answer.
  server_->failures["GetTenant"] = absl::UnavailableError("quarantined");
  EXPECT_EQ(Run({"tenant", "delete", "t"}, "y\n").status, kExitRpcBase + 14);
}

TEST_F(DeleteTenantTest, SoCanThatOfAMemory) {
  server_->failures["GetMemory"] = absl::NotFoundError("memory: there is none with this name");
  terminal_ = true;
  EXPECT_EQ(RunIn({"memory", "delete"}, "n\n").status, kExitUsage);
  EXPECT_THAT(server_->calls, Not(Contains("DeleteMemory")));
  server_->failures["DeleteMemory"] = absl::UnavailableError("not yet");
  const CliResult stopped = RunIn({"memory", "delete"}, "y\n");
  EXPECT_EQ(stopped.status, kExitRpcBase + 14);
  EXPECT_THAT(stopped.err, HasSubstr("send it again until"));
  server_->failures.erase("DeleteMemory");
  EXPECT_EQ(RunIn({"memory", "delete"}, "y\n").status, kExitOk);
  EXPECT_EQ(RunIn({"memory", "delete"}, "y\n").status, kExitRpcBase + 5);
}

}  // namespace
}  // namespace lethe::cli
