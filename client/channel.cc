#include "client/channel.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"
#include "grpcpp/support/client_interceptor.h"

namespace lethe::client {
namespace {

namespace interception = grpc::experimental;

constexpr int kMaxReceivedBytes = 64 << 20;
constexpr size_t kMaxTokenBytes = size_t{8} << 10;
constexpr size_t kMaxPemBytes = size_t{1} << 20;
constexpr absl::Duration kTokenFileAge = absl::Seconds(1);

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(std::min<int64_t>(absl::ToInt64Milliseconds(duration), 3'600'000));
}

absl::StatusOr<std::string> ReadFile(absl::string_view field,
                                     const std::string& path,
                                     size_t max_bytes) {
  std::ifstream in(path, std::ios::binary);
  std::string bytes(max_bytes + 1, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!in.eof()) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": ", path, in ? ": too large" : ": cannot be read"));
  }
  bytes.resize(static_cast<size_t>(in.gcount()));
  return bytes;
}

absl::StatusOr<std::string> CheckToken(absl::string_view field, absl::string_view text) {
  const absl::string_view token = absl::StripAsciiWhitespace(text);
  const bool good = std::all_of(token.begin(), token.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
  if (!good || token.empty() || token.size() > kMaxTokenBytes) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": holds no bearer token"));
  }
  return std::string(token);
}

// The token of the options, or of their file, which is read again once a second: whoever renews
// tokens writes files. One that cannot be read any more leaves the last one in force. Threads:
// safe.
class TokenSource {
 public:
  static absl::StatusOr<std::shared_ptr<TokenSource>> Make(const Options& options) {
    auto source = std::make_shared<TokenSource>();
    MutexLock lock(source->mutex_);
    source->path_ = options.token_file;
    LETHE_ASSIGN_OR_RETURN(source->token_, source->path_.empty()
                                               ? CheckToken("token", options.token)
                                               : source->Read());
    source->read_ = absl::Now();
    return source;
  }

  std::string Get() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(mutex_);
    if (const absl::Time now = absl::Now(); !path_.empty() && now - read_ >= kTokenFileAge) {
      read_ = now;
      if (absl::StatusOr<std::string> token = Read(); token.ok()) token_ = *std::move(token);
    }
    return token_;
  }

 private:
  absl::StatusOr<std::string> Read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    LETHE_ASSIGN_OR_RETURN(const std::string text, ReadFile("token_file", path_, kMaxTokenBytes));
    return CheckToken("token_file", text);
  }

  Mutex mutex_;
  std::string path_ ABSL_GUARDED_BY(mutex_);
  std::string token_ ABSL_GUARDED_BY(mutex_);
  absl::Time read_ ABSL_GUARDED_BY(mutex_);
};

// Not gRPC's call credentials: those it takes over TLS only, and a server on loopback may have
// access control without it.
class AddToken final : public interception::Interceptor {
 public:
  explicit AddToken(std::shared_ptr<TokenSource> source) : source_(std::move(source)) {}
  void Intercept(interception::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            interception::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace("authorization",
                                                 absl::StrCat("Bearer ", source_->Get()));
    }
    methods->Proceed();
  }

 private:
  const std::shared_ptr<TokenSource> source_;
};

class AddTokenFactory final : public interception::ClientInterceptorFactoryInterface {
 public:
  explicit AddTokenFactory(std::shared_ptr<TokenSource> source) : source_(std::move(source)) {}
  interception::Interceptor* CreateClientInterceptor(interception::ClientRpcInfo*) override {
    return new AddToken(source_);  // gRPC deletes it
  }

 private:
  const std::shared_ptr<TokenSource> source_;
};

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsOf(const Options& options) {
  if (!options.tls.has_value()) return grpc::InsecureChannelCredentials();
  const TlsOptions& tls = *options.tls;
  grpc::SslCredentialsOptions files;
  const auto read = [](absl::string_view field, const std::string& path,
                       std::string& into) -> absl::Status {
    if (path.empty()) return absl::OkStatus();
    LETHE_ASSIGN_OR_RETURN(into, ReadFile(field, path, kMaxPemBytes));
    return absl::OkStatus();
  };
  LETHE_RETURN_IF_ERROR(read("ca_file", tls.ca_file, files.pem_root_certs));
  LETHE_RETURN_IF_ERROR(read("certificate_file", tls.certificate_file, files.pem_cert_chain));
  LETHE_RETURN_IF_ERROR(read("key_file", tls.key_file, files.pem_private_key));
  return grpc::SslCredentials(files);
}

}  // namespace

bool IsLoopbackAddress(absl::string_view address) {
  if (absl::StartsWith(address, "unix:")) return true;
  absl::string_view host = address.substr(0, address.rfind(':'));
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  const std::string text(host);
  if (text == "localhost") return true;
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, text.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

std::shared_ptr<grpc::Channel> MakeChannel(const Options& options, absl::Status& status) {
  grpc::ChannelArguments arguments;
  arguments.SetUserAgentPrefix(options.user_agent);
  arguments.SetMaxReceiveMessageSize(kMaxReceivedBytes);
  // gRPC's own pause between connection attempts starts at a second: longer than our first retries.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS,
                   std::max(Milliseconds(options.initial_backoff), 1));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS,
                   std::max(Milliseconds(options.max_backoff), 1));
  // A proxy of the environment would be told what is meant for this machine, the token included.
  if (IsLoopbackAddress(options.address)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (options.tls.has_value() && !options.tls->server_name.empty()) {
    arguments.SetSslTargetNameOverride(options.tls->server_name);
  }
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  std::vector<std::unique_ptr<interception::ClientInterceptorFactoryInterface>> interceptors;
  if (status.ok()) {
    auto wanted = CredentialsOf(options);
    if (wanted.ok()) credentials = *std::move(wanted);
    status.Update(wanted.status());
  }
  if (status.ok() && (!options.token.empty() || !options.token_file.empty())) {
    auto source = TokenSource::Make(options);
    if (source.ok()) interceptors.push_back(std::make_unique<AddTokenFactory>(*std::move(source)));
    status.Update(source.status());
  }
  if (!status.ok()) credentials = nullptr;  // a channel that fails every call
  return interception::CreateCustomChannelWithInterceptors(options.address, credentials, arguments,
                                                           std::move(interceptors));
}

}  // namespace lethe::client
