// Where the server may be sent by the addresses that callers name for callbacks: to hosts on a
// list, by HTTPS, and not into its own network. Threads: a value.
#ifndef LETHE_SERVER_HTTP_CALLBACK_POLICY_H_
#define LETHE_SERVER_HTTP_CALLBACK_POLICY_H_

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lethe::http {

struct CallbackUrl {
  std::string scheme;
  std::string host;  // in lower case; IPv6 without brackets
  uint16_t port = 0;
};

struct CallbackPolicy {
  // "example.com" for port 443, "example.com:8443" for another; IPv6 in brackets. Empty: nobody is
  // called.
  std::vector<std::string> hosts;
  // Addresses of private networks may be connected to. Loopback and link-local ones never.
  bool private_networks = false;
  // For tests: http, and loopback addresses, of hosts on the list.
  bool loopback = false;

  // INVALID_ARGUMENT for one of `hosts` that is none; it would match nothing.
  absl::Status CheckHosts() const;
  // INVALID_ARGUMENT says what is wrong with the address, without repeating it: no URL, a user, a
  // fragment, another scheme, a host that is not on the list.
  absl::StatusOr<CallbackUrl> Check(absl::string_view url) const;
  // Whether a connection to this address may be made, whatever name led to it.
  bool MayConnect(const sockaddr_storage& address) const;
};

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_CALLBACK_POLICY_H_
