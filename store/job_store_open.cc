// JobStore: making it, opening it, and what a crash left of it.
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/random.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "store/folders.h"
#include "store/job_store.h"
#include "store/validation.h"
#include "store/vault/file_kms.h"
#include "store/vault/vault_folder.h"

namespace lethe::store {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kColumns =
    "SELECT number, id, tenant_uid, memory_uid, slot, request_key, spec, state, lease, facts,"
    " first_handle, last_handle, handles, next_file FROM jobs ";
constexpr absl::string_view kAdvice =
    "; put jobs.db and the folder jobs of the vault back from copies of the same time, or move both"
    " away, which ends every job";

JobRecord ReadRecord(const Statement& row) {
  return {.number = static_cast<uint64_t>(row.ColumnInt(0)),
          .id = std::string(row.ColumnText(1)),
          .tenant_uid = std::string(row.ColumnText(2)),
          .memory_uid = std::string(row.ColumnText(3)),
          .slot = static_cast<uint64_t>(row.ColumnInt(4)),
          .request_key = std::string(row.ColumnBlob(5)),
          .spec = std::string(row.ColumnBlob(6)),
          .state = static_cast<int>(row.ColumnInt(7)),
          .lease = std::string(row.ColumnText(8)),
          .facts = std::string(row.ColumnBlob(9)),
          .first_handle = static_cast<uint64_t>(row.ColumnInt(10)),
          .last_handle = static_cast<uint64_t>(row.ColumnInt(11)),
          .handles = static_cast<uint64_t>(row.ColumnInt(12)),
          .next_file = static_cast<uint64_t>(row.ColumnInt(13))};
}

absl::StatusOr<bool> Exists(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) return true;
  if (errno == ENOENT) return false;
  return SystemError(errno, "look at it", path);
}

std::string MarkOf(const JobStore::Place& place) {
  return absl::StrCat(place.folder, "/unfinished");
}

absl::Status MakeEmptyFile(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return SystemError(errno, "make it", path);
  return Sync(file.get(), path);
}

absl::Status RemoveIfThere(const std::string& path, absl::string_view doing) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return SystemError(errno, doing, path);
}

absl::Status MakeTables(Database& database, absl::string_view uid) {
  LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(&database));
  LETHE_RETURN_IF_ERROR(database.Execute(
      "CREATE TABLE store (id INTEGER PRIMARY KEY CHECK (id = 1), uid TEXT NOT NULL) STRICT;"
      "CREATE TABLE jobs (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,"
      " tenant_uid TEXT NOT NULL, memory_uid TEXT NOT NULL, slot INTEGER NOT NULL UNIQUE,"
      " request_key BLOB, spec BLOB NOT NULL, state INTEGER NOT NULL, lease TEXT NOT NULL,"
      " facts BLOB NOT NULL, first_handle INTEGER NOT NULL, last_handle INTEGER NOT NULL,"
      " handles INTEGER NOT NULL, next_file INTEGER NOT NULL, snapshot BLOB,"
      " UNIQUE (tenant_uid, request_key)) STRICT;"
      "CREATE TABLE files (job INTEGER NOT NULL REFERENCES jobs (number), sequence INTEGER NOT "
      "NULL,"
      " kind INTEGER NOT NULL, bytes INTEGER NOT NULL CHECK (bytes > 0), sha256 TEXT NOT NULL,"
      " step INTEGER NOT NULL, PRIMARY KEY (job, sequence)) STRICT, WITHOUT ROWID;"
      "CREATE TABLE removals (slot INTEGER PRIMARY KEY, id TEXT NOT NULL,"
      " before INTEGER NOT NULL) STRICT"));
  {
    LETHE_ASSIGN_OR_RETURN(Statement insert,
                           database.Prepare("INSERT INTO store (id, uid) VALUES (1, ?1)"));
    LETHE_RETURN_IF_ERROR(insert.Text(1, uid).Run());
  }
  LETHE_RETURN_IF_ERROR(database.SetIdentity(kJobsIdentity));
  return transaction.Commit();
}

}  // namespace

absl::StatusOr<bool> JobStore::IsThere(const Place& place) {
  LETHE_ASSIGN_OR_RETURN(const bool rows, Exists(place.database()));
  LETHE_ASSIGN_OR_RETURN(const bool keys, Exists(KeysFileOf(place.vault)));
  if (rows && keys) return true;
  if (rows) {
    return absl::FailedPreconditionError(absl::StrCat(
        place.database(), ": is there, but its keys are not, in ", place.vault, kAdvice));
  }
  // Whatever a vault holds without its rows is somebody's, unless Create was at work.
  LETHE_ASSIGN_OR_RETURN(const bool vault, Exists(place.vault));
  LETHE_ASSIGN_OR_RETURN(const bool unfinished, Exists(MarkOf(place)));
  if (!vault || unfinished) return false;
  return absl::FailedPreconditionError(absl::StrCat(
      place.database(), ": is not there, but its keys are, in ", place.vault, kAdvice));
}

