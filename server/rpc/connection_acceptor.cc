#include "server/rpc/connection_acceptor.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace lethe::rpc {
namespace {

// Until it is tried again, where no connection can be taken.
constexpr int kAgainMs = 100;
constexpr int kUserTimeoutMs = 20 * 1000;
constexpr absl::Duration kBetweenLines = absl::Seconds(10);

bool IsWithoutMeans(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

void Set(int socket, int level, int option, int value) {
  ::setsockopt(socket, level, option, &value, sizeof(value));
}

// A socket that listens there. 0, or the error.
int ListenAt(const sockaddr* address, socklen_t size, FileDescriptor& socket) {
  socket = FileDescriptor(
      ::socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!socket.valid()) return errno;
  // What is left of connections of the server before does not count. Not SO_REUSEPORT: a second
  // server could take half of the connections.
  Set(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address->sa_family == AF_INET6) Set(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  // As gRPC's own listener: a connection ends whose peer takes nothing for so long. Accepted
  // sockets have it from this one.
  Set(socket.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
  if (::bind(socket.get(), address, size) != 0) return errno;
  return ::listen(socket.get(), SOMAXCONN) == 0 ? 0 : errno;
}

uint16_t PortOf(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  LETHE_CHECK(::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

void SetPort(sockaddr* address, uint16_t port) {
  if (address->sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = htons(port);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> ConnectionAcceptor::Listen(
    const std::string& listen,
    size_t max_connections,
    program::EventLog* log) {
  const size_t colon = listen.rfind(':');
  if (colon == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("listen: ", listen, " has no port"));
  }
  absl::string_view host(listen.data(), colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  std::unique_ptr<ConnectionAcceptor> acceptor(new ConnectionAcceptor(max_connections, log));
  acceptor->stop_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!acceptor->stop_.valid()) return SystemError(errno, "make an event", listen);
  const absl::Status listens = acceptor->ListenOn(std::string(host), listen.substr(colon + 1));
  if (!listens.ok()) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", listen, " (",
                                               std::string(listens.message()),
                                               "); is another server running on this port?"));
  }
  return acceptor;
}

absl::Status ConnectionAcceptor::ListenOn(const std::string& host, const std::string& port) {
  addrinfo wanted = {};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), port.c_str(), &wanted, &found); error != 0) {
    return absl::UnavailableError(::gai_strerror(error));
  }
  const auto free = absl::MakeCleanup([found] { ::freeaddrinfo(found); });
  // Of a name with several addresses the machine may lack some, IPv6 most of all.
  int lacking = EADDRNOTAVAIL;
  std::set<std::string> seen;  // a hosts file may name an address twice
  for (const addrinfo* next = found; next != nullptr; next = next->ai_next) {
    if (next->ai_family != AF_INET && next->ai_family != AF_INET6) continue;
    if (!seen.emplace(reinterpret_cast<const char*>(next->ai_addr), next->ai_addrlen).second) {
      continue;
    }
    if (port_ != 0) SetPort(next->ai_addr, port_);
    FileDescriptor listener;
    const int error = ListenAt(next->ai_addr, next->ai_addrlen, listener);
    if (error != 0) lacking = error;
    if (error == EADDRINUSE) break;
    if (error != 0) continue;
    port_ = PortOf(listener.get());
    listeners_.push_back(std::move(listener));
  }
  if (!listeners_.empty() && lacking != EADDRINUSE) return absl::OkStatus();
  return absl::UnavailableError(std::strerror(lacking));
}

ConnectionAcceptor::~ConnectionAcceptor() { Stop(); }

void ConnectionAcceptor::Start(
    std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> server) {
  LETHE_CHECK(!thread_.joinable());
  server_ = std::move(server);
  thread_ = std::thread([this] { Run(); });
}

void ConnectionAcceptor::Stop() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    LETHE_CHECK(::write(stop_.get(), &one, sizeof(one)) == sizeof(one));
    thread_.join();
  }
  listeners_.clear();
}

void ConnectionAcceptor::Run() {
  std::vector<pollfd> waits;
  bool means = true;  // to take a connection with
  while (true) {
    const bool room = HasRoom();
    waits.assign(1, {.fd = stop_.get(), .events = POLLIN, .revents = 0});
    if (room && means) {
      for (const FileDescriptor& listener : listeners_) {
        waits.push_back({.fd = listener.get(), .events = POLLIN, .revents = 0});
      }
    }
    ::poll(waits.data(), waits.size(), room && means ? -1 : kAgainMs);
    if ((waits[0].revents & POLLIN) != 0) return;
    means = true;
    for (size_t i = 1; i < waits.size(); ++i) {
      if (waits[i].revents != 0 && HasRoom()) means = Accept(waits[i].fd) && means;
    }
  }
}

bool ConnectionAcceptor::HasRoom() {
  if (connections_.size() < max_connections_) return true;
  std::erase_if(connections_, [](const auto& connection) {
    struct stat status = {};
    return ::fstat(connection.first, &status) != 0 ||
           FileId(status.st_dev, status.st_ino) != connection.second;
  });
  if (connections_.size() < max_connections_) return true;
  Complain("connections_full", absl::StrCat("there are ", max_connections_,
                                            " connections; others wait (--max-connections)"));
  return false;
}

bool ConnectionAcceptor::Accept(int listener) {
  const int connection = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (connection < 0) {
    // Anything else is about one connection that is gone already.
    if (!IsWithoutMeans(errno)) return true;
    Complain("accept_failed", std::strerror(errno));
    return false;
  }
  struct stat status = {};
  LETHE_CHECK(::fstat(connection, &status) == 0);
  Set(connection, IPPROTO_TCP, TCP_NODELAY, 1);
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters taken;
  taken.listener_fd = listener;
  taken.fd = connection;
  connections_[connection] = FileId(status.st_dev, status.st_ino);
  server_->HandleNewConnection(&taken);
  return true;
}

void ConnectionAcceptor::Complain(absl::string_view event, absl::string_view message) {
  const absl::Time now = absl::Now();
  if (log_ == nullptr || now < next_line_) return;
  next_line_ = now + kBetweenLines;
  log_->Write(program::LogLevel::kWarning, event, {{"message", std::string(message)}});
}

}  // namespace lethe::rpc
