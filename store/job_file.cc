#include "store/job_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "absl/strings/str_cat.h"
#include "audit/encoding.h"
#include "core/base/status_macros.h"

namespace lethe::store {
namespace {

std::string ContextOf(const JobFileName& name, uint64_t index, bool last) {
  std::string context("lethe-job-file\0\1", 16);
  context += name.job_id;
  audit::AppendU64(context, name.sequence);
  audit::AppendU64(context, index);
  context.push_back(last ? '\1' : '\0');
  return context;
}

absl::Status Damaged(const std::string& path) {
  return absl::DataLossError(absl::StrCat(path, ": is not what was written"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<JobFileWriter>> JobFileWriter::Open(JobFileName name,
                                                                   std::string draft,
                                                                   std::string path,
                                                                   WithJobKey with_key) {
  std::unique_ptr<JobFileWriter> writer(
      new JobFileWriter(std::move(name), std::move(draft), std::move(path), std::move(with_key)));
  writer->file_ = FileDescriptor(
      ::open(writer->draft_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!writer->file_.valid()) return SystemError(errno, "create it", writer->draft_);
  writer->drafted_ = true;
  return writer;
}

JobFileWriter::~JobFileWriter() {
  if (drafted_) (void)::unlink(draft_.c_str());
  if (in_place_) (void)::unlink(path_.c_str());
}

absl::Status JobFileWriter::WritePiece(bool last) {
  std::string sealed;
  const absl::Status done = with_key_([&](SealingKey& key) -> absl::Status {
    LETHE_ASSIGN_OR_RETURN(sealed, key.Seal(ContextOf(name_, pieces_, last), piece_));
    return absl::OkStatus();
  });
  LETHE_RETURN_IF_ERROR(done);
  LETHE_RETURN_IF_ERROR(WriteNext(file_.get(), sealed, draft_));
  hasher_.Update(piece_);
  ++pieces_;
  piece_.clear();
  return absl::OkStatus();
}

absl::Status JobFileWriter::Append(absl::string_view bytes) {
  while (!bytes.empty()) {
    // A full piece is written once it is known not to be the last one.
    if (piece_.size() == kJobPieceBytes) LETHE_RETURN_IF_ERROR(WritePiece(/*last=*/false));
    const absl::string_view taken = bytes.substr(0, kJobPieceBytes - piece_.size());
    piece_.append(taken.data(), taken.size());
    bytes_ += taken.size();
    bytes.remove_prefix(taken.size());
  }
  return absl::OkStatus();
}

absl::Status JobFileWriter::Commit() {
  if (piece_.empty()) return absl::InvalidArgumentError("data: no byte of it came");
  LETHE_RETURN_IF_ERROR(WritePiece(/*last=*/true));
  LETHE_RETURN_IF_ERROR(Sync(file_.get(), draft_));
  if (!file_.Close()) return SystemError(errno, "close it", draft_);
  if (::renameat2(AT_FDCWD, draft_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) != 0) {
    return SystemError(errno, "put it in its place", path_);
  }
  drafted_ = false;
  in_place_ = true;
  sha256_ = audit::Hex(audit::AsBytes(hasher_.Finish()));
  return SyncFolder(FolderOf(path_));
}

absl::Status ReadJobFile(const JobFileName& name,
                         const std::string& path,
                         uint64_t bytes,
                         absl::string_view sha256,
                         const WithJobKey& with_key,
                         absl::FunctionRef<absl::Status(absl::string_view piece)> give) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.valid()) return SystemError(errno, "open it", path);
  audit::Sha256Hasher hasher;
  std::string sealed;
  std::string piece;
  uint64_t left = bytes;
  for (uint64_t index = 0; left > 0; ++index) {
    const size_t wanted = std::min<uint64_t>(left, kJobPieceBytes);
    sealed.resize(wanted + kSealOverhead);
    LETHE_ASSIGN_OR_RETURN(const size_t read,
                           ReadNext(file.get(), sealed.data(), sealed.size(), path));
    if (read != sealed.size()) return Damaged(path);
    left -= wanted;
    const absl::Status opened = with_key([&](SealingKey& key) -> absl::Status {
      absl::StatusOr<std::string> content = key.Open(ContextOf(name, index, left == 0), sealed);
      if (content.ok()) piece = *std::move(content);
      return absl::IsDataLoss(content.status()) ? Damaged(path) : content.status();
    });
    LETHE_RETURN_IF_ERROR(opened);
    hasher.Update(piece);
    LETHE_RETURN_IF_ERROR(give(piece));
  }
  char more = 0;
  LETHE_ASSIGN_OR_RETURN(const size_t beyond, ReadNext(file.get(), &more, 1, path));
  if (beyond != 0 || audit::Hex(audit::AsBytes(hasher.Finish())) != sha256) return Damaged(path);
  return absl::OkStatus();
}

}  // namespace lethe::store
