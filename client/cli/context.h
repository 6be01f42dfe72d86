// What every command works with: the global options, the streams, and the way to the server.
//
// Data alone goes to `out`; progress, notes and errors go to `err`. A command returns its exit
// status (exit_codes.h) and reports an error exactly once, through the functions below.
#ifndef LETHE_CLIENT_CLI_CONTEXT_H_
#define LETHE_CLIENT_CLI_CONTEXT_H_

#include <functional>
#include <istream>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/terminal.h"
#include "client/client.h"

namespace lethe::cli {

enum class OutputFormat { kTable, kJson, kJsonLines };

struct GlobalOptions {
  std::string address = "127.0.0.1:7421";
  std::string tenant;
  std::string memory;
  std::string profile;
  bool tls = false;
  std::string ca;
  std::string client_certificate;
  std::string client_key;
  std::string server_name;
  std::string token_file;
  OutputFormat output = OutputFormat::kTable;
  absl::Duration timeout = absl::Seconds(60);
  bool quiet = false;
};

struct Io {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  bool in_is_terminal = false;
  bool err_is_terminal = false;
  // Of a program that draws on it; null where in or out is no terminal.
  Terminal* terminal = nullptr;
};

using Connector = std::function<std::shared_ptr<client::Connection>(client::Options)>;

class Context {
 public:
  Context(Io& io, Connector connector) : io_(io), connector_(std::move(connector)) {}

  GlobalOptions globals;

  Io& io() { return io_; }
  // What the global options, and LETHE_TOKEN, say about the connection.
  client::Options ConnectionOptions() const;
  // Connects with them; the same connection each time.
  client::Client client();

  // The tenant, or its memory, that --tenant and --memory (or `positional`, when not empty) name.
  // INVALID_ARGUMENT when one is missing.
  absl::StatusOr<std::string> Tenant(absl::string_view positional = "") const;
  absl::StatusOr<client::MemoryName> Memory(absl::string_view positional = "") const;

  // To `err`, unless --quiet.
  void Note(absl::string_view text);
  // "lethe: error: ..." on `err`, and the exit status that goes with it.
  int UsageError(absl::string_view message);
  int FileError(absl::string_view message);
  int NotVerified(absl::string_view message);
  int RpcError(const absl::Status& status);
  int Error(int exit_code, absl::string_view message);

  // True to go on: --yes was given, or a person at the terminal said so. Otherwise reports why not.
  bool Confirm(bool yes, absl::string_view question);

 private:
  Io& io_;
  Connector connector_;
  std::shared_ptr<client::Connection> connection_;
};

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_CONTEXT_H_
