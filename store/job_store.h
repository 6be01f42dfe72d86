// JobStore: what must not be lost of training jobs, of all tenants of a data folder.
//
//   <folder>/jobs.db           a row a job, a row a file
//   <folder>/files/<id>-<n>    checkpoints and artefacts, sealed (job_file.h)
//   <folder>/unfinished        there while Create is at work
//   <vault>/keys.db, kek/      a key a job, apart from the data, as those of rows
//   (vault/key_store.h)
//
// What stands in the clear in jobs.db is opaque here, but for numbers, handles and names of files;
// texts that may be personal are to be sealed first (SealText).
//
// Ensures: a change is one transaction, and OK means durable. A file counts once its row is there,
// which comes after its bytes. What is removed ends in two steps: the rows go and the key is
// listed, in one transaction; FinishRemovals destroys the key, looks for it in the raw file, makes
// a new key-encryption key, so that no copy of the vault is of use, and unlinks the files. Open
// does what a crash left of it, destroys keys of no job, removes files of no row, and leaves out
// jobs whose key is gone: a jobs.db that was put back from a copy brings no job to life.
//
// Errors: those of store/sqlite.h, the indeterminate COMMIT among them, after which the object is
// to be opened again; FAILED_PRECONDITION and DATA_LOSS with what to do for files that do not
// belong together; RESOURCE_EXHAUSTED for a full disk. Messages name files and numbers alone.
// Threads: compatible, but for files and texts (NewFile, ReadFile and what they return, SealText,
// OpenText), which may be used beside everything else.
#ifndef LETHE_STORE_JOB_STORE_H_
#define LETHE_STORE_JOB_STORE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/mutex.h"
#include "store/job_file.h"
#include "store/sqlite.h"
#include "store/sqlite_tenant_store.h"
#include "store/vault/key_store.h"
#include "store/vault/kms.h"

namespace lethe::store {

inline constexpr DatabaseIdentity kJobsIdentity = {
    .application_id = 0x4c744a31,  // "LtJ1"
    .user_version = 1,
};

inline constexpr size_t kMaxJobBlobBytes = size_t{64} << 10;      // spec, facts
inline constexpr size_t kMaxJobSnapshotBytes = size_t{32} << 20;  // ranges of handles

struct JobRecord {
  uint64_t number = 0;  // increasing; set by the store
  std::string id;       // 32 lower-case hex digits, never used twice
  std::string tenant_uid;
  std::string memory_uid;
  uint64_t slot = 0;        // of its key; set by the store
  std::string request_key;  // empty, or unique in the tenant
  std::string spec;         // opaque, and constant as all above
  int state = 0;            // the caller's
  // Of the lease; empty for none.
  std::string lease;
  std::string facts;  // opaque
  // The first and the last handle of the snapshot, and how many; 0 without one.
  uint64_t first_handle = 0;
  uint64_t last_handle = 0;
  uint64_t handles = 0;
  uint64_t next_file = 1;
  bool operator==(const JobRecord&) const = default;
};

enum class JobFileKind : uint8_t { kCheckpoint = 1, kArtefact = 2 };
struct JobFile {
  uint64_t job = 0;  // number
  uint64_t sequence = 0;
  JobFileKind kind = JobFileKind::kCheckpoint;
  uint64_t bytes = 0;
  std::string sha256;  // hex, of the content
  uint64_t step = 0;   // of a checkpoint
  bool operator==(const JobFile&) const = default;
};

class JobStore {
 public:
  struct Place {
    std::string folder;  // its parent exists
    std::string vault;   // likewise
    // Gives a path for a file that is not whole, on the same file system; nothing is there.
    std::function<std::string()> new_path;
    KmsFactory kms;
    KeyStoreOptions keys = {};
    std::string database() const { return folder + "/jobs.db"; }
  };
  struct Opened {
    std::unique_ptr<JobStore> store;
    std::vector<JobRecord> jobs;  // in the order of numbers
    std::vector<JobFile> files;   // in the order of jobs and sequences
    uint64_t lost = 0;            // jobs whose key is gone
    // OK, or what could not be done now of what a crash left; another opening tries again.
    absl::Status tidied;
  };

  // Whether there is something to open. An error where nobody can tell, and where jobs.db is there
  // without its keys or the other way round: nothing may be made in its place then.
  static absl::StatusOr<bool> IsThere(const Place& place);
  // Makes what Open opens; requires that nothing is there. Durable on return. What a crash in an
  // earlier call left is made anew.
  static absl::Status Create(const Place& place);
  static absl::StatusOr<Opened> Open(const Place& place);
  ~JobStore();
  JobStore(const JobStore&) = delete;
  JobStore& operator=(const JobStore&) = delete;

