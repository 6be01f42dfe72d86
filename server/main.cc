// lethed: settings -> service -> gRPC server -> wait for a signal -> drain.
#include <fcntl.h>
#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/status_macros.h"
#include "server/calls/served_call.h"
#include "server/command_line.h"
#include "server/config.h"
#include "server/http/call_routes.h"
#include "server/http/http_listener.h"
#include "server/http/log_routes.h"
#include "server/http/openapi.h"
#include "server/limits.h"
#include "server/rpc/server.h"
#include "server/service/event_log.h"
#include "server/service/service.h"

namespace lethe::server {
namespace {

constexpr int kExitUsage = 64;  // EX_USAGE
constexpr absl::Duration kDrainGrace = absl::Seconds(20);

// For the log hooks of libraries, which take plain functions. Set once, before any thread starts.
service::EventLog* library_log = nullptr;

void LogFromGrpc(gpr_log_func_args* args) {
  const service::LogLevel level = args->severity == GPR_LOG_SEVERITY_ERROR
                                      ? service::LogLevel::kWarning
                                      : service::LogLevel::kDebug;
  library_log->Write(level, "grpc", {{"message", std::string(args->message)}});
}

// Messages of Protocol Buffers describe bad input, which the caller is told of anyway.
void LogFromProtobuf(google::protobuf::LogLevel, const char*, int, const std::string& message) {
  library_log->Write(service::LogLevel::kDebug, "protobuf", {{"message", message}});
}

// Appears whole or not at all: whoever waits for the file must not read half a number.
absl::Status WritePortFile(const std::string& path, uint16_t port) {
  const std::string temporary = absl::StrCat(path, ".tmp");
  std::ofstream out(temporary, std::ios::trunc);
  out << port << "\n";
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(temporary, path, error);
  if (!out || error) return absl::UnavailableError("--port-file: cannot be written");
  return absl::OkStatus();
}

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

absl::Status Serve(const Config& config,
                   const service::RegistryLimits& limits,
                   service::EventLog& log) {
  const absl::Time begin = absl::Now();
  service::ServiceOptions service_options;
  service_options.data = config.data;
  service_options.vault = config.vault;
  service_options.origin = config.origin;
  service_options.tenant.refit_on_forget = config.refit_on_forget;
  service_options.tenant.witnesses = config.witnesses;
  service_options.tenant.log = &log;
  service_options.limits = limits;
  service_options.ballast_bytes = config.ballast;
  LETHE_ASSIGN_OR_RETURN(const std::unique_ptr<service::Service> service,
                         service::Service::Open(service_options));
  // Until here a signal ended the process at once, which is as safe as kill -9 and does not make
  // anybody wait for a long start. From here they wait for sigwait. Blocked before gRPC starts its
  // threads, which inherit this; opening the service starts none.
  const sigset_t stop_signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &stop_signals, nullptr);
  rpc::ServerOptions rpc_options;
  rpc_options.listen = config.listen;
  calls::LineLimit call_lines;
  rpc_options.hooks = {.log = &log, .lines = &call_lines};
  LETHE_ASSIGN_OR_RETURN(const std::unique_ptr<rpc::RpcServer> server,
                         rpc::RpcServer::Start(service.get(), rpc_options));
  std::unique_ptr<http::HttpListener> http;
  if (!config.http_listen.empty()) {
    LETHE_ASSIGN_OR_RETURN(const HostPort address,
                           ParseHostPort("--http-listen", config.http_listen));
    http = std::make_unique<http::HttpListener>(
        http::HttpOptions{.host = address.host, .port = address.port, .hooks = rpc_options.hooks});
    http::AddLogRoutes(service.get(), http->routes());
    http::AddCallRoutes(service.get(), http->routes());
    http::AddOpenApiRoute(http->routes());
    LETHE_RETURN_IF_ERROR(http->Start());
    log.Write(service::LogLevel::kInfo, "serving_http",
              {{"listen", config.http_listen}, {"port", int64_t{http->port()}}});
  }
  if (!config.port_file.empty()) {
    LETHE_RETURN_IF_ERROR(WritePortFile(config.port_file, server->port()));
  }
  log.Write(service::LogLevel::kInfo, "serving",
            {{"version", std::string(LETHE_VERSION)},
             {"listen", config.listen},
             {"port", int64_t{server->port()}},
             {"data", config.data},
             {"vault", config.vault.empty() ? config.data + "/vault" : config.vault},
             {"max_open_tenants", static_cast<int64_t>(limits.max_open)},
             {"memory_limit", static_cast<int64_t>(limits.max_bytes)},
             {"start_seconds", absl::ToDoubleSeconds(absl::Now() - begin)}});

  int signal = 0;
  sigwait(&stop_signals, &signal);
  log.Write(service::LogLevel::kInfo, "stopping", {{"signal", int64_t{signal}}});
  // From here a second signal ends the process at once.
  pthread_sigmask(SIG_UNBLOCK, &stop_signals, nullptr);
  server->BeginDrain();
  if (http != nullptr) http->Stop();
  server->Drain(kDrainGrace);
  LETHE_RETURN_IF_ERROR(service->Checkpoint());
  log.Write(service::LogLevel::kInfo, "stopped", {});
  return absl::OkStatus();
}

int UsageError(const absl::Status& status) {
  std::fprintf(stderr, "lethed: %s\nTry lethed --help.\n", std::string(status.message()).c_str());
  return kExitUsage;
}

int Main(const std::vector<std::string>& arguments) {
  const absl::StatusOr<CommandLine> command_line = ParseCommandLine(arguments);
  if (!command_line.ok()) return UsageError(command_line.status());
  if (command_line->action == CommandLine::Action::kPrint) {
    std::fputs(command_line->text.c_str(), stdout);
    return 0;
  }
  const Config& config = command_line->config;
  // What can be known of the settings without touching the data.
  const absl::StatusOr<service::RegistryLimits> limits = TenantLimits(
      config.max_open_tenants, config.memory_limit, RaiseOpenFiles(), MemoryOfMachine());
  if (!limits.ok()) return UsageError(AtOrigin(limits.status(), *command_line));
  if (command_line->action == CommandLine::Action::kCheck) {
    for (const std::string& warning : command_line->warnings) {
      std::fprintf(stderr, "lethed: warning: %s\n", warning.c_str());
    }
    std::fputs(command_line->text.c_str(), stdout);
    return 0;
  }
  service::EventLog log(STDERR_FILENO, config.log_level);
  library_log = &log;
  gpr_set_log_function(LogFromGrpc);
  google::protobuf::SetLogHandler(LogFromProtobuf);
  ::signal(SIGPIPE, SIG_IGN);
  for (const std::string& warning : command_line->warnings) {
    log.Write(service::LogLevel::kWarning, "unknown_variable", {{"message", warning}});
  }

  const absl::Status status = Serve(config, *limits, log);
  if (status.ok()) return 0;
  log.Write(
      service::LogLevel::kError, "failed",
      {{"code", static_cast<int64_t>(status.code())}, {"message", std::string(status.message())}});
  return 1;
}

}  // namespace
}  // namespace lethe::server

int main(int argc, char** argv) {
  return lethe::server::Main(std::vector<std::string>(argv + 1, argv + argc));
}
