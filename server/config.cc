#include "server/config.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"
#include "server/limits.h"

namespace lethe::server {
namespace {

constexpr size_t kHelpColumns = 80;
constexpr size_t kMaxOriginBytes = 100;
constexpr uint64_t kLeastBallast = uint64_t{16} << 20;
constexpr uint64_t kMostBallast = uint64_t{1} << 40;
// A note has at most 100 signatures, the log's included.
constexpr size_t kMaxWitnesses = 64;

// Options one below the other, with wrapped text: the formatter that ships with CLI11 does not
// wrap.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string out = absl::StrCat("  ", make_option_name(option, is_positional));
    if (!option->get_option_text().empty()) absl::StrAppend(&out, " ", option->get_option_text());
    absl::StrAppend(&out, "\n");
    std::string text = option->get_description();
    if (!option->get_envname().empty()) absl::StrAppend(&text, " [", option->get_envname(), "]");
    constexpr absl::string_view kIndent = "        ";
    std::string line(kIndent);
    for (const absl::string_view word : absl::StrSplit(text, ' ')) {
      if (line.size() + 1 + word.size() > kHelpColumns) {
        absl::StrAppend(&out, line, "\n");
        line = std::string(kIndent);
      }
      absl::StrAppend(&line, line.size() == kIndent.size() ? "" : " ", word);
    }
    absl::StrAppend(&out, line, "\n");
    return out;
  }
};

absl::Status CheckOrigin(absl::string_view origin) {
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '/';
  };
  if (origin.empty() || origin.size() > kMaxOriginBytes || origin.front() == '/' ||
      origin.back() == '/' || !std::all_of(origin.begin(), origin.end(), allowed)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--origin: must be 1 to ", kMaxOriginBytes,
                     " characters of A-Z, a-z, 0-9, '.', '-' and '/', not beginning or ending with "
                     "'/'; for example a domain name of yours"));
  }
  return absl::OkStatus();
}

absl::Status ParseWitnesses(const std::vector<std::string>& arguments,
                            std::vector<audit::WitnessKey>& witnesses) {
  for (const std::string& argument : arguments) {
    for (const absl::string_view vkey :
         absl::StrSplit(argument, absl::ByAnyChar(" \t\n"), absl::SkipEmpty())) {
      absl::StatusOr<audit::WitnessKey> key = audit::WitnessKey::Parse(vkey);
      if (!key.ok()) {
        return absl::InvalidArgumentError(absl::StrCat("--witness: ", key.status().message()));
      }
      for (const audit::WitnessKey& other : witnesses) {
        if (other.key_id() == key->key_id()) {
          return absl::InvalidArgumentError("--witness: two keys have the same id");
        }
      }
      witnesses.push_back(*std::move(key));
    }
  }
  if (witnesses.size() > kMaxWitnesses) {
    return absl::InvalidArgumentError(absl::StrCat("--witness: at most ", kMaxWitnesses, " keys"));
  }
  return absl::OkStatus();
}

}  // namespace

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

// `harm`: what a stranger could do there.
absl::Status CheckAddress(absl::string_view flag,
                          absl::string_view text,
                          absl::string_view harm,
                          bool allow_insecure_non_loopback) {
  LETHE_ASSIGN_OR_RETURN(const HostPort address, ParseHostPort(flag, text));
  if (IsLoopback(address.host) || allow_insecure_non_loopback) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      flag,
      ": this address can be reached from other machines, and this version has neither TLS nor "
      "access control, so anyone on the network could ",
      harm,
      ". Listen on 127.0.0.1, or give --allow-insecure-non-loopback if something in front of the "
      "server protects it"));
}

}  // namespace

absl::Status Validate(const Config& config) {
  if (config.data.empty()) return absl::InvalidArgumentError("--data: is empty");
  LETHE_RETURN_IF_ERROR(CheckOrigin(config.origin));
  if (config.ballast != 0 && (config.ballast < kLeastBallast || config.ballast > kMostBallast)) {
    return absl::InvalidArgumentError(
        "--ballast: must be 0 for none, or 16MiB to 1TiB, so that an erasure finds room in it");
  }
  LETHE_RETURN_IF_ERROR(CheckAddress("--listen", config.listen, "read and erase",
                                     config.allow_insecure_non_loopback));
  if (config.http_listen.empty()) return absl::OkStatus();
  return CheckAddress("--http-listen", config.http_listen, "read the logs of certificates",
                      config.allow_insecure_non_loopback);
}

