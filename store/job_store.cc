#include "store/job_store.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <map>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "audit/random.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "store/validation.h"
#include "store/vault/file_kms.h"
#include "store/vault/vault_folder.h"

namespace lethe::store {
namespace {

namespace fs = std::filesystem;

constexpr size_t kUidBytes = 32;
constexpr uint64_t kWalBytes = uint64_t{4} << 20;
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

absl::Status CheckRecord(const JobRecord& record) {
  LETHE_RETURN_IF_ERROR(CheckHex("job.id", record.id, kUidBytes));
  LETHE_RETURN_IF_ERROR(CheckHex("job.tenant_uid", record.tenant_uid, kUidBytes));
  LETHE_RETURN_IF_ERROR(CheckHex("job.memory_uid", record.memory_uid, kUidBytes));
  LETHE_RETURN_IF_ERROR(CheckLength("job.request_key", record.request_key, 0, 64));
  LETHE_RETURN_IF_ERROR(CheckLength("job.spec", record.spec, 0, kMaxJobBlobBytes));
  return CheckLength("job.facts", record.facts, 0, kMaxJobBlobBytes);
}

void PutNumber(std::string& bytes, uint64_t number) {
  for (; number >= 0x80; number >>= 7) {
    bytes.push_back(static_cast<char>((number & 0x7f) | 0x80));
  }
  bytes.push_back(static_cast<char>(number));
}

// Ranges of handles in a row, each as the gap before it and its length less one, in LEB128.
std::string EncodeRanges(std::span<const uint64_t> handles) {
  std::string bytes;
  uint64_t end = 0;  // behind the last range
  for (size_t i = 0; i < handles.size();) {
    size_t next = i + 1;
    while (next < handles.size() && handles[next] == handles[next - 1] + 1) ++next;
    PutNumber(bytes, handles[i] - end);
    PutNumber(bytes, next - i - 1);
    end = handles[next - 1] + 1;
    i = next;
  }
  return bytes;
}

struct Range {
  uint64_t first = 0;
  uint64_t last = 0;
};

absl::Status VisitRanges(absl::string_view bytes, absl::FunctionRef<bool(const Range&)> visit) {
  const auto damaged = [] {
    return absl::DataLossError("a stored snapshot is not what was written");
  };
  uint64_t end = 0;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t numbers[2] = {0, 0};
    for (uint64_t& number : numbers) {
      for (int shift = 0;; shift += 7) {
        if (at == bytes.size() || shift > 56) return damaged();
        const auto byte = static_cast<uint8_t>(bytes[at++]);
        number |= static_cast<uint64_t>(byte & 0x7f) << shift;
        if (byte < 0x80) break;
      }
    }
    constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
    if (numbers[0] > kMost - end || numbers[1] > kMost - end - numbers[0]) return damaged();
    const Range range{.first = end + numbers[0], .last = end + numbers[0] + numbers[1]};
    end = range.last + 1;
    if (!visit(range)) return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status MakeFolder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  return SystemError(errno, "make the folder", path);
}

bool Exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

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

bool JobStore::IsThere(const Place& place) { return Exists(place.database()); }

absl::Status JobStore::Create(const Place& place) {
  LETHE_RETURN_IF_ERROR(MakeFolder(place.folder));
  LETHE_RETURN_IF_ERROR(MakeFolder(absl::StrCat(place.folder, "/files")));
  const std::string draft = absl::StrCat(place.database(), ".new");
  for (const absl::string_view suffix : {"", "-wal", "-journal"}) {
    const std::string path = absl::StrCat(draft, suffix);
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
      return SystemError(errno, "remove what an earlier call left", path);
    }
  }
  // Without jobs.db there is no job, so what keys there are were made by a call that a crash ended.
  if (Exists(place.vault)) LETHE_RETURN_IF_ERROR(DestroyAllKeys(place.vault).status());
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
  return SyncFolder(FolderOf(place.folder));
}

JobStore::~JobStore() = default;

absl::StatusOr<JobStore::Opened> JobStore::Open(const Place& place) {
  LETHE_ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                         Database::Open(place.database(), Database::Mode::kOpen, kJobsIdentity));
  LETHE_ASSIGN_OR_RETURN(const std::string check, database->QueryText("PRAGMA integrity_check(1)"));
  if (check != "ok") {
    return absl::DataLossError(absl::StrCat(place.database(), ": is damaged", kAdvice));
  }
  LETHE_ASSIGN_OR_RETURN(const std::string uid,
                         database->QueryText("SELECT uid FROM store WHERE id = 1"));
  absl::StatusOr<std::unique_ptr<Kms>> kms = place.kms(KmsUse::kOpen, place.vault, uid);
  if (absl::IsNotFound(kms.status())) {
    return absl::FailedPreconditionError(absl::StrCat(kms.status().message(), kAdvice));
  }
  LETHE_RETURN_IF_ERROR(kms.status());
  Opened opened{.store = std::unique_ptr<JobStore>(new JobStore(place, *std::move(kms))),
                .jobs = {},
                .files = {}};
  JobStore& store = *opened.store;
  store.database_ = std::move(database);
  {
    MutexLock lock(store.keys_mutex_);
    absl::StatusOr<std::unique_ptr<KeyStore>> keys =
        KeyStore::Open(KeysFileOf(place.vault), uid, store.kms_.get(), place.keys);
    if (absl::IsNotFound(keys.status())) {
      return absl::FailedPreconditionError(absl::StrCat(keys.status().message(), kAdvice));
    }
    LETHE_RETURN_IF_ERROR(keys.status());
    store.keys_ = *std::move(keys);
    LETHE_RETURN_IF_ERROR(store.keys_->FinishRotation().status());
    // No certificate names them: they were of no tenant.
    LETHE_ASSIGN_OR_RETURN(const std::vector<uint32_t> ended, store.keys_->EndedEpochs());
    if (!ended.empty()) LETHE_RETURN_IF_ERROR(store.keys_->ForgetEndedEpochs(ended.back()));
  }
  LETHE_RETURN_IF_ERROR(store.Load(opened));
  LETHE_RETURN_IF_ERROR(store.DropLost(opened));
  LETHE_RETURN_IF_ERROR(store.FinishRemovals());
  LETHE_RETURN_IF_ERROR(store.DestroyUnused(opened));
  LETHE_RETURN_IF_ERROR(store.RemoveUnknownFiles(opened));
  return opened;
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

absl::Status JobStore::DropLost(Opened& opened) {
  std::vector<JobRecord> lost;
  for (const JobRecord& job : opened.jobs) {
    MutexLock lock(keys_mutex_);
    LETHE_ASSIGN_OR_RETURN(const SlotState state, keys_->State(job.slot));
    if (state != SlotState::kLive) lost.push_back(job);
  }
  if (lost.empty()) return absl::OkStatus();
  opened.lost = lost.size();
  LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_.get()));
  for (const JobRecord& job : lost) {
    for (const char* sql :
         {"DELETE FROM files WHERE job = ?1", "DELETE FROM jobs WHERE number = ?1"}) {
      LETHE_ASSIGN_OR_RETURN(Statement remove, database_->Prepare(sql));
      LETHE_RETURN_IF_ERROR(remove.Int(1, ClampToInt64(job.number)).Run());
    }
    std::erase_if(opened.files, [&](const JobFile& file) { return file.job == job.number; });
    std::erase_if(opened.jobs, [&](const JobRecord& other) { return other.number == job.number; });
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
  std::set<std::string> known;
  for (const JobFile& file : opened.files) {
    const auto job = std::find_if(opened.jobs.begin(), opened.jobs.end(),
                                  [&](const JobRecord& one) { return one.number == file.job; });
    if (job != opened.jobs.end()) known.insert(FilePath(job->id, file.sequence));
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

std::string JobStore::FilePath(const std::string& job_id, uint64_t sequence) const {
  return absl::StrCat(place_.folder, "/files/", job_id, "-", sequence);
}

absl::Status JobStore::Commit(Transaction& transaction) {
  LETHE_RETURN_IF_ERROR(transaction.Commit());
  if (database_->wal_bytes() > kWalBytes) database_->CheckpointTruncate().IgnoreError();
  return absl::OkStatus();
}

absl::StatusOr<JobRecord> JobStore::Create(JobRecord record) {
  LETHE_RETURN_IF_ERROR(CheckRecord(record));
  {
    MutexLock lock(keys_mutex_);
    LETHE_ASSIGN_OR_RETURN(record.slot, keys_->Allocate(1));
  }
  LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_.get()));
  {
    LETHE_ASSIGN_OR_RETURN(
        Statement insert,
        database_->Prepare("INSERT INTO jobs (id, tenant_uid, memory_uid, slot, request_key, spec,"
                           " state, lease, facts, first_handle, last_handle, handles, next_file)"
                           " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0, 0, 0, ?10)"));
    insert.Text(1, record.id).Text(2, record.tenant_uid).Text(3, record.memory_uid);
    insert.Int(4, ClampToInt64(record.slot));
    if (record.request_key.empty()) {
      insert.Null(5);
    } else {
      insert.Blob(5, record.request_key);
    }
    insert.Blob(6, record.spec).Int(7, record.state).Text(8, record.lease).Blob(9, record.facts);
    LETHE_RETURN_IF_ERROR(insert.Int(10, ClampToInt64(record.next_file)).Run());
  }
  LETHE_ASSIGN_OR_RETURN(const int64_t number, database_->QueryInt("SELECT last_insert_rowid()"));
  record.number = static_cast<uint64_t>(number);
  LETHE_RETURN_IF_ERROR(Commit(transaction));
  return record;
}

