// The listening sockets of the gRPC server. gRPC 1.51 has its own, but cannot bound the
// connections, and stops listening for good when accept fails once, as it does where there are no
// descriptors left. docs/adr/0058.
//
// Threads: made, started and destroyed by one. Cost: a thread.
#ifndef LETHE_SERVER_RPC_CONNECTION_ACCEPTOR_H_
#define LETHE_SERVER_RPC_CONNECTION_ACCEPTOR_H_

#include <grpcpp/server_builder.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/files.h"
#include "core/program/event_log.h"

namespace lethe::rpc {

class ConnectionAcceptor {
 public:
  // Listens on every address of "host:port" (a name, an IPv4 address, or an IPv6 address in
  // brackets; "[::]" takes IPv4 too); port 0 lets the kernel choose. UNAVAILABLE when it cannot.
  // `log` may be null, and must outlive this.
  static absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> Listen(const std::string& listen,
                                                                    size_t max_connections,
                                                                    program::EventLog* log);
  // As Stop.
  ~ConnectionAcceptor();
  ConnectionAcceptor(const ConnectionAcceptor&) = delete;
  ConnectionAcceptor& operator=(const ConnectionAcceptor&) = delete;

  uint16_t port() const { return port_; }
  // Hands every connection to the server, which has been started. Those above the bound wait where
  // the kernel keeps them, until one ends. Once.
  void Start(std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> server);
  // Listens no more. Before the server is shut down: it would leave a connection lying.
  void Stop();

 private:
  // Which file a descriptor stands for.
  using FileId = std::pair<dev_t, ino_t>;

  ConnectionAcceptor(size_t max_connections, program::EventLog* log)
      : max_connections_(max_connections), log_(log) {}
  absl::Status ListenOn(const std::string& host, const std::string& port);
  void Run();
  // Whether one more may be taken.
  bool HasRoom();
  // False when there is nothing that a connection could be taken with.
  bool Accept(int listener);
  void Complain(absl::string_view event, absl::string_view message);

  const size_t max_connections_;
  program::EventLog* const log_;
  uint16_t port_ = 0;
  std::vector<FileDescriptor> listeners_;
  FileDescriptor stop_;  // readable once it is time to stop
  std::thread thread_;
  // Of the thread.
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> server_;
  // The connections that were handed over, by descriptor. gRPC does not say when it closes one; its
  // descriptor stands for nothing, or for something else, from then on.
  std::unordered_map<int, FileId> connections_;
  absl::Time next_line_ = absl::InfinitePast();
};

}  // namespace lethe::rpc

#endif  // LETHE_SERVER_RPC_CONNECTION_ACCEPTOR_H_
