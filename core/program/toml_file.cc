#include "core/program/toml_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/program/nearest_name.h"

namespace lethe::program {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;

absl::Status CheckOwner(const struct stat& status, const std::string& path) {
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": the group or others may use it; chmod 600 takes that away"));
  }
  if (status.st_uid != ::geteuid() && status.st_uid != 0) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": belongs to another user"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TomlFile> TomlFile::Read(const std::string& path, Access access) {
  // O_NONBLOCK: a pipe without a writer must not hold the program up.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return SystemError(errno, "be read", path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return SystemError(errno, "be read", path);
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is not a regular file"));
  }
  if (access == Access::kOwnerAlone) LETHE_RETURN_IF_ERROR(CheckOwner(status, path));
  std::string text(kMaxBytes + 1, '\0');
  LETHE_ASSIGN_OR_RETURN(
      const size_t size,
      ReadUpTo(file.get(), reinterpret_cast<uint8_t*>(text.data()), text.size(), path));
  if (size > kMaxBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is larger than 1 MiB"));
  }
  text.resize(size);
  return Parse(path, text);
}

absl::StatusOr<TomlFile> TomlFile::Parse(const std::string& path, absl::string_view text) {
  // toml++ reports by exceptions; none leaves this function.
  try {
    return TomlFile(path, toml::parse(std::string_view(text.data(), text.size()), path));
  } catch (const toml::parse_error& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":", error.source().begin.line, ": ", std::string(error.description())));
  }
}

std::string TomlFile::Where(const toml::node& node) const {
  return absl::StrCat(path_, ":", node.source().begin.line);
}

absl::Status TomlFile::Error(const toml::node& node, absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(Where(node), ": ", what));
}

absl::Status TomlFile::OnlyKeys(const toml::table& table,
                                absl::Span<const std::string> known) const {
  // A table is sorted by its keys; a person reads from the top.
  const toml::key* first = nullptr;
  for (const auto& [key, value] : table) {
    if (std::find(known.begin(), known.end(), std::string(key.str())) != known.end()) continue;
    if (first == nullptr || key.source().begin < first->source().begin) first = &key;
  }
  if (first == nullptr) return absl::OkStatus();
  const std::string_view name = first->str();
  return absl::InvalidArgumentError(
      absl::StrCat(path_, ":", first->source().begin.line, ": ",
                   UnknownName(absl::string_view(name.data(), name.size()), known)));
}

std::string TypeName(const toml::node& node) {
  if (node.is_string()) return "a string";
  if (node.is_number()) return "a number";
  if (node.is_boolean()) return "true or false";
  if (node.is_array()) return "a list";
  if (node.is_table()) return "a table";
  return "a date or time";
}

}  // namespace lethe::program
