#include "server/http/callback_sender.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/status_macros.h"
#include "server/http/erasure_http.h"
#include "server/http/erasure_routes.h"
#include "server/http/opendsr_routes.h"
#include "server/http/webhook_routes.h"

namespace lethe::http {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kAtOnce = 64;
// After a look at nothing but what has to wait.
constexpr absl::Duration kShortPause = absl::Milliseconds(10);
// How long a tenant that has to be opened is waited for: it must not keep the others from theirs.
constexpr absl::Duration kLook = absl::Seconds(1);
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

// A host that says that it cannot now, and not that this callback is wrong.
bool IsOverloaded(long code) { return code == 429 || (code >= 502 && code <= 504); }

// What may stand in a line of a header.
bool IsHeader(const std::string& line) {
  return std::all_of(line.begin(), line.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; });
}

absl::StatusOr<Message> MessageOf(const CallbackOptions& options,
                                  const service::CallbackDelivery& delivery) {
  const service::ErasureRequestInfo& info = delivery.request;
  const std::shared_ptr<const DsrSigner> signer =
      options.dsr == nullptr ? nullptr : options.dsr->current();
  if (signer == nullptr && (options.dsr != nullptr || IsOpenDsr(info.source))) {
    return absl::FailedPreconditionError("it cannot be signed now");
  }
  Message message;
  std::string prefix = "X-Lethe-";
  if (IsOpenDsr(info.source)) {
    Json body = OpenDsrStatus(options.public_url, signer->domain(), info, delivery.state,
                              info.controller_id);
    body["status_callback_url"] = delivery.url;
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
  if (signer != nullptr) {
    LETHE_ASSIGN_OR_RETURN(const std::string signature, signer->Sign(message.body));
    message.headers.push_back(absl::StrCat(prefix, "Processor-Domain: ", signer->domain()));
    message.headers.push_back(absl::StrCat(prefix, "Signature: ", signature));
  }
  if (!delivery.authorization.empty()) {
    message.headers.push_back("Authorization: " + delivery.authorization);
  }
  return message;
}

// "example.com:443"; empty for an address that is not allowed.
std::string HostOf(const CallbackPolicy& policy, const std::string& url) {
  const absl::StatusOr<CallbackUrl> parsed = policy.Check(url);
  return parsed.ok() ? absl::StrCat(parsed->host, ":", parsed->port) : std::string();
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
    changed_.wait_for(lock, absl::ToChronoMilliseconds(pause),
                      [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return stopping_; });
  }
}

struct CallbackSender::Round {
  using Deliveries = std::vector<const service::CallbackDelivery*>;

  std::vector<std::pair<std::string, Deliveries>> hosts;
  Mutex mutex;
  size_t next ABSL_GUARDED_BY(mutex) = 0;  // of `hosts`
  size_t sent ABSL_GUARDED_BY(mutex) = 0;
  std::set<std::string> failed_tenants ABSL_GUARDED_BY(mutex);
};

absl::Duration CallbackSender::SendDue() {
  const absl::Time end = absl::Now() + kLook;
  const std::vector<service::CallbackDelivery> due = service_->DueCallbacks(
      kAtOnce, {.still_wanted = [this, end] {
        return stopping() || absl::Now() > end ? absl::CancelledError("its tenant is not open yet")
                                               : absl::OkStatus();
      }});
  if (due.empty()) return options_.pause;
  std::map<std::string, Round::Deliveries> by_host;
  for (const service::CallbackDelivery& delivery : due) {
    by_host[HostOf(*options_.policy, delivery.url)].push_back(&delivery);
  }
  Round round;
  round.hosts.assign(by_host.begin(), by_host.end());
  std::vector<std::thread> helpers;
  try {
    while (helpers.size() + 1 < std::min(options_.threads, round.hosts.size())) {
      helpers.emplace_back([this, &round] { WorkOn(round); });
    }
  } catch (const std::system_error&) {
    // No more threads: those that there are do it.
  }
  WorkOn(round);
  for (std::thread& helper : helpers) helper.join();
  MutexLock lock(round.mutex);
  return round.sent > 0 ? absl::ZeroDuration() : kShortPause;
}

void CallbackSender::WorkOn(Round& round) {
  while (!stopping()) {
    size_t mine = 0;
    {
      MutexLock lock(round.mutex);
      if (round.next == round.hosts.size()) return;
      mine = round.next++;
    }
    try {
      SendTo(round.hosts[mine].first, round.hosts[mine].second, round);
    } catch (const std::exception&) {
      // Out of memory, most likely: what is left of this host's comes again.
    }
  }
}

