#include "server/config.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace lethe::server {

absl::StatusOr<HostPort> ParseHostPort(absl::string_view flag, absl::string_view address) {
  const auto error = [flag](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(
        flag, ": ", what, "; write it as 127.0.0.1:7421, localhost:7421 or [::1]:7421"));
  };
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos) return error("has no port");
  absl::string_view host = address.substr(0, colon);
  const absl::string_view port = address.substr(colon + 1);
  if (!host.empty() && host.front() == '[') {
    if (host.back() != ']') return error("has a '[' without its ']'");
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != absl::string_view::npos) {
    return error("holds an IPv6 address without brackets");
  }
  if (host.empty()) return error("has no host");
  uint32_t number = 0;
  const bool digits = !port.empty() && std::all_of(port.begin(), port.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
  if (!digits || !absl::SimpleAtoi(port, &number) || number > 65535) {
    return error("has a port that is not a number from 0 to 65535");
  }
  return HostPort{std::string(host), static_cast<uint16_t>(number)};
}

bool IsLoopback(absl::string_view host) {
  if (host == "localhost") return true;
  const std::string text(host);
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  if (inet_pton(AF_INET6, text.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return false;
}

namespace {

absl::Status CheckTls(const Config& config) {
  if (config.tls_certificate.empty() != config.tls_key.empty()) {
    return absl::InvalidArgumentError(config.tls_key.empty()
                                          ? "--tls-certificate: wants --tls-key, its key, beside it"
                                          : "--tls-key: wants --tls-certificate beside it");
  }
  if (!config.tls_client_ca.empty() && config.tls_certificate.empty()) {
    return absl::InvalidArgumentError(
        "--tls-client-ca: clients show certificates over TLS only; wants --tls-certificate and "
        "--tls-key");
  }
  return absl::OkStatus();
}

absl::Status CheckListen(absl::string_view flag, const std::string& text, const Config& config) {
  LETHE_ASSIGN_OR_RETURN(const HostPort address, ParseHostPort(flag, text));
  const bool loopback = IsLoopback(address.host);
  if (config.insecure_loopback && !loopback) {
    return absl::InvalidArgumentError(absl::StrCat("--insecure-loopback: ", flag,
                                                   " is an address that other machines can reach"));
  }
  const bool guarded = !config.tls_certificate.empty() && !config.access.empty();
  if (guarded || config.insecure_loopback) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      flag, ": wants --tls-certificate, --tls-key and --access",
      loopback ? "; or --insecure-loopback, where every program on this machine may read and erase"
               : ", since other machines can reach this address"));
}

// What would do nothing. Callbacks are sent without HTTP too.
absl::Status CheckWithoutHttp(const Config& config) {
  for (const auto& [flag, there] :
       {std::pair<const char*, bool>{"--dsr-domain", !config.dsr_domain.empty()},
        {"--dsr-key", !config.dsr_key.empty()},
        {"--dsr-certificate", !config.dsr_certificate.empty()},
        {"--transcend-key", !config.transcend_key.empty()},
        {"--public-logs", config.public_logs}}) {
    if (there) return absl::InvalidArgumentError(absl::StrCat(flag, ": wants --http-listen"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const Config& config) {
  LETHE_RETURN_IF_ERROR(CheckTls(config));
  LETHE_RETURN_IF_ERROR(CheckListen("--listen", config.listen, config));
  if (!config.metrics_listen.empty()) {
    LETHE_ASSIGN_OR_RETURN(const HostPort address,
                           ParseHostPort("--metrics-listen", config.metrics_listen));
    if (!IsLoopback(address.host) && !config.metrics_beyond_loopback) {
      return absl::InvalidArgumentError(
          "--metrics-listen: this address can be reached from other machines, and metrics are "
          "neither encrypted nor guarded: they hold nothing of a token, but they tell how much "
          "there is and what is done with it. Listen on 127.0.0.1, or give "
          "--metrics-beyond-loopback if only those who may know can reach it");
    }
  }
  if (config.http_listen.empty()) return CheckWithoutHttp(config);
  return CheckListen("--http-listen", config.http_listen, config);
}

}  // namespace lethe::server
