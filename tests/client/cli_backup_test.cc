// lethe backup: what lands where, what is left when it does not arrive whole, what verify refuses,
// what restore sends and says.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <set>

#include "audit/encoding.h"
#include "audit/hash.h"
#include "client/cli/exit_codes.h"
#include "client/cli/render.h"
#include "tests/client/cli_testing.h"

namespace lethe::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class BackupTest : public CliTest {
 protected:
  BackupTest() {
    for (const char* tenant : {"clinic", "lab", "ward"}) server_->tenants[tenant];
    for (int i = 0; i < 3500; ++i) server_->backup_file += static_cast<char>(i * 7);
  }

  // Everything below the test's folder, folders with a slash behind.
  std::set<std::string> Everything() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
      names.insert(std::filesystem::relative(entry.path(), folder_).string() +
                   (entry.is_directory() ? "/" : ""));
    }
    return names;
  }
  CliResult Create(std::vector<std::string> more = {"clinic"}, const std::string& out = "/out") {
    more.insert(more.begin(), {"backup", "create", "--out", folder_ + out});
    return Run(more);
  }
  CliResult Verify(const std::string& which = "/out/clinic", std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"backup", "verify", folder_ + which, "--key", server_->vkey()});
    return Run(more);
  }
  CliResult Restore(const std::string& which = "/out/clinic", std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"backup", "restore", folder_ + which});
    return Run(more);
  }
  static unsigned ModeOf(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 07777;
  }
  // Changes the byte at `at` of a file, from the end where it is negative.
  static void Flip(const std::string& path, long at) {
    std::string content = ReadFile(path);
    const size_t place =
        at < 0 ? content.size() - static_cast<size_t>(-at) : static_cast<size_t>(at);
    content[place] = static_cast<char>(content[place] ^ 1);
    std::ofstream(path, std::ios::binary) << content;
  }
};

TEST_F(BackupTest, ABackupIsTwoFilesOfTheUserAlone) {
  const CliResult result = Create({"clinic", "-o", "json"});
  ASSERT_EQ(result.status, kExitOk) << result.err;
  EXPECT_THAT(Everything(),
              ElementsAre("out/", "out/clinic/", "out/clinic/manifest", "out/clinic/tenant.db"));
  EXPECT_EQ(ReadFile(folder_ + "/out/clinic/tenant.db"), server_->backup_file);
  EXPECT_EQ(ModeOf(folder_ + "/out"), 0700u);
  EXPECT_EQ(ModeOf(folder_ + "/out/clinic"), 0700u);
  EXPECT_EQ(ModeOf(folder_ + "/out/clinic/tenant.db"), 0600u);
  EXPECT_EQ(ModeOf(folder_ + "/out/clinic/manifest"), 0600u);
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["tenant"], "clinic");
  EXPECT_EQ(json["folder"], folder_ + "/out/clinic");
  EXPECT_EQ(json["log_size"], 7);
  EXPECT_EQ(json["file_bytes"], 3500);
  EXPECT_EQ(json["file_sha256"], audit::Hex(audit::Sha256(server_->backup_file)));
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(Verify().status, kExitOk);
}

TEST_F(BackupTest, WithoutATenantAllAreCopiedAndTheOneThatFailsIsNamed) {
  const CliResult all = Create({"-o", "json"});
  ASSERT_EQ(all.status, kExitOk) << all.err;
  const Json json = Json::parse(all.out);
  ASSERT_EQ(json.size(), 3u);
  EXPECT_EQ(json[2]["tenant"], "ward");
  for (const char* tenant : {"/clinic", "/lab", "/ward"}) {
    EXPECT_EQ(Verify(std::string("/out") + tenant).status, kExitOk);
  }
  const CliResult verified = Verify("/out", {"-o", "jsonl"});
  EXPECT_EQ(verified.status, kExitOk) << verified.err;
  EXPECT_EQ(std::count(verified.out.begin(), verified.out.end(), '\n'), 3);

  server_->failures["CreateBackup lab"] = absl::ResourceExhaustedError("too many");
  const CliResult some = Create({}, "/some");
  EXPECT_EQ(some.status, kExitRpcBase + 8);
  EXPECT_THAT(some.err, HasSubstr("tenant lab: too many"));
  EXPECT_THAT(some.out, HasSubstr("/some/ward"));
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/some/clinic/manifest"));
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/some/ward/manifest"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/some/lab"));
  // What --tenant says is for commands about one tenant.
  EXPECT_EQ(Create({"-t", "clinic"}, "/more").status, kExitRpcBase + 8);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/more/ward"));
}

