// A small RAII layer over sqlite3: Database, Statement, Transaction. Every return code is checked
// and becomes an absl::Status:
//
//   FULL, NOMEM                -> RESOURCE_EXHAUSTED     UNIQUE, PRIMARY KEY    -> ALREADY_EXISTS
//   BUSY, LOCKED               -> UNAVAILABLE            other constraints      ->
//   FAILED_PRECONDITION CORRUPT, NOTADB            -> DATA_LOSS              CANTOPEN, READONLY,
//   PERM, AUTH -> same TOOBIG                     -> INVALID_ARGUMENT       IOERR and the rest ->
//   INTERNAL any failed COMMIT          -> UNKNOWN, and IsIndeterminate(status) is true
//
// A failed COMMIT, a failed ROLLBACK, a failed VACUUM, and an I/O error in a checkpoint or its sync
// make the Database unusable: what stands in the file is then known only after closing and opening
// it (an fsync that failed once may claim success the second time). Every later call returns
// UNAVAILABLE.
//
// Messages hold SQLite's words, which name tables and columns, never values.
// Threads: compatible, not safe. Statements and Transactions must not outlive their Database.
#ifndef LETHE_STORE_SQLITE_H_
#define LETHE_STORE_SQLITE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct sqlite3;
struct sqlite3_stmt;

namespace lethe::store {

// The change is in the file or it is not; only a new connection can tell.
bool IsIndeterminate(const absl::Status& status);
// Such a status (UNKNOWN).
absl::Status Indeterminate(absl::string_view message);

struct DatabaseIdentity {
  int32_t application_id = 0;
  int32_t user_version = 0;
  // Files of formats below this one are refused; the words, of this program alone, say why and what
  // to do.
  int32_t least_version = 1;
  const char* older_advice = "";
};

class Database;

// A prepared statement on loan from its Database; given back, reset and cleared, on destruction.
class Statement {
 public:
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  // Parameters count from 1. The first failure is kept and returned by Step or Run. Bytes are
  // copied.
  Statement& Int(int index, int64_t value);
  Statement& Text(int index, absl::string_view value);
  Statement& Blob(int index, absl::string_view value);
  Statement& Null(int index);
  Statement& IntOrNull(int index, const std::optional<int64_t>& value);

  // True: a row is there. False: no more rows.
  absl::StatusOr<bool> Step();
  // For statements without rows. Leaves the statement ready for new parameters.
  absl::Status Run();
  // Ready for new parameters.
  void Reset();

  // Columns count from 0; views live until the next Step, Reset or destruction.
  int64_t ColumnInt(int index) const;
  absl::string_view ColumnText(int index) const;
  absl::string_view ColumnBlob(int index) const;
  bool ColumnIsNull(int index) const;
  std::optional<int64_t> ColumnIntOrNull(int index) const;

 private:
  friend class Database;
  Statement(Database* database, std::string sql, sqlite3_stmt* statement)
      : database_(database), sql_(std::move(sql)), statement_(statement) {}
  Database* database_;
  std::string sql_;
  sqlite3_stmt* statement_;
  int bind_code_ = 0;
};

class Database {
 public:
  enum class Mode { kCreate, kOpen };

  // kCreate: the file must not exist. kOpen: it must. Applies, in this order,
  // locking_mode=EXCLUSIVE; a look at application_id and user_version, before anything is written;
  // WAL; synchronous=FULL; wal_autocheckpoint=0; secure_delete; cache_spill at 16 MiB;
  // temp_store=MEMORY; foreign_keys; trusted_schema off; DEFENSIVE; and reads back those that can
  // be silently refused. UNAVAILABLE when the header does not name the write-ahead log afterwards:
  // SQLite passes over an I/O error there, answers "wal" and goes on with a rollback journal, whose
  // removal it does not sync. In kOpen a file with another application_id, or a user_version
  // outside identity's least_version to user_version, is refused untouched. In kCreate the caller
  // makes the schema and calls SetIdentity, in one transaction.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path,
                                                        Mode mode,
                                                        const DatabaseIdentity& identity);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  const std::string& path() const { return path_; }
  // OK, or UNAVAILABLE with the reason to open the file again.
  const absl::Status& health() const { return health_; }

  absl::StatusOr<Statement> Prepare(absl::string_view sql);
  // Runs one or more statements without parameters or rows.
  absl::Status Execute(const std::string& sql);
  // Runs a statement and returns the first column of its first row.
  absl::StatusOr<int64_t> QueryInt(absl::string_view sql);
  absl::StatusOr<std::string> QueryText(absl::string_view sql);
  // Rows changed by the last INSERT, UPDATE or DELETE.
  int64_t Changes() const;

  absl::Status SetIdentity(const DatabaseIdentity& identity);
  // The file may grow to this many bytes; 0 for SQLite's own limit.
  absl::Status SetMaxBytes(uint64_t bytes);

  // Writes what is committed to a new file, without free pages, durable on return, of mode 0600,
  // and returns its size. ALREADY_EXISTS when there is a file; after another error there is none,
  // as far as the system lets it. Not inside a transaction. Cost O(file).
  absl::StatusOr<uint64_t> CopyTo(const std::string& path);
  // wal_checkpoint(TRUNCATE): the log is empty, and stays so after a loss of power. UNAVAILABLE
  // when it could not finish.
  absl::Status CheckpointTruncate();
  // Writes the file anew, without what is free in it; RAM of its size. Any error makes the Database
  // unusable: VACUUM commits by itself, and that may be in the log or not.
  absl::Status Vacuum();
  // Bytes in the write-ahead log after the last commit.
  uint64_t wal_bytes() const;

 private:
  friend class Statement;
  friend class Transaction;
  Database(std::string path, sqlite3* handle) : path_(std::move(path)), handle_(handle) {}

  absl::Status Configure(Mode mode, const DatabaseIdentity& identity, uint64_t whole_bytes);
  absl::Status CheckWal();
  absl::Status Error(int code, absl::string_view doing) const;
  void MarkUnusable(absl::string_view reason);
  void Return(std::string sql, sqlite3_stmt* statement);

  std::string path_;
  sqlite3* handle_;
  absl::Status health_;
  uint64_t wal_pages_ = 0;  // written by SQLite's hook after a commit
  int64_t page_bytes_ = 0;
  std::multimap<std::string, sqlite3_stmt*, std::less<>> idle_;
};

// BEGIN IMMEDIATE; rolled back on destruction unless Commit was called.
class Transaction {
 public:
  static absl::StatusOr<Transaction> Begin(Database* database);
  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  // At most once. Any failure is indeterminate and makes the Database unusable.
  absl::Status Commit();

 private:
  explicit Transaction(Database* database) : database_(database) {}
  Database* database_;
};

}  // namespace lethe::store

#endif  // LETHE_STORE_SQLITE_H_
