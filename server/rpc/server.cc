#include "server/rpc/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/server_builder_option.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"

namespace lethe::rpc {
namespace {

constexpr int kMaxConnectionIdleMs = 10 * 60 * 1000;
constexpr int kMaxConnectionAgeGraceMs = 60 * 1000;
constexpr int kHandshakeMs = 20 * 1000;
// A peer that is gone without a word is found out by a ping, so that its streams end.
constexpr int kPingMs = 60 * 1000;
constexpr int kPongMs = 20 * 1000;
// Pings of clients more often than that are abuse; the third closes the connection.
constexpr int kLeastPingIntervalMs = 20 * 1000;
constexpr int kPingStrikes = 2;
constexpr std::chrono::milliseconds kLastAnswers(500);

// Both plugins are process-wide and must be on before the first builder exists.
void EnablePluginsOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

// Takes reflection from one server. Its library adds it to every builder of the process.
class WithoutReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    const std::string name = grpc::reflection::ProtoServerReflectionPlugin().name();
    std::erase_if(*plugins, [&](const auto& plugin) { return plugin->name() == name; });
  }
};

}  // namespace

RpcServer::RpcServer(service::Service* service, const ServerOptions& options)
    : watch_(options.peers),
      threads_(options.max_threads, options.start_thread),
      tenants_(service, SharedOf(service, options)),
      memories_(service,
                SharedOf(service, options),
                options.max_open_streams,
                options.start_thread),
      certificates_(service,
                    SharedOf(service, options),
                    options.max_exports,
                    options.max_export_write),
      backups_(service, SharedOf(service, options), options.max_backups, options.max_backup_pause),
      erasures_(service, SharedOf(service, options)),
      jobs_(service, SharedOf(service, options), options.max_job_streams, options.max_export_write),
      workers_(service,
               SharedOf(service, options),
               options.max_job_streams,
               options.max_backup_pause) {}

Shared RpcServer::SharedOf(service::Service* service, const ServerOptions& options) {
  Shared shared{.hooks = options.hooks, .watch = &watch_, .threads = &threads_};
  shared.hooks.quotas = &service->quotas();
  if (shared.hooks.gate == nullptr) shared.hooks.gate = &open_gate_;
  return shared;
}

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(service::Service* service,
                                                            const ServerOptions& options) {
  EnablePluginsOnce();
  std::unique_ptr<RpcServer> server(new RpcServer(service, options));
  grpc::ResourceQuota quota("lethed");
  quota.SetMaxThreads(options.max_stream_threads).Resize(options.memory_quota_bytes);
  grpc::ServerBuilder builder;
  builder.SetResourceQuota(quota);
  // Its handler is gRPC's own and asks no gate.
  if (server->SharedOf(service, options).hooks.gate->guarded()) {
    builder.SetOption(std::make_unique<WithoutReflection>());
  }
  builder.SetMaxReceiveMessageSize(options.max_receive_bytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, options.max_metadata_bytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_concurrent_streams);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kMaxConnectionIdleMs);
  if (options.max_connection_age > absl::ZeroDuration()) {
    builder.AddChannelArgument(
        GRPC_ARG_MAX_CONNECTION_AGE_MS,
        static_cast<int>(std::clamp<int64_t>(absl::ToInt64Milliseconds(options.max_connection_age),
                                             1, std::numeric_limits<int>::max())));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, kMaxConnectionAgeGraceMs);
  }
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kPingMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPongMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kLeastPingIntervalMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, kPingStrikes);
  // A small compressed message can grow without bound; nothing here compresses well anyway.
  builder.SetDefaultCompressionAlgorithm(GRPC_COMPRESS_NONE);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections;
  if (!options.listen.empty()) {
    LETHE_ASSIGN_OR_RETURN(
        server->acceptor_,
        ConnectionAcceptor::Listen(options.listen, options.max_connections, options.hooks.log));
    connections = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        options.credentials != nullptr ? options.credentials : grpc::InsecureServerCredentials());
  }
  builder.RegisterService(&server->tenants_);
  builder.RegisterService(&server->memories_);
  builder.RegisterService(&server->certificates_);
  builder.RegisterService(&server->backups_);
  builder.RegisterService(&server->erasures_);
  builder.RegisterService(&server->jobs_);
  builder.RegisterService(&server->workers_);
  server->threads_.Attach(builder);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) return absl::InternalError("gRPC does not start");
  LETHE_RETURN_IF_ERROR(server->threads_.Start());
  server->tenants_.StartCalls();
  server->memories_.StartCalls();
  server->certificates_.StartCalls();
  server->erasures_.StartCalls();
  server->jobs_.StartCalls();
  server->workers_.StartCalls();
  if (connections != nullptr) server->acceptor_->Start(std::move(connections));
  server->SetServing(true);
  return server;
}

RpcServer::~RpcServer() { Drain(absl::Seconds(1)); }

std::shared_ptr<grpc::Channel> RpcServer::InProcessChannel() {
  return server_->InProcessChannel(grpc::ChannelArguments());
}

void RpcServer::SetServing(bool serving) {
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  for (const char* name :
       {v1::TenantService::service_full_name(), v1::MemoryService::service_full_name(),
        v1::CertificateService::service_full_name(), v1::BackupService::service_full_name(),
        v1::ErasureService::service_full_name(), v1::JobService::service_full_name(),
        v1::WorkerService::service_full_name()}) {
    health->SetServingStatus(name, serving);
  }
  health->SetServingStatus("", serving);
}

void RpcServer::SayNotServing() { server_->GetHealthCheckService()->Shutdown(); }

void RpcServer::BeginDrain() {
  if (server_ == nullptr) return;
  SayNotServing();
  tenants_.StopCalls();
  memories_.StopCalls();
  certificates_.StopCalls();
  backups_.StopCalls();
  erasures_.StopCalls();
  jobs_.StopCalls();
  workers_.StopCalls();
}

void RpcServer::Drain(absl::Duration grace) {
  if (drained_ || server_ == nullptr) return;
  drained_ = true;
  BeginDrain();
  const auto deadline = std::chrono::system_clock::now() + absl::ToChronoMilliseconds(grace);
  tenants_.WaitForCalls(deadline);
  memories_.WaitForCalls(deadline);
  certificates_.WaitForCalls(deadline);
  backups_.WaitForCalls(deadline);
  erasures_.WaitForCalls(deadline);
  jobs_.WaitForCalls(deadline);
  workers_.WaitForCalls(deadline);
  if (acceptor_ != nullptr) acceptor_->Stop();
  // What is left: sending the last answers, calls of other services (health watches), and what had
  // its time and is cancelled now.
  server_->Shutdown(std::chrono::system_clock::now() + kLastAnswers);
  threads_.Stop();
}

}  // namespace lethe::rpc