TEST_F(BackupTest, NothingIsOverwritten) {
  ASSERT_EQ(Create().status, kExitOk);
  Flip(folder_ + "/out/clinic/tenant.db", 0);
  const std::string mine = ReadFile(folder_ + "/out/clinic/tenant.db");
  const size_t calls = server_->calls.size();
  EXPECT_EQ(Create().status, kExitFile);
  EXPECT_EQ(server_->calls.size(), calls) << "refused before anything is asked for";
  EXPECT_EQ(ReadFile(folder_ + "/out/clinic/tenant.db"), mine);
  std::filesystem::create_directories(folder_ + "/there/clinic");
  EXPECT_EQ(Create({"clinic"}, "/there/").status, kExitOk) << "an empty folder is as good as none";
  std::filesystem::create_directories(folder_ + "/link");
  std::filesystem::create_directory_symlink("nowhere", folder_ + "/link/clinic");
  EXPECT_EQ(Create({"clinic"}, "/link").status, kExitFile);
  WriteFile("file", "precious");
  EXPECT_EQ(Create({"clinic"}, "/file").status, kExitFile);
  EXPECT_EQ(Create({"clinic"}, "/no/such").status, kExitFile);
  EXPECT_EQ(ReadFile(folder_ + "/file"), "precious");
}

TEST_F(BackupTest, WhatDoesNotArriveWholeLeavesNothing) {
  int left = 0;
  server_->backup_filter = [&](client::BackupPiece&) { return left-- > 0; };
  for (const int pieces : {0, 1, 3}) {
    left = pieces;
    const CliResult result = Create();
    EXPECT_EQ(result.status, kExitRpcBase + 14) << pieces;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(Everything(), IsEmpty()) << pieces;
  }
  // A lost piece, a changed one, a manifest of another tenant, none at all.
  left = 4;
  server_->backup_filter = [&](client::BackupPiece& piece) {
    if (left-- == 2) piece.data.clear();
    return true;
  };
  EXPECT_EQ(Create().status, kExitRpcBase + 15);
  left = 4;
  server_->backup_filter = [&](client::BackupPiece& piece) {
    if (left-- == 2) piece.data[5] ^= 1;
    return true;
  };
  const CliResult changed = Create();
  EXPECT_EQ(changed.status, kExitNotVerified);
  EXPECT_THAT(changed.err, HasSubstr("file-sha256"));
  server_->backup_filter = [](client::BackupPiece&) { return true; };
  server_->bend_manifest = [](std::string& note) {
    note.replace(note.find("clinic"), 6, "clinit");
  };
  const CliResult other = Create();
  EXPECT_EQ(other.status, kExitNotVerified);
  EXPECT_THAT(other.err, HasSubstr("tenant: the manifest names another one"));
  server_->bend_manifest = [](std::string& note) { note.clear(); };
  EXPECT_EQ(Create().status, kExitNotVerified);
  EXPECT_THAT(Everything(), IsEmpty());
  // A folder that was there stays.
  std::filesystem::create_directory(folder_ + "/out");
  EXPECT_EQ(Create().status, kExitNotVerified);
  EXPECT_THAT(Everything(), ElementsAre("out/"));
}

// Names may come from a server.
TEST_F(BackupTest, ANameIsNoPath) {
  server_->tenants["../evil"];
  EXPECT_EQ(Create({}).status, kExitUsage);
  EXPECT_EQ(Create({"../evil"}, "/two").status, kExitUsage);
  EXPECT_EQ(Create({"."}, "/two").status, kExitUsage);
  EXPECT_THAT(Everything(), Not(::testing::Contains(HasSubstr("evil"))));
}

