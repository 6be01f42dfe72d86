#include "server/command_line.h"

#include <stdlib.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/status_macros.h"
#include "core/program/command_tree.h"
#include "core/program/help_formatter.h"
#include "core/program/manual_page.h"
#include "core/program/nearest_name.h"
#include "core/program/toml_file.h"
#include "server/options.h"

namespace lethe::server {
namespace {

constexpr char kName[] = "lethed";
constexpr char kDescription[] =
    "lethed: the server of Lethe, a memory that can prove it has forgotten.";
constexpr char kPrefix[] = "LETHE_";
// Of lethe-worker, which people run beside it.
constexpr char kWorkerPrefix[] = "LETHE_WORKER_";
constexpr char kConfigFlag[] = "--config";
constexpr char kConfigVariable[] = "LETHE_CONFIG";

// Variables of the command line `lethe`, which people set in the same shell.
constexpr const char* kClientVariables[] = {"LETHE_ADDRESS",
                                            "LETHE_TENANT",
                                            "LETHE_MEMORY",
                                            "LETHE_PROFILE",
                                            "LETHE_TLS",
                                            "LETHE_CA",
                                            "LETHE_CLIENT_CERTIFICATE",
                                            "LETHE_CLIENT_KEY",
                                            "LETHE_SERVER_NAME",
                                            "LETHE_TOKEN",
                                            "LETHE_TOKEN_FILE"};

std::string HelpOf(const Option& option) {
  return absl::StrCat(option.help, option.default_text.empty() ? "" : " Default ",
                      option.default_text, option.default_text.empty() ? "" : ".", " [",
                      option.Environment(), "]");
}

// What the command line says, as text.
struct Flags {
  std::vector<std::vector<std::string>> options;  // in the order of Options()
  std::string config;
  bool check_config = false;
  bool print_config = false;
  bool version = false;
  std::optional<std::string> help;
};

void AddFlags(CLI::App& app, Flags& flags) {
  flags.options.resize(Options().size());
  app.formatter(std::make_shared<program::HelpFormatter>());
  app.allow_extras();
  app.set_help_flag("-h,--help", "Print this text and exit.");
  app.add_flag("--version", flags.version, "Print the version and exit.");
  app.add_option(kConfigFlag, flags.config,
                 absl::StrCat("Settings file in TOML, where each option below can stand. "
                              "Default none. [",
                              kConfigVariable, "]"))
      ->type_name("FILE");
  app.add_flag("--check-config", flags.check_config,
               "Say whether a server would start with these settings, and exit: 0, or 64. "
               "Touches no data.");
  app.add_flag("--print-config", flags.print_config,
               "The same, and print the settings with the origin of each, as a settings file.");
  for (size_t i = 0; i < Options().size(); ++i) {
    const Option& option = Options()[i];
    if (option.kind == Option::Kind::kSwitch) {
      app.add_flag(option.Flag(), flags.options[i], HelpOf(option));
      continue;
    }
    CLI::Option* flag = app.add_option(option.Flag(), flags.options[i], HelpOf(option));
    flag->type_name(option.placeholder)->allow_extra_args(false);
    if (option.kind != Option::Kind::kList) flag->expected(1);
  }
  app.footer(
      "For each option the flag wins, then the environment variable in brackets,\n"
      "then the settings file, where \"ballast\" is the key of --ballast.");
}

absl::StatusOr<Flags> ParseFlags(const std::vector<std::string>& arguments) {
  Flags flags;
  // CLI11 reports by exceptions; none leaves this function.
  try {
    CLI::App app(kDescription, kName);
    AddFlags(app, flags);
    try {
      // CLI11 takes the arguments from the back.
      std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
      app.parse(reversed);
    } catch (const CLI::CallForHelp&) {
      flags.help = app.help();
      return flags;
    }
    const std::vector<std::string> unknown = app.remaining();
    if (!unknown.empty()) {
      const std::string name = unknown[0].substr(0, unknown[0].find('='));
      std::vector<std::string> known;
      for (const CLI::Option* option : app.get_options()) known.push_back(option->get_name());
      return absl::InvalidArgumentError(program::UnknownName(name, known));
    }
  } catch (const CLI::Error& error) {
    return absl::InvalidArgumentError(error.what());
  }
  return flags;
}

std::string Variable(const std::string& name) {
  const char* value = ::getenv(name.c_str());
  return value == nullptr ? std::string() : std::string(value);
}

// What Kubernetes sets for each service of the namespace (LETHE_SERVICE_HOST, LETHE_PORT_7421_TCP)
// is nobody's mistake.
bool IsServiceLink(absl::string_view name) {
  return absl::EndsWith(name, "_SERVICE_HOST") || absl::StrContains(name, "_SERVICE_PORT") ||
         absl::EndsWith(name, "_PORT") || absl::StrContains(name, "_TCP") ||
         absl::StrContains(name, "_UDP");
}

std::vector<std::string> UnknownVariables() {
  std::vector<std::string> known = {kConfigVariable};
  for (const Option& option : Options()) known.push_back(option.Environment());
  std::vector<std::string> warnings;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const absl::string_view text(*entry);
    const std::string name(text.substr(0, text.find('=')));
    if (!absl::StartsWith(name, kPrefix) || IsServiceLink(name)) continue;
    if (absl::StartsWith(name, kWorkerPrefix)) continue;
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    if (std::find(std::begin(kClientVariables), std::end(kClientVariables), name) !=
        std::end(kClientVariables)) {
      continue;
    }
    warnings.push_back(program::UnknownName(name, known));
  }
  std::sort(warnings.begin(), warnings.end());
  return warnings;
}

absl::StatusOr<std::vector<std::string>> TextsInFile(const program::TomlFile& file,
                                                     const toml::node& node,
                                                     const Option& option) {
  const auto wrong = [&](absl::string_view wanted) {
    return file.Error(node, absl::StrCat(option.name, ": must be ", wanted, ", and is ",
                                         program::TypeName(node)));
  };
  std::vector<std::string> texts;
  switch (option.kind) {
    case Option::Kind::kText:
    case Option::Kind::kDuration:
      if (!node.is_string()) return wrong("a string");
      texts.push_back(**node.as_string());
      break;
    case Option::Kind::kSwitch:
      if (!node.is_boolean()) return wrong("true or false");
      texts.push_back(**node.as_boolean() ? "true" : "false");
      break;
    case Option::Kind::kNumber:
      if (!node.is_integer()) return wrong("a whole number");
      texts.push_back(absl::StrCat(**node.as_integer()));
      break;
    case Option::Kind::kBytes:
      if (node.is_integer()) {
        texts.push_back(absl::StrCat(**node.as_integer()));
      } else if (node.is_string()) {
        texts.push_back(**node.as_string());
      } else {
        return wrong("a string such as \"64MiB\", or a whole number of bytes");
      }
      break;
    case Option::Kind::kList:
      if (!node.is_array()) return wrong("a list of strings");
      for (const toml::node& element : *node.as_array()) {
        if (!element.is_string()) return wrong("a list of strings alone");
        texts.push_back(**element.as_string());
      }
      break;
  }
  return texts;
}

absl::Status SetFromFile(const std::string& path, CommandLine& command_line) {
  LETHE_ASSIGN_OR_RETURN(const program::TomlFile file, program::TomlFile::Read(path));
  std::vector<std::string> known;
  for (const Option& option : Options()) known.push_back(option.name);
  LETHE_RETURN_IF_ERROR(file.OnlyKeys(file.root(), known));
  for (const Option& option : Options()) {
    const toml::node* node = file.root().get(option.name);
    if (node == nullptr) continue;
    LETHE_ASSIGN_OR_RETURN(const std::vector<std::string> texts, TextsInFile(file, *node, option));
    const std::string where = absl::StrCat(file.Where(*node), ": ", option.name);
    LETHE_RETURN_IF_ERROR(option.set(where, texts, command_line.config));
    command_line.origins[option.name] = where;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AtOrigin(const absl::Status& status, const CommandLine& command_line) {
  absl::string_view rest = status.message();
  if (!absl::ConsumePrefix(&rest, "--")) return status;
  const std::string name(rest.substr(0, rest.find(':')));
  const auto origin = command_line.origins.find(name);
  if (origin == command_line.origins.end() || origin->second == "default") return status;
  return absl::Status(status.code(), absl::StrCat(origin->second, rest.substr(name.size())));
}

std::string PrintConfig(const CommandLine& command_line) {
  std::string text;
  for (const Option& option : Options()) {
    const std::string value = option.show(command_line.config);
    absl::string_view place = command_line.origins.at(option.name);
    absl::ConsumeSuffix(&place, absl::StrCat(": ", option.name));
    // A path may hold what would end the comment.
    const std::string origin = absl::CHexEscape(place);
    if (value.empty()) {
      absl::StrAppend(&text, "# ", option.name, ": ", origin,
                      option.default_text.empty() ? "" : ", ", option.default_text, "\n");
    } else {
      absl::StrAppend(&text, option.name, " = ", value, "  # ", origin, "\n");
    }
  }
  return text;
}

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments) {
  LETHE_ASSIGN_OR_RETURN(const Flags flags, ParseFlags(arguments));
  CommandLine result;
  if (flags.help.has_value() || flags.version) {
    result.action = CommandLine::Action::kPrint;
    result.text = flags.help.value_or(absl::StrCat("lethed ", LETHE_VERSION, "\n"));
    return result;
  }
  for (const Option& option : Options()) result.origins[option.name] = "default";
  // From the weakest to the strongest, so that a bad value is found where it stands, even where
  // another wins over it.
  const std::string file = flags.config.empty() ? Variable(kConfigVariable) : flags.config;
  if (!file.empty()) LETHE_RETURN_IF_ERROR(SetFromFile(file, result));
  for (const Option& option : Options()) {
    const std::string text = Variable(option.Environment());
    if (text.empty()) continue;
    std::vector<std::string> texts = {text};
    if (option.kind == Option::Kind::kList) {
      texts = absl::StrSplit(text, absl::ByAnyChar(" \t\n"), absl::SkipEmpty());
    }
    LETHE_RETURN_IF_ERROR(option.set(option.Environment(), texts, result.config));
    result.origins[option.name] = option.Environment();
  }
  for (size_t i = 0; i < Options().size(); ++i) {
    if (flags.options[i].empty()) continue;
    const Option& option = Options()[i];
    LETHE_RETURN_IF_ERROR(option.set(option.Flag(), flags.options[i], result.config));
    result.origins[option.name] = option.Flag();
  }
  if (const absl::Status status = Validate(result.config); !status.ok()) {
    return AtOrigin(status, result);
  }
  result.warnings = UnknownVariables();
  if (flags.print_config) {
    result.action = CommandLine::Action::kCheck;
    result.text = PrintConfig(result);
  } else if (flags.check_config) {
    result.action = CommandLine::Action::kCheck;
    result.text = "ok\n";
  }
  return result;
}

std::string ManualPage() {
  CLI::App app(kDescription, kName);
  Flags flags;
  AddFlags(app, flags);
  const program::ManualPage page = {
      .section = 8,
      .version = LETHE_VERSION,
      .summary = "server of Lethe, a memory that can prove it has forgotten",
      .description =
          {"lethed keeps memories: keys and values that are streamed in, and answers to queries "
           "that "
           "are kernel-weighted averages of them. It serves gRPC, stores everything in one folder, "
           "and gives a signed certificate for each erasure.",
           "Each option can also come from the environment variable in brackets, or from a "
           "settings "
           "file in TOML, where \"ballast\" is the key of --ballast. The flag wins over the "
           "variable, the variable over the file, the file over the default."},
      .sections = {
          {"Signals",
           {{"SIGTERM, SIGINT",
             "End in order: calls that run are finished. A second one ends at once."},
            {"SIGHUP",
             "Read the settings, the access file and the files of TLS again. What is wrong changes "
             "nothing."}}},
          {"Exit status",
           {{"0", "Ended by a signal; or what was asked for is printed."},
            {"1", "Could not start, or an error while running, which the last log line names."},
            {"64", "Wrong usage or settings."}}},
          {"See also", {{"", "lethe(1)"}}},
      }};
  return program::RenderManualPage(page, program::ViewOf(app));
}

}  // namespace lethe::server
