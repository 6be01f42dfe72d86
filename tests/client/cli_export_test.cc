// lethe export: what lands where, and what is left when it does not arrive whole.
#include <gmock/gmock.h>

#include <set>

#include "client/cli/exit_codes.h"
#include "client/cli/render.h"
#include "tests/client/cli_testing.h"

namespace lethe::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

class ExportTest : public CliTest {
 protected:
  ExportTest() {
    Fill({"a", "b", "c", "d"});
    for (const char* id : {"a", "b", "c"}) {
      EXPECT_EQ(RunIn({"forget", "--id", id, "-y"}).status, kExitOk);
    }
  }

  // Every file below a folder, relative to it.
  static std::set<std::string> Files(const std::string& folder) {
    std::set<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) {
        files.insert(std::filesystem::relative(entry.path(), folder).string());
      }
    }
    return files;
  }
  CliResult Export(const std::string& to, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"export", "t", "--to", to});
    return Run(more);
  }
};

TEST_F(ExportTest, AFolderHoldsTheWholeLog) {
  const CliResult result = Export(folder_ + "/out", {"-o", "json"});
  ASSERT_EQ(result.status, kExitOk) << result.err;
  const std::set<std::string> files = Files(folder_ + "/out");
  EXPECT_THAT(
      files, IsSupersetOf(
                 {"checkpoint", "keys.txt", "summary.jsonl", "summary.csv", "report.html",
                  "tile/entries/000.p/3", "tile/0/000.p/3", "certificates/000/000000.envelope.json",
                  "certificates/000/000002.tlog-proof", "certificates/000/000001.sigstore.json"}));
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["certificates"], 3);
  EXPECT_EQ(json["files"], files.size());
  uint64_t bytes = 0;
  for (const std::string& file : files) bytes += ReadFile(folder_ + "/out/" + file).size();
  EXPECT_EQ(json["bytes"], bytes);
  EXPECT_EQ(ReadFile(folder_ + "/out/certificates/000/000001.envelope.json"),
            server_->log[1].envelope);
  EXPECT_EQ(ReadFile(folder_ + "/out/checkpoint"), server_->GetCheckpoint("t")->note);
  EXPECT_EQ(Files(folder_).size(), files.size()) << "nothing else was left";
}

TEST_F(ExportTest, ATarHoldsTheSameFiles) {
  ASSERT_EQ(Export(folder_ + "/out").status, kExitOk);
  ASSERT_EQ(Export(folder_ + "/out.tar").status, kExitOk);
  std::filesystem::create_directory(folder_ + "/unpacked");
  ASSERT_EQ(std::system(("tar -xf " + folder_ + "/out.tar -C " + folder_ + "/unpacked").c_str()),
            0);
  const std::set<std::string> files = Files(folder_ + "/out");
  EXPECT_EQ(Files(folder_ + "/unpacked"), files);
  for (const std::string& file : files) {
    EXPECT_EQ(ReadFile(folder_ + "/out/" + file), ReadFile(folder_ + "/unpacked/" + file)) << file;
  }
}

TEST_F(ExportTest, ARangeHoldsItsCertificatesOnly) {
  ASSERT_EQ(Export(folder_ + "/out", {"--first", "1", "--last", "1"}).status, kExitOk);
  const std::set<std::string> files = Files(folder_ + "/out");
  EXPECT_THAT(files, IsSupersetOf({"certificates/000/000001.envelope.json", "checkpoint"}));
  for (const std::string& file : files) {
    EXPECT_THAT(file, Not(HasSubstr("tile/")));
    EXPECT_THAT(file, Not(HasSubstr("000000")));
    EXPECT_THAT(file, Not(HasSubstr("000002")));
  }
  EXPECT_GE(Export(folder_ + "/none", {"--first", "2", "--last", "9"}).status, kExitRpcBase);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/none"));
}

