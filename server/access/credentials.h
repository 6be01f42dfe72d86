// What a caller shows: a bearer token in the request's metadata, a client certificate that the
// handshake verified, or both. Threads: a value.
#ifndef LETHE_SERVER_ACCESS_CREDENTIALS_H_
#define LETHE_SERVER_ACCESS_CREDENTIALS_H_

#include <string>
#include <vector>

namespace lethe::access {

struct Credentials {
  // Every `authorization` header, as it came.
  std::vector<std::string> authorization;
  // The verified certificate in PEM; empty for none.
  std::string certificate;
};

}  // namespace lethe::access

#endif  // LETHE_SERVER_ACCESS_CREDENTIALS_H_