TEST_F(BackupTest, VerifyNamesTheCheckThatFails) {
  ASSERT_EQ(Create().status, kExitOk);
  const std::string file = folder_ + "/out/clinic/tenant.db";
  const std::string manifest = folder_ + "/out/clinic/manifest";
  const size_t calls = server_->calls.size();
  const CliResult good = Verify("/out/clinic", {"-o", "json"});
  ASSERT_EQ(good.status, kExitOk) << good.err;
  const Json json = Json::parse(good.out);
  EXPECT_EQ(json["verified"], true);
  EXPECT_EQ(json["time"], "2026-01-31T12:00:00.000001Z");

  const auto fails = [&](const std::string& check) {
    const CliResult result = Verify();
    EXPECT_EQ(result.status, kExitNotVerified) << check;
    EXPECT_THAT(result.err, HasSubstr(check));
    EXPECT_EQ(result.out, "");
  };
  const std::string content = ReadFile(file);
  const std::string note = ReadFile(manifest);
  for (const long at : {0L, 1999L, -1L}) {
    Flip(file, at);
    fails("file-sha256:");
    Flip(file, at);
  }
  std::ofstream(file, std::ios::binary) << content << "x";
  fails("file-bytes: tenant.db has 3501 bytes, the manifest says 3500");
  std::ofstream(file, std::ios::binary) << content.substr(1);
  fails("file-bytes:");
  std::ofstream(file, std::ios::binary) << content;
  // Each byte of the manifest: malformed, another signature, another file, another key.
  for (size_t i = 0; i < note.size(); ++i) {
    Flip(manifest, static_cast<long>(i));
    EXPECT_EQ(Verify().status, kExitNotVerified) << i;
    Flip(manifest, static_cast<long>(i));
  }
  const auto flip_in = [&](const std::string& word, const std::string& check) {
    Flip(manifest, static_cast<long>(note.find(word)));
    fails(check);
    Flip(manifest, static_cast<long>(note.find(word)));
  };
  flip_in("clinic", "signature:");
  flip_in("lethe-backup/v1", "manifest: line 1");
  flip_in("log-size", "manifest: line 6 (log-size)");
  EXPECT_EQ(Verify().status, kExitOk) << "everything was put back";

  const auto with_key = [&](const std::string& key) {
    return Run({"backup", "verify", folder_ + "/out/clinic", "--key", key});
  };
  const std::string other = audit::Signer::FromSeed("lethe.test/log/1", std::string(32, '\x43'))
                                ->verification_key()
                                .vkey();
  const std::string elsewhere = audit::Signer::FromSeed("lethe.test/log/2", std::string(32, '\x42'))
                                    ->verification_key()
                                    .vkey();
  EXPECT_THAT(with_key(other).err, HasSubstr("signature: none is the key's"));
  EXPECT_THAT(with_key(elsewhere).err, HasSubstr("signature: no key was given for the log"));
  EXPECT_EQ(with_key(elsewhere).status, kExitNotVerified);
  EXPECT_EQ(with_key("nonsense").status, kExitUsage);
  EXPECT_EQ(Verify("/out/clinic", {"--key", other}).status, kExitOk) << "one of several keys";
  WriteFile("keys", other + "\n\n" + server_->vkey() + "\n");
  EXPECT_EQ(
      Run({"backup", "verify", folder_ + "/out/clinic", "--key-file", folder_ + "/keys"}).status,
      kExitOk);
  EXPECT_EQ(Run({"backup", "verify", folder_ + "/out/clinic"}).status, kExitUsage);
  EXPECT_EQ(server_->calls.size(), calls) << "offline";
}

