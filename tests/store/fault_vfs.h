// A file system for SQLite that fails where a test wants it to: a shim over SQLite's own, which
// becomes the default for this whole program. It counts the I/O of all files together (open, read,
// write, truncate, sync, delete, lock, size, access; and the fsync that the store calls itself, for
// which it stands before the C library's) and strikes once, at a position.
//
//   kError     the call fails and does nothing; the later ones work
//   kShort     a write: a part from its front lands, then it fails
//   kLostSync  a sync fails, and of what it was to make durable only some sectors stay, as when the
//              kernel gives up pages that it could not write; the later syncs work
//   kPowerCut  at a change of a file: from then on every call fails, and Settle() leaves the files
//              as a power cut would: what was synced, and of the rest some sectors, truncations,
//              new and deleted names
//   kFlip      a read or a write: one bit of it is another one
//
// Sectors have 512 bytes; bytes beside those that were written never change (SQLite's
// POWERSAFE_OVERWRITE). Nothing is synced for real in this program, which makes it fast: what is
// durable is reckoned here. Files that are changed past SQLite (KEKs, renamed and overwritten files
// of keys) are left as they are.
//
// No shared memory and no mmap are offered: connections must lock exclusively, as the store's do.
// Deterministic for a plan and a sequence of calls. One thread.
#ifndef LETHE_TESTS_STORE_FAULT_VFS_H_
#define LETHE_TESTS_STORE_FAULT_VFS_H_

#include <cstdint>
#include <string>

namespace lethe::store {

enum class FaultKind { kNone, kError, kShort, kLostSync, kPowerCut, kFlip };

struct FaultPlan {
  FaultKind kind = FaultKind::kNone;
  // Among the calls that the kind can strike, counted from 1.
  uint64_t at = 0;
  uint64_t seed = 0;
};

// Registers the file system. Once, before SQLite is used.
void InstallFaultVfs();

// Puts a plan in force; ends the one before. Requires that no connection is open.
void StartFaults(const FaultPlan& plan);

// What was struck: "write tenant.db-wal"; empty so far.
const std::string& Struck();
// After a power cut: every call fails.
bool PowerIsOff();
// Ends the plan and puts the files where a power cut left them; requires then that no connection is
// open. Returns how many calls the kind could have struck.
uint64_t Settle();

}  // namespace lethe::store

#endif  // LETHE_TESTS_STORE_FAULT_VFS_H_
