// Sends the files of an export as pieces of a stream.
#ifndef LETHE_SERVER_RPC_EXPORT_STREAM_H_
#define LETHE_SERVER_RPC_EXPORT_STREAM_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "audit/export.h"
#include "lethe/v1/certificate_service.pb.h"
#include "server/service/types.h"

namespace lethe::rpc {

inline constexpr size_t kMaxPieceBytes = size_t{64} << 10;

class ExportStream final : public audit::ExportSink {
 public:
  // `write` sends one piece, false when the stream is broken. `call` is asked before each file.
  ExportStream(std::function<bool(const v1::ExportPiece&)> write, service::CallOptions call)
      : write_(std::move(write)), call_(std::move(call)) {}

  absl::Status Begin(absl::string_view path) override;
  absl::Status Write(absl::string_view bytes) override;
  absl::Status End() override;
  // After the last file: the piece that says that the export is whole.
  absl::Status Done();

 private:
  absl::Status Send();

  std::function<bool(const v1::ExportPiece&)> write_;
  service::CallOptions call_;
  v1::ExportPiece piece_;  // of the present file, not sent yet
  uint64_t files_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace lethe::rpc

#endif  // LETHE_SERVER_RPC_EXPORT_STREAM_H_
