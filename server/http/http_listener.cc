#include "server/http/http_listener.h"

#include <httplib.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lethe::http {
namespace {

constexpr size_t kCallsAConnection = 1000;
constexpr char kNotCached[] = "no-cache";

// The library's pool with a bound: while it is reached nothing more is accepted, and who connects
// waits in the kernel's queue or is refused by it. The library's own queue has none, and each
// connection in it holds a descriptor.
class BoundedPool final : public httplib::TaskQueue {
 public:
  BoundedPool(size_t threads, size_t most) : most_(most), pool_(threads) {}

  void enqueue(std::function<void()> task) override {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return tasks_ < most_; });
      ++tasks_;
    }
    pool_.enqueue([this, task = std::move(task)] {
      task();
      std::lock_guard<std::mutex> lock(mutex_);
      --tasks_;
      changed_.notify_one();
    });
  }
  void shutdown() override { pool_.shutdown(); }

 private:
  const size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t tasks_ = 0;
  httplib::ThreadPool pool_;  // last: its threads use the rest
};

}  // namespace

int HttpCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kFailedPrecondition:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

void WriteError(const absl::Status& status, httplib::Response& response) {
  response.status = HttpCode(status);
  response.set_header("Cache-Control", kNotCached);
  response.set_content(absl::StrCat(std::string(status.message()), "\n"), kPlainText);
}

HttpListener::HttpListener(const HttpOptions& options)
    : options_(options), server_(std::make_unique<httplib::Server>()) {
  httplib::Server& server = *server_;
  server.new_task_queue = [this] {
    return new BoundedPool(options_.threads, options_.max_connections);
  };
  // Not SO_REUSEPORT, the library's choice: a second server could take half of the connections.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.set_payload_max_length(options_.max_body_bytes);
  server.set_read_timeout(options_.timeout);
  server.set_write_timeout(options_.timeout);
  server.set_keep_alive_timeout(options_.timeout.count());
  server.set_keep_alive_max_count(kCallsAConnection);
  server.set_default_headers({{"X-Content-Type-Options", "nosniff"}});
  server.set_pre_routing_handler(
      [this](const httplib::Request& request, httplib::Response& response) {
        if (std::find(options_.methods.begin(), options_.methods.end(), request.method) !=
            options_.methods.end()) {
          return httplib::Server::HandlerResponse::Unhandled;
        }
        const std::string allowed = absl::StrJoin(options_.methods, ", ");
        response.status = 405;
        response.set_header("Allow", allowed);
        response.set_content(absl::StrCat("only ", allowed, "\n"), kPlainText);
        return httplib::Server::HandlerResponse::Handled;
      });
  server.set_exception_handler([](const httplib::Request& /*request*/, httplib::Response& response,
                                  std::exception_ptr /*exception*/) {
    WriteError(absl::InternalError("an exception ended this call"), response);
  });
  server.set_error_handler([](const httplib::Request& /*request*/, httplib::Response& response) {
    if (!response.body.empty()) return;
    response.set_content(response.status == 404   ? "no such page\n"
                         : response.status == 413 ? "the body is too large\n"
                                                  : "this request cannot be served\n",
                         kPlainText);
  });
}

HttpListener::~HttpListener() { Stop(); }

absl::Status HttpListener::Start() {
  int bound = options_.port;
  if (options_.port == 0) {
    bound = server_->bind_to_any_port(options_.host);
  } else if (!server_->bind_to_port(options_.host, options_.port)) {
    bound = -1;
  }
  if (bound <= 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen for HTTP on ", options_.host, ":",
                                               options_.port,
                                               "; is another server running on this port?"));
  }
  port_ = static_cast<uint16_t>(bound);
  thread_ = std::thread([this] {
    server_->listen_after_bind();
    ended_ = true;
  });
  while (!server_->is_running() && !ended_) std::this_thread::yield();
  if (!ended_) return absl::OkStatus();
  thread_.join();
  return absl::UnavailableError("the HTTP server ended at once");
}

void HttpListener::Stop() {
  stopping_ = true;
  if (!thread_.joinable()) return;
  server_->stop();
  thread_.join();
}

}  // namespace lethe::http
