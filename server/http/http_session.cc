#include "server/http/http_session.h"

#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/stream_traits.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/http/http_call.h"
#include "server/http/request_head.h"
#include "server/service/retry_delay.h"

namespace lethe::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using beast::error_code;
using tcp = asio::ip::tcp;
using PlainStream = beast::tcp_stream;
using TlsStream = asio::ssl::stream<beast::tcp_stream>;

constexpr char kContinue[] = "HTTP/1.1 100 Continue\r\n\r\n";
// Of a body, that needs no room among those of all: connections bound it.
constexpr size_t kSmallBodyBytes = size_t{64} << 10;
// By which a larger one takes room as it arrives.
constexpr size_t kRoomStepBytes = size_t{256} << 10;
// A client that has not been read to its end is given time to take the answer.
constexpr size_t kMaxDrainedBytes = size_t{1} << 20;
constexpr std::chrono::seconds kDrainTime{2};
// What this says of an answer that is written besides its body.
constexpr std::array<std::pair<const char*, const char*>, 3> kSecurityHeaders = {{
    {"X-Content-Type-Options", "nosniff"},
    {"Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"},
    {"Referrer-Policy", "no-referrer"},
}};

std::string PeerCertificate(SSL* ssl) {
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(SSL_get1_peer_certificate(ssl),
                                                                X509_free);
  if (certificate == nullptr || SSL_get_verify_result(ssl) != X509_V_OK) return "";
  const std::unique_ptr<BIO, decltype(&BIO_free)> pem(BIO_new(BIO_s_mem()), BIO_free);
  if (pem == nullptr || PEM_write_bio_X509(pem.get(), certificate.get()) != 1) return "";
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(pem.get(), &bytes);
  return std::string(bytes, static_cast<size_t>(size));
}

absl::StatusOr<HttpResponse> Guarded(const std::function<absl::StatusOr<HttpResponse>()>& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("not enough memory for this request");
  } catch (const std::exception&) {
    return absl::InternalError("an exception ended this call");
  }
}

bool IsMalformed(const error_code& error) {
  const error_code malformed = beast::http::error::bad_target;
  return error.category() == malformed.category() && error != beast::http::error::end_of_stream &&
         error != beast::http::error::partial_message;
}

// "localhost:7422", "127.0.0.1", "[::1]:80"
bool IsLoopbackHost(absl::string_view host) {
  const size_t end =
      host.find(']') == absl::string_view::npos ? host.find(':') : host.find(']') + 1;
  const std::string name = absl::AsciiStrToLower(host.substr(0, end));
  if (name == "localhost" || name == "[::1]") return true;
  error_code error;
  const auto address = asio::ip::make_address_v4(name, error);
  return !error && address.is_loopback();
}

