#include "server/http/callback_sender.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/http/erasure_http.h"
#include "server/http/erasure_routes.h"
#include "server/http/opendsr_routes.h"
#include "server/http/webhook_routes.h"

namespace lethe::http {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kAtOnce = 16;
constexpr size_t kMaxAnswerBytes = size_t{64} << 10;
constexpr long kGone = 410;

struct Message {
  std::string body;
  std::vector<std::string> headers;
};

// Curl's own view of an address, as the policy's; a socket, or none.
curl_socket_t OpenSocket(void* context, curlsocktype purpose, curl_sockaddr* address) {
  sockaddr_storage storage{};
  if (purpose != CURLSOCKTYPE_IPCXN || address->addrlen > sizeof storage) return CURL_SOCKET_BAD;
  std::memcpy(&storage, &address->addr, address->addrlen);
  if (!static_cast<const CallbackPolicy*>(context)->MayConnect(storage)) return CURL_SOCKET_BAD;
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

// Counts what of an answer is not read.
size_t TakeAnswer(char*, size_t size, size_t count, void* context) {
  size_t& taken = *static_cast<size_t*>(context);
  taken += size * count;
  return taken > kMaxAnswerBytes ? 0 : size * count;
}

Message MessageOf(const CallbackOptions& options,
                  const service::CallbackDelivery& delivery,
                  const std::string& url) {
  const service::ErasureRequestInfo& info = delivery.request;
  const std::string domain = options.signer == nullptr ? "" : options.signer->domain();
  Message message;
  std::string prefix = "X-Lethe-";
  if (IsOpenDsr(info.source)) {
    Json body = OpenDsrStatus(options.public_url, domain, info, delivery.state, info.controller_id);
    body["status_callback_url"] = url;
    message.body = Text(body);
    prefix = OpenDsrHeaderPrefix(info.source);
  } else if (info.source == kKetch) {
    message.body = Text({{"apiVersion", "dsr/v1"},
                         {"kind", "DeleteStatusEvent"},
                         {"metadata", KetchMetadata(info.controller_id)},
                         {"event", KetchStatus(options.public_url, info, delivery.state)}});
  } else {
    Json body = ErasureStatus(options.public_url, info, delivery.state);
    body["sequence"] = delivery.sequence;
    body["change_time"] = delivery.change_time;
    message.body = Text(body);
  }
  message.headers = {"Content-Type: application/json", "Accept: application/json", "Expect:"};
  if (options.signer != nullptr) {
    if (absl::StatusOr<std::string> signature = options.signer->Sign(message.body);
        signature.ok()) {
      message.headers.push_back(absl::StrCat(prefix, "Processor-Domain: ", domain));
      message.headers.push_back(absl::StrCat(prefix, "Signature: ", *signature));
    }
  }
  return message;
}

}  // namespace

CallbackSender::CallbackSender(service::Service* service, const CallbackOptions& options)
    : service_(service), options_(options) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

CallbackSender::~CallbackSender() { Stop(); }

void CallbackSender::Start() {
  thread_ = std::thread([this] { Run(); });
}

void CallbackSender::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool CallbackSender::stopping() {
  MutexLock lock(mutex_);
  return stopping_;
}

void CallbackSender::Run() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  while (!stopping()) {
    const absl::Duration pause = SendDue();
    std::unique_lock<std::mutex> lock(mutex_.native());
    changed_.wait_for(lock, absl::ToChronoMilliseconds(pause), [this] { return stopping_; });
  }
}

absl::Duration CallbackSender::SendDue() {
  const std::vector<service::CallbackDelivery> due = service_->DueCallbacks(kAtOnce);
  for (const service::CallbackDelivery& delivery : due) {
    if (stopping()) break;
    const service::CallbackOutcome outcome = Send(delivery);
    const absl::Status settled = service_->SettleCallback(delivery, outcome);
    if (settled.ok()) continue;
    if (options_.log != nullptr) {
      options_.log->Write(service::LogLevel::kError, "callback_not_settled",
                          {{"tenant", delivery.request.tenant},
                           {"request", delivery.request.id},
                           {"code", absl::StatusCodeToString(settled.code())}});
    }
    return options_.rest;  // it would come again at once
  }
  return due.empty() ? options_.pause : absl::ZeroDuration();
}

