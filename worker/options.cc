#include "worker/options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <cstdlib>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/channel.h"
#include "core/base/status_macros.h"
#include "core/program/command_tree.h"
#include "core/program/help_formatter.h"
#include "core/program/manual_page.h"
#include "core/program/nearest_name.h"
#include "core/program/toml_file.h"

namespace lethe::worker {
namespace {

using program::LogLevel;

constexpr char kName[] = "lethe-worker";
constexpr char kDescription[] = "lethe-worker: runs the training jobs of a server of Lethe.";
constexpr char kPrefix[] = "LETHE_WORKER_";
constexpr char kConfigVariable[] = "LETHE_WORKER_CONFIG";
constexpr size_t kMaxNameBytes = 64;
constexpr uint64_t kMaxThreads = 1024;

absl::Status Bad(absl::string_view where, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", what));
}

// One setting: named once, from which flag, variable and key of the file are made.
struct Setting {
  std::string name;
  std::string placeholder;  // empty for a switch
  std::string help;
  std::function<absl::Status(absl::string_view where, const std::string& text, Options& options)>
      set;

  std::string Flag() const { return absl::StrCat("--", name); }
  std::string Environment() const {
    return absl::StrCat(kPrefix, absl::AsciiStrToUpper(absl::StrReplaceAll(name, {{"-", "_"}})));
  }
};

Setting Text(std::string name,
             std::string placeholder,
             std::string Options::*member,
             std::string help) {
  return {std::move(name), std::move(placeholder), std::move(help),
          [member](absl::string_view, const std::string& text, Options& options) {
            options.*member = text;
            return absl::OkStatus();
          }};
}
Setting Switch(std::string name, bool Options::*member, std::string help) {
  return {std::move(name), "", std::move(help),
          [member](absl::string_view where, const std::string& text, Options& options) {
            return absl::SimpleAtob(text, &(options.*member)) ? absl::OkStatus()
                                                              : Bad(where, "must be true or false");
          }};
}
Setting Number(std::string name, uint64_t Options::*member, uint64_t most, std::string help) {
  return {std::move(name), "N", std::move(help),
          [member, most](absl::string_view where, const std::string& text, Options& options) {
            uint64_t value = 0;
            if (!absl::SimpleAtoi(text, &value) || value > most) {
              return Bad(where, absl::StrCat("must be a whole number up to ", most));
            }
            options.*member = value;
            return absl::OkStatus();
          }};
}
template <typename T>
Setting Choice(std::string name,
               std::string placeholder,
               T Options::*member,
               std::vector<std::pair<std::string, T>> words,
               std::string help) {
  return {std::move(name), std::move(placeholder), std::move(help),
          [member, words = std::move(words)](absl::string_view where, const std::string& text,
                                             Options& options) {
            std::vector<std::string> names;
            for (const auto& [word, value] : words) {
              if (word == text) {
                options.*member = value;
                return absl::OkStatus();
              }
              names.push_back(word);
            }
            return Bad(where, absl::StrCat("must be one of ", absl::StrJoin(names, ", ")));
          }};
}

absl::Status SetKinds(absl::string_view where, const std::string& text, Options& options) {
  std::vector<jobs::JobKind> kinds;
  for (const absl::string_view word : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    bool known = false;
    for (const jobs::JobKind kind :
         {jobs::JobKind::kCalibrate, jobs::JobKind::kTrainEncoder, jobs::JobKind::kTrainLm}) {
      if (absl::StripAsciiWhitespace(word) != jobs::JobKindName(kind)) continue;
      known = true;
      if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
    }
    if (!known) return Bad(where, "must be some of calibrate, train_encoder, train_lm");
  }
  if (kinds.empty()) return Bad(where, "must be some of calibrate, train_encoder, train_lm");
  options.kinds = std::move(kinds);
  return absl::OkStatus();
}

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == ':' ||
         c == '-';
}
absl::Status SetName(absl::string_view where, const std::string& text, Options& options) {
  if (text.empty() || text.size() > kMaxNameBytes || !std::ranges::all_of(text, IsNameCharacter)) {
    return Bad(where, "must be 1 to 64 characters of A-Z, a-z, 0-9, '.', '_', ':', '-'");
  }
  options.name = text;
  return absl::OkStatus();
}

absl::Status SetCheckpointTime(absl::string_view where, const std::string& text, Options& options) {
  absl::Duration time;
  if (!absl::ParseDuration(text, &time) || time < absl::Milliseconds(10) ||
      time > absl::Hours(24)) {
    return Bad(where, "must be a duration of 10ms to 24h, such as 60s");
  }
  options.checkpoint_time = time;
  return absl::OkStatus();
}

const std::vector<Setting>& Settings() {
  static const auto* const settings = new std::vector<Setting>{
      Text("server", "HOST:PORT", &Options::server,
           "Address of the server. Default 127.0.0.1:7421."),
      Switch("tls", &Options::tls,
             "Speak TLS; so it does with any of the next four. A server on another machine needs "
             "it."),
      Text("ca", "FILE", &Options::ca, "Certificates in PEM to trust instead of the machine's."),
      Text("client-certificate", "FILE", &Options::client_certificate,
           "Certificate in PEM to show to the server."),
      Text("client-key", "FILE", &Options::client_key, "Its key, in PEM, not encrypted."),
      Text("server-name", "NAME", &Options::server_name,
           "Name that the server's certificate must have. Default that of the address."),
      Text("token-file", "FILE", &Options::token_file,
           "File with the bearer token, read again when it changes; the variable LETHE_TOKEN can "
           "hold the token itself. The caller needs the role worker."),
      Choice("backend", "WHICH", &Options::backend,
             {{"auto", batched::BackendKind::kAuto},
              {"cpu", batched::BackendKind::kCpu},
              {"cuda", batched::BackendKind::kCuda}},
             "What solves: cpu, cuda, or auto, which takes cuda where there is a device and says "
             "in the log what it took. Artefacts of different backends agree, but not to the bit. "
             "Default auto."),
      {"kinds", "KIND,...",
       "Kinds of jobs to ask for: calibrate, train_encoder, train_lm. Default all.", SetKinds},
      Number("threads", &Options::threads, kMaxThreads,
             "Threads to compute with; bits do not depend on them. Default 0, as many as the "
             "machine has processors."),
      {"name", "NAME",
       "What the worker calls itself, shown with its jobs. Default host name and process.",
       SetName},
      {"checkpoint-time", "TIME",
       "A checkpoint is saved after so long: what a lost worker costs. Default 60s.",
       SetCheckpointTime},
      Number("checkpoint-steps", &Options::checkpoint_steps, 1'000'000'000,
             "And after so many steps; 0 for by time alone. Default 0."),
      Text("metrics-listen", "HOST:PORT", &Options::metrics_listen,
           "Address and port where GET /metrics is answered for Prometheus. Default nowhere."),
      Switch("metrics-beyond-loopback", &Options::metrics_beyond_loopback,
             "Serve metrics, unguarded, on an address that other machines can reach."),
      Choice("log-level", "LEVEL", &Options::log_level,
             {{"debug", LogLevel::kDebug},
              {"info", LogLevel::kInfo},
              {"warning", LogLevel::kWarning},
              {"error", LogLevel::kError}},
             "Lowest level of the log on stderr: debug, info, warning or error. Default info."),
  };
  return *settings;
}

struct Flags {
  std::vector<std::optional<std::string>> values;  // in the order of Settings()
  std::vector<uint8_t> switches;
  std::string config;
  bool version = false;
};

void AddFlags(CLI::App& app, Flags& flags) {
  flags.values.resize(Settings().size());
  app.formatter(std::make_shared<program::HelpFormatter>());
  app.allow_extras();
  app.set_help_flag("-h,--help", "Print this text and exit.");
  app.add_flag("--version", flags.version, "Print the version and exit.");
  app.add_option("--config", flags.config,
                 absl::StrCat("Settings file in TOML, where each option below can stand. Default "
                              "none. [",
                              kConfigVariable, "]"))
      ->type_name("FILE");
  for (size_t i = 0; i < Settings().size(); ++i) {
    const Setting& setting = Settings()[i];
    const std::string help = absl::StrCat(setting.help, " [", setting.Environment(), "]");
    std::optional<std::string>& value = flags.values[i];
    if (setting.placeholder.empty()) {
      app.add_flag_function(
          setting.Flag(), [&value](int64_t) { value = "true"; }, help);
    } else {
      app.add_option_function<std::string>(
             setting.Flag(), [&value](const std::string& text) { value = text; }, help)
          ->type_name(setting.placeholder);
    }
  }
  app.footer(
      "For each option the flag wins, then the environment variable in brackets,\n"
      "then the settings file, where \"backend\" is the key of --backend.\n"
      "A worker runs one job at a time; start several for more.");
}

absl::Status ParseFlags(const std::vector<std::string>& arguments,
                        Flags& flags,
                        std::optional<std::string>& help) {
  // CLI11 reports by exceptions; none leaves this function.
  try {
    CLI::App app(kDescription, kName);
    AddFlags(app, flags);
    try {
      std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
      app.parse(reversed);
    } catch (const CLI::CallForHelp&) {
      help = app.help();
      return absl::OkStatus();
    }
    const std::vector<std::string> unknown = app.remaining();
    if (unknown.empty()) return absl::OkStatus();
    std::vector<std::string> known;
    for (const CLI::Option* option : app.get_options()) known.push_back(option->get_name());
    return absl::InvalidArgumentError(
        program::UnknownName(unknown[0].substr(0, unknown[0].find('=')), known));
  } catch (const CLI::Error& error) {
    return absl::InvalidArgumentError(error.what());
  }
}

std::string Variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::string() : std::string(value);
}

