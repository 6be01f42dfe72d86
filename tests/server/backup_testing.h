// What the tests of backups share: a backup in RAM, and the files that a call may not leave behind.
#ifndef LETHE_TESTS_SERVER_BACKUP_TESTING_H_
#define LETHE_TESTS_SERVER_BACKUP_TESTING_H_

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/server/service_testing.h"

namespace lethe::service {

struct BackupCopy {
  std::string manifest;
  std::string file;
};

inline BackupCopy TakeBackup(Harness& service, const std::string& tenant = "t") {
  BackupCopy copy;
  auto note = service->Backup(tenant, {}, [&](absl::string_view piece, uint64_t) {
    copy.file.append(piece.data(), piece.size());
    return absl::OkStatus();
  });
  EXPECT_THAT(note, IsOk());
  if (note.ok()) copy.manifest = *std::move(note);
  return copy;
}

// Sends it in pieces of 10,000 bytes. `each` is asked before a piece goes out.
inline absl::StatusOr<RestoreReply> PutBack(Harness& service,
                                            const BackupCopy& copy,
                                            bool replace = false,
                                            const CallOptions& call = {},
                                            const std::function<absl::Status()>& each = {}) {
  size_t at = 0;
  return service->Restore({.manifest = copy.manifest, .replace = replace}, call,
                          [&]() -> absl::StatusOr<std::optional<std::string>> {
                            if (at >= copy.file.size()) return std::nullopt;
                            std::string piece = copy.file.substr(at, 10'000);
                            at += piece.size();
                            if (absl::Status status = each ? each() : absl::OkStatus();
                                !status.ok())
                              return status;
                            return piece;
                          });
}

// What stands in the data folder besides tenants, keys, closed logs and the lock.
inline std::vector<std::string> TemporaryFiles(const Harness& service) {
  std::vector<std::string> names;
  for (const char* folder : {"/temporary", "/tenants"}) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(service.data() + folder, error)) {
      const std::string name = entry.path().filename().string();
      if (folder == std::string("/temporary") || name.front() == '.') names.push_back(name);
    }
  }
  return names;
}

}  // namespace lethe::service

#endif  // LETHE_TESTS_SERVER_BACKUP_TESTING_H_