absl::Status JobStore::Write(const JobRecord& record) {
  LETHE_RETURN_IF_ERROR(CheckRecord(record));
  LETHE_ASSIGN_OR_RETURN(
      Statement update,
      database_->Prepare("UPDATE jobs SET state = ?2, lease = ?3, facts = ?4, first_handle = ?5,"
                         " last_handle = ?6, handles = ?7, next_file = ?8 WHERE number = ?1"));
  update.Int(1, ClampToInt64(record.number)).Int(2, record.state).Text(3, record.lease);
  update.Blob(4, record.facts).Int(5, ClampToInt64(record.first_handle));
  update.Int(6, ClampToInt64(record.last_handle)).Int(7, ClampToInt64(record.handles));
  LETHE_RETURN_IF_ERROR(update.Int(8, ClampToInt64(record.next_file)).Run());
  if (database_->Changes() == 1) return absl::OkStatus();
  return absl::NotFoundError("job: there is none of this number");
}

absl::Status JobStore::Update(const JobRecord& record) {
  LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_.get()));
  LETHE_RETURN_IF_ERROR(Write(record));
  return Commit(transaction);
}

absl::Status JobStore::UpdateWithSnapshot(const JobRecord& record,
                                          std::span<const uint64_t> handles) {
  const std::string ranges = EncodeRanges(handles);
  LETHE_RETURN_IF_ERROR(CheckLength("snapshot", ranges, 0, kMaxJobSnapshotBytes));
  LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_.get()));
  LETHE_RETURN_IF_ERROR(Write(record));
  {
    LETHE_ASSIGN_OR_RETURN(Statement update,
                           database_->Prepare("UPDATE jobs SET snapshot = ?2 WHERE number = ?1"));
    LETHE_RETURN_IF_ERROR(update.Int(1, ClampToInt64(record.number)).Blob(2, ranges).Run());
  }
  return Commit(transaction);
}

