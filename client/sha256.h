// SHA-256 of what comes in pieces, through OpenSSL's EVP interface: the client library links
// nothing of the server's. Internal to client/. Errors: none; OpenSSL failing here is a broken
// invariant. Threads: compatible.
#ifndef LETHE_CLIENT_SHA256_H_
#define LETHE_CLIENT_SHA256_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace lethe::client {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void Update(absl::string_view bytes);
  // In lower-case hex digits; once.
  std::string Finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace lethe::client

#endif  // LETHE_CLIENT_SHA256_H_
