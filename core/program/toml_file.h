// A settings file in TOML, read strictly: at most 1 MiB, a regular file, valid UTF-8, no key twice,
// keys with at most 4,096 dots in all; and errors that say where. Which keys there may be, and what
// they mean, is the caller's.
//
//     LETHE_ASSIGN_OR_RETURN(const TomlFile file, TomlFile::Read(path));
//     LETHE_RETURN_IF_ERROR(file.OnlyKeys(file.root(), {"name", "role"}));
//
// Errors: INVALID_ARGUMENT "<path>:<line>: <what>"; SystemError (core/base/files.h) when the file
// cannot be read. Messages may repeat keys, never values. Threads: compatible. Source: TOML 1.0.0.
#ifndef LETHE_CORE_PROGRAM_TOML_FILE_H_
#define LETHE_CORE_PROGRAM_TOML_FILE_H_

#include <toml++/toml.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace lethe::program {

class TomlFile {
 public:
  // Whether others than its owner may read the file. kOwnerAlone is for files that hold or name
  // secrets: FAILED_PRECONDITION where the group or others may do anything with it, or where it
  // belongs to somebody else than this process's user and root.
  enum class Access { kAny, kOwnerAlone };

  static absl::StatusOr<TomlFile> Read(const std::string& path, Access access = Access::kAny);
  // The same from memory; `path` is for messages.
  static absl::StatusOr<TomlFile> Parse(const std::string& path, absl::string_view text);

  const std::string& path() const { return path_; }
  const toml::table& root() const { return root_; }

  // "<path>:<line>".
  std::string Where(const toml::node& node) const;
  // "<path>:<line>: <what>".
  absl::Status Error(const toml::node& node, absl::string_view what) const;
  // The first key of `table` that is not among `known` is an error that proposes the nearest one.
  absl::Status OnlyKeys(const toml::table& table, absl::Span<const std::string> known) const;

 private:
  TomlFile(std::string path, toml::table root) : path_(std::move(path)), root_(std::move(root)) {}

  std::string path_;
  toml::table root_;
};

// "a string", "a number", "true or false", "a list", "a table", "a date or time".
std::string TypeName(const toml::node& node);

}  // namespace lethe::program

#endif  // LETHE_CORE_PROGRAM_TOML_FILE_H_