absl::Status JobStore::Create(const Place& place) {
  LETHE_ASSIGN_OR_RETURN(const bool there, IsThere(place));
  if (there) return absl::AlreadyExistsError(absl::StrCat(place.database(), ": is there already"));
  LETHE_RETURN_IF_ERROR(MakeFolder(place.folder));
  LETHE_RETURN_IF_ERROR(MakeFolder(absl::StrCat(place.folder, "/files")));
  // Durable before there is a key: what keys a crash leaves are known to be of no job.
  LETHE_RETURN_IF_ERROR(MakeEmptyFile(MarkOf(place)));
  LETHE_RETURN_IF_ERROR(SyncFolder(place.folder));
  LETHE_RETURN_IF_ERROR(SyncFolder(FolderOf(place.folder)));
  LETHE_ASSIGN_OR_RETURN(const bool keys, Exists(place.vault));
  if (keys) LETHE_RETURN_IF_ERROR(DestroyAllKeys(place.vault).status());
  const std::string draft = absl::StrCat(place.database(), ".new");
  for (const absl::string_view suffix : {"", "-wal", "-journal"}) {
    LETHE_RETURN_IF_ERROR(
        RemoveIfThere(absl::StrCat(draft, suffix), "remove what an earlier call left"));
  }
  LETHE_RETURN_IF_ERROR(MakeFolder(place.vault));
  const std::string uid = audit::RandomUid();
  LETHE_ASSIGN_OR_RETURN(const std::unique_ptr<Kms> kms,
                         place.kms(KmsUse::kCreate, place.vault, uid));
  LETHE_RETURN_IF_ERROR(
      KeyStore::Create(KeysFileOf(place.vault), uid, kms.get(), place.keys).status());
  LETHE_RETURN_IF_ERROR(SyncFolder(place.vault));
  LETHE_RETURN_IF_ERROR(SyncFolder(FolderOf(place.vault)));
  {
    LETHE_ASSIGN_OR_RETURN(const std::unique_ptr<Database> database,
                           Database::Open(draft, Database::Mode::kCreate, kJobsIdentity));
    LETHE_RETURN_IF_ERROR(MakeTables(*database, uid));
    LETHE_RETURN_IF_ERROR(database->CheckpointTruncate());
  }
  if (::renameat2(AT_FDCWD, draft.c_str(), AT_FDCWD, place.database().c_str(), RENAME_NOREPLACE) !=
      0) {
    return SystemError(errno, "put it in its place", place.database());
  }
  LETHE_RETURN_IF_ERROR(SyncFolder(place.folder));
  // Only once the rows are there for good: from here on keys are of jobs.
  LETHE_RETURN_IF_ERROR(RemoveIfThere(MarkOf(place), "remove it"));
  return SyncFolder(place.folder);
}

absl::StatusOr<JobStore::Opened> JobStore::Open(const Place& place) {
  LETHE_ASSIGN_OR_RETURN(const bool there, IsThere(place));
  if (!there) return absl::NotFoundError(absl::StrCat(place.database(), ": is not there"));
  LETHE_ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                         Database::Open(place.database(), Database::Mode::kOpen, kJobsIdentity));
  LETHE_ASSIGN_OR_RETURN(const std::string check, database->QueryText("PRAGMA quick_check(1)"));
  if (check != "ok") {
    return absl::DataLossError(absl::StrCat(place.database(), ": is damaged", kAdvice));
  }
  LETHE_ASSIGN_OR_RETURN(const std::string uid,
                         database->QueryText("SELECT uid FROM store WHERE id = 1"));
  Opened opened{.store = std::unique_ptr<JobStore>(new JobStore(place)),
                .jobs = {},
                .files = {},
                .tidied = {}};
  JobStore& store = *opened.store;
  store.database_ = std::move(database);
  absl::Status keys = store.OpenKeys(uid);
  if (absl::IsNotFound(keys)) {
    return absl::FailedPreconditionError(absl::StrCat(keys.message(), kAdvice));
  }
  LETHE_RETURN_IF_ERROR(keys);
  LETHE_RETURN_IF_ERROR(store.Load(opened));
  LETHE_ASSIGN_OR_RETURN(const std::vector<uint64_t> lost, store.FindLost(opened));
  opened.lost = lost.size();
  opened.tidied = store.Tidy(opened, lost);
  return opened;
}

absl::Status JobStore::OpenKeys(const std::string& uid) {
  MutexLock lock(keys_mutex_);
  LETHE_ASSIGN_OR_RETURN(kms_, place_.kms(KmsUse::kOpen, place_.vault, uid));
  LETHE_ASSIGN_OR_RETURN(keys_,
                         KeyStore::Open(KeysFileOf(place_.vault), uid, kms_.get(), place_.keys));
  return absl::OkStatus();
}

