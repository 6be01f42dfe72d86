// An address that HTTP is served on: threads, limits, timeouts and an orderly stop around
// cpp-httplib. What is served there is mounted by route sets (log_routes.h) before it starts.
//
// Bounded are the threads, the connections that were accepted and wait for one (the kernel's queue
// holds those beyond), the request's line, headers and body, each wait for bytes of a connection,
// and the calls of one connection. Methods that no route set asked for are 405. What a handler
// throws is a 500 without a word of it. Errors are one line of text, unless a handler wrote its
// own.
//
// cpp-httplib waits with poll() in the build of Debian, not with select(), so descriptors above
// 1,023 are safe (docs/adr/0047). Threads: Start and Stop from one thread; the rest is safe.
#ifndef LETHE_SERVER_HTTP_HTTP_LISTENER_H_
#define LETHE_SERVER_HTTP_HTTP_LISTENER_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"

namespace httplib {
class Server;
struct Response;
}  // namespace httplib

namespace lethe::http {

inline constexpr char kPlainText[] = "text/plain; charset=utf-8";

// The HTTP code that says the same as the status.
int HttpCode(const absl::Status& status);

// The status as one line of text, not to be cached. Requires a status that is not OK.
void WriteError(const absl::Status& status, httplib::Response& response);

struct HttpOptions {
  std::string host;
  uint16_t port = 0;  // 0: the kernel chooses
  size_t threads = 4;
  // Connections that are served or were accepted and wait.
  size_t max_connections = 64;
  size_t max_body_bytes = 0;
  // For bytes to come or to go, and between the calls of a connection.
  std::chrono::seconds timeout{5};
  // Any other is 405.
  std::vector<std::string> methods = {"GET", "HEAD"};
};

class HttpListener {
 public:
  explicit HttpListener(const HttpOptions& options);
  // As Stop.
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  // For route sets, before Start. What they refer to must outlive the listener.
  httplib::Server& routes() { return *server_; }

  // Listens and serves; once. UNAVAILABLE when it cannot listen there. Not encrypted.
  absl::Status Start();
  uint16_t port() const { return port_; }

  // True from the beginning of Stop: handlers should wait for nothing any more.
  bool stopping() const { return stopping_; }
  // Takes no new connections and returns when no handler runs. A silent connection ends within
  // seconds.
  void Stop();

 private:
  const HttpOptions options_;
  std::unique_ptr<httplib::Server> server_;
  std::thread thread_;
  std::atomic<bool> ended_ = false;  // the thread serves no more
  std::atomic<bool> stopping_ = false;
  uint16_t port_ = 0;
};

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_HTTP_LISTENER_H_
