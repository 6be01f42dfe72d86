// JobDebts: what the file of jobs (store/job_store.h) has not been told since it could not be
// written or read: of which memories tokens were erased, which tenants were restored or have ended.
// An erasure does not wait for the file; what it owes stands in a file of its own beside it and is
// paid before any job is given out again.
//
//   <path>   lines "erased TENANT-UID MEMORY-UID", "restored TENANT-UID", "ended TENANT-UID"
//
// Nothing personal. A line is durable when Add returns OK; it is owed in RAM in any case. A file
// that does not read as lines that were written whole owes everything: all() is true.
//
// Errors: those of core/base/files.h. Threads: compatible. Cost: Add a sync where the line is new.
#ifndef LETHE_SERVER_SERVICE_JOB_DEBTS_H_
#define LETHE_SERVER_SERVICE_JOB_DEBTS_H_

#include <cstddef>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace lethe::service {

class JobDebts {
 public:
  explicit JobDebts(std::string path) : path_(std::move(path)) {}

  // Reads what an earlier process left, in addition to what is known. OK without a file.
  absl::Status Load();

  absl::Status AddErased(absl::string_view tenant_uid, absl::string_view memory_uid);
  absl::Status AddRestored(absl::string_view tenant_uid);
  absl::Status AddEnded(absl::string_view tenant_uid);

  // Writes what is owed and could not be written yet.
  absl::Status Flush();

  bool none() const { return lines_.empty() && !all_; }
  bool all() const { return all_; }
  size_t size() const { return lines_.size(); }
  bool Erased(absl::string_view tenant_uid, absl::string_view memory_uid) const;
  bool Restored(absl::string_view tenant_uid) const;
  bool Ended(absl::string_view tenant_uid) const;

  // They are paid. On an error they are still owed: paying twice is no harm.
  absl::Status Clear();

 private:
  absl::Status Add(std::string line);

  const std::string path_;
  std::set<std::string> lines_;
  std::set<std::string> unwritten_;  // of them
  bool all_ = false;
};

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_JOB_DEBTS_H_
