#include "client/cli/context.h"

#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cli/exit_codes.h"

namespace lethe::cli {

client::Options Context::ConnectionOptions() const {
  client::Options options;
  options.address = globals.address;
  if (globals.tls || !globals.ca.empty() || !globals.client_certificate.empty() ||
      !globals.client_key.empty() || !globals.server_name.empty()) {
    options.tls = client::TlsOptions{.ca_file = globals.ca,
                                     .certificate_file = globals.client_certificate,
                                     .key_file = globals.client_key,
                                     .server_name = globals.server_name};
  }
  options.token_file = globals.token_file;
  // Not an option: flags show in process lists.
  const char* token = std::getenv("LETHE_TOKEN");
  if (options.token_file.empty() && token != nullptr) options.token = token;
  options.deadline = globals.timeout;
  options.stream_stall = globals.timeout;
  options.user_agent = "lethe-cli";
  return options;
}

client::Client Context::client() {
  if (connection_ == nullptr) connection_ = connector_(ConnectionOptions());
  return client::Client(connection_);
}

absl::StatusOr<std::string> Context::Tenant(absl::string_view positional) const {
  if (!positional.empty()) return std::string(positional);
  if (!globals.tenant.empty()) return globals.tenant;
  return absl::InvalidArgumentError("which tenant? give --tenant or set LETHE_TENANT");
}

absl::StatusOr<client::MemoryName> Context::Memory(absl::string_view positional) const {
  absl::StatusOr<std::string> tenant = Tenant();
  if (!tenant.ok()) return tenant.status();
  if (!positional.empty()) return client::MemoryName{*tenant, std::string(positional)};
  if (!globals.memory.empty()) return client::MemoryName{*tenant, globals.memory};
  return absl::InvalidArgumentError("which memory? give --memory or set LETHE_MEMORY");
}

void Context::Note(absl::string_view text) {
  if (!globals.quiet) io_.err << "lethe: " << text << "\n";
}

int Context::Error(int exit_code, absl::string_view message) {
  io_.err << "lethe: error: " << message << "\n";
  return exit_code;
}

int Context::UsageError(absl::string_view message) { return Error(kExitUsage, message); }
int Context::FileError(absl::string_view message) { return Error(kExitFile, message); }
int Context::NotVerified(absl::string_view message) { return Error(kExitNotVerified, message); }

int Context::RpcError(const absl::Status& status) {
  std::string message(status.message());
  if (message.empty()) message = absl::StatusCodeToString(status.code());
  if (absl::IsDeadlineExceeded(status)) {
    message = absl::StrCat("no answer within ", absl::FormatDuration(globals.timeout),
                           "; --timeout sets another limit");
  }
  if (absl::IsUnavailable(status)) message = absl::StrCat(globals.address, ": ", message);
  return Error(kExitRpcBase + static_cast<int>(status.code()), message);
}

bool Context::Confirm(bool yes, absl::string_view question) {
  if (yes) return true;
  if (!io_.in_is_terminal) {
    UsageError("nothing was changed; --yes is needed to go on");
    return false;
  }
  io_.err << question << " [y/N] " << std::flush;
  std::string answer;
  std::getline(io_.in, answer);
  answer = absl::AsciiStrToLower(absl::StripAsciiWhitespace(answer));
  if (answer == "y" || answer == "yes") return true;
  UsageError("nothing was changed");
  return false;
}

}  // namespace lethe::cli
