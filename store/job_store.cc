#include "store/job_store.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "audit/random.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "store/validation.h"
#include "store/varint.h"

namespace lethe::store {
namespace {

namespace fs = std::filesystem;

constexpr size_t kUidBytes = 32;
constexpr uint64_t kWalBytes = uint64_t{4} << 20;

absl::Status CheckRecord(const JobRecord& record) {
  LETHE_RETURN_IF_ERROR(CheckHex("job.id", record.id, kUidBytes));
  LETHE_RETURN_IF_ERROR(CheckHex("job.tenant_uid", record.tenant_uid, kUidBytes));
  LETHE_RETURN_IF_ERROR(CheckHex("job.memory_uid", record.memory_uid, kUidBytes));
  LETHE_RETURN_IF_ERROR(CheckLength("job.request_key", record.request_key, 0, 64));
  LETHE_RETURN_IF_ERROR(CheckLength("job.spec", record.spec, 0, kMaxJobBlobBytes));
  return CheckLength("job.facts", record.facts, 0, kMaxJobBlobBytes);
}

// Ranges of handles in a row, each as the gap before it and its length less one, in LEB128.
std::string EncodeRanges(std::span<const uint64_t> handles) {
  std::string bytes;
  uint64_t end = 0;  // behind the last range
  for (size_t i = 0; i < handles.size();) {
    size_t next = i + 1;
    while (next < handles.size() && handles[next] == handles[next - 1] + 1) ++next;
    AppendVarint(bytes, handles[i] - end);
    AppendVarint(bytes, next - i - 1);
    end = handles[next - 1] + 1;
    i = next;
  }
  return bytes;
}

std::string TextContextOf(const JobRecord& record) {
  return absl::StrCat(absl::string_view("lethe-job-text\0\1", 16), record.id);
}

struct Range {
  uint64_t first = 0;
  uint64_t last = 0;
};

absl::Status VisitRanges(absl::string_view bytes, absl::FunctionRef<bool(const Range&)> visit) {
  const auto damaged = [] {
    return absl::DataLossError("a stored snapshot is not what was written");
  };
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  uint64_t end = 0;
  while (!bytes.empty()) {
    const std::optional<uint64_t> gap = TakeVarint(bytes);
    const std::optional<uint64_t> more = gap.has_value() ? TakeVarint(bytes) : std::nullopt;
    if (!more.has_value() || *gap > kMost - end || *more > kMost - end - *gap) return damaged();
    const Range range{.first = end + *gap, .last = end + *gap + *more};
    end = range.last + 1;
    if (!visit(range)) return absl::OkStatus();
  }
  return absl::OkStatus();
}

}  // namespace

JobStore::~JobStore() = default;

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

absl::Status JobStore::Update(std::span<const JobRecord> records) {
  LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_.get()));
  for (const JobRecord& record : records) LETHE_RETURN_IF_ERROR(Write(record));
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

std::vector<JobStore::Holding> JobStore::SnapshotsThatHold(std::span<const uint64_t> numbers,
                                                           std::span<const uint64_t> handles) {
  std::vector<Holding> result(numbers.size(), Holding::kUnknown);
  absl::StatusOr<Statement> select =
      database_->Prepare("SELECT snapshot, handles FROM jobs WHERE number = ?1");
  if (!select.ok()) return result;
  for (size_t i = 0; i < numbers.size(); ++i) {
    select->Reset();
    const absl::StatusOr<bool> found = select->Int(1, ClampToInt64(numbers[i])).Step();
    if (!found.ok() || !*found) continue;
    bool holds = false;
    uint64_t seen = 0;
    auto next = handles.begin();
    const absl::Status read = VisitRanges(select->ColumnBlob(0), [&](const Range& range) {
      seen += range.last - range.first + 1;
      next = std::lower_bound(next, handles.end(), range.first);
      holds = next != handles.end() && *next <= range.last;
      return !holds;
    });
    const bool whole = read.ok() && seen == static_cast<uint64_t>(select->ColumnInt(1));
    if (holds || whole) result[i] = holds ? Holding::kYes : Holding::kNo;
  }
  return result;
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

absl::Status JobStore::UpdateWithout(std::span<JobRecord> records,
                                     absl::FunctionRef<absl::Status(size_t index)> finish) {
  if (records.empty()) return absl::OkStatus();
  uint64_t fresh = 0;
  {
    MutexLock lock(keys_mutex_);
    LETHE_ASSIGN_OR_RETURN(fresh, keys_->Allocate(records.size()));
  }
  const std::vector<JobRecord> before(records.begin(), records.end());
  for (size_t i = 0; i < records.size(); ++i) {
    records[i].slot = fresh + i;
    LETHE_RETURN_IF_ERROR(finish(i));
  }
  LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_.get()));
  for (size_t i = 0; i < records.size(); ++i) {
    LETHE_RETURN_IF_ERROR(ListRemoval(before[i], before[i].next_file));
    LETHE_RETURN_IF_ERROR(Write(records[i]));
    const int64_t number = ClampToInt64(records[i].number);
    LETHE_ASSIGN_OR_RETURN(
        Statement change,
        database_->Prepare("UPDATE jobs SET snapshot = NULL, slot = ?2 WHERE number = ?1"));
    LETHE_RETURN_IF_ERROR(change.Int(1, number).Int(2, ClampToInt64(records[i].slot)).Run());
    LETHE_ASSIGN_OR_RETURN(Statement remove,
                           database_->Prepare("DELETE FROM files WHERE job = ?1"));
    LETHE_RETURN_IF_ERROR(remove.Int(1, number).Run());
  }
  removals_pending_ = true;  // also where the outcome does not become known
  return Commit(transaction);
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
  removals_pending_ = true;  // also where the outcome does not become known
  return Commit(transaction);
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
  // What is in the write-ahead log is still to be read there.
  LETHE_RETURN_IF_ERROR(database_->CheckpointTruncate());
  removals_pending_ = false;
  return absl::OkStatus();
}