absl::StatusOr<std::variant<Config, PrintAndExit>> ParseCommandLine(
    const std::vector<std::string>& arguments) {
  Config config;
  std::string level(service::LogLevelName(config.log_level));
  std::string verify_forget = "never";
  std::vector<std::string> witnesses;
  std::string max_open_tenants;
  std::string memory_limit;
  std::string ballast = "64MiB";
  bool version = false;
  // CLI11 reports by exceptions; none leaves this function.
  try {
    CLI::App app("lethed: the server of Lethe, a memory that can prove it has forgotten.",
                 "lethed");
    app.formatter(std::make_shared<HelpFormatter>());
    app.set_help_flag("-h,--help", "Print this text and exit.");
    app.add_flag("--version", version, "Print the version and exit.");
    app.add_option("--data", config.data,
                   "Folder of everything the server keeps; made when missing. Default ./var/lethe.")
        ->option_text("DIR")
        ->envname("LETHE_DATA");
    app.add_option(
           "--vault", config.vault,
           "Folder of the keys that the stored rows are sealed with, to be copied apart from "
           "the data; made with a new data folder. Default vault in the data folder.")
        ->option_text("DIR")
        ->envname("LETHE_VAULT");
    app.add_option("--listen", config.listen,
                   "Address and port of the gRPC server; port 0 lets the kernel choose. "
                   "Default 127.0.0.1:7421.")
        ->option_text("HOST:PORT")
        ->envname("LETHE_LISTEN");
    app.add_option("--http-listen", config.http_listen,
                   "Address and port where the logs of certificates can be read over HTTP. Default "
                   "nowhere.")
        ->option_text("HOST:PORT")
        ->envname("LETHE_HTTP_LISTEN");
    app.add_flag(
           "--allow-insecure-non-loopback", config.allow_insecure_non_loopback,
           "Listen on an address that other machines can reach, without TLS and without access "
           "control.")
        ->envname("LETHE_ALLOW_INSECURE_NON_LOOPBACK");
    app.add_option("--port-file", config.port_file,
                   "Write the port to this file once the server listens.")
        ->option_text("FILE")
        ->envname("LETHE_PORT_FILE");
    app.add_option(
           "--origin", config.origin,
           "First part of the names of the certificate logs made from now on; a domain name "
           "of yours. Default lethe.local.")
        ->option_text("NAME")
        ->envname("LETHE_ORIGIN");
    app.add_option(
           "--verify-forget", verify_forget,
           "Whether each erasure is also compared, bit for bit, with a cold refit: never or "
           "always. Default never; the state is proven optimal either way.")
        ->option_text("WHEN")
        ->envname("LETHE_VERIFY_FORGET");
    app.add_option("--witness", witnesses,
                   "Key of a witness (C2SP vkey of type 4) whose cosignatures of checkpoints are "
                   "kept; may be repeated. In the environment, several are separated by spaces.")
        ->option_text("VKEY")
        ->allow_extra_args(false)
        ->envname("LETHE_WITNESS");
    app.add_option("--max-open-tenants", max_open_tenants,
                   "Tenants that may be open at a time; beyond it the one used longest ago is "
                   "unloaded until its next call. Default 1000, or less where the limit on open "
                   "files is low.")
        ->option_text("N")
        ->envname("LETHE_MAX_OPEN_TENANTS");
    app.add_option("--memory-limit", memory_limit,
                   "Memory that open tenants may take, an estimate; likewise. For example 2GiB. "
                   "Default half of the machine's or the cgroup's.")
        ->option_text("BYTES")
        ->envname("LETHE_MEMORY_LIMIT");
    app.add_option("--ballast", ballast,
                   "Room on the disk that is kept in a file for erasures, which give it up when "
                   "they find the disk full; inserts are refused until there is room again. 0 for "
                   "none. Default 64MiB.")
        ->option_text("SIZE")
        ->envname("LETHE_BALLAST");
    app.add_option(
           "--log-level", level,
           "Lowest level of the log on stderr: debug, info, warning or error. Default info.")
        ->option_text("LEVEL")
        ->envname("LETHE_LOG_LEVEL");
    app.footer(
        "Each option can also come from the environment variable in brackets; a flag\nwins.");
    try {
      // CLI11 takes the arguments from the back.
      std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
      app.parse(reversed);
    } catch (const CLI::CallForHelp&) {
      return PrintAndExit{app.help()};
    }
  } catch (const CLI::Error& error) {
    return absl::InvalidArgumentError(error.what());
  }
  if (version) return PrintAndExit{absl::StrCat("lethed ", LETHE_VERSION, "\n")};
  absl::StatusOr<service::LogLevel> parsed = service::ParseLogLevel(level);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError("--log-level: must be debug, info, warning or error");
  }
  config.log_level = *parsed;
  if (verify_forget != "never" && verify_forget != "always") {
    return absl::InvalidArgumentError("--verify-forget: must be never or always");
  }
  config.refit_on_forget = verify_forget == "always";
  LETHE_RETURN_IF_ERROR(ParseWitnesses(witnesses, config.witnesses));
  if (!max_open_tenants.empty()) {
    uint64_t number = 0;
    if (max_open_tenants[0] == '-' || !absl::SimpleAtoi(max_open_tenants, &number) || number == 0) {
      return absl::InvalidArgumentError("--max-open-tenants: must be a number, at least 1");
    }
    config.max_open_tenants = number;
  }
  if (!memory_limit.empty()) {
    LETHE_ASSIGN_OR_RETURN(config.memory_limit, ParseBytes("--memory-limit", memory_limit));
  }
  LETHE_ASSIGN_OR_RETURN(config.ballast, ParseBytes("--ballast", ballast));
  LETHE_RETURN_IF_ERROR(Validate(config));
  return config;
}

}  // namespace lethe::server
