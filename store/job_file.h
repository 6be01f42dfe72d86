// The bytes of a checkpoint or an artefact, sealed piece by piece under the key of its job.
//
//   piece*     piece = nonce[12] ciphertext[n] tag[16], n = 1 MiB, of the last one 1 byte to 1 MiB
//
// Context (AAD) of a piece, 74 bytes, integers big-endian:
//    0  16  "lethe-job-file" 00 01         16  32  job id (lower-case hex digits)
//   48   8  sequence of the file in its job    56   8  index of the piece
//   64   1  1 for the last piece, else 0
// so that no piece can be moved, left out, or taken for the end. Size and SHA-256 of the content
// stand in the file's row (job_store.h), which is written last.
//
// Errors: as in core/base/files.h and sealing.h. Cost: linear. Threads: compatible.
#ifndef LETHE_STORE_JOB_FILE_H_
#define LETHE_STORE_JOB_FILE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/hash.h"
#include "core/base/files.h"
#include "store/vault/sealing.h"

namespace lethe::store {

inline constexpr size_t kJobPieceBytes = size_t{1} << 20;

// Calls `use` with the key of the job.
using WithJobKey =
    std::function<absl::Status(absl::FunctionRef<absl::Status(SealingKey& key)> use)>;

struct JobFileName {
  std::string job_id;
  uint64_t sequence = 0;
};

class JobFileWriter {
 public:
  // Writes at `draft`, where nothing is yet; Commit moves it to `path`.
  static absl::StatusOr<std::unique_ptr<JobFileWriter>> Open(JobFileName name,
                                                             std::string draft,
                                                             std::string path,
                                                             WithJobKey with_key);
  // Removes what is not kept.
  ~JobFileWriter();
  JobFileWriter(const JobFileWriter&) = delete;
  JobFileWriter& operator=(const JobFileWriter&) = delete;

  absl::Status Append(absl::string_view bytes);
  // Whole, synced and in its place, durable on return. INVALID_ARGUMENT without a byte.
  absl::Status Commit();
  // Once its row is there, or nobody knows whether it is.
  void Keep() { in_place_ = false; }

  uint64_t bytes() const { return bytes_; }
  // Hex, of the content; after Commit.
  const std::string& sha256() const { return sha256_; }

 private:
  JobFileWriter(JobFileName name, std::string draft, std::string path, WithJobKey with_key)
      : name_(std::move(name)),
        draft_(std::move(draft)),
        path_(std::move(path)),
        with_key_(std::move(with_key)) {}
  absl::Status WritePiece(bool last);

  const JobFileName name_;
  const std::string draft_;
  const std::string path_;
  const WithJobKey with_key_;
  FileDescriptor file_;
  std::string piece_;
  uint64_t pieces_ = 0;
  uint64_t bytes_ = 0;
  audit::Sha256Hasher hasher_;
  std::string sha256_;
  bool drafted_ = false;
  bool in_place_ = false;  // and not kept
};

// Gives the content of a file of so many bytes, piece by piece. DATA_LOSS for anything but what was
// written, found at the latest behind the last piece.
absl::Status ReadJobFile(const JobFileName& name,
                         const std::string& path,
                         uint64_t bytes,
                         absl::string_view sha256,
                         const WithJobKey& with_key,
                         absl::FunctionRef<absl::Status(absl::string_view piece)> give);

}  // namespace lethe::store

#endif  // LETHE_STORE_JOB_FILE_H_
