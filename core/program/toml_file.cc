#include "core/program/toml_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/program/nearest_name.h"

namespace lethe::program {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;
// The library nests a table for each dot of a key, without a bound of its own, and ends them by
// recursion: some 40,000 use up a stack of 8 MiB.
constexpr size_t kMaxDots = 4096;

// Past the text that begins at `at` with a quote. One that is never closed ends with its line, or
// with the file.
size_t EndOfText(absl::string_view toml, size_t at) {
  const char quote = toml[at];
  const std::string three(3, quote);
  const bool lines = absl::StartsWith(toml.substr(at), three);
  for (at += lines ? 3 : 1; at < toml.size(); ++at) {
    if (quote == '"' && toml[at] == '\\') {
      ++at;
    } else if (!lines && (toml[at] == quote || toml[at] == '\n')) {
      return toml[at] == quote ? at + 1 : at;
    } else if (lines && absl::StartsWith(toml.substr(at), three)) {
      at += 3;
      // Two more can be the last characters of the text.
      for (int more = 0; more < 2 && at < toml.size() && toml[at] == quote; ++more) ++at;
      return at;
    }
  }
  return toml.size();
}

// Dots outside of texts and comments: of keys, and of some numbers.
absl::Status CheckDots(const std::string& path, absl::string_view toml) {
  size_t dots = 0;
  for (size_t at = 0; at < toml.size();) {
    const char c = toml[at];
    if (c == '"' || c == '\'') {
      at = EndOfText(toml, at);
      continue;
    }
    if (c == '#') {
      at = std::min(toml.find('\n', at), toml.size());
      continue;
    }
    if (c == '.' && ++dots > kMaxDots) {
      const auto line = 1 + std::count(toml.begin(), toml.begin() + at, '\n');
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", line, ": keys with more than ", kMaxDots, " dots in all"));
    }
    ++at;
  }
  return absl::OkStatus();
}

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
  LETHE_RETURN_IF_ERROR(CheckDots(path, text));
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