absl::Status SetFromFile(const std::string& path, Options& options) {
  LETHE_ASSIGN_OR_RETURN(const program::TomlFile file, program::TomlFile::Read(path));
  std::vector<std::string> known;
  for (const Setting& setting : Settings()) known.push_back(setting.name);
  LETHE_RETURN_IF_ERROR(file.OnlyKeys(file.root(), known));
  for (const Setting& setting : Settings()) {
    const toml::node* node = file.root().get(setting.name);
    if (node == nullptr) continue;
    std::string text;
    if (const auto* string = node->as_string();
        string != nullptr && !setting.placeholder.empty() && setting.placeholder != "N") {
      text = **string;
    } else if (const auto* number = node->as_integer();
               number != nullptr && setting.placeholder == "N") {
      text = absl::StrCat(**number);
    } else if (const auto* boolean = node->as_boolean();
               boolean != nullptr && setting.placeholder.empty()) {
      text = **boolean ? "true" : "false";
    } else {
      return file.Error(*node, absl::StrCat(setting.name, ": must be ",
                                            setting.placeholder.empty()  ? "true or false"
                                            : setting.placeholder == "N" ? "a whole number"
                                                                         : "a string",
                                            ", and is ", program::TypeName(*node)));
    }
    LETHE_RETURN_IF_ERROR(
        setting.set(absl::StrCat(file.Where(*node), ": ", setting.name), text, options));
  }
  return absl::OkStatus();
}