absl::StatusOr<std::vector<uint64_t>> JobStore::Snapshot(uint64_t number) {
  LETHE_ASSIGN_OR_RETURN(
      Statement select, database_->Prepare("SELECT snapshot, handles FROM jobs WHERE number = ?1"));
  LETHE_ASSIGN_OR_RETURN(const bool found, select.Int(1, ClampToInt64(number)).Step());
  if (!found) return absl::NotFoundError("job: there is none of this number");
  const auto count = static_cast<uint64_t>(select.ColumnInt(1));
  std::vector<uint64_t> handles;
  LETHE_RETURN_IF_ERROR(VisitRanges(select.ColumnBlob(0), [&](const Range& range) {
    for (uint64_t handle = range.first; handle <= range.last && handles.size() < count; ++handle) {
      handles.push_back(handle);
    }
    return true;
  }));
  if (handles.size() == count) return handles;
  return absl::DataLossError("a stored snapshot is not what was written");
}

absl::StatusOr<bool> JobStore::SnapshotHolds(uint64_t number, std::span<const uint64_t> handles) {
  LETHE_ASSIGN_OR_RETURN(Statement select,
                         database_->Prepare("SELECT snapshot FROM jobs WHERE number = ?1"));
  LETHE_ASSIGN_OR_RETURN(const bool found, select.Int(1, ClampToInt64(number)).Step());
  if (!found) return absl::NotFoundError("job: there is none of this number");
  bool holds = false;
  auto next = handles.begin();
  LETHE_RETURN_IF_ERROR(VisitRanges(select.ColumnBlob(0), [&](const Range& range) {
    next = std::lower_bound(next, handles.end(), range.first);
    if (next == handles.end()) return false;
    holds = *next <= range.last;
    return !holds;
  }));
  return holds;
}

