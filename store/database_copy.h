// A consistent copy of a database that is in use, made a few pages at a time.
//
// Copies with SQLite's online backup: what the source's own connection writes between two steps is
// carried over, so that the copy is the source as it is when the last step returns. The source
// holds its file exclusively; nobody else can write it.
//
// Ensures: after Step has returned true the copy is durable, and no other file stands beside it.
// Until then, and after an error, the file is no database: the destructor removes it.
// Cost: each step copies so many pages; O(file) together. Errors: ALREADY_EXISTS when there is a
// file; those of sqlite.h. Threads: compatible; Step counts as a use of the source. The copy must
// not outlive the source.
// Source: https://sqlite.org/backup.html
#ifndef LETHE_STORE_DATABASE_COPY_H_
#define LETHE_STORE_DATABASE_COPY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/sqlite.h"

struct sqlite3_backup;

namespace lethe::store {

class DatabaseCopy {
 public:
  static absl::StatusOr<std::unique_ptr<DatabaseCopy>> Begin(Database* source,
                                                             const std::string& path);
  ~DatabaseCopy();
  DatabaseCopy(const DatabaseCopy&) = delete;
  DatabaseCopy& operator=(const DatabaseCopy&) = delete;

  // True when the copy is complete. Requires pages >= 1, and that it was neither complete nor
  // failed.
  absl::StatusOr<bool> Step(int pages);

 private:
  DatabaseCopy(std::string path, sqlite3* target) : path_(std::move(path)), target_(target) {}
  absl::Status Error(int code) const;
  absl::Status Finish();

  std::string path_;
  sqlite3* target_;
  sqlite3_backup* backup_ = nullptr;
  bool complete_ = false;
};

}  // namespace lethe::store

#endif  // LETHE_STORE_DATABASE_COPY_H_
