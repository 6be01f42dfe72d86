// Overwrites the bytes of a file with zeros and looks whether they are there. Internal to the
// vault.
#ifndef LETHE_STORE_VAULT_ZERO_FILE_H_
#define LETHE_STORE_VAULT_ZERO_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lethe::store {

// Two descriptors of one file, the second open for writing. Writes zeros over every byte that it
// has, syncs, asks the kernel to drop the pages that it keeps of it, and reads it from end to end:
// the read then goes where the file system put the bytes, unless it lives in RAM. Returns the bytes
// overwritten. The size stays. UNAVAILABLE when something else is read; errors of the system.
absl::StatusOr<uint64_t> ZeroFile(int reader, int writer, const std::string& path);

// Gives the file another name, so that what is half overwritten is never taken for what it was,
// overwrites it, unlinks it; each step durable before the next. Takes up what an earlier call left.
// Returns the bytes overwritten, 0 for a file that is gone. Links are not followed.
absl::StatusOr<uint64_t> ZeroAndUnlink(const std::string& path);

}  // namespace lethe::store

#endif  // LETHE_STORE_VAULT_ZERO_FILE_H_