template <typename Stream>
class StreamSession final : public Session,
                            public std::enable_shared_from_this<StreamSession<Stream>> {
 public:
  static constexpr bool kEncrypted = std::is_same_v<Stream, TlsStream>;

  StreamSession(Stream stream,
                std::shared_ptr<SSL_CTX> tls,
                SessionHost& host,
                std::function<void(const Session*)> ended)
      : tls_(std::move(tls)),
        stream_(std::move(stream)),
        host_(host),
        ended_(std::move(ended)),
        buffer_(host.options().max_head_bytes + (size_t{64} << 10)) {}
  ~StreamSession() override {
    ReleaseRoom();
    ended_(this);
  }

  void Start() override {
    if constexpr (kEncrypted) {
      state_ = State::kReading;
      lowest().expires_after(host_.options().timeout);
      stream_.async_handshake(
          asio::ssl::stream_base::server,
          [self = this->shared_from_this()](error_code error) { self->HandshakeDone(error); });
    } else {
      ReadHead();
    }
  }

  void Stop() override {
    last_ = true;
    if (state_ == State::kReading) Abort();
  }

  void Abort() override {
    aborted_ = true;
    error_code ignored;
    lowest().socket().close(ignored);
  }

 private:
  enum class State : uint8_t { kReading, kHandling, kAnswering };

  beast::tcp_stream& lowest() { return beast::get_lowest_layer(stream_); }
  const HttpOptions& options() const { return host_.options(); }

  // In the form that the route's callers expect, once there is a route.
  HttpResponse Refusal(int code, absl::StatusCode status, absl::string_view message) const {
    const absl::Status error(status, message);
    return route_ == nullptr ? ErrorResponse(error, code) : route_->error(error, code);
  }

  void HandshakeDone(error_code error) {
    if (error || aborted_) return;
    if constexpr (kEncrypted) certificate_ = PeerCertificate(stream_.native_handle());
    ReadHead();
  }

  void ReadHead() {
    state_ = State::kReading;
    ReleaseRoom();
    call_.reset();
    route_ = nullptr;
    request_ = HttpRequest();
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(options().max_head_bytes));
    parser_->body_limit(options().max_bodies_bytes);
    if (++calls_ >= options().max_calls_a_connection) last_ = true;
    lowest().expires_after(options().timeout);
    beast::http::async_read_header(
        stream_, buffer_, *parser_,
        [self = this->shared_from_this()](error_code error, size_t) { self->HeadDone(error); });
  }

  void HeadDone(error_code error) {
    if (aborted_) return;
    if (error == beast::http::error::header_limit || error == beast::http::error::buffer_overflow) {
      return Refuse(Refusal(431, absl::StatusCode::kInvalidArgument,
                            absl::StrCat("headers: more than ", options().max_head_bytes,
                                         " bytes, the request line included")));
    }
    if (error == beast::http::error::body_limit)
      return Refuse(TooLarge(options().max_bodies_bytes));
    if (error) {
      // Others: nobody is there any more, or the time is over; the stream has closed the socket.
      if (IsMalformed(error)) {
        Refuse(ErrorResponse(absl::InvalidArgumentError("request: is no well-formed HTTP")));
      }
      return;
    }
    absl::StatusOr<HttpRequest> request = RequestOf(*parser_);
    if (!request.ok()) return Refuse(ErrorResponse(request.status()));
    request_ = *std::move(request);
    request_.encrypted = kEncrypted;
    request_.certificate = certificate_;
    keep_ = parser_->get().keep_alive();
    Dispatch();
  }

  // What can be refused of a request before its body is read, and before the gate is asked.
  void Dispatch() {
    absl::StatusOr<Router::Match> match = host_.router().Find(request_);
    if (!match.ok()) return Refuse(ErrorResponse(match.status()));
    route_ = match->route;
    // A route without a row in the table of access is not there.
    if (route_ != nullptr && access::FindMethod(route_->operation) == nullptr) route_ = nullptr;
    if (route_ == nullptr && match->allowed.empty()) {
      return Refuse(ErrorResponse(absl::NotFoundError("no such page")));
    }
    if (route_ == nullptr) {
      const std::string allowed = absl::StrJoin(match->allowed, ", ");
      HttpResponse response = Refusal(405, absl::StatusCode::kUnimplemented,
                                      absl::StrCat("method: only ", allowed, " here"));
      response.headers.emplace_back("Allow", allowed);
      return Refuse(std::move(response));
    }
    if (!HostIsMeant()) {
      return Refuse(Refusal(421, absl::StatusCode::kInvalidArgument,
                            "host: without access control only localhost, 127.0.0.1 and [::1]"));
    }
    if (std::optional<HttpResponse> refusal = CheckBody()) return Refuse(*std::move(refusal));
    state_ = State::kHandling;
    lowest().expires_never();
    const absl::Time deadline = absl::Now() + absl::FromChrono(options().call_timeout);
    const SessionHost& host = host_;
    call_.emplace(&host_.CallsOf(*route_), request_, [&host, deadline]() -> absl::Status {
      if (host.stopping()) return absl::UnavailableError("the server stops");
      if (absl::Now() >= deadline) {
        return absl::DeadlineExceededError("the time for a call passed before the work began");
      }
      return absl::OkStatus();
    });
    InHandlerThread(
        [this]() -> absl::StatusOr<HttpResponse> {
          if (absl::Status entered = call_->Enter(); !entered.ok()) return entered;
          return HttpResponse();
        },
        [this](absl::StatusOr<HttpResponse> entered) {
          if (!entered.ok()) return Fail(entered.status());
          ReadBody();
        });
  }

  // Where nobody is asked who he is, a page of any site that the browser on this machine shows
  // could have its own name lead to this address, and then call what it likes.
  bool HostIsMeant() {
    const calls::MethodCalls& method = host_.CallsOf(*route_);
    if (method.hooks().gate->guarded() || method.row()->scope == access::Scope::kOpen) return true;
    error_code error;
    const auto here = lowest().socket().local_endpoint(error).address();
    return !error && (!here.is_loopback() || IsLoopbackHost(request_.Header("host")));
  }

  std::optional<HttpResponse> CheckBody() {
    const bool chunked = parser_->chunked();
    const auto length = parser_->content_length();
    const bool body = chunked || (length.has_value() && *length > 0);
    if (request_.HeaderCount("expect") > 0 &&
        !absl::EqualsIgnoreCase(request_.Header("expect"), "100-continue")) {
      return Refusal(417, absl::StatusCode::kInvalidArgument, "expect: only 100-continue");
    }
    if (!body) return std::nullopt;
    if (route_->max_body_bytes == 0) {
      return Refusal(400, absl::StatusCode::kInvalidArgument, "body: this call takes none");
    }
    if (request_.HeaderCount("content-encoding") > 0 &&
        !absl::EqualsIgnoreCase(request_.Header("content-encoding"), "identity")) {
      return Refusal(415, absl::StatusCode::kInvalidArgument,
                     "content-encoding: no compressed bodies are taken");
    }
    absl::string_view type = request_.Header("content-type");
    type = absl::StripAsciiWhitespace(type.substr(0, type.find(';')));
    if (!absl::EqualsIgnoreCase(type, route_->body_type)) {
      return Refusal(415, absl::StatusCode::kInvalidArgument,
                     absl::StrCat("content-type: must be ", route_->body_type));
    }
    if (length.has_value() && *length > route_->max_body_bytes) {
      return TooLarge(route_->max_body_bytes);
    }
    parser_->body_limit(route_->max_body_bytes);
    return std::nullopt;
  }

  HttpResponse TooLarge(size_t most) const {
    return Refusal(413, absl::StatusCode::kInvalidArgument,
                   absl::StrCat("body: more than ", most, " bytes"));
  }

  void ReadBody() {
    if (parser_->is_done()) return Handle();
    state_ = State::kReading;
    lowest().expires_after(options().body_timeout);
    if (request_.HeaderCount("expect") > 0) {
      asio::async_write(stream_, asio::buffer(kContinue, sizeof kContinue - 1),
                        [self = this->shared_from_this()](error_code error, size_t) {
                          if (!error && !self->aborted_) self->ReadRest();
                        });
    } else {
      ReadRest();
    }
  }

  // The next of its bytes. The time for all of them is set.
  void ReadRest() {
    if (parser_->is_done()) return Handle();
    parser_->eager(true);
    beast::http::async_read_some(
        stream_, buffer_, *parser_,
        [self = this->shared_from_this()](error_code error, size_t) { self->BodyGrew(error); });
  }

  void BodyGrew(error_code error) {
    if (aborted_) return;
    if (error == beast::http::error::body_limit) {
      call_->Finish(absl::InvalidArgumentError("body: too large"));
      return Refuse(TooLarge(route_->max_body_bytes));
    }
    if (error == beast::error::timeout) return;  // the stream has closed the socket
    if (error) {
      return Fail(absl::InvalidArgumentError("body: is cut off, or no well-formed chunks"));
    }
    if (!HasRoomFor(parser_->get().body().size())) {
      return Fail(absl::UnavailableError("too many large requests"));
    }
    ReadRest();
  }

  // Room is taken for what has come, not for what was announced: whoever announces much and sends
  // nothing keeps nobody out.
  bool HasRoomFor(size_t bytes) {
    if (bytes <= std::max(kSmallBodyBytes, room_)) return true;
    const size_t steps = (bytes - room_ + kRoomStepBytes - 1) / kRoomStepBytes;
    if (!host_.TakeRoom(steps * kRoomStepBytes)) return false;
    room_ += steps * kRoomStepBytes;
    return true;
  }

  void Handle() {
    state_ = State::kHandling;
    lowest().expires_never();
    request_.body = std::move(parser_->get().body());
    InHandlerThread(
        [this]() -> absl::StatusOr<HttpResponse> {
          absl::StatusOr<HttpResponse> response =
              Guarded([this] { return route_->handler(request_, *call_); });
          (void)call_->Answer(response.status(), call_->certificate());
          return response;
        },
        [this](absl::StatusOr<HttpResponse> response) {
          if (!response.ok()) return Fail(response.status());
          call_->Finish(absl::OkStatus());
          Answer(*std::move(response));
        });
  }

  // Runs `work` with a thread for handlers, and `then` with this one.
  template <typename Work, typename Then>
  void InHandlerThread(Work work, Then then) {
    const bool runs = host_.Run([self = this->shared_from_this(), work, then]() mutable {
      absl::StatusOr<HttpResponse> result = Guarded(work);
      const auto executor = self->lowest().get_executor();
      // The session goes along, so that it never ends in a thread for handlers.
      asio::post(executor, [self = std::move(self), then, result = std::move(result)]() mutable {
        self->host_.Done();
        if (!self->aborted_) then(std::move(result));
      });
    });
    if (!runs) Fail(absl::UnavailableError("too many calls at once"));
  }

  void Fail(const absl::Status& status) {
    if (call_.has_value()) call_->Finish(status);
    HttpResponse response = route_->error(status, 0);
    if (absl::IsUnavailable(status) || absl::IsResourceExhausted(status)) {
      const absl::Duration wait = service::RetryDelayOf(status).value_or(absl::Seconds(1));
      response.headers.emplace_back(
          "Retry-After", absl::StrCat(absl::ToInt64Seconds(absl::Ceil(wait, absl::Seconds(1)))));
    }
    Answer(std::move(response));
  }

  // The rest of the request is not read.
  void Refuse(HttpResponse response) {
    last_ = true;
    Answer(std::move(response));
  }

  void Answer(HttpResponse response) {
    state_ = State::kAnswering;
    drain_ = !parser_->is_done();
    if (drain_ || host_.stopping()) last_ = true;
    const bool keep = keep_ && !last_;
    answer_ = beast::http::response<beast::http::string_body>();
    answer_.version(11);
    answer_.result(static_cast<unsigned>(response.status));
    answer_.set(beast::http::field::date,
                absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", absl::Now(), absl::UTCTimeZone()));
    for (const auto& [name, value] : kSecurityHeaders) answer_.set(name, value);
    if constexpr (kEncrypted) {
      answer_.set(beast::http::field::strict_transport_security, "max-age=31536000");
    }
    answer_.set(beast::http::field::cache_control, "no-store");
    if (!response.body.empty()) answer_.set(beast::http::field::content_type, response.type);
    for (const auto& [name, value] : response.headers) answer_.set(name, value);
    if (call_.has_value()) {
      answer_.set("X-Request-Id", call_->request_id());
      if (!call_->trace_parent().empty()) answer_.set("Traceparent", call_->trace_parent());
    }
    answer_.keep_alive(keep);
    if (response.status != 204) answer_.content_length(response.body.size());
    if (request_.method != "HEAD") answer_.body() = std::move(response.body);
    lowest().expires_after(options().body_timeout);
    beast::http::async_write(stream_, answer_,
                             [self = this->shared_from_this(), keep](error_code error, size_t) {
                               if (error || self->aborted_) return;
                               if (keep && !self->last_) {
                                 self->ReadHead();
                               } else {
                                 self->Close();
                               }
                             });
  }

  void Close() {
    lowest().expires_after(kDrainTime);
    if constexpr (kEncrypted) {
      stream_.async_shutdown(
          [self = this->shared_from_this()](error_code) { self->CloseSocket(); });
    } else {
      CloseSocket();
    }
  }

  // Closing a socket with bytes that nobody read resets the connection, and the client might never
  // see the answer.
  void CloseSocket() {
    if (aborted_) return;
    error_code ignored;
    lowest().socket().shutdown(tcp::socket::shutdown_send, ignored);
    if (drain_) Drain();
  }

  void Drain() {
    lowest().async_read_some(asio::buffer(drained_),
                             [self = this->shared_from_this()](error_code error, size_t bytes) {
                               if (error || self->aborted_) return;
                               self->drained_bytes_ += bytes;
                               if (self->drained_bytes_ < kMaxDrainedBytes) self->Drain();
                             });
  }

  void ReleaseRoom() {
    if (room_ > 0) host_.GiveRoom(std::exchange(room_, 0));
  }

  const std::shared_ptr<SSL_CTX> tls_;  // outlives the stream
  Stream stream_;
  SessionHost& host_;
  const std::function<void(const Session*)> ended_;
  beast::flat_buffer buffer_;
  std::optional<RequestParser> parser_;
  State state_ = State::kReading;
  std::string certificate_;
  HttpRequest request_;
  const http::Route* route_ = nullptr;
  std::optional<HttpCall> call_;
  beast::http::response<beast::http::string_body> answer_;
  std::array<char, 4096> drained_;
  size_t drained_bytes_ = 0;
  size_t calls_ = 0;
  size_t room_ = 0;
  bool keep_ = false;     // the client wants more calls
  bool last_ = false;     // the present call is the last one
  bool drain_ = false;    // the client may be sending
  bool aborted_ = false;  // the socket is closed
};

}  // namespace

std::shared_ptr<Session> MakeSession(tcp::socket socket,
                                     std::shared_ptr<SSL_CTX> tls,
                                     SessionHost& host,
                                     std::function<void(const Session*)> ended) {
  beast::tcp_stream stream(std::move(socket));
  if (tls == nullptr) {
    return std::make_shared<StreamSession<PlainStream>>(std::move(stream), nullptr, host,
                                                        std::move(ended));
  }
  // The context's owner here is the session; this one only reaches it.
  SSL_CTX_up_ref(tls.get());
  asio::ssl::context context(tls.get());
  return std::make_shared<StreamSession<TlsStream>>(TlsStream(std::move(stream), context),
                                                    std::move(tls), host, std::move(ended));
}

}  // namespace lethe::http