service::CallbackOutcome CallbackSender::Send(const service::CallbackDelivery& delivery) {
  const CallbackTarget target = SplitAuthorization(delivery.url);
  const absl::StatusOr<CallbackUrl> url = options_.policy->Check(target.url);
  long code = 0;
  std::string problem;
  service::CallbackOutcome outcome = service::CallbackOutcome::kFailed;
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_easy_init(),
                                                                 curl_easy_cleanup);
  if (!url.ok()) {
    problem = "the address is not allowed";
    outcome = service::CallbackOutcome::kRefused;
  } else if (curl == nullptr) {
    problem = "no memory";
  } else {
    Message message = MessageOf(options_, delivery, target.url);
    if (!target.authorization.empty()) {
      message.headers.push_back("Authorization: " + target.authorization);
    }
    curl_slist* list = nullptr;
    for (const std::string& header : message.headers) {
      list = curl_slist_append(list, header.c_str());
    }
    const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(list,
                                                                              curl_slist_free_all);
    size_t taken = 0;
    const auto milliseconds = static_cast<long>(absl::ToInt64Milliseconds(options_.timeout));
    CURL* handle = curl.get();
    curl_easy_setopt(handle, CURLOPT_URL, target.url.c_str());
    curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, url->scheme.c_str());
    curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(handle, CURLOPT_PROXY, "");
    curl_easy_setopt(handle, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
    curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, milliseconds);
    curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, milliseconds);
    curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    curl_easy_setopt(handle, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
    if (!options_.authorities.empty()) {
      curl_easy_setopt(handle, CURLOPT_CAINFO, options_.authorities.c_str());
    }
    curl_easy_setopt(handle, CURLOPT_OPENSOCKETFUNCTION, OpenSocket);
    curl_easy_setopt(handle, CURLOPT_OPENSOCKETDATA, options_.policy);
    curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, TakeAnswer);
    curl_easy_setopt(handle, CURLOPT_WRITEDATA, &taken);
    const auto broken_off = [](void* sender, curl_off_t, curl_off_t, curl_off_t,
                               curl_off_t) -> int {
      return static_cast<CallbackSender*>(sender)->stopping() ? 1 : 0;
    };
    curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION,
                     static_cast<curl_xferinfo_callback>(broken_off));
    curl_easy_setopt(handle, CURLOPT_XFERINFODATA, this);
    curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers.get());
    curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE, static_cast<long>(message.body.size()));
    curl_easy_setopt(handle, CURLOPT_POSTFIELDS, message.body.c_str());
    const CURLcode result = curl_easy_perform(handle);
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &code);
    if (result == CURLE_OK && code >= 200 && code < 300) {
      outcome = service::CallbackOutcome::kDelivered;
    } else if (code == kGone) {
      outcome = service::CallbackOutcome::kRefused;
    }
    if (result != CURLE_OK) problem = curl_easy_strerror(result);
  }
  if (options_.log != nullptr) {
    const bool delivered = outcome == service::CallbackOutcome::kDelivered;
    options_.log->Write(delivered ? service::LogLevel::kInfo : service::LogLevel::kWarning,
                        delivered ? "callback_delivered" : "callback_failed",
                        {{"tenant", delivery.request.tenant},
                         {"request", delivery.request.id},
                         {"sequence", int64_t{delivery.sequence}},
                         {"attempts", int64_t{delivery.attempts}},
                         {"code", int64_t{code}},
                         {"problem", problem}});
  }
  return outcome;
}

}  // namespace lethe::http
