// A disk that is full at a byte, for everything that SQLite writes in this process and for the
// ballast: a layer over SQLite's own access to files that counts how large they all are. What other
// code writes (KEKs, the signing key) is not counted.
#ifndef LETHE_TESTS_SERVER_SMALL_DISK_H_
#define LETHE_TESTS_SERVER_SMALL_DISK_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "server/service/ballast.h"

namespace lethe::service {

// One of them at a time; it must outlive every database that was opened while it was there.
class SmallDisk final : public BallastDisk {
 public:
  SmallDisk();
  ~SmallDisk() override;

  // So many bytes may be written from now on.
  void LeaveFree(uint64_t bytes);
  void LeaveEverything() { LeaveFree(uint64_t{1} << 50); }
  uint64_t used() const;
  // How often a write found no room.
  int refused() const { return refused_; }

  absl::Status Allocate(const std::string& path, uint64_t bytes) override;
  absl::Status Remove(const std::string& path) override;
  uint64_t SizeOf(const std::string& path) override;
  absl::StatusOr<uint64_t> FreeBytes(const std::string& folder) override;
  bool SameDevice(const std::string&, const std::string&) override { return true; }

  // For the layer. False: no room.
  bool Grow(const std::string& path, uint64_t size);
  void Set(const std::string& path, uint64_t size);

 private:
  uint64_t UsedLocked() const;

  mutable std::mutex mutex_;
  std::map<std::string, uint64_t> sizes_;
  uint64_t capacity_ = uint64_t{1} << 50;
  int refused_ = 0;
};

}  // namespace lethe::service

#endif  // LETHE_TESTS_SERVER_SMALL_DISK_H_