void JobStore::RemoveFile(const std::string& job_id, uint64_t sequence) {
  (void)::unlink(FilePath(job_id, sequence).c_str());
}

absl::Status JobStore::WithKey(uint64_t slot,
                               uint64_t prior_seals,
                               absl::FunctionRef<absl::Status(SealingKey& key)> use) {
  MutexLock lock(keys_mutex_);
  if (keys_ == nullptr) return absl::UnavailableError("the file of jobs was closed");
  return keys_->WithKey(slot, prior_seals, use);
}

absl::StatusOr<std::unique_ptr<JobFileWriter>> JobStore::NewFile(const JobRecord& record,
                                                                 uint64_t sequence,
                                                                 uint64_t prior_seals) {
  return JobFileWriter::Open({.job_id = record.id, .sequence = sequence}, place_.new_path(),
                             FilePath(record.id, sequence),
                             [this, slot = record.slot, prior_seals](auto use) -> absl::Status {
                               return WithKey(slot, prior_seals, use);
                             });
}

absl::Status JobStore::ReadFile(const JobRecord& record,
                                const JobFile& file,
                                absl::FunctionRef<absl::Status(absl::string_view piece)> give) {
  return ReadJobFile(
      {.job_id = record.id, .sequence = file.sequence}, FilePath(record.id, file.sequence),
      file.bytes, file.sha256,
      [this, slot = record.slot](auto use) -> absl::Status {
        const absl::Status status = WithKey(slot, 0, use);
        return absl::IsFailedPrecondition(status) ? absl::NotFoundError("job: it was deleted")
                                                  : status;
      },
      give);
}

absl::StatusOr<std::string> JobStore::SealText(const JobRecord& record,
                                               uint64_t prior_seals,
                                               absl::string_view text) {
  std::string sealed;
  const absl::Status done = WithKey(record.slot, prior_seals, [&](SealingKey& key) -> absl::Status {
    LETHE_ASSIGN_OR_RETURN(sealed, key.Seal(TextContextOf(record), text));
    return absl::OkStatus();
  });
  LETHE_RETURN_IF_ERROR(done);
  return sealed;
}

absl::StatusOr<std::string> JobStore::OpenText(const JobRecord& record, absl::string_view sealed) {
  std::string text;
  const absl::Status done = WithKey(record.slot, 0, [&](SealingKey& key) -> absl::Status {
    LETHE_ASSIGN_OR_RETURN(text, key.Open(TextContextOf(record), sealed));
    return absl::OkStatus();
  });
  LETHE_RETURN_IF_ERROR(done);
  return text;
}

void JobStore::Close() {
  database_.reset();
  MutexLock lock(keys_mutex_);
  keys_.reset();
  kms_.reset();
}

absl::Status JobStore::Health() const {
  LETHE_RETURN_IF_ERROR(database_->health());
  MutexLock lock(keys_mutex_);
  return keys_->Health();
}

absl::Status JobStore::Checkpoint() { return database_->CheckpointTruncate(); }

}  // namespace lethe::store