// Host and process, in the characters that a name may have.
std::string DefaultName() {
  char host[HOST_NAME_MAX + 1] = {};
  if (::gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  std::string name(host);
  for (char& c : name) {
    if (!IsNameCharacter(c)) c = '-';
  }
  if (name.empty()) name = "worker";
  const std::string process = absl::StrCat(":", ::getpid());
  return name.substr(0, kMaxNameBytes - process.size()) + process;
}

absl::Status Validate(const Options& options) {
  const absl::Status connection = client::Validate(ConnectionOptions(options));
  if (!connection.ok()) return connection;
  if (!options.metrics_listen.empty()) {
    const size_t colon = options.metrics_listen.rfind(':');
    uint32_t port = 0;
    if (colon == std::string::npos || colon == 0 ||
        !absl::SimpleAtoi(options.metrics_listen.substr(colon + 1), &port) || port > 65535) {
      return Bad("--metrics-listen", "must be HOST:PORT");
    }
    if (!options.metrics_beyond_loopback && !client::IsLoopbackAddress(options.metrics_listen)) {
      return Bad("--metrics-listen",
                 "other machines can reach it and nothing guards it; that needs "
                 "--metrics-beyond-loopback");
    }
  }
  return absl::OkStatus();
}

}  // namespace

client::Options ConnectionOptions(const Options& options) {
  client::Options connection;
  connection.address = options.server;
  if (options.tls || !options.ca.empty() || !options.client_certificate.empty() ||
      !options.client_key.empty() || !options.server_name.empty()) {
    connection.tls = client::TlsOptions{.ca_file = options.ca,
                                        .certificate_file = options.client_certificate,
                                        .key_file = options.client_key,
                                        .server_name = options.server_name};
  }
  connection.token_file = options.token_file;
  if (connection.token_file.empty()) connection.token = Variable("LETHE_TOKEN");
  connection.user_agent = kName;
  return connection;
}

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments) {
  Flags flags;
  std::optional<std::string> help;
  LETHE_RETURN_IF_ERROR(ParseFlags(arguments, flags, help));
  CommandLine result;
  if (help.has_value() || flags.version) {
    result.print = true;
    result.text = help.value_or(absl::StrCat(kName, " ", LETHE_VERSION, "\n"));
    return result;
  }
  Options& options = result.options;
  const std::string file = flags.config.empty() ? Variable(kConfigVariable) : flags.config;
  if (!file.empty()) LETHE_RETURN_IF_ERROR(SetFromFile(file, options));
  for (size_t i = 0; i < Settings().size(); ++i) {
    const Setting& setting = Settings()[i];
    if (const std::string text = Variable(setting.Environment()); !text.empty()) {
      LETHE_RETURN_IF_ERROR(setting.set(setting.Environment(), text, options));
    }
    if (flags.values[i].has_value()) {
      LETHE_RETURN_IF_ERROR(setting.set(setting.Flag(), *flags.values[i], options));
    }
  }
  LETHE_RETURN_IF_ERROR(Validate(options));
  if (options.name.empty()) options.name = DefaultName();

  std::vector<std::string> known = {kConfigVariable};
  for (const Setting& setting : Settings()) known.push_back(setting.Environment());
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const absl::string_view text(*entry);
    const std::string name(text.substr(0, text.find('=')));
    if (!absl::StartsWith(name, kPrefix)) continue;
    if (std::ranges::find(known, name) != known.end()) continue;
    result.warnings.push_back(program::UnknownName(name, known));
  }
  std::ranges::sort(result.warnings);
  return result;
}

