#include "server/rpc/library_log.h"

#include <grpc/support/log.h>

#include <cstdint>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/calls/served_call.h"

namespace lethe::rpc {
namespace {

// The hook is a plain function.
program::EventLog* library_log = nullptr;
calls::LineLimit library_lines;

void Log(gpr_log_func_args* args) {
  const bool error = args->severity == GPR_LOG_SEVERITY_ERROR;
  const program::LogLevel level = error ? program::LogLevel::kWarning : program::LogLevel::kDebug;
  if (!library_log->Writes(level)) return;
  if (error) {
    int64_t left_out = 0;
    const bool write = library_lines.Take(absl::ToUnixSeconds(absl::Now()), &left_out);
    if (left_out > 0) {
      library_log->Write(level, "grpc_not_logged", {{"messages", left_out}});
    }
    if (!write) return;
  }
  library_log->Write(level, "grpc", {{"message", std::string(args->message)}});
}

}  // namespace

void LogGrpcTo(program::EventLog* log) {
  library_log = log;
  gpr_set_log_function(Log);
}

}  // namespace lethe::rpc
