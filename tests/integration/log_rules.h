// What must hold of the log and the keys of a tenant whose server was killed, whatever else
// happened. Threads: compatible.
#ifndef LETHE_TESTS_INTEGRATION_LOG_RULES_H_
#define LETHE_TESTS_INTEGRATION_LOG_RULES_H_

#include <cstdint>
#include <map>
#include <string>

#include "client/client.h"

namespace lethe::tests {

class LogRules {
 public:
  explicit LogRules(std::string tenant) : tenant_(std::move(tenant)) {}

  // Empty, or what is wrong: sequences are dense and each certificate names the leaf before it; the
  // checkpoint is signed by the first key and over the leaves; and so is, over the first of them,
  // every checkpoint that was handed out before. Roots are made here, from the leaves.
  std::string Check(client::Client& client);

  uint64_t certificates() const { return certificates_; }
  uint64_t checkpoints() const { return handed_out_.size(); }

 private:
  std::string tenant_;
  std::string vkey_;                            // the first that was seen
  std::map<uint64_t, std::string> handed_out_;  // root by size
  uint64_t certificates_ = 0;
};

// Empty, or what is wrong in the data folder of a server that was stopped in order: a key of the
// tenant is alive that no row uses and that is not free, a row's key is not alive, or an erasure is
// pending. `live` and `destroyed` count the keys.
std::string CheckKeys(const std::string& data,
                      const std::string& tenant,
                      uint64_t& live,
                      uint64_t& destroyed);

}  // namespace lethe::tests

#endif  // LETHE_TESTS_INTEGRATION_LOG_RULES_H_
