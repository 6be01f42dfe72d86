#include "tests/fuzz/input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace lethe::fuzz {
namespace {

constexpr unsigned char kFirstNumber = 0x80;

// The folder, and that it goes.
class Folder {
 public:
  Folder() {
    const char* named = std::getenv("TMPDIR");
    std::string root = named != nullptr ? named : "/dev/shm";
    if (::access(root.c_str(), W_OK | X_OK) != 0) root = "/tmp";
    path_ = root + "/lethe-fuzz-XXXXXX";
    LETHE_CHECK(::mkdtemp(path_.data()) != nullptr);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

void Fail(absl::string_view what, absl::string_view detail) {
  std::fprintf(stderr, "does not hold: %s%s%s\n", std::string(what).c_str(),
               detail.empty() ? "" : ": ", std::string(detail).c_str());
  std::abort();
}

void RequireOk(const absl::Status& status, absl::string_view what) {
  if (!status.ok()) Fail(what, status.ToString());
}

void Say(absl::string_view line) {
  static const bool wanted = std::getenv("LETHE_FUZZ_SAY") != nullptr;
  if (wanted) std::printf("  %s\n", std::string(line).c_str());
}

void CheckMessage(absl::string_view what, absl::string_view message) {
  const bool shown = std::none_of(message.begin(), message.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
  Require(shown && !message.empty(), "a message can be shown", absl::StrCat(what, ": ", message));
  Require(!absl::StrContains(message, kCanary), "a message holds nothing of the input",
          absl::StrCat(what, ": ", message));
}

std::optional<Choice> Choose(absl::string_view input, absl::Span<const std::string> names) {
  if (input.empty()) return std::nullopt;
  const auto first = static_cast<unsigned char>(input[0]);
  if (first >= kFirstNumber) {
    return Choice{static_cast<size_t>(first - kFirstNumber) % names.size(), input.substr(1)};
  }
  const size_t end = input.find('\n');
  const absl::string_view name = input.substr(0, end);
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return Choice{static_cast<size_t>(found - names.begin()),
                end == absl::string_view::npos ? "" : input.substr(end + 1)};
}

std::vector<absl::string_view> Parts(absl::string_view input, size_t limit) {
  constexpr absl::string_view kBetween = "---\n";
  std::vector<absl::string_view> parts;
  while (parts.size() < limit) {
    size_t end = input.find(kBetween);
    while (end != absl::string_view::npos && end > 0 && input[end - 1] != '\n') {
      end = input.find(kBetween, end + 1);
    }
    parts.push_back(input.substr(0, end));
    if (end == absl::string_view::npos) break;
    input.remove_prefix(end + kBetween.size());
  }
  return parts;
}

const std::string& ScratchFolder() {
  static const Folder folder;
  return folder.path();
}

std::string ScratchFile(const std::string& name, absl::string_view bytes, int mode) {
  std::string path = absl::StrCat(ScratchFolder(), "/", name);
  ::unlink(path.c_str());
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  LETHE_CHECK(file >= 0);
  LETHE_CHECK(::write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  LETHE_CHECK(::fchmod(file, static_cast<mode_t>(mode)) == 0);
  LETHE_CHECK(::close(file) == 0);
  return path;
}

}  // namespace lethe::fuzz
