// Exports that are folders.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "audit/verify_export_names.h"
#include "audit/verify_export_open.h"
#include "core/base/status_macros.h"

namespace lethe::audit {
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

class FolderFile : public ExportFile {
 public:
  explicit FolderFile(Descriptor file) : file_(std::move(file)) {}

  absl::StatusOr<size_t> Read(char* buffer, size_t size) override {
    size_t done = 0;
    while (done < size) {
      const ssize_t count = ::read(file_.get(), buffer + done, size - done);
      if (count == 0) break;
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return Unreadable("a file of the export", errno);
      done += static_cast<size_t>(count);
    }
    return done;
  }

 private:
  Descriptor file_;
};

struct Child {
  std::string name;
  bool folder = false;
  ParsedName parsed;
};

class FolderInput : public ExportInput {
 public:
  FolderInput(std::string path, Descriptor folder)
      : path_(std::move(path)), folder_(std::move(folder)) {}

  Finding Scan() override {
    Finding finding;
    if (ScanFolder("", finding)) order_.Finish(finding);
    listing_.first_certificate = order_.first();
    listing_.certificates = order_.count();
    return finding;
  }

  absl::StatusOr<std::string> Read(const std::string& file, size_t limit) const override {
    LETHE_ASSIGN_OR_RETURN(const Descriptor descriptor, Open(file));
    struct stat info;
    if (::fstat(descriptor.get(), &info) != 0) return Unreadable(file, errno);
    std::string bytes;
    LETHE_RETURN_IF_ERROR(
        ReadWhole(descriptor, 0, static_cast<uint64_t>(info.st_size), limit, file, bytes));
    return bytes;
  }

  absl::StatusOr<std::unique_ptr<ExportFile>> OpenFile(const std::string& file) const override {
    LETHE_ASSIGN_OR_RETURN(Descriptor descriptor, Open(file));
    return std::unique_ptr<ExportFile>(std::make_unique<FolderFile>(std::move(descriptor)));
  }

  absl::Status ReadCertificate(uint64_t sequence, CertificateFiles& files) const override {
    const std::pair<absl::string_view, std::string*> parts[] = {
        {kEnvelopeSuffix, &files.envelope},
        {kTlogProofSuffix, &files.tlog_proof},
        {kSigstoreSuffix, &files.sigstore_bundle}};
    files.failed_part = 0;
    for (const auto& [suffix, bytes] : parts) {
      LETHE_ASSIGN_OR_RETURN(*bytes, Read(CertificatePath(sequence, suffix), kMaxPartBytes));
      ++files.failed_part;
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<Descriptor> Open(const std::string& file) const {
    Descriptor descriptor(
        ::openat(folder_.get(), file.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    struct stat info;
    if (!descriptor.valid() || ::fstat(descriptor.get(), &info) != 0)
      return Unreadable(file, errno);
    if (!S_ISREG(info.st_mode)) return absl::UnavailableError(absl::StrCat(file, ": no file"));
    return descriptor;
  }

  // False when something is wrong.
  bool ScanFolder(const std::string& prefix, Finding& finding) {
    std::vector<Child> children;
    if (!List(prefix, children, finding)) return false;
    for (const Child& child : children) {
      const std::string file = prefix + child.name;
      if (child.folder) {
        if (!ScanFolder(file + "/", finding)) return false;
      } else if (child.parsed.kind == NameKind::kCertificate) {
        if (!order_.Add(child.parsed, finding)) return false;
      } else if (listing_.files.insert(file);
                 listing_.files.size() > MaxOtherFiles(order_.count())) {
        finding = NameFinding(Failure::kUnexpectedFile, file,
                              "There are more files than these certificates need.");
        return false;
      }
    }
    return true;
  }

  // The names in a folder, in the order of the log. Of several that must not be there the first in
  // the order of bytes is told, and memory is needed for the good ones only.
  bool List(const std::string& prefix, std::vector<Child>& children, Finding& finding) {
    Descriptor descriptor(::openat(folder_.get(), prefix.empty() ? "." : prefix.c_str(),
                                   O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_DIRECTORY));
    const std::unique_ptr<DIR, CloseFolder> folder(
        descriptor.valid() ? ::fdopendir(descriptor.get()) : nullptr);
    if (folder == nullptr) {
      finding.io = Unreadable(absl::StrCat(path_, "/", prefix), errno);
      return false;
    }
    descriptor.Release();
    while (true) {
      errno = 0;
      const dirent* entry = ::readdir(folder.get());
      if (entry == nullptr) break;
      Child child;
      child.name = entry->d_name;
      if (child.name == "." || child.name == "..") continue;
      const std::string file = prefix + child.name;
      struct stat info;
      if (::fstatat(::dirfd(folder.get()), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
        finding.io = Unreadable(ShownName(file), errno);
        return false;
      }
      child.folder = S_ISDIR(info.st_mode);
      child.parsed = ParseExportName(file);
      Finding wrong;
      if (!child.folder && !S_ISREG(info.st_mode)) {
        wrong = NameFinding(Failure::kMalformedArchive, file, "It is neither a file nor a folder.");
      } else if (child.parsed.kind == NameKind::kUnexpected ||
                 child.parsed.kind == NameKind::kHostile ||
                 (child.parsed.kind == NameKind::kFolder) != child.folder) {
        wrong = NameFinding(Failure::kUnexpectedFile, file, "An export has no such file.");
      }
      if (!wrong.ok()) {
        if (finding.ok() || wrong.file < finding.file) finding = std::move(wrong);
      } else if (finding.ok()) {
        children.push_back(std::move(child));
      }
    }
    if (errno != 0) {
      finding.io = Unreadable(absl::StrCat(path_, "/", prefix), errno);
      return false;
    }
    std::sort(children.begin(), children.end(), [&prefix](const Child& a, const Child& b) {
      if (a.parsed.kind == NameKind::kCertificate && b.parsed.kind == NameKind::kCertificate) {
        return std::make_pair(a.parsed.sequence, a.parsed.part) <
               std::make_pair(b.parsed.sequence, b.parsed.part);
      }
      // Numbers of folders: the longer one is the larger one. The certificates come before the
      // tiles.
      if (!prefix.empty() && a.folder && b.folder && a.name.size() != b.name.size()) {
        return a.name.size() < b.name.size();
      }
      return a.name < b.name;
    });
    if (finding.ok() && children.empty() && !prefix.empty()) {
      finding = NameFinding(Failure::kUnexpectedFile, prefix, "The folder is empty.");
    }
    return finding.ok();
  }

  std::string path_;
  Descriptor folder_;
  CertificateOrder order_;
};

}  // namespace

std::unique_ptr<ExportInput> OpenFolder(const std::string& path, Descriptor folder) {
  return std::make_unique<FolderInput>(path, std::move(folder));
}

}  // namespace lethe::audit
