// The gRPC server: the services of proto/lethe/v1, grpc.health.v1 and reflection, with limits on
// everything that a client can make large.
#ifndef LETHE_SERVER_RPC_SERVER_H_
#define LETHE_SERVER_RPC_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/access/gate.h"
#include "server/rpc/call_threads.h"
#include "server/rpc/connection_acceptor.h"
#include "server/rpc/peer_watch.h"
#include "server/rpc/services.h"
#include "server/service/service.h"

namespace lethe::rpc {

struct ServerOptions {
  // Asked and told about every call; without a gate everybody may do everything.
  CallHooks hooks = {};
  // Null: not encrypted (tls.h).
  std::shared_ptr<grpc::ServerCredentials> credentials = nullptr;
  // "host:port"; port 0 lets the kernel choose. Empty: reachable only through
  // InProcessChannel.
  std::string listen;
  int max_receive_bytes = 16 << 20;
  int max_metadata_bytes = 8 << 10;
  // Those above wait until one ends.
  size_t max_connections = 4096;
  int max_concurrent_streams = 100;  // a connection
  size_t max_open_streams = 64;      // of InsertStream and of QueryStream, all connections together
  size_t max_exports = 16;           // that run at once
  // An export is cancelled when its reader takes nothing for so long: it would keep its place.
  absl::Duration max_export_write = absl::Seconds(60);
  size_t max_job_streams = 32;  // watches, downloads of artefacts, streams of workers: of each kind
  size_t max_backups = 4;       // that run at once, and as many restores
  // Likewise for the other side of a backup or a restore.
  absl::Duration max_backup_pause = absl::Seconds(60);
  // How long other calls wait for their peer, and how many for their request.
  PeerWatchOptions peers = {};
  StartThread start_thread = {};  // of calls and of an InsertStream; a seam for tests
  // A connection is asked to end after so long, and its calls are cancelled a minute later; 0:
  // never.
  absl::Duration max_connection_age = absl::ZeroDuration();
  // Of calls with one request, from its arrival to their answer, and one that waits for others; at
  // least 2. Those of ServiceOptions::max_waiting_writes and RegistryLimits::max_waiting hold one
  // while they wait.
  size_t max_threads = 512;
  // Of gRPC: of QueryStream, Export, CreateBackup and RestoreBackup one each, within their bounds.
  int max_stream_threads = 256;
  size_t memory_quota_bytes = size_t{1} << 30;  // buffers of gRPC itself
};

class RpcServer {
 public:
  // Listens and serves. UNAVAILABLE when it cannot listen there. `service` must outlive the server.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(service::Service* service,
                                                          const ServerOptions& options);
  // Drains for at most a second.
  ~RpcServer();
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  // The port it listens on; 0 without one.
  uint16_t port() const { return acceptor_ == nullptr ? uint16_t{0} : acceptor_->port(); }
  std::shared_ptr<grpc::Channel> InProcessChannel();

  // What health says of every service until the drain begins.
  void SetServing(bool serving);
  // Says NOT_SERVING, for good; calls are taken as before.
  void SayNotServing();
  // SayNotServing; takes no new calls, ends InsertStreams and QueryStreams after what they have
  // received. Exports, backups and restores run on.
  void BeginDrain();
  // BeginDrain; lets running calls finish until the grace is over, cancels what is left, and
  // returns when no handler runs.
  void Drain(absl::Duration grace);

 private:
  RpcServer(service::Service* service, const ServerOptions& options);
  Shared SharedOf(service::Service* service, const ServerOptions& options);

  const access::Gate open_gate_{nullptr, nullptr, nullptr};
  PeerWatch watch_;
  CallThreads threads_;
  TenantHandlers tenants_;
  MemoryHandlers memories_;
  CertificateHandlers certificates_;
  BackupHandlers backups_;
  ErasureHandlers erasures_;
  JobHandlers jobs_;
  WorkerHandlers workers_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ConnectionAcceptor> acceptor_;  // null without an address
  bool drained_ = false;
};

}  // namespace lethe::rpc

#endif  // LETHE_SERVER_RPC_SERVER_H_
