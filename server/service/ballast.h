// Room on the disk that is kept for erasures: a file of zeros, `ballast`, in the data folder, and
// one in the folder of the keys where that lies on another device.
//
// A disk that is full must not keep anybody from being forgotten, and an erasure needs room: for
// its certificates, and for the pages that it changes until the write-ahead logs are emptied. An
// erasure that finds no room gives the ballast up (Release) and goes on with what that frees. While
// the ballast is not whole, or little is left beside it, what makes the data grow is refused
// (Admit), so that the room is used for nothing else. It is made again as soon as there is room for
// it and a quarter more, which every write looks for.
//
// The files are allocated, not only long, so that the room is really there; on file systems that
// copy on write or compress it may not be. A file appears under its name when it is whole.
//
// Log lines: ballast_released, ballast_restored, ballast_missing (it could not be made),
// growth_refused (once, until there is room).
// Threads: safe. Cost: Admit asks for the free space, a microsecond; the others a few system calls
// where there is something to do.
#ifndef LETHE_SERVER_SERVICE_BALLAST_H_
#define LETHE_SERVER_SERVICE_BALLAST_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/mutex.h"
#include "core/program/event_log.h"

namespace lethe::service {

// What a ballast asks of the file system; a seam for tests.
class BallastDisk {
 public:
  virtual ~BallastDisk() = default;
  // Makes a file of so many allocated bytes, durable, or none. IsDiskFull when there is no room.
  virtual absl::Status Allocate(const std::string& path, uint64_t bytes) = 0;
  // OK when there is no such file.
  virtual absl::Status Remove(const std::string& path) = 0;
  // 0 when there is no such file.
  virtual uint64_t SizeOf(const std::string& path) = 0;
  // What this process may still write.
  virtual absl::StatusOr<uint64_t> FreeBytes(const std::string& folder) = 0;
  virtual bool SameDevice(const std::string& folder, const std::string& other) = 0;
};
// The real one.
BallastDisk* SystemDisk();

class Ballast {
 public:
  // Makes what is missing, or says in the log that it cannot; `bytes` 0: no ballast, and files of
  // an earlier one are removed. The folders exist; `disk` and `log` outlive the result.
  Ballast(const std::string& data,
          const std::string& vault,
          uint64_t bytes,
          BallastDisk* disk,
          program::EventLog* log);
  Ballast(const Ballast&) = delete;
  Ballast& operator=(const Ballast&) = delete;

  // Before a change that makes the data grow by about so many bytes. RESOURCE_EXHAUSTED, with what
  // to do, while the ballast is not whole, or when less than an eighth of it and twice the bytes is
  // free beside it.
  absl::Status Admit(uint64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  // Gives the room up, for an erasure of this tenant. True also when another one has given it up
  // and an eighth of it is free by now. False when there is none.
  bool Release(absl::string_view tenant) ABSL_LOCKS_EXCLUDED(mutex_);
  // For whoever shows it.
  struct State {
    uint64_t bytes = 0;  // that are to be kept
    bool whole = false;
    bool refusing = false;  // what makes the data grow was refused, and there was no room since
    // What may still be written in the data folder, and in the vault where that lies on another
    // device; nullopt where nobody can tell.
    std::optional<uint64_t> data_free;
    bool vault_apart = false;
    std::optional<uint64_t> vault_free;
  };
  State Look() ABSL_LOCKS_EXCLUDED(mutex_);
  // Makes it whole again where there is room.
  void Restore() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Part {
    std::string folder;
    std::string path;
    bool there = false;
  };
  // Whether so much is free beside what is missing.
  bool Enough(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether an eighth is free, whatever is missing.
  bool RoomLeft() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Make() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t bytes_;
  BallastDisk* const disk_;
  program::EventLog* const log_;
  Mutex mutex_;
  std::vector<Part> parts_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> whole_{false};
  std::atomic<bool> refusing_{false};
};

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_BALLAST_H_
