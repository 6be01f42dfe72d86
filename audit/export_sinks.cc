#include "audit/export_sinks.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace lethe::audit {
namespace {

constexpr size_t kBlock = 512;
constexpr size_t kBufferBytes = size_t{1} << 18;
constexpr uint64_t kMaxTarFileBytes = (uint64_t{1} << 33) - 1;  // eleven octal digits
constexpr size_t kMaxPathBytes = 255;

absl::Status SystemError(int error, absl::string_view what) {
  return absl::ErrnoToStatus(error, what);
}

// A file descriptor with a buffer.
class Output {
 public:
  Output() { buffer_.reserve(kBufferBytes); }
  ~Output() {
    if (fd_ >= 0) close(fd_);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  absl::Status Create(int folder, const std::string& path) {
    fd_ = openat(folder, path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd_ < 0) return SystemError(errno, absl::StrCat("cannot create ", path));
    return absl::OkStatus();
  }

  absl::Status Append(absl::string_view bytes) {
    if (buffer_.size() + bytes.size() > kBufferBytes) LETHE_RETURN_IF_ERROR(Flush());
    if (bytes.size() >= kBufferBytes) return WriteAll(bytes);
    buffer_.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }

  absl::Status Flush() {
    const absl::Status written = WriteAll(buffer_);
    buffer_.clear();
    return written;
  }

  // Where the next byte goes.
  uint64_t position() const { return written_ + buffer_.size(); }

  // Overwrites earlier bytes, in the buffer or in the file.
  absl::Status Patch(uint64_t position, absl::string_view bytes) {
    if (position >= written_) {
      buffer_.replace(static_cast<size_t>(position - written_), bytes.size(), bytes.data(),
                      bytes.size());
      return absl::OkStatus();
    }
    LETHE_RETURN_IF_ERROR(Flush());
    while (!bytes.empty()) {
      const ssize_t count = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(position));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return SystemError(count < 0 ? errno : EIO, "cannot write the export");
      bytes.remove_prefix(static_cast<size_t>(count));
      position += static_cast<uint64_t>(count);
    }
    return absl::OkStatus();
  }

  absl::Status Sync() {
    LETHE_RETURN_IF_ERROR(Flush());
    if (fsync(fd_) != 0) return SystemError(errno, "cannot sync the export");
    return absl::OkStatus();
  }

  absl::Status Close() {
    const absl::Status flushed = Flush();
    const bool closed = close(fd_) == 0;
    const int error = errno;
    fd_ = -1;
    written_ = 0;
    LETHE_RETURN_IF_ERROR(flushed);
    // Network file systems report a failed write here.
    return closed ? absl::OkStatus() : SystemError(error, "cannot write the export");
  }

 private:
  absl::Status WriteAll(absl::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = write(fd_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return SystemError(count < 0 ? errno : EIO, "cannot write the export");
      bytes.remove_prefix(static_cast<size_t>(count));
      written_ += static_cast<uint64_t>(count);
    }
    return absl::OkStatus();
  }

  int fd_ = -1;
  std::string buffer_;
  uint64_t written_ = 0;
};

// The order of calls, which both sinks hold.
class Sequence {
 public:
  absl::Status Begin(absl::string_view path) {
    if (open_ || finished_) return OutOfOrder("Begin");
    LETHE_RETURN_IF_ERROR(ValidateExportPath(path));
    open_ = true;
    return absl::OkStatus();
  }
  absl::Status Write() const { return open_ ? absl::OkStatus() : OutOfOrder("Write"); }
  absl::Status End() {
    if (!open_) return OutOfOrder("End");
    open_ = false;
    return absl::OkStatus();
  }
  absl::Status Finish() {
    if (open_ || finished_) return OutOfOrder("Finish");
    finished_ = true;
    return absl::OkStatus();
  }

 private:
  static absl::Status OutOfOrder(absl::string_view call) {
    return absl::FailedPreconditionError(absl::StrCat("export sink: ", call, " out of order"));
  }

  bool open_ = false;
  bool finished_ = false;
};

class FolderSink : public FileSink {
 public:
  explicit FolderSink(int folder) : folder_(folder) {}
  ~FolderSink() override { close(folder_); }

  absl::Status Begin(absl::string_view path) override {
    LETHE_RETURN_IF_ERROR(sequence_.Begin(path));
    // The folder was empty and is ours, so a folder made once is there.
    for (size_t slash = path.find('/'); slash != absl::string_view::npos;
         slash = path.find('/', slash + 1)) {
      const std::string folder(path.substr(0, slash));
      if (!folders_.insert(folder).second) continue;
      if (mkdirat(folder_, folder.c_str(), 0755) != 0) {
        return SystemError(errno, absl::StrCat("cannot create the folder ", folder));
      }
    }
    return file_.Create(folder_, std::string(path));
  }
  absl::Status Write(absl::string_view bytes) override {
    LETHE_RETURN_IF_ERROR(sequence_.Write());
    return file_.Append(bytes);
  }
  absl::Status End() override {
    LETHE_RETURN_IF_ERROR(sequence_.End());
    return file_.Close();
  }
  // One sync of the file system instead of one for each of a hundred thousand files.
  absl::Status Finish() override {
    LETHE_RETURN_IF_ERROR(sequence_.Finish());
    if (syncfs(folder_) != 0) return SystemError(errno, "cannot sync the export");
    return absl::OkStatus();
  }

