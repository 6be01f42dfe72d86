#include "server/service/job_debts.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "server/service/names.h"

namespace lethe::service {
namespace {

// Of a file that is larger everything is owed.
constexpr size_t kMaxBytes = size_t{16} << 20;

std::string Erasure(absl::string_view tenant_uid, absl::string_view memory_uid) {
  return absl::StrCat("erased ", tenant_uid, " ", memory_uid);
}
std::string Restoration(absl::string_view tenant_uid) {
  return absl::StrCat("restored ", tenant_uid);
}
std::string Ending(absl::string_view tenant_uid) { return absl::StrCat("ended ", tenant_uid); }

bool IsLine(absl::string_view line) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  const size_t uids = words[0] == "erased" ? 2 : 1;
  if (words[0] != "erased" && words[0] != "restored" && words[0] != "ended") return false;
  if (words.size() != uids + 1) return false;
  for (size_t i = 1; i < words.size(); ++i) {
    if (!CheckHexId("uid", words[i]).ok()) return false;
  }
  return true;
}

}  // namespace

absl::Status JobDebts::Load() {
  const FileDescriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.valid()) {
    return errno == ENOENT ? absl::OkStatus() : SystemError(errno, "open it", path_);
  }
  std::string text;
  std::array<char, 65536> part;
  while (text.size() <= kMaxBytes) {
    LETHE_ASSIGN_OR_RETURN(const size_t read,
                           ReadNext(file.get(), part.data(), part.size(), path_));
    text.append(part.data(), read);
    if (read < part.size()) break;
  }
  // What follows the last line's end is what a crash cut off: nobody was told that it is written.
  if (text.size() > kMaxBytes || (!text.empty() && text.back() != '\n')) all_ = true;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    if (IsLine(line)) {
      lines_.insert(std::string(line));
    } else {
      all_ = true;
    }
  }
  return absl::OkStatus();
}

absl::Status JobDebts::Add(std::string line) {
  if (lines_.insert(line).second) unwritten_.insert(std::move(line));
  return Flush();
}

absl::Status JobDebts::Flush() {
  if (unwritten_.empty()) return absl::OkStatus();
  FileDescriptor file(
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return SystemError(errno, "open it", path_);
  // Its own line, whatever a crash has left before it.
  std::string text = "\n";
  for (const std::string& unwritten : unwritten_) absl::StrAppend(&text, unwritten, "\n");
  const off_t whole = ::lseek(file.get(), 0, SEEK_END);
  if (whole < 0) return SystemError(errno, "find its end", path_);
  absl::Status written = WriteNext(file.get(), text, path_);
  if (written.ok()) written = Sync(file.get(), path_);
  if (!written.ok()) {
    // Where a part of a line stays, the next process owes everything.
    if (::ftruncate(file.get(), whole) != 0) {
      written.Update(SystemError(errno, "shorten it", path_));
    }
    return written;
  }
  if (!file.Close()) return SystemError(errno, "close it", path_);
  LETHE_RETURN_IF_ERROR(SyncFolder(FolderOf(path_)));
  unwritten_.clear();
  return absl::OkStatus();
}

absl::Status JobDebts::AddErased(absl::string_view tenant_uid, absl::string_view memory_uid) {
  return Add(Erasure(tenant_uid, memory_uid));
}
absl::Status JobDebts::AddRestored(absl::string_view tenant_uid) {
  return Add(Restoration(tenant_uid));
}
absl::Status JobDebts::AddEnded(absl::string_view tenant_uid) { return Add(Ending(tenant_uid)); }

bool JobDebts::Erased(absl::string_view tenant_uid, absl::string_view memory_uid) const {
  return all_ || lines_.contains(Erasure(tenant_uid, memory_uid));
}
bool JobDebts::Restored(absl::string_view tenant_uid) const {
  return all_ || lines_.contains(Restoration(tenant_uid));
}
bool JobDebts::Ended(absl::string_view tenant_uid) const {
  return lines_.contains(Ending(tenant_uid));
}

absl::Status JobDebts::Clear() {
  if (::unlink(path_.c_str()) != 0 && errno != ENOENT) {
    return SystemError(errno, "remove it", path_);
  }
  LETHE_RETURN_IF_ERROR(SyncFolder(FolderOf(path_)));
  lines_.clear();
  unwritten_.clear();
  all_ = false;
  return absl::OkStatus();
}

}  // namespace lethe::service