TEST_F(BackupTest, VerifyFindsSeveralAndMissesNone) {
  ASSERT_EQ(Create({}).status, kExitOk);
  std::filesystem::create_directories(folder_ + "/out/.ward.part-1");
  WriteFile("out/.ward.part-1/manifest", "half");
  EXPECT_EQ(Verify("/out").status, kExitOk) << "what was not finished is no backup";
  Flip(folder_ + "/out/lab/tenant.db", 7);
  const CliResult result = Verify("/out");
  EXPECT_EQ(result.status, kExitNotVerified);
  EXPECT_THAT(result.err, HasSubstr("/out/lab: file-sha256"));
  EXPECT_THAT(result.out, HasSubstr("ward"));
  std::filesystem::remove(folder_ + "/out/clinic/tenant.db");
  EXPECT_EQ(Verify("/out").status, kExitFile) << "of the first that failed";
  EXPECT_EQ(Verify("/nothing").status, kExitFile);
  std::filesystem::create_directory(folder_ + "/empty");
  EXPECT_THAT(Verify("/empty").err, HasSubstr("holds no backup"));
}

TEST_F(BackupTest, RestoreSendsTheFileAndSaysWhatBecameOfIt) {
  server_->backup_file = std::string((size_t{5} << 19) + 3, 'x');
  ASSERT_EQ(Create().status, kExitOk);
  const CliResult result = Restore();
  ASSERT_EQ(result.status, kExitOk) << result.err;
  ASSERT_EQ(server_->restored.size(), 1u);
  EXPECT_EQ(server_->restored[0].file, server_->backup_file);
  EXPECT_EQ(server_->restored[0].request.manifest, ReadFile(folder_ + "/out/clinic/manifest"));
  EXPECT_FALSE(server_->restored[0].request.replace);
  EXPECT_THAT(result.out, HasSubstr("certificates put back        1,234\n"));
  EXPECT_THAT(result.out, HasSubstr("tokens taken out again       5,678\n"));
  EXPECT_THAT(result.out, HasSubstr("tokens lost with their keys  91\n"));
  EXPECT_THAT(result.out, HasSubstr("keys destroyed               345\n"));
  const CliResult json = Restore("/out", {"--replace", "-o", "json"});
  ASSERT_EQ(json.status, kExitOk) << json.err;
  EXPECT_TRUE(server_->restored[1].request.replace);
  EXPECT_EQ(Json::parse(json.out)["removed"], 5678);
  EXPECT_EQ(Json::parse(json.out)["certificate_id"], std::string(64, 'c'));
}

TEST_F(BackupTest, RestoreSendsNothingThatIsDamaged) {
  ASSERT_EQ(Create({}).status, kExitOk);
  Flip(folder_ + "/out/lab/tenant.db", 100);
  const CliResult result = Restore("/out");
  EXPECT_EQ(result.status, kExitNotVerified);
  EXPECT_THAT(result.err, HasSubstr("/out/lab: file-sha256"));
  EXPECT_EQ(server_->restored.size(), 2u) << "the others are put back";
  EXPECT_EQ(Restore("/nothing").status, kExitFile);
  server_->failures["RestoreBackup"] = absl::FailedPreconditionError("tenant: is served");
  const CliResult refused = Restore();
  EXPECT_EQ(refused.status, kExitRpcBase + 9);
  EXPECT_THAT(refused.err, HasSubstr("tenant clinic: tenant: is served"));
  server_->failures["RestoreBackup"] = absl::UnavailableError("gone");
  EXPECT_THAT(Restore().err, HasSubstr("it may have happened"));
}

TEST_F(BackupTest, ProgressIsDrawnOnATerminalUnlessQuiet) {
  terminal_ = true;
  EXPECT_THAT(Create().err, HasSubstr("bytes"));
  EXPECT_THAT(Verify().err, HasSubstr("bytes"));
  EXPECT_THAT(Restore().err, HasSubstr("bytes"));
  EXPECT_EQ(Create({"clinic", "-q"}, "/quiet").err, "");
  EXPECT_EQ(Restore("/out/clinic", {"-q"}).err, "");
}

}  // namespace
}  // namespace lethe::cli
