// lethed: settings -> service -> gRPC server -> wait for a signal -> drain.
#include <fcntl.h>
#include <google/protobuf/stubs/logging.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/status_macros.h"
#include "core/program/event_log.h"
#include "server/calls/served_call.h"
#include "server/command_line.h"
#include "server/config.h"
#include "server/guard.h"
#include "server/http/erasure_channel.h"
#include "server/http/http_listener.h"
#include "server/http/http_server.h"
#include "server/http/metrics_routes.h"
#include "server/lifecycle.h"
#include "server/limits.h"
#include "server/metrics/metrics.h"
#include "server/reload.h"
#include "server/rpc/library_log.h"
#include "server/rpc/server.h"
#include "server/service/service.h"

namespace lethe::server {
namespace {

constexpr int kExitUsage = 64;  // EX_USAGE
// Of --drain-timeout, for calls to end by themselves; the rest is for what follows.
constexpr double kGraceShare = 0.8;
constexpr absl::Duration kFolderPeriod = absl::Seconds(5);
// As often as the files of TLS are looked at.
constexpr absl::Duration kKeyPeriod = absl::Seconds(1);
constexpr size_t kMetricsThreads = 2;

// For the log hook of a library, which is a plain function. Set once, before any thread starts.
program::EventLog* library_log = nullptr;

// Messages of Protocol Buffers describe bad input, which the caller is told of anyway.
void LogFromProtobuf(google::protobuf::LogLevel, const char*, int, const std::string& message) {
  library_log->Write(program::LogLevel::kDebug, "protobuf", {{"message", message}});
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

http::ErasureSettings ErasureSettingsOf(const Config& config) {
  return {.public_url = config.public_url,
          .dsr_domain = config.dsr_domain,
          .dsr_key = config.dsr_key,
          .dsr_certificate = config.dsr_certificate,
          .callbacks = {.hosts = config.callback_hosts,
                        .private_networks = config.callback_private_networks,
                        .loopback = config.callback_insecure_loopback},
          .callback_ca = config.callback_ca,
          .transcend_key = config.transcend_key};
}

// Serves HTTP where the settings say so; null for nowhere.
absl::StatusOr<std::unique_ptr<http::HttpServer>> ServeHttp(const Config& config,
                                                            service::Service* service,
                                                            const http::ErasureChannel& erasure,
                                                            const calls::CallHooks& hooks,
                                                            const http::TlsContext* tls) {
  if (config.http_listen.empty()) return nullptr;
  LETHE_ASSIGN_OR_RETURN(const HostPort address,
                         ParseHostPort("--http-listen", config.http_listen));
  // Where nobody is asked who he is, the logs are open like all else.
  const http::HttpSettings settings = {.host = address.host,
                                       .port = address.port,
                                       .public_logs = config.public_logs || config.access.empty()};
  LETHE_ASSIGN_OR_RETURN(std::unique_ptr<http::HttpServer> server,
                         http::HttpServer::Start(service, settings, erasure, hooks, tls));
  hooks.log->Write(program::LogLevel::kInfo, "serving_http",
                   {{"listen", config.http_listen}, {"port", int64_t{server->port()}}});
  return server;
}

// Serves GET /metrics where the settings say so; null for nowhere.
absl::StatusOr<std::unique_ptr<http::HttpListener>> ServeMetrics(const Config& config,
                                                                 const metrics::Metrics& metrics,
                                                                 program::EventLog& log) {
  if (config.metrics_listen.empty()) return nullptr;
  LETHE_ASSIGN_OR_RETURN(const HostPort address,
                         ParseHostPort("--metrics-listen", config.metrics_listen));
  auto listener = std::make_unique<http::HttpListener>(
      http::HttpOptions{.host = address.host, .port = address.port, .threads = kMetricsThreads});
  http::AddMetricsRoute([&metrics] { return metrics.Text(); }, listener->routes());
  LETHE_RETURN_IF_ERROR(listener->Start());
  log.Write(program::LogLevel::kInfo, "serving_metrics",
            {{"listen", config.metrics_listen}, {"port", int64_t{listener->port()}}});
  return listener;
}

// Health follows whether files can be written: a server that cannot keep anything should get no
// calls. Lines in the log where that changes.
class FolderWatch {
 public:
  FolderWatch(service::Service* service,
              rpc::RpcServer* server,
              metrics::Metrics* metrics,
              program::EventLog* log)
      : service_(service),
        server_(server),
        metrics_(metrics),
        log_(log),
        look_(kFolderPeriod, [this] { Look(); }) {}

 private:
  void Look() {
    const absl::Status status = service_->CheckFolders();
    if (status.ok() == writable_) return;
    writable_ = status.ok();
    if (writable_) {
      log_->Write(program::LogLevel::kInfo, "folders_writable", {});
    } else {
      log_->Write(program::LogLevel::kError, "folders_failed",
                  {{"message", std::string(status.message())}});
    }
    server_->SetServing(writable_);
    metrics_->SetServing(writable_);
    metrics_->SetFoldersWritable(writable_);
  }

  service::Service* const service_;
  rpc::RpcServer* const server_;
  metrics::Metrics* const metrics_;
  program::EventLog* const log_;
  bool writable_ = true;  // of the thread below
  Periodically look_;     // last: its thread uses the rest
};

// New settings from where the first came from. Those that are wrong change nothing.
void Reload(const std::vector<std::string>& arguments,
            const Reloader& reloader,
            const Config& present,
            metrics::Metrics& metrics,
            program::EventLog& log) {
  absl::StatusOr<CommandLine> next = ParseCommandLine(arguments);
  absl::Status status = next.status();
  if (status.ok()) status = reloader.Apply(next->config);
  metrics.Reloaded(status.ok());
  if (!status.ok()) {
    log.Write(program::LogLevel::kError, "reload_refused",
              {{"message", std::string(status.message())}});
    return;
  }
  log.Write(program::LogLevel::kInfo, "reloaded",
            {{"need_restart", absl::StrJoin(NeedRestart(present, next->config), " ")}});
}

absl::Status Serve(const std::vector<std::string>& arguments,
                   const Config& config,
                   const service::RegistryLimits& limits,
                   size_t max_connections,
                   std::unique_ptr<Guard> guard,
                   std::unique_ptr<http::ErasureChannel> channel,
                   program::EventLog& log) {
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
  service_options.quotas = config.quotas;
  service_options.jobs.lease = config.job_lease;
  service_options.jobs.max_file_bytes = config.job_file_limit;
  service_options.jobs.max_tenant_bytes = 16 * config.job_file_limit;
  service_options.tenant.erasures.due =
      absl::Hours(24) * static_cast<int64_t>(config.erasure_due_days);
  service_options.tenant.erasures.check_callback =
      [policy = ErasureSettingsOf(config).callbacks](const std::string& url) {
        return policy.Check(url).status();
      };
  Signals signals;
  LETHE_ASSIGN_OR_RETURN(const std::unique_ptr<service::Service> service,
                         service::Service::Open(service_options));
  // Until here a signal ended the process at once, which is as safe as kill -9 and does not make
  // anybody wait for a long start. From here they wait for sigwait. Blocked before gRPC starts its
  // threads, which inherit this; opening the service starts none.
  signals.BlockStops();
  metrics::Metrics metrics(service.get(), &log, {.tenants = config.metrics_tenants});
  rpc::ServerOptions rpc_options;
  LETHE_RETURN_IF_ERROR(guard->Open(service.get(), &log));
  rpc_options.listen = config.listen;
  rpc_options.credentials = guard->grpc_credentials();
  rpc_options.max_connection_age = config.max_connection_age;
  rpc_options.max_connections = max_connections;
  calls::LineLimit call_lines;
  std::atomic<int64_t> slow_call = absl::ToInt64Milliseconds(config.slow_call);
  rpc_options.hooks = {.gate = guard->gate(),
                       .observer = &metrics,
                       .log = &log,
                       .lines = &call_lines,
                       .slow_milliseconds = &slow_call};
  service->StartErasures();
  LETHE_ASSIGN_OR_RETURN(const std::unique_ptr<rpc::RpcServer> server,
                         rpc::RpcServer::Start(service.get(), rpc_options));
  // Ends before the service does, whose callbacks it sends.
  const std::unique_ptr<http::ErasureChannel> erasure = std::move(channel);
  erasure->Start(service.get(), &log);
  auto follow_key =
      std::make_unique<Periodically>(kKeyPeriod, [&erasure, &log] { erasure->Follow(log); });
  LETHE_ASSIGN_OR_RETURN(
      const std::unique_ptr<http::HttpServer> http,
      ServeHttp(config, service.get(), *erasure, rpc_options.hooks, guard->http_tls()));
  LETHE_ASSIGN_OR_RETURN(const std::unique_ptr<http::HttpListener> metrics_listener,
                         ServeMetrics(config, metrics, log));
  auto watch = std::make_unique<FolderWatch>(service.get(), server.get(), &metrics, &log);
  Reloader reloader;
  reloader.Add("log-level", [&log](const Config& next) -> absl::StatusOr<std::function<void()>> {
    return [&log, level = next.log_level] { log.SetLevel(level); };
  });
  reloader.Add("quota", [&service](const Config& next) -> absl::StatusOr<std::function<void()>> {
    return [&service, quotas = next.quotas] { service->quotas().Set(quotas); };
  });
  reloader.Add(
      "slow-call", [&slow_call](const Config& next) -> absl::StatusOr<std::function<void()>> {
        return [&slow_call, time = next.slow_call] { slow_call = absl::ToInt64Milliseconds(time); };
      });
  guard->AddTo(reloader);
  if (!config.port_file.empty()) {
    LETHE_RETURN_IF_ERROR(WritePortFile(config.port_file, server->port()));
  }
  log.Write(program::LogLevel::kInfo, "serving",
            {{"version", std::string(LETHE_VERSION)},
             {"listen", config.listen},
             {"port", int64_t{server->port()}},
             {"tls", int64_t{!config.tls_certificate.empty()}},
             {"access_control", int64_t{guard->gate()->guarded()}},
             {"data", config.data},
             {"vault", config.vault.empty() ? config.data + "/vault" : config.vault},
             {"max_open_tenants", static_cast<int64_t>(limits.max_open)},
             {"memory_limit", static_cast<int64_t>(limits.max_bytes)},
             {"start_seconds", absl::ToDoubleSeconds(absl::Now() - begin)}});

  int signal = signals.Wait();
  for (; signal == SIGHUP; signal = signals.Wait()) {
    Reload(arguments, reloader, config, metrics, log);
  }
  log.Write(
      program::LogLevel::kInfo, "stopping",
      {{"signal", int64_t{signal}}, {"delay_seconds", absl::ToDoubleSeconds(config.drain_delay)}});
  const absl::Time grace_end =
      absl::Now() + config.drain_delay + kGraceShare * config.drain_timeout;
  EndAfter(config.drain_delay + config.drain_timeout);
  signals.UnblockStops();
  watch.reset();
  follow_key.reset();
  server->SayNotServing();
  metrics.SetServing(false);
  absl::SleepFor(config.drain_delay);
  server->BeginDrain();
  // One time for all of them, and none waits for another.
  const auto left = [grace_end] { return std::max(grace_end - absl::Now(), absl::ZeroDuration()); };
  DoTogether({[&] {
                if (http != nullptr) http->Stop(left());
              },
              [&] {
                if (metrics_listener != nullptr) metrics_listener->Stop(left());
              },
              [&] { erasure->Stop(); }, [&] { service->StopErasures(); },
              [&] { server->Drain(left()); }});
  LETHE_RETURN_IF_ERROR(service->Checkpoint());
  log.Write(program::LogLevel::kInfo, "stopped", {});
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
  const uint64_t open_files = RaiseOpenFiles();
  const uint64_t http_connections =
      config.http_listen.empty() ? 0 : http::HttpOptions().max_connections;
  const absl::StatusOr<service::RegistryLimits> limits =
      TenantLimits(config.max_open_tenants, config.memory_limit, open_files, http_connections,
                   MemoryOfMachine());
  if (!limits.ok()) return UsageError(AtOrigin(limits.status(), *command_line));
  const absl::StatusOr<size_t> max_connections =
      ConnectionLimit(config.max_connections, open_files, http_connections, limits->max_open);
  if (!max_connections.ok()) return UsageError(AtOrigin(max_connections.status(), *command_line));
  absl::StatusOr<std::unique_ptr<Guard>> guard = Guard::Read(config);
  if (!guard.ok()) return UsageError(AtOrigin(guard.status(), *command_line));
  absl::StatusOr<std::unique_ptr<http::ErasureChannel>> erasure =
      http::ErasureChannel::Open(ErasureSettingsOf(config));
  if (!erasure.ok()) return UsageError(AtOrigin(erasure.status(), *command_line));
  if (command_line->action == CommandLine::Action::kCheck) {
    for (const std::string& warning : command_line->warnings) {
      std::fprintf(stderr, "lethed: warning: %s\n", warning.c_str());
    }
    if (const std::string problem = (*erasure)->Problem(); !problem.empty()) {
      std::fprintf(stderr, "lethed: warning: %s\n", problem.c_str());
    }
    std::fputs(command_line->text.c_str(), stdout);
    return 0;
  }
  program::EventLog log(STDERR_FILENO, config.log_level);
  library_log = &log;
  rpc::LogGrpcTo(&log);
  google::protobuf::SetLogHandler(LogFromProtobuf);
  ::signal(SIGPIPE, SIG_IGN);
  for (const std::string& warning : command_line->warnings) {
    log.Write(program::LogLevel::kWarning, "unknown_variable", {{"message", warning}});
  }

  const absl::Status status = Serve(arguments, config, *limits, *max_connections, *std::move(guard),
                                    *std::move(erasure), log);
  if (status.ok()) return 0;
  log.Write(
      program::LogLevel::kError, "failed",
      {{"code", static_cast<int64_t>(status.code())}, {"message", std::string(status.message())}});
  return 1;
}

}  // namespace
}  // namespace lethe::server

int main(int argc, char** argv) {
  lethe::server::EndOnStopSignals();
  return lethe::server::Main(std::vector<std::string>(argv + 1, argv + argc));
}
