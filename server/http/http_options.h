// The limits of an HTTP listener. Threads: values.
#ifndef LETHE_SERVER_HTTP_HTTP_OPTIONS_H_
#define LETHE_SERVER_HTTP_HTTP_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "server/calls/served_call.h"

namespace lethe::http {

class TlsContext;

struct HttpOptions {
  std::string host;
  uint16_t port = 0;  // 0: the kernel chooses
  // That run handlers.
  size_t threads = 8;
  // That run or wait for a thread; calls beyond are answered with 503.
  size_t max_calls = 64;
  // Connections beyond wait in the kernel's queue, or are refused by it.
  size_t max_connections = 256;
  // Request line and headers.
  size_t max_head_bytes = size_t{16} << 10;
  // Of all bodies above 64 KiB that are being received or worked on, in steps of 256 KiB as they
  // arrive; beyond, 503.
  size_t max_bodies_bytes = size_t{256} << 20;
  // Of one connection.
  size_t max_calls_a_connection = 1000;
  // For a handshake, for a whole head, and for the silence before it.
  std::chrono::milliseconds timeout{5000};
  // For a whole body, and for a whole answer.
  std::chrono::milliseconds body_timeout{30000};
  // For what a call may wait before its work begins.
  std::chrono::milliseconds call_timeout{60000};
  // Without a gate everybody may call what is in the table of access.
  calls::CallHooks hooks = {};
  // Null: not encrypted. Must outlive the listener, like what the hooks name.
  const TlsContext* tls = nullptr;
};

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_HTTP_OPTIONS_H_