absl::Status JobStore::UpdateWithFile(const JobRecord& record,
                                      const JobFile& file,
                                      std::span<const uint64_t> replaced) {
  LETHE_RETURN_IF_ERROR(CheckHex("file.sha256", file.sha256, 64));
  LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_.get()));
  LETHE_RETURN_IF_ERROR(Write(record));
  {
    LETHE_ASSIGN_OR_RETURN(
        Statement insert,
        database_->Prepare("INSERT INTO files (job, sequence, kind, bytes, sha256, step)"
                           " VALUES (?1, ?2, ?3, ?4, ?5, ?6)"));
    insert.Int(1, ClampToInt64(record.number)).Int(2, ClampToInt64(file.sequence));
    insert.Int(3, static_cast<int64_t>(file.kind)).Int(4, ClampToInt64(file.bytes));
    LETHE_RETURN_IF_ERROR(insert.Text(5, file.sha256).Int(6, ClampToInt64(file.step)).Run());
  }
  LETHE_ASSIGN_OR_RETURN(Statement remove,
                         database_->Prepare("DELETE FROM files WHERE job = ?1 AND sequence = ?2"));
  for (const uint64_t sequence : replaced) {
    remove.Reset();
    LETHE_RETURN_IF_ERROR(
        remove.Int(1, ClampToInt64(record.number)).Int(2, ClampToInt64(sequence)).Run());
  }
  return Commit(transaction);
}

absl::Status JobStore::DropFile(uint64_t job, uint64_t sequence) {
  LETHE_ASSIGN_OR_RETURN(Statement remove,
                         database_->Prepare("DELETE FROM files WHERE job = ?1 AND sequence = ?2"));
  return remove.Int(1, ClampToInt64(job)).Int(2, ClampToInt64(sequence)).Run();
}

absl::Status JobStore::ListRemoval(const JobRecord& record, uint64_t before) {
  LETHE_ASSIGN_OR_RETURN(
      Statement list,
      database_->Prepare("INSERT INTO removals (slot, id, before) VALUES (?1, ?2, ?3)"));
  return list.Int(1, ClampToInt64(record.slot))
      .Text(2, record.id)
      .Int(3, ClampToInt64(before))
      .Run();
}

absl::Status JobStore::UpdateWithout(std::span<JobRecord> records) {
  if (records.empty()) return absl::OkStatus();
  uint64_t fresh = 0;
  {
    MutexLock lock(keys_mutex_);
    LETHE_ASSIGN_OR_RETURN(fresh, keys_->Allocate(records.size()));
  }
  LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_.get()));
  for (const JobRecord& record : records) {
    LETHE_RETURN_IF_ERROR(ListRemoval(record, record.next_file));
    LETHE_RETURN_IF_ERROR(Write(record));
    LETHE_ASSIGN_OR_RETURN(
        Statement change,
        database_->Prepare("UPDATE jobs SET snapshot = NULL, slot = ?2 WHERE number = ?1"));
    const uint64_t slot = fresh + static_cast<uint64_t>(&record - records.data());
    LETHE_RETURN_IF_ERROR(
        change.Int(1, ClampToInt64(record.number)).Int(2, ClampToInt64(slot)).Run());
    LETHE_ASSIGN_OR_RETURN(Statement remove,
                           database_->Prepare("DELETE FROM files WHERE job = ?1"));
    LETHE_RETURN_IF_ERROR(remove.Int(1, ClampToInt64(record.number)).Run());
  }
  LETHE_RETURN_IF_ERROR(Commit(transaction));
  for (JobRecord& record : records) record.slot = fresh++;
  removals_pending_ = true;
  return absl::OkStatus();
}

absl::Status JobStore::Remove(std::span<const JobRecord> records) {
  LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_.get()));
  for (const JobRecord& record : records) {
    LETHE_RETURN_IF_ERROR(ListRemoval(record, std::numeric_limits<int64_t>::max()));
    for (const char* sql :
         {"DELETE FROM files WHERE job = ?1", "DELETE FROM jobs WHERE number = ?1"}) {
      LETHE_ASSIGN_OR_RETURN(Statement change, database_->Prepare(sql));
      LETHE_RETURN_IF_ERROR(change.Int(1, ClampToInt64(record.number)).Run());
    }
  }
  LETHE_RETURN_IF_ERROR(Commit(transaction));
  removals_pending_ = true;
  return absl::OkStatus();
}

