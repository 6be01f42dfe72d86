#include "server/options.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "core/base/status_macros.h"
#include "core/program/toml_file.h"
#include "server/limits.h"
#include "server/quota_text.h"

namespace lethe::server {
namespace {

constexpr size_t kMaxOriginBytes = 100;
constexpr uint64_t kLeastBallast = uint64_t{16} << 20;
constexpr uint64_t kMostBallast = uint64_t{1} << 40;
constexpr uint64_t kLeastJobFile = uint64_t{1} << 20;
constexpr uint64_t kMostJobFile = uint64_t{64} << 30;
// A note has at most 100 signatures, the log's included.
constexpr size_t kMaxWitnesses = 64;
constexpr size_t kMaxCallbackHosts = 64;

using Where = absl::string_view;
using Texts = std::vector<std::string>;

absl::Status Bad(Where where, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", what));
}

std::string TomlText(const std::string& text) {
  const toml::value<std::string> value(text);
  std::ostringstream out;
  out << toml::toml_formatter(value, toml::format_flags::none);
  return out.str();
}

std::string TomlBytes(uint64_t bytes) {
  for (const auto& [unit, shift] :
       {std::pair<const char*, int>{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}}) {
    if (bytes != 0 && bytes % (uint64_t{1} << shift) == 0) {
      return TomlText(absl::StrCat(bytes >> shift, unit));
    }
  }
  return absl::StrCat(bytes);
}

// The value that a Config has by itself, as help shows it: without quotation marks.
std::string DefaultOf(const Option& option) {
  return std::string(absl::StripPrefix(absl::StripSuffix(option.show(Config{}), "\""), "\""));
}

Option WithDefault(Option option, std::string default_text) {
  option.default_text = !default_text.empty() || option.kind == Option::Kind::kSwitch
                            ? std::move(default_text)
                            : DefaultOf(option);
  return option;
}

using TextCheck = std::function<absl::Status(Where, const std::string&)>;

Option Text(std::string name,
            std::string placeholder,
            std::string Config::*member,
            std::string help,
            std::string default_text = "",
            TextCheck check = nullptr) {
  Option option{std::move(name), Option::Kind::kText, std::move(placeholder), std::move(help)};
  option.set = [member, check = std::move(check)](Where where, const Texts& texts,
                                                  Config& config) -> absl::Status {
    if (check != nullptr) LETHE_RETURN_IF_ERROR(check(where, texts[0]));
    config.*member = texts[0];
    return absl::OkStatus();
  };
  option.show = [member](const Config& config) {
    return (config.*member).empty() ? std::string() : TomlText(config.*member);
  };
  return WithDefault(std::move(option), std::move(default_text));
}

Option Switch(std::string name, bool Config::*member, std::string help) {
  Option option{std::move(name), Option::Kind::kSwitch, "", std::move(help)};
  option.set = [member](Where where, const Texts& texts, Config& config) -> absl::Status {
    // SimpleAtob: true, t, yes, y, 1, and their opposites.
    if (!absl::SimpleAtob(texts[0], &(config.*member))) return Bad(where, "must be true or false");
    return absl::OkStatus();
  };
  option.show = [member](const Config& config) { return config.*member ? "true" : "false"; };
  return WithDefault(std::move(option), "");
}

// One of a few words.
template <typename T>
Option Choice(std::string name,
              std::string placeholder,
              T Config::*member,
              std::vector<std::pair<std::string, T>> words,
              std::string help) {
  Option option{std::move(name), Option::Kind::kText, std::move(placeholder), std::move(help)};
  option.set = [member, words](Where where, const Texts& texts, Config& config) -> absl::Status {
    std::vector<std::string> names;
    for (const auto& [word, value] : words) {
      if (texts[0] == word) {
        config.*member = value;
        return absl::OkStatus();
      }
      names.push_back(word);
    }
    const std::string last = std::move(names.back());
    names.pop_back();
    return Bad(where, absl::StrCat("must be ", absl::StrJoin(names, ", "), " or ", last));
  };
  option.show = [member, words](const Config& config) {
    const auto found = std::find_if(words.begin(), words.end(), [&](const auto& word) {
      return word.second == config.*member;
    });
    return TomlText(found->first);
  };
  return WithDefault(std::move(option), "");
}

// Whole numbers and sizes; T is uint64_t, or optional where leaving it out has a meaning of its
// own.
struct Range {
  uint64_t least = 0;
  uint64_t most = std::numeric_limits<int64_t>::max();
};

template <typename T>
Option Number(std::string name,
              T Config::*member,
              Range range,
              std::string help,
              std::string default_text = "") {
  Option option{std::move(name), Option::Kind::kNumber, "N", std::move(help)};
  option.set = [member, range](Where where, const Texts& texts, Config& config) -> absl::Status {
    uint64_t number = 0;
    const bool digits =
        !texts[0].empty() && std::all_of(texts[0].begin(), texts[0].end(), [](char c) {
          return absl::ascii_isdigit(static_cast<unsigned char>(c));
        });
    if (!digits || !absl::SimpleAtoi(texts[0], &number) || number < range.least ||
        number > range.most) {
      return Bad(where,
                 range.most == Range{}.most
                     ? absl::StrCat("must be a number, at least ", range.least)
                     : absl::StrCat("must be a number from ", range.least, " to ", range.most));
    }
    config.*member = number;
    return absl::OkStatus();
  };
  option.show = [member](const Config& config) {
    const std::optional<uint64_t> number = config.*member;
    return number.has_value() ? absl::StrCat(*number) : std::string();
  };
  return WithDefault(std::move(option), std::move(default_text));
}

Option Time(std::string name,
            absl::Duration Config::*member,
            absl::Duration least,
            absl::Duration most,
            std::string help,
            std::string default_text = "") {
  Option option{std::move(name), Option::Kind::kDuration, "TIME", std::move(help)};
  option.set = [member, least, most](Where where, const Texts& texts,
                                     Config& config) -> absl::Status {
    absl::Duration duration;
    if (!absl::ParseDuration(texts[0], &duration) || duration < least || duration > most) {
      return Bad(where,
                 absl::StrCat("must be a time such as 500ms, 30s or 1h30m, from ",
                              absl::FormatDuration(least), " to ", absl::FormatDuration(most)));
    }
    config.*member = duration;
    return absl::OkStatus();
  };
  option.show = [member](const Config& config) {
    return TomlText(absl::FormatDuration(config.*member));
  };
  return WithDefault(std::move(option), std::move(default_text));
}

using BytesCheck = std::function<absl::Status(Where, uint64_t)>;

template <typename T>
Option Bytes(std::string name,
             T Config::*member,
             std::string help,
             std::string default_text = "",
             BytesCheck check = nullptr) {
  Option option{std::move(name), Option::Kind::kBytes, "SIZE", std::move(help)};
  option.set = [member, check = std::move(check)](Where where, const Texts& texts,
                                                  Config& config) -> absl::Status {
    LETHE_ASSIGN_OR_RETURN(const uint64_t bytes, ParseBytes(where, texts[0]));
    if (check != nullptr) LETHE_RETURN_IF_ERROR(check(where, bytes));
    config.*member = bytes;
    return absl::OkStatus();
  };
  option.show = [member](const Config& config) {
    const std::optional<uint64_t> bytes = config.*member;
    return bytes.has_value() ? TomlBytes(*bytes) : std::string();
  };
  return WithDefault(std::move(option), std::move(default_text));
}

absl::Status CheckNotEmpty(Where where, const std::string& text) {
  return text.empty() ? Bad(where, "is empty") : absl::OkStatus();
}

absl::Status CheckAddress(Where where, const std::string& address) {
  return ParseHostPort(where, address).status();
}

absl::Status CheckAddressOrNone(Where where, const std::string& address) {
  return address.empty() ? absl::OkStatus() : CheckAddress(where, address);
}

absl::Status CheckOrigin(Where where, const std::string& origin) {
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '/';
  };
  if (origin.empty() || origin.size() > kMaxOriginBytes || origin.front() == '/' ||
      origin.back() == '/' || !std::all_of(origin.begin(), origin.end(), allowed)) {
    return Bad(where, absl::StrCat("must be 1 to ", kMaxOriginBytes,
                                   " characters of A-Z, a-z, 0-9, '.', '-' and '/', not beginning "
                                   "or ending with '/'; for example a domain name of yours"));
  }
  return absl::OkStatus();
}

absl::Status CheckBallast(Where where, uint64_t bytes) {
  if (bytes == 0 || (bytes >= kLeastBallast && bytes <= kMostBallast)) return absl::OkStatus();
  return Bad(where, "must be 0 for none, or 16MiB to 1TiB, so that an erasure finds room in it");
}

absl::Status CheckJobFileLimit(Where where, uint64_t bytes) {
  if (bytes >= kLeastJobFile && bytes <= kMostJobFile) return absl::OkStatus();
  return Bad(where, "must be 1MiB to 64GiB");
}

absl::Status SetWitnesses(Where where, const Texts& texts, Config& config) {
  std::vector<audit::WitnessKey> witnesses;
  for (const std::string& vkey : texts) {
    absl::StatusOr<audit::WitnessKey> key = audit::WitnessKey::Parse(vkey);
    if (!key.ok()) return Bad(where, key.status().message());
    for (const audit::WitnessKey& other : witnesses) {
      if (other.key_id() == key->key_id()) return Bad(where, "two keys have the same id");
    }
    witnesses.push_back(*std::move(key));
  }
  if (witnesses.size() > kMaxWitnesses) {
    return Bad(where, absl::StrCat("at most ", kMaxWitnesses, " keys"));
  }
  config.witnesses = std::move(witnesses);
  return absl::OkStatus();
}

std::string ShowWitnesses(const Config& config) {
  if (config.witnesses.empty()) return "";
  return absl::StrCat("[",
                      absl::StrJoin(config.witnesses, ", ",
                                    [](std::string* out, const audit::WitnessKey& key) {
                                      absl::StrAppend(out, TomlText(key.vkey()));
                                    }),
                      "]");
}

absl::Status SetQuotas(Where where, const Texts& texts, Config& config) {
  LETHE_ASSIGN_OR_RETURN(config.quotas, ParseQuotas(where, texts));
  return absl::OkStatus();
}

std::string ShowQuotas(const Config& config) {
  const std::vector<std::string> texts = FormatQuotas(config.quotas);
  if (texts.empty()) return "";
  return absl::StrCat("[",
                      absl::StrJoin(texts, ", ",
                                    [](std::string* out, const std::string& text) {
                                      absl::StrAppend(out, TomlText(text));
                                    }),
                      "]");
}

absl::Status SetCallbackHosts(Where where, const Texts& texts, Config& config) {
  if (texts.size() > kMaxCallbackHosts) {
    return Bad(where, absl::StrCat("at most ", kMaxCallbackHosts, " hosts"));
  }
  // What each of them is judged with the address that it is compared to
  // (server/http/callback_policy.h).
  config.callback_hosts = texts;
  return absl::OkStatus();
}

std::string ShowCallbackHosts(const Config& config) {
  if (config.callback_hosts.empty()) return "";
  return absl::StrCat("[",
                      absl::StrJoin(config.callback_hosts, ", ",
                                    [](std::string* out, const std::string& host) {
                                      absl::StrAppend(out, TomlText(host));
                                    }),
                      "]");
}

std::vector<Option> MakeOptions() {
  return {
      Text("data", "DIR", &Config::data,
           "Folder of everything the server keeps; made when missing.", "", CheckNotEmpty),
      Text("vault", "DIR", &Config::vault,
           "Folder of the keys that the stored rows are sealed with, to be copied apart from the "
           "data; made with a new data folder.",
           "vault in the data folder"),
      Text("listen", "HOST:PORT", &Config::listen,
           "Address and port of the gRPC server; port 0 lets the kernel choose.", "", CheckAddress),
      Text("http-listen", "HOST:PORT", &Config::http_listen,
           "Address and port of the HTTP server: calls in JSON, and the logs of certificates.",
           "nowhere", CheckAddressOrNone),
      Text("public-url", "URL", &Config::public_url,
           "What links in answers and callbacks begin with, like https://lethe.example.",
           "as the caller addressed the server"),
      Text("dsr-domain", "DOMAIN", &Config::dsr_domain,
           "Domain of the certificate that answers about erasure requests are signed by.", "none"),
      Text("dsr-key", "FILE", &Config::dsr_key,
           "Its key in PEM, RSA or EC, not encrypted. OpenDSR is served only with it.", "none"),
      Text("dsr-certificate", "FILE", &Config::dsr_certificate,
           "The certificate in PEM, with its chain; anybody can fetch it.", "none"),
      {"callback-host", Option::Kind::kList, "HOST[:PORT]",
       "Host that may be told of erasure requests which name an address there, by HTTPS; may be "
       "repeated.",
       "", SetCallbackHosts, ShowCallbackHosts},
      Text("callback-ca", "FILE", &Config::callback_ca,
           "Certificates in PEM that the certificates of those hosts must be signed by.",
           "the system's"),
      Switch("callback-private-networks", &Config::callback_private_networks,
             "Let those hosts have addresses of private networks."),
      Switch("callback-insecure-loopback", &Config::callback_insecure_loopback,
             "For tests: let those hosts be this machine, by HTTP too."),
      Text("transcend-key", "FILE", &Config::transcend_key,
           "Public key in PEM that Transcend's webhooks must be signed by.", "not looked at"),
      Text("tls-certificate", "FILE", &Config::tls_certificate,
           "Certificate of the server in PEM, with its chain; read again when it changes.", "none"),
      Text("tls-key", "FILE", &Config::tls_key, "Its key, in PEM, not encrypted; likewise.",
           "none"),
      Text("tls-client-ca", "FILE", &Config::tls_client_ca,
           "Certificates in PEM that the certificates of clients must be signed by; likewise.",
           "none: clients show no certificates"),
      Choice("tls-client-certificates", "WHEN", &Config::tls_client_certificates_required,
             {{"required", true}, {"optional", false}},
             "With --tls-client-ca, whether a client must show a certificate: required or "
             "optional."),
      Text("access", "FILE", &Config::access,
           "The access file: who may do what, by bearer tokens and client certificates.", "none"),
      Switch("public-logs", &Config::public_logs,
             "Let everybody read the logs of certificates over HTTP, also where there is an access "
             "file."),
      Switch("insecure-loopback", &Config::insecure_loopback,
             "Serve this machine alone without TLS and, where there is no access file, let every "
             "program on it do everything."),
      Text("operations-log", "FILE", &Config::operations_log,
           "File that records every refused call, and every one that destroys or administers.",
           "operations.log in the data folder"),
      Text("port-file", "FILE", &Config::port_file,
           "Write the port to this file once the server listens."),
      Text("origin", "NAME", &Config::origin,
           "First part of the names of the certificate logs made from now on; a domain name of "
           "yours.",
           "", CheckOrigin),
      Choice("verify-forget", "WHEN", &Config::refit_on_forget,
             {{"never", false}, {"always", true}},
             "Whether each erasure is also compared, bit for bit, with a cold refit: never or "
             "always. The state is proven optimal either way."),
      {"witness", Option::Kind::kList, "VKEY",
       "Key of a witness (C2SP vkey of type 4) whose cosignatures of checkpoints are kept; may be "
       "repeated.",
       "", SetWitnesses, ShowWitnesses},
      Number("max-connections", &Config::max_connections, {.least = 1},
             "Connections of gRPC that are served at a time; those beyond wait.",
             "4096, or less where the limit on open files is low"),
      Number("max-open-tenants", &Config::max_open_tenants, {.least = 1},
             "Tenants that may be open at a time; beyond it the one used longest ago is unloaded "
             "until its next call.",
             "1000, or less where the limit on open files is low"),
      Bytes("memory-limit", &Config::memory_limit,
            "Memory that open tenants may take, an estimate; likewise. For example 2GiB.",
            "half of the machine's or the cgroup's"),
      Bytes("ballast", &Config::ballast,
            "Room on the disk that is kept in a file for erasures, which give it up when they find "
            "the disk full; inserts are refused until there is room again. 0 for none.",
            "", CheckBallast),
      Number("erasure-due-days", &Config::erasure_due_days, {.least = 1, .most = 365},
             "Days after its receipt in which an erasure request is due; it is worked on at once."),
      Time("job-lease", &Config::job_lease, absl::Seconds(2), absl::Minutes(10),
           "How long a worker has a training job after its last sign of life; it gives one every "
           "third of that."),
      Bytes(
          "job-file-limit", &Config::job_file_limit,
          "Largest checkpoint or artefact of a training job; all files of a tenant's jobs may take "
          "sixteen times as much.",
          "", CheckJobFileLimit),
      Choice("log-level", "LEVEL", &Config::log_level,
             {{"debug", program::LogLevel::kDebug},
              {"info", program::LogLevel::kInfo},
              {"warning", program::LogLevel::kWarning},
              {"error", program::LogLevel::kError}},
             "Lowest level of the log on stderr: debug, info, warning or error."),
      Time("slow-call", &Config::slow_call, absl::ZeroDuration(), absl::Hours(24),
           "Calls that take longer get a line in the log at warning; not streams."),
      Text("metrics-listen", "HOST:PORT", &Config::metrics_listen,
           "Address and port where GET /metrics is answered for Prometheus.", "nowhere",
           CheckAddressOrNone),
      Switch("metrics-beyond-loopback", &Config::metrics_beyond_loopback,
             "Serve metrics, unguarded, on an address that other machines can reach."),
      Number("metrics-tenants", &Config::metrics_tenants, {.least = 0, .most = 1000},
             "So many open tenants, those with the most tokens, are shown by name in the metrics."),
      {"quota", Option::Kind::kList, "QUOTA",
       "What a tenant may keep and how often it may call, as TENANT:NAME=VALUE,... with * for "
       "every tenant that has no entry; names are tokens, memories, bytes, streams, jobs, and a "
       "second inserts, queries, erasures; 0 is no bound. May be repeated.",
       "", SetQuotas, ShowQuotas},
      Time("drain-delay", &Config::drain_delay, absl::ZeroDuration(), absl::Hours(1),
           "After SIGTERM, how long calls are still taken while health says NOT_SERVING, so that "
           "load balancers look elsewhere."),
      Time(
          "drain-timeout", &Config::drain_timeout, absl::Seconds(1), absl::Hours(1),
          "How long an orderly stop may take behind that delay; calls that still run are cancelled "
          "before it is over."),
      Time(
          "max-connection-age", &Config::max_connection_age, absl::ZeroDuration(),
          absl::Hours(24 * 30),
          "A connection is asked to end after so long, and its calls are cancelled a minute later; "
          "0 for never."),
  };
}

}  // namespace

std::string Option::Flag() const { return absl::StrCat("--", name); }

std::string Option::Environment() const {
  return absl::StrCat("LETHE_", absl::AsciiStrToUpper(absl::StrReplaceAll(name, {{"-", "_"}})));
}

const std::vector<Option>& Options() {
  static const auto* const options = new std::vector<Option>(MakeOptions());
  return *options;
}

}  // namespace lethe::server
