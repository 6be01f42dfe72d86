#include "server/http/callback_policy.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "core/base/status_macros.h"

namespace lethe::http {
namespace {

constexpr uint16_t kHttpsPort = 443;
constexpr uint16_t kHttpPort = 80;

enum class Reach : uint8_t { kPublic, kPrivate, kLoopback, kNever };

struct Range4 {
  uint32_t network;
  int bits;
  Reach reach;
};

// The registry of special addresses (RFC 6890 and what came after it); all others are public.
constexpr std::array<Range4, 15> kSpecial4 = {{
    {0x00000000, 8, Reach::kNever},     // this network
    {0x0a000000, 8, Reach::kPrivate},   //
    {0x64400000, 10, Reach::kPrivate},  // shared by carriers
    {0x7f000000, 8, Reach::kLoopback},  //
    {0xa9fe0000, 16, Reach::kNever},    // link-local, where clouds keep their metadata
    {0xac100000, 12, Reach::kPrivate},  //
    {0xc0000000, 24, Reach::kNever},    // protocol assignments
    {0xc0000200, 24, Reach::kNever},    // documentation
    {0xc0586300, 24, Reach::kNever},    // 6to4 relays
    {0xc0a80000, 16, Reach::kPrivate},  //
    {0xc6120000, 15, Reach::kNever},    // benchmarks
    {0xc6336400, 24, Reach::kNever},    // documentation
    {0xcb007100, 24, Reach::kNever},    // documentation
    {0xe0000000, 4, Reach::kNever},     // multicast
    {0xf0000000, 4, Reach::kNever},     // reserved, broadcast
}};

Reach ReachOf(uint32_t address) {
  for (const Range4& range : kSpecial4) {
    if ((address ^ range.network) >> (32 - range.bits) == 0) return range.reach;
  }
  return Reach::kPublic;
}

uint32_t BigEndian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

Reach ReachOf(const in6_addr& address) {
  const uint8_t* bytes = address.s6_addr;
  if (IN6_IS_ADDR_LOOPBACK(&address)) return Reach::kLoopback;
  if (IN6_IS_ADDR_V4MAPPED(&address)) return ReachOf(BigEndian(bytes + 12));
  // Into the old world by a relay: 64:ff9b::/96 and 2002::/16 hold an IPv4 address.
  constexpr std::array<uint8_t, 12> kNat64 = {0, 0x64, 0xff, 0x9b};
  if (std::memcmp(bytes, kNat64.data(), kNat64.size()) == 0) return ReachOf(BigEndian(bytes + 12));
  if (bytes[0] == 0x20 && bytes[1] == 0x02) return ReachOf(BigEndian(bytes + 2));
  if ((bytes[0] & 0xfe) == 0xfc) return Reach::kPrivate;  // unique local
  // Public addresses are of 2000::/3, but for 2001::/23 (protocols, Teredo) and documentation.
  if ((bytes[0] & 0xe0) != 0x20) return Reach::kNever;
  if (bytes[0] == 0x20 && bytes[1] == 0x01 && (bytes[2] & 0xfe) == 0) return Reach::kNever;
  if (bytes[0] == 0x20 && bytes[1] == 0x01 && bytes[2] == 0x0d && bytes[3] == 0xb8) {
    return Reach::kNever;
  }
  return Reach::kPublic;
}

bool IsHostByte(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_';
}

// "example.com:8443", "[::1]"; a port that is not there is 0.
struct Authority {
  std::string host;
  uint16_t port = 0;
};

absl::StatusOr<Authority> ParseAuthority(absl::string_view text) {
  const auto bad = [](absl::string_view what) { return absl::InvalidArgumentError(what); };
  Authority parsed;
  absl::string_view port;
  if (absl::ConsumePrefix(&text, "[")) {
    const size_t end = text.find(']');
    if (end == absl::string_view::npos) return bad("has a '[' without its ']'");
    parsed.host = absl::AsciiStrToLower(text.substr(0, end));
    port = text.substr(end + 1);
    in6_addr ignored{};
    if (inet_pton(AF_INET6, parsed.host.c_str(), &ignored) != 1) return bad("has a malformed host");
  } else {
    const size_t colon = text.find(':');
    parsed.host = absl::AsciiStrToLower(text.substr(0, colon));
    port = colon == absl::string_view::npos ? "" : text.substr(colon);
    if (parsed.host.empty() || !std::all_of(parsed.host.begin(), parsed.host.end(), IsHostByte)) {
      return bad("has a malformed host");
    }
  }
  if (port.empty()) return parsed;
  uint32_t number = 0;
  if (!absl::ConsumePrefix(&port, ":") || port.empty() ||
      !std::all_of(port.begin(), port.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(port, &number) || number == 0 || number > 65535) {
    return bad("has a malformed port");
  }
  parsed.port = static_cast<uint16_t>(number);
  return parsed;
}

}  // namespace

absl::Status CallbackPolicy::CheckHosts() const {
  for (const std::string& host : hosts) {
    if (ParseAuthority(host).ok()) continue;
    return absl::InvalidArgumentError(
        "must be a host, or a host and a port, like example.com:8443 or [2001:db8::1]:8443");
  }
  return absl::OkStatus();
}

absl::StatusOr<CallbackUrl> CallbackPolicy::Check(absl::string_view url) const {
  const auto bad = [](absl::string_view what) { return absl::InvalidArgumentError(what); };
  for (const char c : url) {
    if (c <= 0x20 || c >= 0x7f || c == '\\' || c == '"' || c == '<' || c == '>' || c == '#') {
      return bad("has a character that no callback address has");
    }
  }
  CallbackUrl parsed;
  if (absl::ConsumePrefix(&url, "https://")) {
    parsed.scheme = "https";
    parsed.port = kHttpsPort;
  } else if (absl::ConsumePrefix(&url, "http://")) {
    parsed.scheme = "http";
    parsed.port = kHttpPort;
  } else {
    return bad("must begin with https://");
  }
  const absl::string_view text = url.substr(0, url.find_first_of("/?"));
  if (absl::StrContains(text, '@')) return bad("must name no user");
  LETHE_ASSIGN_OR_RETURN(const Authority authority, ParseAuthority(text));
  const uint16_t usual = parsed.port;
  parsed.host = authority.host;
  if (authority.port != 0) parsed.port = authority.port;
  if (parsed.scheme == "http" && !loopback) return bad("must begin with https://");
  const bool listed = std::any_of(hosts.begin(), hosts.end(), [&](const std::string& host) {
    const absl::StatusOr<Authority> known = ParseAuthority(host);
    return known.ok() && known->host == parsed.host &&
           (known->port == 0 ? usual : known->port) == parsed.port;
  });
  if (!listed) return bad("its host is not on the server's list for callbacks");
  return parsed;
}

bool CallbackPolicy::MayConnect(const sockaddr_storage& address) const {
  Reach reach = Reach::kNever;
  if (address.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address, sizeof v4);
    reach = ReachOf(ntohl(v4.sin_addr.s_addr));
  } else if (address.ss_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &address, sizeof v6);
    reach = ReachOf(v6.sin6_addr);
  }
  switch (reach) {
    case Reach::kPublic:
      return true;
    case Reach::kPrivate:
      return private_networks;
    case Reach::kLoopback:
      return loopback;
    case Reach::kNever:
      return false;
  }
  return false;
}

}  // namespace lethe::http
