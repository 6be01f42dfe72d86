#include "tests/store/vault/fault_calls.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

namespace lethe::store {
namespace {

Fault armed_fault = Fault::kNone;
uint64_t armed_at = 0;
uint64_t calls = 0;
bool armed = false;

[[noreturn]] void Die() {
  ::kill(::getpid(), SIGKILL);
  while (true) ::pause();
}

// Runs `call`, a system call that changes a file, unless a fault takes its place. A write can also
// be half of itself.
template <typename Call, typename Half>
long Strike(bool write, Call call, Half half) {
  if (!armed) return call();
  const uint64_t number = ++calls;
  const bool here = number == armed_at;
  const bool later = number > armed_at;
  auto fail = [](int error) {
    errno = error;
    return long{-1};
  };
  switch (armed_fault) {
    case Fault::kNone:
      break;
    case Fault::kKillBefore:
      if (here) Die();
      break;
    case Fault::kKillAfter:
      if (here) {
        call();
        Die();
      }
      break;
    case Fault::kKillShort:
      if (here) {
        if (write) half();
        Die();
      }
      break;
    case Fault::kFail:
      if (here) return fail(EIO);
      break;
    case Fault::kFailAll:
      if (here || later) return fail(EIO);
      break;
    case Fault::kFull:
      if ((here || later) && write) return fail(ENOSPC);
      break;
  }
  return call();
}

template <typename Call>
int StrikeOther(Call call) {
  return static_cast<int>(Strike(false, call, call));
}

ssize_t StrikeWrite(int file, const void* bytes, size_t size, off_t offset) {
  return Strike(
      true, [=] { return ::syscall(SYS_pwrite64, file, bytes, size, offset); },
      [=] { return ::syscall(SYS_pwrite64, file, bytes, size / 2, offset); });
}

}  // namespace

void ArmFault(Fault fault, uint64_t at) {
  armed_fault = fault;
  armed_at = at;
  calls = 0;
  armed = true;
}

uint64_t DisarmFault() {
  armed = false;
  return calls;
}

}  // namespace lethe::store

// The C library's names. Its own headers declare them; the program's definitions come first.
extern "C" {

ssize_t pwrite(int file, const void* bytes, size_t size, off_t offset) {
  return lethe::store::StrikeWrite(file, bytes, size, offset);
}
ssize_t pwrite64(int file, const void* bytes, size_t size, off64_t offset) {
  return lethe::store::StrikeWrite(file, bytes, size, offset);
}
int fsync(int file) {
  return lethe::store::StrikeOther([=] { return ::syscall(SYS_fsync, file); });
}
int fdatasync(int file) {
  return lethe::store::StrikeOther([=] { return ::syscall(SYS_fdatasync, file); });
}
int ftruncate(int file, off_t size) noexcept {
  return lethe::store::StrikeOther([=] { return ::syscall(SYS_ftruncate, file, size); });
}
int ftruncate64(int file, off64_t size) noexcept {
  return lethe::store::StrikeOther([=] { return ::syscall(SYS_ftruncate, file, size); });
}
int unlink(const char* path) noexcept {
  return lethe::store::StrikeOther([=] { return ::syscall(SYS_unlink, path); });
}
int unlinkat(int folder, const char* path, int flags) noexcept {
  return lethe::store::StrikeOther([=] { return ::syscall(SYS_unlinkat, folder, path, flags); });
}
int rmdir(const char* path) noexcept {
  return lethe::store::StrikeOther([=] { return ::syscall(SYS_rmdir, path); });
}
int fchmod(int file, mode_t mode) noexcept {
  return lethe::store::StrikeOther([=] { return ::syscall(SYS_fchmod, file, mode); });
}
int renameat2(int from,
              const char* old_path,
              int to,
              const char* new_path,
              unsigned int flags) noexcept {
  return lethe::store::StrikeOther(
      [=] { return ::syscall(SYS_renameat2, from, old_path, to, new_path, flags); });
}

}  // extern "C"
