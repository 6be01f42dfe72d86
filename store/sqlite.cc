#include "store/sqlite.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/disk_full.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"

namespace lethe::store {
namespace {

constexpr char kIndeterminatePayload[] = "lethe.store/indeterminate";
constexpr int kPagesBeforeCommit = 4096;            // 16 MiB
constexpr int64_t kUnlimitedPages = 4'294'967'294;  // the largest that SQLite knows

absl::StatusCode CodeOf(int code) {
  switch (code & 0xff) {
    case SQLITE_FULL:
    case SQLITE_NOMEM:
      return absl::StatusCode::kResourceExhausted;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::StatusCode::kUnavailable;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::StatusCode::kDataLoss;
    case SQLITE_CONSTRAINT:
      return code == SQLITE_CONSTRAINT_UNIQUE || code == SQLITE_CONSTRAINT_PRIMARYKEY ||
                     code == SQLITE_CONSTRAINT_ROWID
                 ? absl::StatusCode::kAlreadyExists
                 : absl::StatusCode::kFailedPrecondition;
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return absl::StatusCode::kFailedPrecondition;
    case SQLITE_TOOBIG:
      return absl::StatusCode::kInvalidArgument;
    default:
      return absl::StatusCode::kInternal;
  }
}

// The file must be there (kOpen) or be made by us (kCreate), so that a wrong path is told apart
// from a damaged file, and no two creators meet.
absl::Status PrepareFile(const std::string& path, Database::Mode mode) {
  const int flags =
      mode == Database::Mode::kCreate ? O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC : O_RDWR | O_CLOEXEC;
  // An open file is closed again at once: closing one later would drop SQLite's POSIX locks. For an
  // existing file that another store of this process may hold, access() must do.
  if (mode == Database::Mode::kOpen) {
    if (::access(path.c_str(), R_OK | W_OK) == 0) return absl::OkStatus();
  } else {
    const int fd = ::open(path.c_str(), flags, 0600);
    if (fd >= 0) {
      ::close(fd);
      return absl::OkStatus();
    }
  }
  const int error = errno;
  const std::string message = absl::StrCat(path, ": ", std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(message);
  if (error == EEXIST) return absl::AlreadyExistsError(message);
  if (error == ENOSPC || error == EDQUOT) return absl::ResourceExhaustedError(message);
  return absl::FailedPreconditionError(absl::StrCat(
      message, ": the server must be able to read and write this file and its folder"));
}

// 0 when there is no such file.
uint64_t FileBytes(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

// Where a write meets a full disk SQLite says FULL; where an fsync or the making of a file does, it
// is an I/O error like others, and the system's number tells.
bool IsFull(sqlite3* handle, int code) {
  const int primary = code & 0xff;
  if (primary == SQLITE_FULL) return true;
  if (handle == nullptr || (primary != SQLITE_IOERR && primary != SQLITE_CANTOPEN)) return false;
  const int error = sqlite3_system_errno(handle);
  return error == ENOSPC || error == EDQUOT;
}

int RememberWalSize(void* wal_pages, sqlite3*, const char*, int pages) {
  *static_cast<uint64_t*>(wal_pages) = static_cast<uint64_t>(pages);
  return SQLITE_OK;
}

}  // namespace

bool IsIndeterminate(const absl::Status& status) {
  return status.GetPayload(kIndeterminatePayload).has_value();
}

absl::Status Indeterminate(absl::string_view message) {
  absl::Status status(absl::StatusCode::kUnknown, message);
  status.SetPayload(kIndeterminatePayload, absl::Cord("1"));
  return status;
}

// --- Statement

Statement::Statement(Statement&& other) noexcept
    : database_(other.database_),
      sql_(std::move(other.sql_)),
      statement_(std::exchange(other.statement_, nullptr)),
      bind_code_(other.bind_code_) {}

Statement::~Statement() {
  if (statement_ == nullptr) return;
  Reset();
  database_->Return(std::move(sql_), statement_);
}

Statement& Statement::Int(int index, int64_t value) {
  const int code = sqlite3_bind_int64(statement_, index, value);
  if (bind_code_ == SQLITE_OK) bind_code_ = code;
  return *this;
}

Statement& Statement::Text(int index, absl::string_view value) {
  const char* data = value.data() == nullptr ? "" : value.data();
  const int code =
      sqlite3_bind_text64(statement_, index, data, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  if (bind_code_ == SQLITE_OK) bind_code_ = code;
  return *this;
}

Statement& Statement::Blob(int index, absl::string_view value) {
  // A null pointer would bind NULL, not an empty blob.
  const char* data = value.data() == nullptr ? "" : value.data();
  const int code = sqlite3_bind_blob64(statement_, index, data, value.size(), SQLITE_TRANSIENT);
  if (bind_code_ == SQLITE_OK) bind_code_ = code;
  return *this;
}

Statement& Statement::Null(int index) {
  const int code = sqlite3_bind_null(statement_, index);
  if (bind_code_ == SQLITE_OK) bind_code_ = code;
  return *this;
}

Statement& Statement::IntOrNull(int index, const std::optional<int64_t>& value) {
  return value.has_value() ? Int(index, *value) : Null(index);
}

absl::StatusOr<bool> Statement::Step() {
  LETHE_RETURN_IF_ERROR(database_->health());
  if (bind_code_ != SQLITE_OK) return database_->Error(bind_code_, "binding a parameter");
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return database_->Error(code, "running a statement");
}

absl::Status Statement::Run() {
  absl::StatusOr<bool> row = Step();
  Reset();
  if (!row.ok()) return std::move(row).status();
  LETHE_CHECK(!*row);
  return absl::OkStatus();
}

void Statement::Reset() {
  // Both repeat the outcome of the last step, which Step has reported.
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  bind_code_ = SQLITE_OK;
}

int64_t Statement::ColumnInt(int index) const { return sqlite3_column_int64(statement_, index); }

absl::string_view Statement::ColumnText(int index) const { return ColumnBlob(index); }

absl::string_view Statement::ColumnBlob(int index) const {
  const void* data = sqlite3_column_blob(statement_, index);
  const int size = sqlite3_column_bytes(statement_, index);
  LETHE_CHECK(size == 0 || data != nullptr);  // out of memory
  return {static_cast<const char*>(data), static_cast<size_t>(size)};
}

bool Statement::ColumnIsNull(int index) const {
  return sqlite3_column_type(statement_, index) == SQLITE_NULL;
}

std::optional<int64_t> Statement::ColumnIntOrNull(int index) const {
  if (ColumnIsNull(index)) return std::nullopt;
  return ColumnInt(index);
}

// --- Database

namespace {

// SQLite counts what it allocates under one lock for the whole process, which two connections that
// work at the same time wait for. Nobody asks for the count. Without effect where SQLite is in use
// already.
void ConfigureLibraryOnce() {
  static const int ignored = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  (void)ignored;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path,
                                                         Mode mode,
                                                         const DatabaseIdentity& identity) {
  ConfigureLibraryOnce();
  LETHE_RETURN_IF_ERROR(PrepareFile(path, mode));
  const uint64_t file_bytes = FileBytes(path);
  const uint64_t log_bytes = FileBytes(absl::StrCat(path, "-wal"));
  sqlite3* handle = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &handle,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  // SQLite hands out a handle even for most failures, for its message and to be closed.
  std::unique_ptr<Database> database(new Database(path, handle));
  if (code != SQLITE_OK) return database->Error(code, "opening");
  // A torn last page is SQLite's to mend from its log. With no log the file must be whole, and
  // SQLite would read a short page as one that ends in zeros.
  const uint64_t whole_bytes = log_bytes == 0 ? file_bytes : 0;
  absl::Status status = database->Configure(mode, identity, whole_bytes);
  if (absl::IsUnavailable(status)) {
    return absl::UnavailableError(
        absl::StrCat(path, ": another process or store has this file open; only one may"));
  }
  if (status.ok()) status = database->CheckWal();
  if (!status.ok()) return status;
  return database;
}

absl::Status Database::CheckWal() {
  // Through SQLite's own descriptor: closing another one would drop its locks.
  sqlite3_file* file = nullptr;
  const int code = sqlite3_file_control(handle_, "main", SQLITE_FCNTL_FILE_POINTER, &file);
  if (code != SQLITE_OK) return Error(code, "looking at the file");
  constexpr int kVersions = 18;
  uint8_t header[kVersions + 2] = {};
  const int read = file->pMethods->xRead(file, header, sizeof header, 0);
  if (read != SQLITE_OK && read != SQLITE_IOERR_SHORT_READ) {
    return absl::Status(CodeOf(read), absl::StrCat(path_, ": cannot be read"));
  }
  if (header[kVersions] == 2 && header[kVersions + 1] == 2) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(path_, ": could not be given a write-ahead log; see to the device it lies on"));
}

absl::Status Database::Configure(Mode mode,
                                 const DatabaseIdentity& identity,
                                 uint64_t whole_bytes) {
  auto expect = [this](absl::string_view pragma, absl::string_view wanted) -> absl::Status {
    LETHE_ASSIGN_OR_RETURN(const std::string got, QueryText(absl::StrCat("PRAGMA ", pragma)));
    if (got == wanted) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(path_, ": PRAGMA ", pragma, " gave '", got, "' and not '", wanted,
                     "'; the file system may lack what SQLite needs (locks, shared access)"));
  };
  auto configure = [this](int option, int value) -> absl::Status {
    const int code = sqlite3_db_config(handle_, option, value, nullptr);
    return code == SQLITE_OK ? absl::OkStatus() : Error(code, "configuring the connection");
  };

  LETHE_RETURN_IF_ERROR(expect("locking_mode=EXCLUSIVE", "exclusive"));
  if (mode == Mode::kOpen) {
    LETHE_ASSIGN_OR_RETURN(const int64_t application, QueryInt("PRAGMA application_id"));
    LETHE_ASSIGN_OR_RETURN(const int64_t version, QueryInt("PRAGMA user_version"));
    LETHE_ASSIGN_OR_RETURN(page_bytes_, QueryInt("PRAGMA page_size"));
    if (whole_bytes % static_cast<uint64_t>(page_bytes_) != 0) {
      return absl::DataLossError(absl::StrCat(path_, ": ", whole_bytes,
                                              " bytes are no whole number of pages of ",
                                              page_bytes_, "; restore the file from a backup"));
    }
    if (application != identity.application_id) {
      return absl::FailedPreconditionError(absl::StrCat(
          path_, ": not a file of Lethe (application id ", application, ", expected ",
          identity.application_id, "); check the path of the data folder or move the file away"));
    }
    if (version > identity.user_version) {
      return absl::FailedPreconditionError(absl::StrCat(
          path_, ": written by a newer release (format ", version, ", this release knows up to ",
          identity.user_version, "); run the newer release, or restore a backup made before it"));
    }
    if (version < 1) {
      return absl::DataLossError(absl::StrCat(
          path_, ": format ", version, " was never written; restore the file from a backup"));
    }
    if (version < identity.least_version) {
      return absl::FailedPreconditionError(absl::StrCat(
          path_, ": written by an older release (format ", version, ", this release reads from ",
          identity.least_version, " on)", identity.older_advice));
    }
  }
  LETHE_RETURN_IF_ERROR(expect("journal_mode=WAL", "wal"));
  LETHE_RETURN_IF_ERROR(Execute("PRAGMA synchronous=FULL"));
  LETHE_RETURN_IF_ERROR(expect("synchronous", "2"));
  LETHE_RETURN_IF_ERROR(expect("wal_autocheckpoint=0", "0"));
  LETHE_RETURN_IF_ERROR(expect("secure_delete=ON", "1"));
  // Up to this many changed pages wait in RAM for their commit. With SQLite's own bound a batch of
  // thousands of rows writes the pages of its indexes many times over.
  LETHE_RETURN_IF_ERROR(Execute(absl::StrCat("PRAGMA cache_spill=", kPagesBeforeCommit)));
  LETHE_RETURN_IF_ERROR(Execute("PRAGMA temp_store=MEMORY"));
  LETHE_RETURN_IF_ERROR(Execute("PRAGMA foreign_keys=ON"));
  LETHE_RETURN_IF_ERROR(expect("foreign_keys", "1"));
  LETHE_RETURN_IF_ERROR(configure(SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0));
  LETHE_RETURN_IF_ERROR(configure(SQLITE_DBCONFIG_DEFENSIVE, 1));
  LETHE_RETURN_IF_ERROR(configure(SQLITE_DBCONFIG_DQS_DML, 0));
  LETHE_RETURN_IF_ERROR(configure(SQLITE_DBCONFIG_DQS_DDL, 0));
  LETHE_RETURN_IF_ERROR(Execute("PRAGMA cell_size_check=ON"));
  LETHE_ASSIGN_OR_RETURN(page_bytes_, QueryInt("PRAGMA page_size"));
  // After wal_autocheckpoint, which uses the same hook.
  sqlite3_wal_hook(handle_, RememberWalSize, &wal_pages_);
  return absl::OkStatus();
}

Database::~Database() {
  for (const auto& [sql, statement] : idle_) sqlite3_finalize(statement);
  // Closing checkpoints and removes the write-ahead log, but for an unusable connection, which must
  // not touch the file again: its log decides at the next open.
  if (!health_.ok()) sqlite3_db_config(handle_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  LETHE_CHECK(sqlite3_close(handle_) == SQLITE_OK);  // BUSY: a Statement outlives its Database
}

absl::Status Database::Error(int code, absl::string_view doing) const {
  absl::Status status(CodeOf(code),
                      absl::StrCat(path_, ": ", doing, ": ",
                                   handle_ == nullptr ? "out of memory" : sqlite3_errmsg(handle_),
                                   " (SQLite code ", code, ")"));
  return IsFull(handle_, code) ? MarkDiskFull(std::move(status)) : status;
}

void Database::MarkUnusable(absl::string_view reason) {
  if (!health_.ok()) return;
  health_ = absl::UnavailableError(
      absl::StrCat(path_, ": ", reason, "; close and open the file again to learn what it holds"));
  // The error that made it so is the connection's last one.
  if (IsFull(handle_, sqlite3_extended_errcode(handle_))) {
    health_ = MarkDiskFull(std::move(health_));
  }
}

void Database::Return(std::string sql, sqlite3_stmt* statement) {
  idle_.emplace(std::move(sql), statement);
}

absl::StatusOr<Statement> Database::Prepare(absl::string_view sql) {
  LETHE_RETURN_IF_ERROR(health_);
  auto idle = idle_.find(sql);
  if (idle != idle_.end()) {
    auto node = idle_.extract(idle);
    return Statement(this, std::move(node.key()), node.mapped());
  }
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return Error(code, "preparing a statement");
  return Statement(this, std::string(sql), statement);
}

absl::Status Database::Execute(const std::string& sql) {
  LETHE_RETURN_IF_ERROR(health_);
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code, "running a statement");
}

absl::StatusOr<int64_t> Database::QueryInt(absl::string_view sql) {
  LETHE_ASSIGN_OR_RETURN(Statement statement, Prepare(sql));
  LETHE_ASSIGN_OR_RETURN(const bool row, statement.Step());
  LETHE_CHECK(row);
  return statement.ColumnInt(0);
}

absl::StatusOr<std::string> Database::QueryText(absl::string_view sql) {
  LETHE_ASSIGN_OR_RETURN(Statement statement, Prepare(sql));
  LETHE_ASSIGN_OR_RETURN(const bool row, statement.Step());
  LETHE_CHECK(row);
  return std::string(statement.ColumnText(0));
}

int64_t Database::Changes() const { return sqlite3_changes64(handle_); }

absl::Status Database::SetIdentity(const DatabaseIdentity& identity) {
  return Execute(absl::StrCat("PRAGMA application_id=", identity.application_id,
                              "; PRAGMA user_version=", identity.user_version));
}

absl::Status Database::SetMaxBytes(uint64_t bytes) {
  const int64_t pages = bytes == 0
                            ? kUnlimitedPages
                            : std::max<int64_t>(1, static_cast<int64_t>(bytes) / page_bytes_);
  // SQLite answers with the size of the file where that is larger; inserting then fails, as it
  // must.
  return QueryInt(absl::StrCat("PRAGMA max_page_count=", pages)).status();
}

absl::StatusOr<uint64_t> Database::CopyTo(const std::string& path) {
  LETHE_RETURN_IF_ERROR(health_);
  const FileDescriptor file(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) return SystemError(errno, "make the copy", path);
  const std::string journal = absl::StrCat(path, "-journal");
  const auto copy = [&]() -> absl::StatusOr<uint64_t> {
    // SQLite takes an empty file for none.
    LETHE_ASSIGN_OR_RETURN(Statement vacuum, Prepare("VACUUM INTO ?1"));
    LETHE_RETURN_IF_ERROR(vacuum.Text(1, path).Run());
    if (::access(journal.c_str(), F_OK) == 0) {
      return absl::InternalError(absl::StrCat(journal, ": stayed, and would undo the copy"));
    }
    LETHE_RETURN_IF_ERROR(Sync(file.get(), path));
    LETHE_RETURN_IF_ERROR(SyncFolder(FolderOf(path)));
    return FileBytes(path);
  };
  absl::StatusOr<uint64_t> bytes = copy();
  if (!bytes.ok()) {
    ::unlink(journal.c_str());
    ::unlink(path.c_str());
  }
  return bytes;
}

absl::Status Database::CheckpointTruncate() {
  LETHE_RETURN_IF_ERROR(health_);
  int log_frames = -1;
  int moved_frames = -1;
  const int code = sqlite3_wal_checkpoint_v2(handle_, "main", SQLITE_CHECKPOINT_TRUNCATE,
                                             &log_frames, &moved_frames);
  if (code != SQLITE_OK) {
    absl::Status status = Error(code, "emptying the write-ahead log");
    // A checkpoint that could not start, or that found the disk full, may be tried again. After an
    // I/O error the kernel may have dropped the pages it could not write and call the next fsync
    // good.
    const int primary = code & 0xff;
    if (primary != SQLITE_BUSY && primary != SQLITE_LOCKED && primary != SQLITE_FULL) {
      MarkUnusable("a checkpoint of the write-ahead log failed");
    }
    return status;
  }
  const std::string log = absl::StrCat(path_, "-wal");
  if (FileBytes(log) != 0) {
    return absl::UnavailableError(
        absl::StrCat(path_, ": the write-ahead log is not empty after its checkpoint"));
  }
  wal_pages_ = 0;
  // SQLite does not sync the truncation: after a loss of power the log could be there again, with
  // the pages as they were before. No locks are lost by closing this descriptor: SQLite locks the
  // database file alone.
  const FileDescriptor file(::open(log.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file.valid() && errno == ENOENT) return absl::OkStatus();  // nothing was written yet
  absl::Status synced =
      file.valid() ? Sync(file.get(), log) : SystemError(errno, "sync its truncation", log);
  // The next fsync may claim success, as after a checkpoint that failed.
  if (!synced.ok()) MarkUnusable("the emptied write-ahead log could not be synced");
  return synced;
}

absl::Status Database::Vacuum() {
  absl::Status status = Execute("VACUUM");
  if (!status.ok()) MarkUnusable("writing the file anew failed");
  return status;
}

uint64_t Database::wal_bytes() const { return wal_pages_ * static_cast<uint64_t>(page_bytes_); }

// --- Transaction

absl::StatusOr<Transaction> Transaction::Begin(Database* database) {
  LETHE_ASSIGN_OR_RETURN(Statement begin, database->Prepare("BEGIN IMMEDIATE"));
  LETHE_RETURN_IF_ERROR(begin.Run());
  return Transaction(database);
}

Transaction::~Transaction() {
  if (database_ == nullptr) return;
  // SQLite has rolled back by itself after some errors (FULL, IOERR, NOMEM).
  if (sqlite3_get_autocommit(database_->handle_) != 0) return;
  if (sqlite3_exec(database_->handle_, "ROLLBACK", nullptr, nullptr, nullptr) != SQLITE_OK) {
    database_->MarkUnusable("a ROLLBACK failed");
  }
}

absl::Status Transaction::Commit() {
  LETHE_CHECK(database_ != nullptr);
  Database* database = database_;
  LETHE_RETURN_IF_ERROR(database->health());
  const int code = sqlite3_exec(database->handle_, "COMMIT", nullptr, nullptr, nullptr);
  if (code == SQLITE_OK) {
    database_ = nullptr;
    return absl::OkStatus();
  }
  const absl::Status error = database->Error(code, "COMMIT");
  absl::Status status =
      Indeterminate(absl::StrCat("COMMIT failed, its outcome is unknown: ", error.message()));
  if (IsDiskFull(error)) status = MarkDiskFull(std::move(status));
  database->MarkUnusable("a COMMIT failed");
  return status;  // the destructor rolls back what SQLite left open
}

}  // namespace lethe::store
