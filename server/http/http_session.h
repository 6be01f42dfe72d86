// One connection of an HTTP listener. For http_listener.cc alone.
#ifndef LETHE_SERVER_HTTP_HTTP_SESSION_H_
#define LETHE_SERVER_HTTP_HTTP_SESSION_H_

#include <openssl/ssl.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "server/http/http_options.h"
#include "server/http/router.h"

namespace lethe::http {

// What the sessions of a listener share. All but Run is for the thread of the io_context.
class SessionHost {
 public:
  virtual ~SessionHost() = default;
  virtual const HttpOptions& options() const = 0;
  virtual const Router& router() const = 0;
  virtual const calls::MethodCalls& CallsOf(const Route& route) const = 0;
  // Runs `work` in a thread for handlers; false, and never, when too many calls run or wait.
  virtual bool Run(std::function<void()> work) = 0;
  // The place of the call that Run was given goes.
  virtual void Done() = 0;
  // Takes room for a body; false where there is none.
  virtual bool TakeRoom(size_t bytes) = 0;
  virtual void GiveRoom(size_t bytes) = 0;
  // Safe. Whether a handler's call is still wanted.
  virtual bool stopping() const = 0;
};

class Session {
 public:
  virtual ~Session() = default;
  virtual void Start() = 0;
  // Ends when the answer to a call that runs is out; at once when none runs.
  virtual void Stop() = 0;
  // Ends without any answer, as soon as its handler returns.
  virtual void Abort() = 0;
};

// `tls` null: not encrypted. `ended` is called once, when nothing of the session is left.
std::shared_ptr<Session> MakeSession(boost::asio::ip::tcp::socket socket,
                                     std::shared_ptr<SSL_CTX> tls,
                                     SessionHost& host,
                                     std::function<void(const Session*)> ended);

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_HTTP_SESSION_H_
