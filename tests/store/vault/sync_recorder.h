// What a crash of the machine could still take away: every change of a file or folder of this whole
// program (SQLite's and ours) that was not followed by an fsync. Linked into a test, it stands
// before the C library's open, write, pwrite, ftruncate, fsync, fdatasync, fchmod, rename, unlink,
// mkdir and rmdir in their variants, and follows files by their inode while it records.
//
// Dirty: the bytes, the size or the mode of a file that changed since its last sync; the names in a
// folder that changed since the folder's. An empty file whose name ends in "-wal" dirties nothing:
// SQLite syncs its folder when it syncs its first bytes.
//
// Beside what is dirty at the end, three orders are violations at once: a file that is renamed or
// unlinked while its own bytes are dirty, and one that is written while the folder has not kept its
// new name.
#ifndef LETHE_TESTS_STORE_VAULT_SYNC_RECORDER_H_
#define LETHE_TESTS_STORE_VAULT_SYNC_RECORDER_H_

#include <cstdint>
#include <string>
#include <vector>

namespace lethe::store {

struct SyncRecord {
  std::vector<std::string> dirty;       // when the recording stopped
  std::vector<std::string> violations;  // of the order
  uint64_t syncs = 0;                   // asked for
  bool folder_failed = false;           // the sync that was made to fail was a folder's
  std::string failed;                   // and its name
  uint64_t longest_log = 0;             // bytes, the largest end of a write to a "-wal"
  // "sync", "drop" (POSIX_FADV_DONTNEED) and "read" (pread), each with the file's last name.
  std::vector<std::string> steps;
};

// Forgets what was recorded. The sync number `fail_at`, counted from 1, fails with EIO; 0 for none.
void StartRecording(uint64_t fail_at = 0);
// As StartRecording, but what is dirty stays so.
void GoOnRecording(uint64_t fail_at = 0);
SyncRecord StopRecording();

}  // namespace lethe::store

#endif  // LETHE_TESTS_STORE_VAULT_SYNC_RECORDER_H_
