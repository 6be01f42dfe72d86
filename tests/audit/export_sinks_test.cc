// The sinks, judged by the system's tar, find and diff.
#include "audit/export_sinks.h"

#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/audit/sample_log.h"

namespace lethe::audit::testing {
namespace {

std::string OutputOf(const std::string& command) {
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::string out;
  char buffer[4096];
  for (size_t n = 0; (n = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) out.append(buffer, n);
  const int status = pclose(pipe);
  return status == 0 ? out : absl::StrCat("FAILED: ", out);
}

absl::Status WriteOne(ExportSink& sink, const std::string& path, const std::string& bytes) {
  absl::Status status = sink.Begin(path);
  if (status.ok()) status = sink.Write(bytes);
  return status.ok() ? sink.End() : status;
}

TEST(ExportSinks, TheSystemsTarUnpacksWhatTheFolderHolds) {
  SampleLog log(300, {7});
  TempFolder temp;
  for (const char* name : {"folder", "log.tar"}) {
    auto sink = CreateExportSink(temp / name);
    ASSERT_TRUE(sink.ok()) << sink.status();
    ASSERT_TRUE(WriteExport(log, {}, 1770000000, **sink).ok());
    ASSERT_TRUE((*sink)->Finish().ok());
  }
  const std::string inside = "cd '" + temp.path() + "' && ";
  EXPECT_EQ(OutputOf(inside + "mkdir out && tar -xf log.tar -C out && diff -r folder out"), "");
  const MemorySink expected_files = log.Export();
  // Regular files only, the same metadata in each, the order of the writer.
  std::string names;
  for (const std::string& name : expected_files.order()) absl::StrAppend(&names, name, "\n");
  EXPECT_EQ(OutputOf(inside + "tar -tf log.tar"), names);
  EXPECT_EQ(OutputOf(inside + "TZ=UTC tar --full-time --numeric-owner -tvf log.tar | "
                              "awk '{ print $1, $2, $4, $5 }' | sort -u"),
            "-rw-r--r-- 0/0 1970-01-01 00:00:00\n");
  // Two zero blocks end it, nothing more.
  const std::string tar = ReadAll(temp / "log.tar");
  uint64_t expected = 1024;
  for (const auto& [name, bytes] : expected_files.files()) {
    expected += 512 + (bytes.size() + 511) / 512 * 512;
  }
  EXPECT_EQ(tar.size(), expected);
  EXPECT_EQ(tar.substr(tar.size() - 1024), std::string(1024, '\0'));
  // Every permission bit of the folder's files is as stated too.
  EXPECT_EQ(OutputOf(inside + "find folder -type f -perm /0111 | head -1"), "");
}

TEST(ExportSinks, FilesOfAllSizesAndLongNamesSurviveATar) {
  TempFolder temp;
  auto sink = CreateTarSink(temp / "x.tar");
  ASSERT_TRUE(sink.ok());
  // Around the block, and around and beyond the buffer, so that headers are patched in the file
  // too.
  std::vector<size_t> sizes = {0, 1, 511, 512, 513, 262143, 262144, 262145, 3000000};
  std::vector<std::string> names;
  for (const size_t size : sizes) names.push_back(absl::StrCat("s/", size));
  names.push_back(std::string(120, 'a') + "/" + std::string(99, 'b'));
  names.push_back("c");
  names.push_back(std::string(155, 'd') + "/" + std::string(98, 'e'));
  sizes.insert(sizes.end(), {77, 3, 600000});
  for (size_t i = 0; i < names.size(); ++i) {
    ASSERT_TRUE((*sink)->Begin(names[i]).ok()) << names[i];
    // In uneven pieces.
    const std::string bytes(sizes[i], static_cast<char>('A' + i));
    for (size_t at = 0; at < bytes.size(); at += 70001) {
      ASSERT_TRUE((*sink)->Write(absl::string_view(bytes).substr(at, 70001)).ok());
    }
    ASSERT_TRUE((*sink)->End().ok()) << names[i];
  }
  ASSERT_TRUE((*sink)->Finish().ok());
  const std::string inside = "cd '" + temp.path() + "' && ";
  EXPECT_EQ(OutputOf(inside + "mkdir out && tar -xf x.tar -C out"), "");
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(ReadAll(temp / ("out/" + names[i])),
              std::string(sizes[i], static_cast<char>('A' + i)));
  }
}

TEST(ExportSinks, ANameThatNoUstarHeaderHoldsIsRefused) {
  TempFolder temp;
  auto sink = CreateTarSink(temp / "x.tar");
  ASSERT_TRUE(sink.ok());
  EXPECT_EQ(WriteOne(**sink, std::string(101, 'a'), "x").code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ExportSinks, PathsThatLeaveTheExportAreRefused) {
  TempFolder temp;
  for (const char* name : {"folder", "log.tar"}) {
    auto sink = CreateExportSink(temp / name);
    ASSERT_TRUE(sink.ok());
    for (const std::string& path :
         {std::string(), std::string("/etc/x"), std::string("../x"), std::string("a/../x"),
          std::string("a//b"), std::string("a/"), std::string("."), std::string("./a"),
          std::string("a/."), std::string("a b"), std::string("a\\b"), std::string("a\nb"),
          std::string("a\0b", 3), std::string("\xC3\xA4"), std::string(256, 'a')}) {
      EXPECT_EQ((*sink)->Begin(path).code(), absl::StatusCode::kInvalidArgument) << path;
    }
    EXPECT_TRUE(WriteOne(**sink, "a.b/..c/d..", "x").ok());
    EXPECT_TRUE((*sink)->Finish().ok());
  }
  EXPECT_EQ(OutputOf("cd '" + temp.path() + "' && find . -type f | sort"),
            "./folder/a.b/..c/d..\n./log.tar\n");
}

TEST(ExportSinks, NothingIsOverwritten) {
  TempFolder temp;
  WriteAll(temp / "log.tar", "mine");
  EXPECT_EQ(CreateExportSink(temp / "log.tar").status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReadAll(temp / "log.tar"), "mine");
  EXPECT_EQ(CreateFolderSink(temp / "log.tar").status().code(), absl::StatusCode::kAlreadyExists);
  std::filesystem::create_directory(temp / "full");
  WriteAll(temp / "full/x", "mine");
  EXPECT_EQ(CreateExportSink(temp / "full").status().code(), absl::StatusCode::kAlreadyExists);
  // An empty folder will do.
  std::filesystem::create_directory(temp / "empty");
  auto sink = CreateExportSink(temp / "empty");
  ASSERT_TRUE(sink.ok());
  EXPECT_TRUE(WriteOne(**sink, "x", "1").ok());
  // The same file twice.
  EXPECT_EQ((*sink)->Begin("x").code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(CreateExportSink(temp / "no/such/parent").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(CreateExportSink(temp / "no/such/x.tar").status().code(), absl::StatusCode::kNotFound);
}

TEST(ExportSinks, CallsOutOfOrderAreRefused) {
  TempFolder temp;
  for (const char* name : {"folder", "log.tar"}) {
    auto sink = CreateExportSink(temp / name);
    ASSERT_TRUE(sink.ok());
    const auto refused = [](const absl::Status& status) {
      return status.code() == absl::StatusCode::kFailedPrecondition;
    };
    EXPECT_TRUE(refused((*sink)->Write("x")));
    EXPECT_TRUE(refused((*sink)->End()));
    ASSERT_TRUE((*sink)->Begin("a").ok());
    EXPECT_TRUE(refused((*sink)->Begin("b")));
    EXPECT_TRUE(refused((*sink)->Finish()));
    ASSERT_TRUE((*sink)->End().ok());
    ASSERT_TRUE((*sink)->Finish().ok());
    EXPECT_TRUE(refused((*sink)->Begin("b")));
    EXPECT_TRUE(refused((*sink)->Finish()));
  }
}

// A limit on the size of files stands for a disk that is full.
TEST(ExportSinks, AFullDiskIsAnError) {
  TempFolder temp;
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  for (const char* name : {"folder", "log.tar"}) {
    auto sink = CreateExportSink(temp / name);
    ASSERT_TRUE(sink.ok());
    rlimit limit = before;
    limit.rlim_cur = 1 << 20;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const absl::Status written = WriteOne(**sink, "a", std::string(2 << 20, 'x'));
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_FALSE(written.ok()) << name;
  }
}

}  // namespace
}  // namespace lethe::audit::testing
