// Small files that commands read and write.
#ifndef LETHE_CLIENT_CLI_SMALL_FILE_H_
#define LETHE_CLIENT_CLI_SMALL_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lethe::cli {

// The whole file. NOT_FOUND, or RESOURCE_EXHAUSTED above 16 MiB.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path);

// Writes beside it and renames, so that no reader sees half a file.
absl::Status WriteFile(const std::string& path, absl::string_view content);

// Writes what is to be new: private, whole and on the disk before it has its name, and never over a
// file that has come since.
absl::Status WriteNewFile(const std::string& path, absl::string_view content);
// The last step of that: `part`, which is on the disk and stays, has the name `path` as well.
absl::Status NameFile(const std::string& part, const std::string& path);

// Whether a folder can be made here, or take the place of an empty one. No link is followed.
bool IsNewOrEmptyFolder(const std::string& path);

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_SMALL_FILE_H_
