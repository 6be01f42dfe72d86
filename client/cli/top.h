// What `lethe top` shows: one look at the memories of a server, and its picture.
#ifndef LETHE_CLIENT_CLI_TOP_H_
#define LETHE_CLIENT_CLI_TOP_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/client.h"

namespace lethe::cli {

struct TopRow {
  client::Memory memory;
  client::Verdict verdict = client::Verdict::kUnspecified;
  // Tokens now less tokens at the look before; absent at the first look at this memory.
  std::optional<int64_t> change;

  uint64_t tokens() const;
};

// A tenant that could not be looked at, and why.
struct TopTrouble {
  std::string tenant;
  absl::Status status;
};

struct TopLook {
  std::vector<TopRow> rows;  // by tenant and memory
  std::vector<TopTrouble> troubles;
  uint64_t tenants = 0;    // on the server
  uint64_t looked_at = 0;  // of them
  uint64_t tokens = 0;
};

// Looks again and again, and remembers what it saw.
class TopWatcher {
 public:
  // Of `tenant` alone, or of the first `max_tenants`. A look opens the tenants it is at.
  TopWatcher(client::Client client, std::string tenant, uint64_t max_tenants)
      : client_(std::move(client)), tenant_(std::move(tenant)), max_tenants_(max_tenants) {}

  // The server's status. What goes away while it looks is left out; of many tenants, one that
  // cannot be looked at is among the troubles.
  absl::StatusOr<TopLook> Look();
  // A look that is under way ends with the call that it is at, CANCELLED. Threads: safe.
  void Stop() { stopped_.store(true); }

 private:
  absl::Status LookAt(const std::string& tenant, TopLook& look);

  client::Client client_;
  const std::string tenant_;
  const uint64_t max_tenants_;
  std::atomic<bool> stopped_{false};
  std::map<std::pair<std::string, std::string>, uint64_t> tokens_before_;
};

// Lines without a newline, at most `columns` wide and `rows` many; a last line says what did not
// fit. `trouble` takes the place of the second line when not empty.
std::vector<std::string> TopLines(const TopLook& look,
                                  const std::string& address,
                                  absl::Duration interval,
                                  const std::string& trouble,
                                  size_t columns,
                                  size_t rows);

// Draws over what is there, line by line, so that nothing flickers.
std::string TopFrame(const std::vector<std::string>& lines);

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_TOP_H_
