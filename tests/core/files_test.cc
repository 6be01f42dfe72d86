#include "core/base/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"

namespace lethe {
namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  Files() {
    std::string name = (fs::temp_directory_path() / "lethe-files-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~Files() override { fs::remove_all(folder_); }
  std::string folder_;
};

bool IsOpen(int descriptor) { return ::fcntl(descriptor, F_GETFD) >= 0; }

TEST_F(Files, ADescriptorIsClosedOnce) {
  const std::string path = folder_ + "/file";
  int number = -1;
  {
    FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_TRUE(file.valid());
    number = file.get();
    FileDescriptor moved(std::move(file));
    EXPECT_FALSE(file.valid());  // NOLINT(bugprone-use-after-move): that is the promise
    EXPECT_TRUE(IsOpen(number));
    FileDescriptor other(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const int replaced = other.get();
    other = std::move(moved);
    EXPECT_FALSE(IsOpen(replaced));
    EXPECT_EQ(other.get(), number);
  }
  EXPECT_FALSE(IsOpen(number));
  FileDescriptor none;
  EXPECT_TRUE(none.Close());
  FileDescriptor wrong(number);  // of no open file
  EXPECT_FALSE(wrong.Close());
  EXPECT_TRUE(wrong.Close());  // holds none now
}

TEST_F(Files, BytesAreWrittenAndReadFromTheStart) {
  const std::string path = folder_ + "/file";
  const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const std::string bytes(100'000, 'x');
  ASSERT_EQ(WriteAll(file.get(), bytes, path), absl::OkStatus());
  ASSERT_EQ(WriteAll(file.get(), "front", path), absl::OkStatus());
  std::string read(200'000, '\0');
  auto* out = reinterpret_cast<uint8_t*>(read.data());
  EXPECT_EQ(*ReadUpTo(file.get(), out, read.size(), path), bytes.size());
  EXPECT_EQ(read.substr(0, bytes.size()), "front" + bytes.substr(5));
  EXPECT_EQ(*ReadUpTo(file.get(), out, 3, path), 3u);
  EXPECT_EQ(Sync(file.get(), path), absl::OkStatus());
  EXPECT_EQ(SyncFolder(folder_), absl::OkStatus());
}

TEST_F(Files, PieceByPieceFromWhereTheDescriptorStands) {
  const std::string path = folder_ + "/pieces";
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const std::string first(100'000, 'a');
  EXPECT_EQ(WriteNext(file.get(), first, path), absl::OkStatus());
  EXPECT_EQ(WriteNext(file.get(), "", path), absl::OkStatus());
  EXPECT_EQ(WriteNext(file.get(), "bcd", path), absl::OkStatus());
  ASSERT_EQ(::lseek(file.get(), 0, SEEK_SET), 0);
  std::string read(100'001, '\0');
  EXPECT_EQ(*ReadNext(file.get(), read.data(), read.size(), path), read.size());
  EXPECT_EQ(read, first + "b");
  EXPECT_EQ(*ReadNext(file.get(), read.data(), read.size(), path), 2u);
  EXPECT_EQ(read.substr(0, 3), "cda");
  EXPECT_EQ(*ReadNext(file.get(), read.data(), read.size(), path), 0u);
}

TEST_F(Files, ErrorsNameThePathAndTheirKind) {
  const FileDescriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  EXPECT_TRUE(absl::IsResourceExhausted(WriteAll(full.get(), "bytes", "the path")));
  EXPECT_TRUE(absl::StartsWith(WriteAll(full.get(), "bytes", "the path").message(), "the path: "));
  EXPECT_TRUE(absl::IsResourceExhausted(WriteNext(full.get(), "bytes", "the path")));
  EXPECT_TRUE(absl::IsUnavailable(ReadNext(-1, nullptr, 1, "the path").status()));
  EXPECT_TRUE(absl::IsNotFound(SyncFolder(folder_ + "/none")));
  EXPECT_TRUE(absl::IsUnavailable(Sync(-1, "the path")));
  EXPECT_TRUE(absl::IsUnavailable(ReadUpTo(-1, nullptr, 1, "the path").status()));
  EXPECT_TRUE(absl::IsAlreadyExists(SystemError(EEXIST, "make it", "p")));
  EXPECT_TRUE(absl::IsFailedPrecondition(SystemError(ELOOP, "open it", "p")));
  EXPECT_TRUE(absl::IsFailedPrecondition(SystemError(ENOTDIR, "open it", "p")));
  EXPECT_TRUE(absl::IsPermissionDenied(SystemError(EACCES, "open it", "p")));
  EXPECT_TRUE(absl::IsPermissionDenied(SystemError(EROFS, "open it", "p")));
  EXPECT_EQ(SystemError(EIO, "read it", "p").message(), "p: cannot read it: Input/output error");
}

TEST_F(Files, TheFolderOfAPath) {
  EXPECT_EQ(FolderOf("/a/b"), "/a");
  EXPECT_EQ(FolderOf("b"), ".");
  EXPECT_EQ(FolderOf("/b"), "/");
}

TEST_F(Files, APrefixKeepsCodeAndPayloads) {
  absl::Status status = absl::UnknownError("what");
  status.SetPayload("type", absl::Cord("payload"));
  const absl::Status prefixed = Prefixed(status, "where");
  EXPECT_EQ(prefixed.code(), absl::StatusCode::kUnknown);
  EXPECT_EQ(prefixed.message(), "where: what");
  EXPECT_EQ(prefixed.GetPayload("type"), absl::Cord("payload"));
}

}  // namespace
}  // namespace lethe