std::string ManualPage() {
  CLI::App app(kDescription, kName);
  Flags flags;
  AddFlags(app, flags);
  const program::ManualPage page = {
      .section = 8,
      .version = LETHE_VERSION,
      .summary = "runs the training jobs of a server of Lethe",
      .description =
          {"lethe-worker asks a server for training jobs, one at a time: it reads the tokens of "
           "the job's memory, trains, and gives the artefact back. Checkpoints lie at the server, "
           "so that another worker goes on where one was lost, to the same bits.",
           "Each option can also come from the environment variable in brackets, or from a "
           "settings file in TOML, where \"backend\" is the key of --backend. The flag wins over "
           "the variable, the variable over the file, the file over the default."},
      .sections = {
          {"Signals",
           {{"SIGTERM, SIGINT",
             "Finish the step, save a checkpoint, give the job back, and end. A second one ends "
             "at once."}}},
          {"Exit status",
           {{"0", "Ended by a signal; or what was asked for is printed."},
            {"1", "Could not start, or the server refuses it; the last log line says why."},
            {"64", "Wrong usage or settings."}}},
          {"See also", {{"", "lethed(8), lethe(1)"}}},
      }};
  return program::RenderManualPage(page, program::ViewOf(app));
}

}  // namespace lethe::worker
