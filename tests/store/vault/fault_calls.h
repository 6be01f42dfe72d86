// Faults at the system calls that change files, of this whole program: SQLite's and ours. Linked
// into a test, it stands before the C library's pwrite, fsync, fdatasync, ftruncate, unlink,
// unlinkat, rmdir, fchmod and renameat2, counts them while it is armed, and strikes at one of them.
#ifndef LETHE_TESTS_STORE_VAULT_FAULT_CALLS_H_
#define LETHE_TESTS_STORE_VAULT_FAULT_CALLS_H_

#include <cstdint>

namespace lethe::store {

enum class Fault {
  kNone,        // counts only
  kKillBefore,  // SIGKILL in place of the call
  kKillAfter,   // SIGKILL after the call
  kKillShort,   // SIGKILL after half of a write; other calls as kKillBefore
  kFail,        // the call fails with EIO, the later ones work
  kFailAll,     // it and all later ones fail with EIO
  kFull,        // it and all later writes fail with ENOSPC; other calls work
};

// Counts from 1; strikes at call number `at`.
void ArmFault(Fault fault, uint64_t at);
// Calls counted since ArmFault; none are counted or struck afterwards.
uint64_t DisarmFault();

}  // namespace lethe::store

#endif  // LETHE_TESTS_STORE_VAULT_FAULT_CALLS_H_