 private:
  int folder_;
  Sequence sequence_;
  Output file_;
  std::set<std::string> folders_;  // as many as there are thousands of certificates
};

// The header of a regular file. `name` has been validated.
absl::StatusOr<std::string> UstarHeader(absl::string_view name, uint64_t size) {
  constexpr size_t kNameBytes = 100;
  constexpr size_t kPrefixBytes = 155;
  absl::string_view prefix;
  if (name.size() > kNameBytes) {
    const size_t slash = name.find('/', name.size() - kNameBytes - 1);
    if (slash == absl::string_view::npos || slash > kPrefixBytes) {
      return absl::InvalidArgumentError("export path: does not fit a ustar header");
    }
    prefix = name.substr(0, slash);
    name = name.substr(slash + 1);
  }
  if (size > kMaxTarFileBytes) {
    return absl::OutOfRangeError("a file of the export is too large for a tar: 8 GiB or more");
  }
  std::string header(kBlock, '\0');
  const auto put = [&header](size_t at, absl::string_view text) {
    std::copy(text.begin(), text.end(), header.begin() + static_cast<std::ptrdiff_t>(at));
  };
  const auto octal = [&put](size_t at, size_t digits, uint64_t value) {
    std::string text(digits, '0');
    for (size_t i = digits; i-- > 0; value >>= 3) text[i] = static_cast<char>('0' + (value & 7));
    put(at, text);
  };
  put(0, name);
  octal(100, 7, 0644);  // mode
  octal(108, 7, 0);     // uid
  octal(116, 7, 0);     // gid
  octal(124, 11, size);
  octal(136, 11, 0);     // mtime
  put(148, "        ");  // the checksum counts itself as blanks
  put(156, "0");         // a regular file
  put(257, absl::string_view("ustar\00000", 8));
  octal(329, 7, 0);  // device
  octal(337, 7, 0);
  put(345, prefix);
  uint64_t sum = 0;
  for (const char c : header) sum += static_cast<uint8_t>(c);
  octal(148, 6, sum);
  put(154, absl::string_view("\0 ", 2));
  return header;
}

class TarSink : public FileSink {
 public:
  absl::Status Create(const std::string& path) { return file_.Create(AT_FDCWD, path); }

  absl::Status Begin(absl::string_view path) override {
    LETHE_RETURN_IF_ERROR(sequence_.Begin(path));
    name_ = std::string(path);
    header_at_ = file_.position();
    return file_.Append(std::string(kBlock, '\0'));
  }
  absl::Status Write(absl::string_view bytes) override {
    LETHE_RETURN_IF_ERROR(sequence_.Write());
    return file_.Append(bytes);
  }
  absl::Status End() override {
    LETHE_RETURN_IF_ERROR(sequence_.End());
    const uint64_t size = file_.position() - header_at_ - kBlock;
    const absl::StatusOr<std::string> header = UstarHeader(name_, size);
    LETHE_RETURN_IF_ERROR(header.status());
    LETHE_RETURN_IF_ERROR(file_.Patch(header_at_, *header));
    return file_.Append(std::string((kBlock - size % kBlock) % kBlock, '\0'));
  }
  absl::Status Finish() override {
    LETHE_RETURN_IF_ERROR(sequence_.Finish());
    LETHE_RETURN_IF_ERROR(file_.Append(std::string(2 * kBlock, '\0')));
    LETHE_RETURN_IF_ERROR(file_.Sync());
    return file_.Close();
  }

 private:
  Sequence sequence_;
  Output file_;
  std::string name_;
  uint64_t header_at_ = 0;
};

// So that the new name itself survives a power cut.
absl::Status SyncParent(const std::string& path) {
  std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (parent.empty()) parent = ".";
  const int fd = open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return SystemError(errno, "cannot open the folder of the export");
  const bool synced = fsync(fd) == 0;
  const int error = errno;
  close(fd);
  return synced ? absl::OkStatus() : SystemError(error, "cannot sync the folder of the export");
}

}  // namespace

absl::Status ValidateExportPath(absl::string_view path) {
  const auto refuse = [](absl::string_view problem) {
    return absl::InvalidArgumentError(absl::StrCat("export path: ", problem));
  };
  if (path.empty() || path.size() > kMaxPathBytes) return refuse("not 1 to 255 bytes");
  size_t start = 0;
  for (size_t i = 0; i <= path.size(); ++i) {
    if (i < path.size() && path[i] != '/') {
      const char c = path[i];
      const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
      if (!good) return refuse("a character outside of [A-Za-z0-9._/-]");
      continue;
    }
    const absl::string_view component = path.substr(start, i - start);
    if (component.empty() || component == "." || component == "..") {
      return refuse("an empty component, \".\" or \"..\"");
    }
    start = i + 1;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<FileSink>> CreateFolderSink(const std::string& path) {
  if (mkdir(path.c_str(), 0755) != 0) {
    const int error = errno;
    std::error_code ignored;
    if (error != EEXIST) return SystemError(error, absl::StrCat("cannot create ", path));
    if (!std::filesystem::is_directory(path, ignored) ||
        !std::filesystem::is_empty(path, ignored)) {
      return absl::AlreadyExistsError(absl::StrCat(path, " exists and is no empty folder"));
    }
  } else {
    LETHE_RETURN_IF_ERROR(SyncParent(path));
  }
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return SystemError(errno, absl::StrCat("cannot open ", path));
  return std::make_unique<FolderSink>(folder);
}

absl::StatusOr<std::unique_ptr<FileSink>> CreateTarSink(const std::string& path) {
  auto sink = std::make_unique<TarSink>();
  LETHE_RETURN_IF_ERROR(sink->Create(path));
  LETHE_RETURN_IF_ERROR(SyncParent(path));
  return sink;
}

absl::StatusOr<std::unique_ptr<FileSink>> CreateExportSink(const std::string& path) {
  return absl::EndsWith(path, ".tar") ? CreateTarSink(path) : CreateFolderSink(path);
}

}  // namespace lethe::audit