TEST_F(ExportTest, NothingIsOverwritten) {
  std::filesystem::create_directory(folder_ + "/full");
  WriteFile("full/mine", "precious");
  WriteFile("file", "precious");
  WriteFile("file.tar", "precious");
  std::filesystem::create_symlink("nowhere", folder_ + "/link");
  for (const char* taken : {"/full", "/file", "/file.tar", "/link"}) {
    const size_t calls = server_->calls.size();
    EXPECT_EQ(Export(folder_ + taken).status, kExitFile) << taken;
    EXPECT_EQ(server_->calls.size(), calls) << "refused before anything is asked for";
  }
  EXPECT_EQ(ReadFile(folder_ + "/full/mine"), "precious");
  EXPECT_EQ(ReadFile(folder_ + "/file"), "precious");
  EXPECT_EQ(ReadFile(folder_ + "/file.tar"), "precious");
  std::filesystem::create_directory(folder_ + "/empty");
  EXPECT_EQ(Export(folder_ + "/empty/").status, kExitOk);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/empty/checkpoint"));
  EXPECT_EQ(Export(folder_ + "/missing/out").status, kExitFile) << "its folder is not there";
  EXPECT_EQ(Export("").status, kExitFile);
}

TEST_F(ExportTest, ACutStreamLeavesNothing) {
  for (const char* name : {"/out", "/out.tar"}) {
    int pieces = 0;
    ASSERT_EQ(Export(folder_ + "/whole" + name).status, kExitFile);
    server_->export_filter = [&pieces](client::ExportPiece&) { return ++pieces > 0; };
    ASSERT_EQ(Export(folder_ + name).status, kExitOk);
    std::filesystem::remove_all(folder_ + name);
    const int all = pieces;
    ASSERT_GT(all, 5);
    for (const int end : {0, 1, all / 2, all - 1}) {
      pieces = 0;
      server_->export_filter = [&pieces, end](client::ExportPiece&) { return ++pieces <= end; };
      const CliResult result = Export(folder_ + name);
      EXPECT_EQ(result.status, kExitRpcBase + 14) << end;
      EXPECT_EQ(result.out, "");
      EXPECT_THAT(Files(folder_), IsEmpty()) << end;
    }
  }
}

TEST_F(ExportTest, ALostPieceIsNoticed) {
  int pieces = 0;
  server_->export_filter = [&pieces](client::ExportPiece& piece) {
    if (++pieces == 4) piece.data.clear();
    return true;
  };
  const CliResult result = Export(folder_ + "/out");
  EXPECT_EQ(result.status, kExitRpcBase + 15);
  EXPECT_THAT(Files(folder_), IsEmpty());
}

// Paths come from a server.
TEST_F(ExportTest, APathThatLeavesTheFolderIsRefused) {
  for (const char* path : {"../evil", "/tmp/evil", "a/../../evil", "a//b", "a/./b", "tile/\x01",
                           "with space", ".", "..", "a\\b", "checkpoint/"}) {
    for (const char* name : {"/out", "/out.tar"}) {
      server_->export_filter = [path](client::ExportPiece& piece) {
        if (piece.path == "keys.txt") piece.path = path;
        return true;
      };
      EXPECT_EQ(Export(folder_ + name).status, kExitFile) << path;
      EXPECT_THAT(Files(folder_), IsEmpty()) << path;
    }
  }
  // A path that comes twice, and bytes before any path.
  server_->export_filter = [](client::ExportPiece& piece) {
    if (piece.path == "keys.txt") piece.path = "checkpoint";
    return true;
  };
  EXPECT_EQ(Export(folder_ + "/out").status, kExitFile);
  server_->export_filter = [](client::ExportPiece& piece) {
    piece.path.clear();
    return true;
  };
  EXPECT_EQ(Export(folder_ + "/out").status, kExitFile);
  EXPECT_THAT(Files(folder_), IsEmpty());
}

TEST_F(ExportTest, TheTenantCanComeFromTheOptions) {
  EXPECT_EQ(Run({"export", "--to", folder_ + "/a"}).status, kExitUsage);
  EXPECT_EQ(Run({"export", "--to", folder_ + "/a", "-t", "t"}).status, kExitOk);
  EXPECT_EQ(Run({"export", "t"}).status, kExitUsage);
}

}  // namespace
}  // namespace lethe::cli
