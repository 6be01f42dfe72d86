// Making a folder of the data. Errors: SystemError (core/base/files.h). Threads: functions without
// state.
#ifndef LETHE_STORE_FOLDERS_H_
#define LETHE_STORE_FOLDERS_H_

#include <string>

#include "absl/status/status.h"

namespace lethe::store {

// One that its owner alone may use, in one that exists; OK where it is there, FAILED_PRECONDITION
// where something else is. Its name is durable once the folder that it lies in is synced.
absl::Status MakeFolder(const std::string& path);

}  // namespace lethe::store

#endif  // LETHE_STORE_FOLDERS_H_
