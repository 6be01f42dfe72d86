#include "server/rpc/export_stream.h"

#include <algorithm>

#include "core/base/status_macros.h"

namespace lethe::rpc {

absl::Status ExportStream::Send() {
  const bool sent = write_(piece_);
  piece_.Clear();
  return sent ? absl::OkStatus() : absl::CancelledError("the caller is gone");
}

absl::Status ExportStream::Begin(absl::string_view path) {
  if (call_.still_wanted) LETHE_RETURN_IF_ERROR(call_.still_wanted());
  piece_.Clear();
  piece_.set_path(std::string(path));
  ++files_;
  return absl::OkStatus();
}

absl::Status ExportStream::Write(absl::string_view bytes) {
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    std::string& data = *piece_.mutable_data();
    const absl::string_view taken = bytes.substr(0, kMaxPieceBytes - data.size());
    data.append(taken.data(), taken.size());
    bytes.remove_prefix(taken.size());
    // What follows a full piece has no path: the path stands in the first piece of a file.
    if (data.size() == kMaxPieceBytes) LETHE_RETURN_IF_ERROR(Send());
  }
  return absl::OkStatus();
}

absl::Status ExportStream::End() {
  // A file without bytes is a path without data.
  return piece_.path().empty() && piece_.data().empty() ? absl::OkStatus() : Send();
}

absl::Status ExportStream::Done() {
  piece_.Clear();
  piece_.set_done(true);
  piece_.set_files(files_);
  piece_.set_bytes(bytes_);
  return Send();
}

}  // namespace lethe::rpc
