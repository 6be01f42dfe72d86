// An address that HTTP is served on, in the clear or in TLS. What is served there is added by route
// sets (log_routes.h) before it starts.
//
// Boost.Beast reads and writes HTTP/1.1, with a strict parser (docs/adr/0055); one thread moves the
// bytes, others run handlers. Bounded are the connections, the head and the body of a request, the
// bodies of all, the time for each of them and for the silence before, the calls of a connection,
// and the calls that run or wait for a thread (http_options.h). Refused, and the connection closed:
// what is no well-formed HTTP, a header twice that may be there once, Transfer-Encoding other than
// chunked, compressed bodies. Not found: what no route asked for, or what has no row in the table
// of access; that, the method, the type and the length of the body are looked at before anything of
// it is read, and who calls before the body is. What a handler throws is a 500 without a word of
// it.
//
// Threads: Start and Stop from one thread; the rest is safe.
#ifndef LETHE_SERVER_HTTP_HTTP_LISTENER_H_
#define LETHE_SERVER_HTTP_HTTP_LISTENER_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/http/http_options.h"
#include "server/http/router.h"

namespace lethe::http {

class HttpListener {
 public:
  explicit HttpListener(const HttpOptions& options);
  // As Stop.
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  // For route sets, before Start. What the handlers refer to must outlive the listener.
  Router& routes();
  const Router& routes() const;

  // Listens and serves; once. UNAVAILABLE when it cannot listen there.
  absl::Status Start();
  uint16_t port() const;

  // Takes no new connections and calls, lets those that run answer, and returns when none is left.
  // Who does not take his answer within HttpOptions::timeout is cut off; when the grace is over
  // every connection is, and only a handler that still runs is waited for.
  void Stop(absl::Duration grace = absl::InfiniteDuration());

 private:
  class Server;
  const std::unique_ptr<Server> server_;
};

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_HTTP_LISTENER_H_
