// Errors of a full disk, told from others whatever their code.
#ifndef LETHE_CORE_BASE_DISK_FULL_H_
#define LETHE_CORE_BASE_DISK_FULL_H_

#include "absl/status/status.h"

namespace lethe {

// Whether the status came from a disk or a quota that is full: a payload that SystemError
// (files.h) sets for ENOSPC and EDQUOT, and whoever learns of it in another way by MarkDiskFull.
bool IsDiskFull(const absl::Status& status);
// Requires an error.
absl::Status MarkDiskFull(absl::Status status);

}  // namespace lethe

#endif  // LETHE_CORE_BASE_DISK_FULL_H_
