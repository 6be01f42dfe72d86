// What `lethe doctor` looks at on the machine where a server runs: the files of the installation,
// the clock, the backups. What the server itself says is asked in doctor_command.cc.
//
// Nothing is changed and nothing secret is read but where it says so. A check never fails as such:
// what cannot be looked at is a finding. Threads: safe.
#ifndef LETHE_CLIENT_CLI_DOCTOR_H_
#define LETHE_CLIENT_CLI_DOCTOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace lethe::cli {

enum class Verdict : uint8_t { kOk, kWarn, kFail };

struct Finding {
  Verdict verdict = Verdict::kOk;
  std::string check;   // one word, of a fixed list: docs/runbook.md
  std::string found;   // one line; paths and numbers, nothing personal
  std::string advice;  // what to do; empty where all is well
};

// Where the installation is, by flags or by the settings of lethed. What is empty is not there.
struct Installation {
  std::string data;
  std::string vault;
  std::string tls_certificate;
  std::string tls_key;
  std::string access;
  std::string dsr_certificate;
  std::string dsr_key;
  std::string backups;
  absl::Duration backup_age = absl::Hours(36);
  bool ballast = true;  // one is kept
  size_t witnesses = 0;
};

// Puts what the settings file of lethed says where `installation` has nothing yet.
// INVALID_ARGUMENT, or SystemError, names the file and the line. A path that is relative stays so:
// it is relative to where the server was started.
absl::Status ReadSettings(const std::string& path, Installation& installation);

// keys: modes and owners of the signing key, of the vault and of the files of TLS and access.
std::vector<Finding> CheckKeys(const Installation& installation);
// disk: free room of data and vault, and the ballast.
std::vector<Finding> CheckDisk(const Installation& installation);
// anchor: there are as many folders with keys and anchor in the vault as tenants; whose each is,
// only the server knows.
std::vector<Finding> CheckAnchors(const Installation& installation);
// versions: the formats of the tenants' files, read from the first 100 bytes of each, which say
// what it is as well.
std::vector<Finding> CheckFormats(const Installation& installation);
// clock: whether the kernel calls it synchronised, and whether files are from the future.
std::vector<Finding> CheckClock(const Installation& installation, absl::Time now);
// backup: the age of the newest folder of deploy/backup.sh with a backup in it.
std::vector<Finding> CheckBackups(const Installation& installation, absl::Time now);
// certificate: until when those of TLS and of signed answers are valid.
std::vector<Finding> CheckCertificates(const Installation& installation, absl::Time now);

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_DOCTOR_H_