absl::Status JobStore::Load(Opened& opened) {
  LETHE_ASSIGN_OR_RETURN(Statement jobs,
                         database_->Prepare(absl::StrCat(kColumns, "ORDER BY number")));
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const bool more, jobs.Step());
    if (!more) break;
    opened.jobs.push_back(ReadRecord(jobs));
  }
  LETHE_ASSIGN_OR_RETURN(Statement files,
                         database_->Prepare("SELECT job, sequence, kind, bytes, sha256, step FROM"
                                            " files ORDER BY job, sequence"));
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const bool more, files.Step());
    if (!more) break;
    opened.files.push_back({.job = static_cast<uint64_t>(files.ColumnInt(0)),
                            .sequence = static_cast<uint64_t>(files.ColumnInt(1)),
                            .kind = static_cast<JobFileKind>(files.ColumnInt(2)),
                            .bytes = static_cast<uint64_t>(files.ColumnInt(3)),
                            .sha256 = std::string(files.ColumnText(4)),
                            .step = static_cast<uint64_t>(files.ColumnInt(5))});
  }
  LETHE_ASSIGN_OR_RETURN(const int64_t removals,
                         database_->QueryInt("SELECT count(*) FROM removals"));
  removals_pending_ = removals > 0;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint64_t>> JobStore::FindLost(Opened& opened) {
  std::set<uint64_t> lost;
  MutexLock lock(keys_mutex_);
  for (const JobRecord& job : opened.jobs) {
    LETHE_ASSIGN_OR_RETURN(const SlotState state, keys_->State(job.slot));
    if (state != SlotState::kLive) lost.insert(job.number);
  }
  std::erase_if(opened.files, [&](const JobFile& file) { return lost.contains(file.job); });
  std::erase_if(opened.jobs, [&](const JobRecord& job) { return lost.contains(job.number); });
  return std::vector<uint64_t>(lost.begin(), lost.end());
}

absl::Status JobStore::Tidy(const Opened& opened, std::span<const uint64_t> lost) {
  // Each of them, whatever became of the others.
  absl::Status first = RemoveIfThere(MarkOf(place_), "remove it");
  first.Update(SyncFolder(place_.folder));
  first.Update(FinishRotation());
  first.Update(RemoveRows(lost));
  first.Update(FinishRemovals());
  first.Update(DestroyUnused(opened));
  first.Update(RemoveUnknownFiles(opened));
  return first;
}

absl::Status JobStore::FinishRotation() {
  MutexLock lock(keys_mutex_);
  LETHE_RETURN_IF_ERROR(keys_->FinishRotation().status());
  // No certificate names them: they were of no tenant.
  LETHE_ASSIGN_OR_RETURN(const std::vector<uint32_t> ended, keys_->EndedEpochs());
  return ended.empty() ? absl::OkStatus() : keys_->ForgetEndedEpochs(ended.back());
}

absl::Status JobStore::RemoveRows(std::span<const uint64_t> numbers) {
  if (numbers.empty()) return absl::OkStatus();
  LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_.get()));
  for (const uint64_t number : numbers) {
    for (const char* sql :
         {"DELETE FROM files WHERE job = ?1", "DELETE FROM jobs WHERE number = ?1"}) {
      LETHE_ASSIGN_OR_RETURN(Statement remove, database_->Prepare(sql));
      LETHE_RETURN_IF_ERROR(remove.Int(1, ClampToInt64(number)).Run());
    }
  }
  return Commit(transaction);
}

absl::Status JobStore::DestroyUnused(const Opened& opened) {
  std::set<uint64_t> used;
  for (const JobRecord& job : opened.jobs) used.insert(job.slot);
  std::vector<uint64_t> unused;
  constexpr uint32_t kBatch = 1000;
  MutexLock lock(keys_mutex_);
  for (uint64_t after = 0;;) {
    LETHE_ASSIGN_OR_RETURN(const std::vector<uint64_t> live, keys_->LiveSlots(after, kBatch));
    for (const uint64_t slot : live) {
      if (!used.contains(slot)) unused.push_back(slot);
    }
    if (live.size() < kBatch) break;
    after = live.back();
  }
  if (unused.empty()) return absl::OkStatus();
  return keys_->Destroy(unused).status();
}

absl::Status JobStore::RemoveUnknownFiles(const Opened& opened) const {
  std::map<uint64_t, absl::string_view> ids;
  for (const JobRecord& job : opened.jobs) ids.emplace(job.number, job.id);
  std::set<std::string> known;
  for (const JobFile& file : opened.files) {
    const auto id = ids.find(file.job);
    if (id != ids.end()) known.insert(FilePath(std::string(id->second), file.sequence));
  }
  const std::string folder = absl::StrCat(place_.folder, "/files");
  LETHE_RETURN_IF_ERROR(MakeFolder(folder));
  std::vector<std::string> unknown;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (!known.contains(it->path().string())) unknown.push_back(it->path().string());
  }
  if (error) return SystemError(error.value(), "list it", folder);
  for (const std::string& path : unknown) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
      return SystemError(errno, "remove what no job has", path);
    }
  }
  return absl::OkStatus();
}

}  // namespace lethe::store
