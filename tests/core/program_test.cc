#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "core/program/nearest_name.h"
#include "core/program/toml_file.h"

namespace lethe::program {
namespace {

const std::vector<std::string> kNames = {"listen", "log-level", "data", "max-open-tenants"};

TEST(NearestName, IsTheOneThatWasMeantOrNone) {
  EXPECT_EQ(NearestName("listne", kNames), "listen");   // swapped
  EXPECT_EQ(NearestName("lissten", kNames), "listen");  // inserted
  EXPECT_EQ(NearestName("max-open-tenant", kNames), "max-open-tenants");
  EXPECT_EQ(NearestName("max_open_tenants", kNames), "max-open-tenants");
  EXPECT_EQ(NearestName("dta", kNames), "data");
  EXPECT_EQ(NearestName("log", kNames), "");
  EXPECT_EQ(NearestName("", kNames), "");
  EXPECT_EQ(NearestName("origin", kNames), "");
  EXPECT_EQ(NearestName("x", {}), "");
  EXPECT_EQ(NearestName(std::string(100000, 'l'), kNames), "") << "and at no cost";
}

TEST(NearestName, UnknownNamesAreRepeatedOnlyWhenTheyAreHarmless) {
  EXPECT_EQ(UnknownName("listne", kNames), "listne: unknown; did you mean listen?");
  EXPECT_EQ(UnknownName("origin", kNames), "origin: unknown");
  EXPECT_EQ(UnknownName("listen\x1b", kNames), "a name: unknown; did you mean listen?");
  EXPECT_EQ(UnknownName(std::string(101, 'a'), kNames), "a name: unknown");
}

TEST(TomlFile, ErrorsSayWhere) {
  const auto file =
      TomlFile::Parse("f.toml", "a = 1\n[table]\nb = 'x'\nc = 2\n[[list]]\nd = 1979-05-27\n");
  ASSERT_TRUE(file.ok()) << file.status();
  const toml::table& table = *file->root().get_as<toml::table>("table");
  EXPECT_EQ(file->Where(*table.get("c")), "f.toml:4");
  EXPECT_EQ(file->Error(*table.get("b"), "b: no").message(), "f.toml:3: b: no");
  EXPECT_TRUE(file->OnlyKeys(table, {"b", "c"}).ok());
  EXPECT_EQ(file->OnlyKeys(table, {"b", "d", "cc"}).message(),
            "f.toml:4: c: unknown; did you mean cc?");
  EXPECT_EQ(file->OnlyKeys(file->root(), {"table"}).message(), "f.toml:1: a: unknown");
  EXPECT_EQ(TypeName(*table.get("b")), "a string");
  EXPECT_EQ(TypeName(table), "a table");
  EXPECT_EQ(TypeName(*file->root().at_path("list[0].d").node()), "a date or time");
  const auto bad = TomlFile::Parse("f.toml", "a = 1\nsecret = \"hunter2\nb = 2\n");
  ASSERT_EQ(bad.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StartsWith(bad.status().message(), "f.toml:2: ")) << bad.status();
  EXPECT_FALSE(absl::StrContains(bad.status().message(), "hunter2")) << bad.status();
}

TEST(TomlFile, KeysOfMoreDotsThanAStackTakesAreRefused) {
  std::string deep = "a";
  for (int i = 0; i < 200000; ++i) deep += ".a";
  for (const std::string& text :
       {"b = 1\n" + deep + " = 1\n", "b = 1\n[" + deep + "]\n",
        // What stands before it hides nothing: texts end where the format says.
        "b = 1\nc = {d = \"\"\"x\"\"\"\"\", " + deep + " = 1}\n",
        "b = 'its' # \"\nc = {d = \"\\\"\", " + deep + " = 1}\n"}) {
    const auto refused = TomlFile::Parse("f.toml", text);
    ASSERT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(absl::StartsWith(refused.status().message(), "f.toml:2: ")) << refused.status();
  }
  const std::string dots(5000, '.');
  const auto file =
      TomlFile::Parse("f.toml", "a = \"\\\"" + dots + "\"\nb = '" + dots + "'\nc = \"\"\"\n'\"" +
                                    dots + "\"\"\"\nd = '''" + dots + "'''\n# " + dots + "\n");
  EXPECT_TRUE(file.ok()) << file.status();
}

TEST(TomlFile, AFileOfSecretsIsItsOwnersAlone) {
  std::string folder = (std::filesystem::temp_directory_path() / "lethe-toml-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/f.toml";
  std::ofstream(path) << "a = 1\n";
  for (const mode_t mode : {0640u, 0604u, 0610u, 0644u}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_TRUE(TomlFile::Read(path).ok());
    const auto refused = TomlFile::Read(path, TomlFile::Access::kOwnerAlone);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition) << mode;
    EXPECT_TRUE(absl::StrContains(refused.status().message(), "chmod 600")) << refused.status();
  }
  for (const mode_t mode : {0600u, 0400u}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_TRUE(TomlFile::Read(path, TomlFile::Access::kOwnerAlone).ok()) << mode;
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lethe::program
