// Somebody who wants to be told of erasure requests.
#ifndef LETHE_TESTS_SERVER_CALLBACK_TESTING_H_
#define LETHE_TESTS_SERVER_CALLBACK_TESTING_H_

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/http/http_listener.h"
#include "server/http/tls.h"
#include "tests/server/service_testing.h"

namespace lethe::http {

class Receiver {
 public:
  // `tls` null: by HTTP.
  explicit Receiver(const TlsContext* tls = nullptr)
      : tls_(tls), listener_({.host = "127.0.0.1", .tls = tls}) {
    listener_.routes().Add({.method = "POST",
                            .pattern = "/callbacks/{name}",
                            .operation = "GET /openapi.json",  // a row that is open
                            .max_body_bytes = 1 << 20,
                            .handler = [this](const HttpRequest& request, HttpCall&) {
                              std::lock_guard<std::mutex> lock(mutex_);
                              received_.push_back(request);
                              changed_.notify_all();
                              return answer_;
                            }});
    EXPECT_THAT(listener_.Start(), service::IsOk());
  }
  uint16_t port() const { return listener_.port(); }
  std::string host() const { return absl::StrCat("127.0.0.1:", port()); }
  // At a host that leads here.
  std::string UrlAt(const std::string& host) const {
    return absl::StrCat(tls_ == nullptr ? "http://" : "https://", host, ":", port(),
                        "/callbacks/a");
  }
  std::string url() const { return UrlAt("127.0.0.1"); }
  void Answer(HttpResponse answer) {
    std::lock_guard<std::mutex> lock(mutex_);
    answer_ = std::move(answer);
  }
  void Answer(int status) { Answer(HttpResponse{.status = status}); }
  // Waits until so many have come, and returns them all.
  std::vector<HttpRequest> Take(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return received_.size() >= count; });
    return received_;
  }

 private:
  const TlsContext* const tls_;
  HttpListener listener_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<HttpRequest> received_;
  HttpResponse answer_ = {.status = 202};
};

}  // namespace lethe::http

#endif  // LETHE_TESTS_SERVER_CALLBACK_TESTING_H_