void CallbackSender::SendTo(const std::string& host,
                            const std::vector<const service::CallbackDelivery*>& deliveries,
                            Round& round) {
  const absl::Time begin = absl::Now();
  for (const service::CallbackDelivery* delivery : deliveries) {
    if (stopping()) return;
    const std::string& tenant = delivery->request.tenant;
    bool tenant_failed = false;
    {
      MutexLock lock(round.mutex);
      tenant_failed = round.failed_tenants.contains(tenant);
    }
    const absl::Time now = absl::Now();
    if (now - begin >= options_.timeout) NoteSlow(host);
    const absl::Time rest = RestOf(host);
    if (tenant_failed) {
      service_->PostponeCallback(*delivery, options_.rest);
      continue;
    }
    if (rest > now) {
      service_->PostponeCallback(*delivery, rest - now);
      continue;
    }
    const Sent sent = Send(*delivery);
    // Broken off: it is as if it had not been begun.
    if (stopping() && sent.outcome == service::CallbackOutcome::kFailed) return;
    if (sent.tried) NoteHost(host, sent.host_failed);
    const absl::Status settled = service_->SettleCallback(
        *delivery, sent.outcome, {.still_wanted = [end = absl::Now() + kLook] {
          return absl::Now() > end ? absl::CancelledError("its tenant is not open any more")
                                   : absl::OkStatus();
        }});
    MutexLock lock(round.mutex);
    ++round.sent;
    if (settled.ok()) continue;
    // It would come again at once.
    round.failed_tenants.insert(tenant);
    service_->PostponeCallback(*delivery, options_.rest);
    if (options_.log != nullptr) {
      options_.log->Write(program::LogLevel::kError, "callback_not_settled",
                          {{"tenant", tenant},
                           {"request", delivery->request.id},
                           {"code", absl::StatusCodeToString(settled.code())}});
    }
  }
}

absl::Time CallbackSender::RestOf(const std::string& host) {
  MutexLock lock(mutex_);
  const auto found = hosts_.find(host);
  return found == hosts_.end() ? absl::InfinitePast() : found->second.until;
}

void CallbackSender::NoteSlow(const std::string& host) {
  MutexLock lock(mutex_);
  absl::Time& until = hosts_[host].until;
  if (until < absl::Now()) until = absl::Now() + options_.timeout;
}

void CallbackSender::NoteHost(const std::string& host, bool failed) {
  MutexLock lock(mutex_);
  if (!failed) {
    hosts_.erase(host);
    return;
  }
  HostRest& rest = hosts_[host];
  constexpr int kMostDoublings = 20;
  const int64_t factor = int64_t{1} << std::min(rest.failures++, kMostDoublings);
  rest.until =
      absl::Now() + std::min(options_.first_host_rest * factor, options_.longest_host_rest);
}

CallbackSender::Sent CallbackSender::Send(const service::CallbackDelivery& delivery) {
  const absl::StatusOr<CallbackUrl> url = options_.policy->Check(delivery.url);
  const absl::StatusOr<Message> message = MessageOf(options_, delivery);
  long code = 0;
  std::string problem;
  Sent sent;
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_easy_init(),
                                                                 curl_easy_cleanup);
  if (!url.ok()) {
    problem = "the address is not allowed";
    sent.outcome = service::CallbackOutcome::kRefused;
  } else if (!message.ok()) {
    problem = std::string(message.status().message());
  } else if (!std::all_of(message->headers.begin(), message->headers.end(), IsHeader)) {
    problem = "a header is none";
    sent.outcome = service::CallbackOutcome::kRefused;
  } else if (curl == nullptr) {
    problem = "no memory";
  } else {
    curl_slist* list = nullptr;
    for (const std::string& header : message->headers) {
      list = curl_slist_append(list, header.c_str());
    }
    const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(list,
                                                                              curl_slist_free_all);
    size_t taken = 0;
    const auto milliseconds = static_cast<long>(absl::ToInt64Milliseconds(options_.timeout));
    CURL* handle = curl.get();
    curl_easy_setopt(handle, CURLOPT_URL, delivery.url.c_str());
    curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, url->scheme.c_str());
    curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(handle, CURLOPT_PROXY, "");
    curl_easy_setopt(handle, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
    curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, milliseconds);
    curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, milliseconds);
    curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    curl_easy_setopt(handle, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
    // The thread that resolves a name cannot be broken off; it ends by itself, and nobody waits.
    curl_easy_setopt(handle, CURLOPT_QUICK_EXIT, 1L);
    if (!options_.authorities.empty()) {
      curl_blob authorities = {.data = const_cast<char*>(options_.authorities.data()),
                               .len = options_.authorities.size(),
                               .flags = CURL_BLOB_NOCOPY};
      curl_easy_setopt(handle, CURLOPT_CAINFO_BLOB, &authorities);
      // Or the system's would count beside them.
      curl_easy_setopt(handle, CURLOPT_CAPATH, nullptr);
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
    curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE, static_cast<long>(message->body.size()));
    curl_easy_setopt(handle, CURLOPT_POSTFIELDS, message->body.c_str());
    const CURLcode result = curl_easy_perform(handle);
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &code);
    if (result == CURLE_OK && code >= 200 && code < 300) {
      sent.outcome = service::CallbackOutcome::kDelivered;
    } else if (code == kGone) {
      sent.outcome = service::CallbackOutcome::kRefused;
    }
    if (result != CURLE_OK) problem = curl_easy_strerror(result);
    sent.tried = true;
    // Not where we would not read all of an answer.
    sent.host_failed = (result != CURLE_OK && result != CURLE_WRITE_ERROR) || IsOverloaded(code);
  }
  if (options_.log != nullptr) {
    const bool delivered = sent.outcome == service::CallbackOutcome::kDelivered;
    options_.log->Write(delivered ? program::LogLevel::kInfo : program::LogLevel::kWarning,
                        delivered ? "callback_delivered" : "callback_failed",
                        {{"tenant", delivery.request.tenant},
                         {"request", delivery.request.id},
                         {"sequence", int64_t{delivery.sequence}},
                         {"attempts", int64_t{delivery.attempts}},
                         {"code", int64_t{code}},
                         {"problem", problem}});
  }
  return sent;
}

}  // namespace lethe::http
