#include "audit/trace_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "audit/utf8.h"
#include "core/base/status_macros.h"

namespace lethe::audit {
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

class File {
 public:
  explicit File(int number) : number_(number) {}
  ~File() {
    if (number_ >= 0) ::close(number_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int number() const { return number_; }
  int Release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

bool Same(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool Same(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         Same(a.st_mtim, b.st_mtim) && Same(a.st_ctim, b.st_ctim);
}

absl::string_view LastPart(absl::string_view path) {
  while (path.size() > 1 && absl::EndsWith(path, "/")) path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? path : path.substr(slash + 1);
}

bool IsPrintable(absl::string_view text) {
  return IsValidUtf8(text) && std::none_of(text.begin(), text.end(), [](char c) {
           return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
         });
}

// C1 controls steer some terminals too.
std::string Escaped(absl::string_view text) {
  const bool controls = text.find("\xC2") != absl::string_view::npos;
  return IsPrintable(text) && !controls ? std::string(text) : absl::CHexEscape(text);
}

class Walk {
 public:
  Walk(TraceSearch& search, size_t max_findings) : search_(search), max_findings_(max_findings) {
    report_.places_of_thing.resize(search.things().size());
  }

  absl::Status Start(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
      return absl::UnavailableError(absl::StrCat("cannot read ", PrintablePath(search_, path), ": ",
                                                 std::generic_category().message(errno)));
    }
    Visit(path, status, true);
    while (!pending_.empty()) {
      const std::string next = std::move(pending_.back());
      pending_.pop_back();
      if (::lstat(next.c_str(), &status) != 0) {
        Fault(next);
      } else {
        Visit(next, status, false);
      }
    }
    // A file that was moved meanwhile may have been met nowhere.
    for (const auto& [folder, before] : visited_) {
      struct stat after {};
      if (::stat(folder.c_str(), &after) != 0 || !Same(before, after)) {
        Note(TraceNote::kChanged, PrintablePath(search_, folder));
      }
    }
    visited_.clear();
    return absl::OkStatus();
  }

  TraceReport Take() { return std::move(report_); }

 private:
  void Note(TraceNote kind, std::string text) {
    TraceNotes& notes = report_.notes[static_cast<size_t>(kind)];
    if (notes.count++ < kMaxTraceNotes) notes.first.push_back(std::move(text));
  }
  // Of the system, in errno. What is there no more was there when its folder was read.
  void Fault(const std::string& path) {
    const int number = errno;
    std::string name = PrintablePath(search_, path);
    if (number == ENOENT || number == ENOTDIR || number == ELOOP) {
      return Note(TraceNote::kChanged, std::move(name));
    }
    Note(TraceNote::kUnreadable, absl::StrCat(name, ": ", std::generic_category().message(number)));
  }

  void Add(const std::string& shown, bool in_name, const TracePlace& place) {
    ++report_.places;
    ++report_.places_of_thing[place.thing];
    if (report_.findings.size() < max_findings_) {
      report_.findings.push_back({shown, in_name, place});
    }
  }

  void Visit(const std::string& path, const struct stat& status, bool named) {
    const std::string shown = PrintablePath(search_, path);
    const uint64_t before = report_.places;
    const size_t first = report_.findings.size();
    // The caller chose the names of what it named.
    if (!named) {
      search_.ScanBytes(LastPart(path), [&](const TracePlace& place) { Add(shown, true, place); });
    }
    if (S_ISREG(status.st_mode)) {
      ReadFile(path, shown, named);
    } else if (S_ISDIR(status.st_mode)) {
      ReadFolder(path, named);
    } else if (S_ISLNK(status.st_mode)) {
      ReadLink(path, shown);
    } else {
      Note(TraceNote::kSpecial, shown);
    }
    if (report_.places > before) ++report_.files_with_places;
    std::sort(report_.findings.begin() + static_cast<ptrdiff_t>(first), report_.findings.end(),
              [](const TraceFinding& a, const TraceFinding& b) {
                if (a.in_name != b.in_name) return a.in_name;
                return a.place.offset < b.place.offset;
              });
  }

  void ReadLink(const std::string& path, const std::string& shown) {
    std::string target(size_t{1} << 16, '\0');
    const ssize_t count = ::readlink(path.c_str(), target.data(), target.size());
    if (count < 0) return Fault(path);
    Note(TraceNote::kSymbolicLink, shown);
    target.resize(static_cast<size_t>(count));
    search_.ScanBytes(target, [&](const TracePlace& place) { Add(shown, true, place); });
  }

  void ReadFile(const std::string& path, const std::string& shown, bool named) {
    // Without waiting, should it have become a pipe.
    const File file(::open(
        path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (named ? 0 : O_NOFOLLOW)));
    struct stat before {};
    if (file.number() < 0 || ::fstat(file.number(), &before) != 0) return Fault(path);
    if (!S_ISREG(before.st_mode)) return Note(TraceNote::kChanged, shown);
    // Advice only.
    (void)::posix_fadvise(file.number(), 0, 0, POSIX_FADV_SEQUENTIAL);
    const auto read = [&](char* out, size_t capacity) -> absl::StatusOr<size_t> {
      while (true) {
        const ssize_t count = ::read(file.number(), out, capacity);
        if (count >= 0) return static_cast<size_t>(count);
        if (errno != EINTR) return absl::UnavailableError(std::generic_category().message(errno));
      }
    };
    const absl::StatusOr<uint64_t> bytes =
        search_.Scan(read, [&](const TracePlace& place) { Add(shown, false, place); });
    if (!bytes.ok()) {
      return Note(TraceNote::kUnreadable, absl::StrCat(shown, ": ", bytes.status().message()));
    }
    ++report_.files;
    report_.bytes += *bytes;
    struct stat after {};
    struct stat there {};
    if (::fstat(file.number(), &after) != 0 || ::stat(path.c_str(), &there) != 0 ||
        !Same(before, after) || !Same(after, there) ||
        *bytes != static_cast<uint64_t>(after.st_size)) {
      Note(TraceNote::kChanged, shown);
    }
  }

  void ReadFolder(const std::string& path, bool named) {
    File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY | (named ? 0 : O_NOFOLLOW)));
    struct stat before {};
    if (file.number() < 0 || ::fstat(file.number(), &before) != 0) return Fault(path);
    const std::unique_ptr<DIR, CloseFolder> folder(::fdopendir(file.number()));
    if (folder == nullptr) return Fault(path);
    (void)file.Release();  // the folder closes it
    std::vector<std::string> names;
    while (true) {
      errno = 0;
      const dirent* entry = ::readdir(folder.get());
      if (entry == nullptr) break;
      const absl::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) Fault(path);
    ++report_.folders;
    visited_.emplace_back(path, before);
    std::sort(names.rbegin(), names.rend());  // the first one is taken off the end
    const absl::string_view separator = absl::EndsWith(path, "/") ? "" : "/";
    for (const std::string& name : names) pending_.push_back(absl::StrCat(path, separator, name));
  }

  TraceSearch& search_;
  size_t max_findings_;
  TraceReport report_;
  std::vector<std::string> pending_;
  std::vector<std::pair<std::string, struct stat>> visited_;
};

}  // namespace

uint64_t TraceReport::missing() const {
  return static_cast<uint64_t>(std::count(places_of_thing.begin(), places_of_thing.end(), 0u));
}

absl::StatusOr<TraceReport> SearchFiles(TraceSearch& search,
                                        std::span<const std::string> paths,
                                        size_t max_findings) {
  Walk walk(search, max_findings);
  for (const std::string& path : paths) LETHE_RETURN_IF_ERROR(walk.Start(path));
  return walk.Take();
}

std::string PrintablePath(TraceSearch& search, absl::string_view path) {
  std::vector<TracePlace> places;
  search.ScanBytes(path, [&](const TracePlace& place) { places.push_back(place); });
  std::sort(places.begin(), places.end(), [](const TracePlace& a, const TracePlace& b) {
    return std::pair(a.offset, ~a.bytes) < std::pair(b.offset, ~b.bytes);
  });
  std::string out;
  size_t done = 0;
  for (const TracePlace& place : places) {
    const size_t end = place.offset + place.bytes;
    if (place.offset >= done) {
      absl::StrAppend(&out, Escaped(path.substr(done, place.offset - done)), "[",
                      search.things()[place.thing].name, "]");
    }
    done = std::max(done, end);
  }
  return absl::StrCat(out, Escaped(path.substr(done)));
}

}  // namespace lethe::audit