absl::Status JobStore::FinishRemovals() {
  if (!removals_pending_) return absl::OkStatus();
  std::vector<uint64_t> slots;
  std::map<std::string, uint64_t> before;  // which files of a job go, by its id
  {
    LETHE_ASSIGN_OR_RETURN(Statement select,
                           database_->Prepare("SELECT slot, id, before FROM removals"));
    while (true) {
      LETHE_ASSIGN_OR_RETURN(const bool more, select.Step());
      if (!more) break;
      slots.push_back(static_cast<uint64_t>(select.ColumnInt(0)));
      uint64_t& first_kept = before[std::string(select.ColumnText(1))];
      first_kept = std::max(first_kept, static_cast<uint64_t>(select.ColumnInt(2)));
    }
  }
  if (!slots.empty()) {
    MutexLock lock(keys_mutex_);
    LETHE_ASSIGN_OR_RETURN(const DestroyResult destroyed, keys_->Destroy(slots));
    // Copies that stayed in the file are worthless under the next key-encryption key, as those of
    // the vault are. A row that does not read as zeros is not destroyed.
    if (!destroyed.evidence.ok() && !absl::IsDataLoss(destroyed.evidence)) {
      return destroyed.evidence;
    }
    LETHE_ASSIGN_OR_RETURN(const RotationResult rotated, keys_->Rotate());
    for (const uint32_t epoch : rotated.destroyed_epochs) {
      LETHE_RETURN_IF_ERROR(keys_->ForgetEndedEpochs(epoch));
    }
  }
  const std::string folder = absl::StrCat(place_.folder, "/files");
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const auto job = before.find(name.substr(0, kUidBytes));
    uint64_t sequence = 0;
    if (job != before.end() && name.size() > kUidBytes + 1 &&
        absl::SimpleAtoi(name.substr(kUidBytes + 1), &sequence) && sequence < job->second) {
      paths.push_back(it->path().string());
    }
  }
  if (error) return SystemError(error.value(), "list it", folder);
  for (const std::string& path : paths) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT)
      return SystemError(errno, "remove it", path);
  }
  LETHE_RETURN_IF_ERROR(SyncFolder(folder));
  {
    LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_.get()));
    LETHE_RETURN_IF_ERROR(database_->Execute("DELETE FROM removals"));
    LETHE_RETURN_IF_ERROR(transaction.Commit());
  }
  removals_pending_ = false;
  return database_->CheckpointTruncate();
}

void JobStore::RemoveFile(const std::string& job_id, uint64_t sequence) {
  (void)::unlink(FilePath(job_id, sequence).c_str());
}

absl::StatusOr<std::unique_ptr<JobFileWriter>> JobStore::NewFile(const JobRecord& record,
                                                                 uint64_t sequence,
                                                                 uint64_t prior_seals) {
  return JobFileWriter::Open({.job_id = record.id, .sequence = sequence}, place_.new_path(),
                             FilePath(record.id, sequence),
                             [this, slot = record.slot, prior_seals](auto use) -> absl::Status {
                               MutexLock lock(keys_mutex_);
                               return keys_->WithKey(slot, prior_seals, use);
                             });
}

absl::Status JobStore::ReadFile(const JobRecord& record,
                                const JobFile& file,
                                absl::FunctionRef<absl::Status(absl::string_view piece)> give) {
  return ReadJobFile(
      {.job_id = record.id, .sequence = file.sequence}, FilePath(record.id, file.sequence),
      file.bytes, file.sha256,
      [this, slot = record.slot](auto use) -> absl::Status {
        MutexLock lock(keys_mutex_);
        const absl::Status status = keys_->WithKey(slot, 0, use);
        return absl::IsFailedPrecondition(status) ? absl::NotFoundError("job: it was deleted")
                                                  : status;
      },
      give);
}

absl::Status JobStore::Health() const {
  LETHE_RETURN_IF_ERROR(database_->health());
  MutexLock lock(keys_mutex_);
  return keys_->Health();
}

absl::Status JobStore::Checkpoint() { return database_->CheckpointTruncate(); }

}  // namespace lethe::store
