#include "server/http/http_listener.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/mutex.h"
#include "server/http/http_session.h"
#include "server/http/tls.h"

namespace lethe::http {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using error_code = boost::system::error_code;

// When there are no descriptors left: until it is tried again.
constexpr std::chrono::milliseconds kAcceptAgain{100};

// Threads that run what they are given, in the order in which it came.
class HandlerThreads {
 public:
  explicit HandlerThreads(size_t count) {
    for (size_t i = 0; i < count; ++i) threads_.emplace_back([this] { Work(); });
  }
  // Does what is left first.
  ~HandlerThreads() {
    {
      MutexLock lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  HandlerThreads(const HandlerThreads&) = delete;
  HandlerThreads& operator=(const HandlerThreads&) = delete;

  void Run(std::function<void()> work) {
    {
      MutexLock lock(mutex_);
      waiting_.push_back(std::move(work));
    }
    changed_.notify_one();
  }

 private:
  void Work() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock<std::mutex> lock(mutex_.native());
    while (true) {
      changed_.wait(
          lock, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return ending_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      {
        const std::function<void()> work = std::move(waiting_.front());
        waiting_.pop_front();
        lock.unlock();
        work();
      }
      lock.lock();
    }
  }

  Mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace

// Everything without a comment is of the I/O thread once that runs.
class HttpListener::Server final : public SessionHost {
 public:
  explicit Server(const HttpOptions& options) : options_(options) {}
  ~Server() override { Stop(absl::InfiniteDuration()); }

  const HttpOptions& options() const override { return options_; }
  const Router& router() const override { return router_; }
  const calls::MethodCalls& CallsOf(const Route& route) const override {
    return methods_.at(&route);
  }
  bool Run(std::function<void()> work) override {
    if (calls_ >= options_.max_calls) return false;
    ++calls_;
    handlers_->Run(std::move(work));
    return true;
  }
  void Done() override { --calls_; }
  bool TakeRoom(size_t bytes) override {
    if (bytes > options_.max_bodies_bytes - bodies_bytes_) return false;
    bodies_bytes_ += bytes;
    return true;
  }
  void GiveRoom(size_t bytes) override { bodies_bytes_ -= bytes; }
  bool stopping() const override { return stopping_; }

  Router& routes() { return router_; }
  uint16_t port() const { return port_; }

  absl::Status Start() {
    LETHE_CHECK(!thread_.joinable());
    if (const error_code error = Listen()) {
      error_code ignored;
      acceptor_.close(ignored);
      return absl::UnavailableError(absl::StrCat("cannot listen for HTTP on ", options_.host, ":",
                                                 options_.port, " (", error.message(),
                                                 "); is another server running on this port?"));
    }
    calls::CallHooks hooks = options_.hooks;
    if (hooks.gate == nullptr) hooks.gate = &open_gate_;
    for (const Route& route : router_.routes()) {
      methods_.try_emplace(&route, hooks, route.operation);
    }
    handlers_.emplace(options_.threads);
    thread_ = std::thread([this] { Serve(); });
    return absl::OkStatus();
  }

  void Stop(absl::Duration grace) {
    stopping_ = true;
    if (!thread_.joinable()) return;
    asio::post(io_, [this, grace] { BeginStop(grace); });
    thread_.join();
    handlers_.reset();
  }

 private:
  error_code Listen() {
    error_code error;
    tcp::resolver resolver(io_);
    const auto found =
        resolver.resolve(options_.host, std::to_string(options_.port),
                         tcp::resolver::passive | tcp::resolver::numeric_service, error);
    if (error) return error;
    if (found.empty()) return asio::error::host_not_found;
    const tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor_.open(endpoint.protocol(), error);
    // Not SO_REUSEPORT: a second server could take half of the connections.
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(tcp::acceptor::max_listen_connections, error);
    if (error) return error;
    port_ = acceptor_.local_endpoint(error).port();
    return error;
  }

  void Serve() {
    asio::post(io_, [this] { Accept(); });
    while (true) {
      try {
        io_.run();
        return;
      } catch (const std::exception&) {
        // Of one connection, most likely out of memory: it is gone, the others are served.
      }
    }
  }

  void Accept() {
    if (stopping_ || accepting_ || sessions_.size() >= options_.max_connections) return;
    accepting_ = true;
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      accepting_ = false;
      if (stopping_) return;
      if (!error) {
        const auto next = absl::MakeCleanup([this] { Accept(); });
        return Begin(std::move(socket));
      }
      again_.expires_after(kAcceptAgain);
      again_.async_wait([this](error_code waited) {
        if (!waited) Accept();
      });
    });
  }

  void Begin(tcp::socket socket) {
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    const std::shared_ptr<Session> session =
        MakeSession(std::move(socket), options_.tls == nullptr ? nullptr : options_.tls->current(),
                    *this, [this](const Session* ended) {
                      sessions_.erase(ended);
                      if (stopping_ && sessions_.empty()) EndStop();
                      // From the loop: this may be called by a destructor in the middle of
                      // anything.
                      if (!stopping_) asio::post(io_, [this] { Accept(); });
                    });
    sessions_.emplace(session.get(), session);
    session->Start();
  }

  void BeginStop(absl::Duration grace) {
    error_code ignored;
    acceptor_.close(ignored);
    again_.cancel();
    if (sessions_.empty()) return EndStop();
    if (grace < absl::InfiniteDuration()) {
      grace_.expires_after(absl::ToChronoMilliseconds(std::max(grace, absl::ZeroDuration())));
      grace_.async_wait([this](error_code error) {
        if (!error) ForEachSession([](Session& session) { session.Abort(); });
      });
    }
    ForEachSession([](Session& session) { session.Stop(); });
    WatchStop();
  }

  // Who does not take an answer, while no handler runs that may still have one, is cut off.
  void WatchStop() {
    if (sessions_.empty()) return;
    end_.expires_after(options_.timeout);
    end_.async_wait([this](error_code error) {
      if (error) return;
      if (calls_ == 0) ForEachSession([](Session& session) { session.Abort(); });
      WatchStop();
    });
  }

  void EndStop() {
    end_.cancel();
    grace_.cancel();
    work_.reset();
  }

  template <typename Visit>
  void ForEachSession(Visit visit) {
    std::vector<std::shared_ptr<Session>> sessions;
    for (const auto& [key, weak] : sessions_) {
      if (std::shared_ptr<Session> session = weak.lock()) sessions.push_back(std::move(session));
    }
    for (const std::shared_ptr<Session>& session : sessions) visit(*session);
  }

  const HttpOptions options_;
  const access::Gate open_gate_{nullptr, nullptr, nullptr};
  Router router_;                                                 // constant once it runs
  std::unordered_map<const Route*, calls::MethodCalls> methods_;  // likewise
  std::atomic<bool> stopping_ = false;                            // any thread
  uint16_t port_ = 0;                                             // constant once it runs
  std::unordered_map<const Session*, std::weak_ptr<Session>> sessions_;
  size_t calls_ = 0;
  size_t bodies_bytes_ = 0;
  bool accepting_ = false;
  std::optional<HandlerThreads> handlers_;
  // What waits in it refers to the rest.
  asio::io_context io_{1};
  // Calls that run leave nothing there that would keep its loop alive.
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  tcp::acceptor acceptor_{io_};
  asio::steady_timer again_{io_};
  asio::steady_timer end_{io_};
  asio::steady_timer grace_{io_};
  std::thread thread_;
};

HttpListener::HttpListener(const HttpOptions& options)
    : server_(std::make_unique<Server>(options)) {}
HttpListener::~HttpListener() = default;
Router& HttpListener::routes() { return server_->routes(); }
const Router& HttpListener::routes() const { return server_->routes(); }
absl::Status HttpListener::Start() { return server_->Start(); }
uint16_t HttpListener::port() const { return server_->port(); }
void HttpListener::Stop(absl::Duration grace) { server_->Stop(grace); }

}  // namespace lethe::http