  // Makes the job's key. Returns the record as stored. ALREADY_EXISTS for an id or a request key
  // that is there.
  absl::StatusOr<JobRecord> Create(JobRecord record);
  // What is not constant of them.
  absl::Status Update(std::span<const JobRecord> records);
  // Likewise, with the handles of its snapshot: an ascending list, which is kept as ranges.
  absl::Status UpdateWithSnapshot(const JobRecord& record, std::span<const uint64_t> handles);
  absl::StatusOr<std::vector<uint64_t>> Snapshot(uint64_t number);
  // Whether one of these handles (increasing) is in the snapshot of each of these jobs.
  enum class Holding : uint8_t { kNo, kYes, kUnknown };  // it could not be read
  std::vector<Holding> SnapshotsThatHold(std::span<const uint64_t> numbers,
                                         std::span<const uint64_t> handles);
  // Likewise, with a file that NewFile wrote and Commit put in its place; the rows of `replaced`
  // go, and their files with RemoveFile.
  absl::Status UpdateWithFile(const JobRecord& record,
                              const JobFile& file,
                              std::span<const uint64_t> replaced);
  // The row of a file that turned out not to be what it says.
  absl::Status DropFile(uint64_t job, uint64_t sequence);
  // Likewise of each of them, without snapshot and without any file, and with another key, which
  // the record then names; the old one is listed, for FinishRemovals. `finish` is called for each
  // of them once it names its new key, before anything is written.
  absl::Status UpdateWithout(std::span<JobRecord> records,
                             absl::FunctionRef<absl::Status(size_t index)> finish);
  // The first step of their end.
  absl::Status Remove(std::span<const JobRecord> records);
  // The second. Idempotent; nothing to do where no key is listed.
  absl::Status FinishRemovals();
  bool removals_pending() const { return removals_pending_; }
  // Unlinks; what cannot be unlinked now is removed by the next Open.
  void RemoveFile(const std::string& job_id, uint64_t sequence);

  // A file of this job, in the making. `prior_seals` as KeyStore::WithKey has it.
  absl::StatusOr<std::unique_ptr<JobFileWriter>> NewFile(const JobRecord& record,
                                                         uint64_t sequence,
                                                         uint64_t prior_seals);
  // Gives its content piece by piece. DATA_LOSS where it is not what its row says, found at the
  // latest behind the last piece; NOT_FOUND where it is gone, or the job's key is.
  absl::Status ReadFile(const JobRecord& record,
                        const JobFile& file,
                        absl::FunctionRef<absl::Status(absl::string_view piece)> give);

  // Under the key of the job.
  absl::StatusOr<std::string> SealText(const JobRecord& record,
                                       uint64_t prior_seals,
                                       absl::string_view text);
  // DATA_LOSS for what SealText did not make.
  absl::StatusOr<std::string> OpenText(const JobRecord& record, absl::string_view sealed);

  // Gives the files up, so that they can be opened again, also while files of jobs are written and
  // read: those fail with UNAVAILABLE from now on. Nothing else may be called any more.
  void Close();

  // OK, or why it must be opened again.
  absl::Status Health() const;
  // Empties the write-ahead log.
  absl::Status Checkpoint();

 private:
  explicit JobStore(Place place) : place_(std::move(place)) {}
  absl::Status OpenKeys(const std::string& uid);
  absl::Status Load(Opened& opened);
  // Takes the jobs whose key is gone out of what was loaded.
  absl::StatusOr<std::vector<uint64_t>> FindLost(Opened& opened);
  // What a crash left.
  absl::Status Tidy(const Opened& opened, std::span<const uint64_t> lost);
  absl::Status FinishRotation();
  absl::Status RemoveRows(std::span<const uint64_t> numbers);
  absl::Status DestroyUnused(const Opened& opened);
  absl::Status RemoveUnknownFiles(const Opened& opened) const;
  absl::Status Write(const JobRecord& record);
  absl::Status ListRemoval(const JobRecord& record, uint64_t before);
  absl::Status Commit(Transaction& transaction);
  absl::Status WithKey(uint64_t slot,
                       uint64_t prior_seals,
                       absl::FunctionRef<absl::Status(SealingKey& key)> use);
  std::string FilePath(const std::string& job_id, uint64_t sequence) const;

  const Place place_;
  std::unique_ptr<Database> database_;
  mutable Mutex keys_mutex_;
  std::unique_ptr<Kms> kms_ ABSL_GUARDED_BY(keys_mutex_);
  // Null once it is closed.
  std::unique_ptr<KeyStore> keys_ ABSL_GUARDED_BY(keys_mutex_);
  std::atomic<bool> removals_pending_{false};
};

}  // namespace lethe::store

#endif  // LETHE_STORE_JOB_STORE_H_
