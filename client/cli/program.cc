#include "client/cli/program.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/cli.h"
#include "client/cli/exit_codes.h"
#include "client/cli/profile.h"
#include "client/cli/table.h"

namespace lethe::cli {
namespace {

constexpr char kFooter[] =
    "Data goes to standard output, everything else to standard error.\n"
    "Exit status: 0 done; 1 wrong usage, or a destructive verb without --yes;\n"
    "2 a file is bad; 3 a certificate or backup did not verify; 4 the doctor found a\n"
    "fault; 5 a job that was watched failed; 64 + n gRPC status n.";

// CLI11's help with descriptions wrapped at our width.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() {
    column_width(kNames);
    label("TEXT", "TEXT");
    label("OPTIONS", "OPTIONS");
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text;
    if (option->get_type_size() != 0 && !option->get_type_name().empty()) {
      text = " " + option->get_type_name();
    }
    return text;
  }
  std::string make_option(const CLI::Option* option, bool positional) const override {
    return Entry(make_option_name(option, positional) + make_option_opts(option),
                 make_option_desc(option));
  }
  std::string make_subcommand(const CLI::App* sub) const override {
    return Entry(sub->get_name(), sub->get_description());
  }

 private:
  static constexpr size_t kNames = 28;

  static std::string Entry(const std::string& name, const std::string& description) {
    std::string out = "  " + name;
    size_t at = out.size();
    if (at + 2 > kNames) {
      out += "\n";
      at = 0;
    }
    out.append(kNames - at, ' ');
    at = kNames;
    for (const std::string& word : std::vector<std::string>(absl::StrSplit(description, ' '))) {
      if (at > kNames && at + 1 + word.size() > kWidth) {
        out += "\n" + std::string(kNames, ' ');
        at = kNames;
      } else if (at > kNames) {
        out += ' ';
        ++at;
      }
      out += word;
      at += word.size();
    }
    return out + "\n";
  }
};

// "30s", "1m30s", or seconds as a bare number.
absl::StatusOr<absl::Duration> ParseTimeout(const std::string& text) {
  absl::Duration duration;
  double seconds = 0.0;
  if (absl::SimpleAtod(text, &seconds)) {
    duration = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(text, &duration)) {
    return absl::InvalidArgumentError("--timeout: not a duration such as 30s or 2m");
  }
  if (duration <= absl::ZeroDuration() || duration > absl::Hours(24)) {
    return absl::InvalidArgumentError("--timeout: must be above 0 and at most 24h");
  }
  return duration;
}

const std::map<std::string, OutputFormat>& Formats() {
  static const auto* const formats =
      new std::map<std::string, OutputFormat>{{"table", OutputFormat::kTable},
                                              {"json", OutputFormat::kJson},
                                              {"jsonl", OutputFormat::kJsonLines}};
  return *formats;
}

// The innermost verb that the command line named, and the words before it: "lethe tenant".
struct Named {
  const CLI::App* verb;
  std::string parents;
};
Named InnermostNamed(const CLI::App& app) {
  Named named{&app, ""};
  while (!named.verb->get_subcommands().empty()) {
    absl::StrAppend(&named.parents, named.parents.empty() ? "" : " ", named.verb->get_name());
    named.verb = named.verb->get_subcommands().back();
  }
  return named;
}

}  // namespace

CLI::App* AddVerb(CLI::App& parent,
                  const char* name,
                  const char* description,
                  const std::string& footer) {
  CLI::App* verb = parent.add_subcommand(name, description);
  verb->fallthrough();
  verb->footer(footer + (footer.empty() ? "" : "\n") + kGlobalHint);
  return verb;
}

CLI::App* AddGroup(CLI::App& parent, const char* name, const char* description) {
  CLI::App* group = AddVerb(parent, name, description);
  group->require_subcommand(1);
  return group;
}

CLI::Option* TakesWords(CLI::Option* option, std::vector<std::string> words) {
  option->type_name(absl::StrJoin(words, "|"));
  return option->check([words = std::move(words)](const std::string& text) {
    if (std::find(words.begin(), words.end(), text) != words.end()) return std::string();
    return absl::StrCat("must be ", absl::StrJoin(words.begin(), words.end() - 1, ", "), " or ",
                        words.back());
  });
}

Program::Program(Io& io, const Connector& connector)
    : io_(io),
      context_(io, connector),
      app_("Lethe: memory that can prove it has forgotten.", "lethe") {
  GlobalOptions& globals = context_.globals;
  app_.formatter(std::make_shared<HelpFormatter>());
  app_.require_subcommand(1);
  app_.add_option("--address", globals.address, "Server (default 127.0.0.1:7421, or LETHE_ADDRESS)")
      ->envname("LETHE_ADDRESS")
      ->type_name("HOST:PORT");
  app_.add_option("-t,--tenant", globals.tenant, "Tenant (or LETHE_TENANT)")
      ->envname("LETHE_TENANT")
      ->type_name("NAME");
  app_.add_option("-m,--memory", globals.memory, "Memory (or LETHE_MEMORY)")
      ->envname("LETHE_MEMORY")
      ->type_name("NAME");
  TakesWords(app_.add_option("--tls", tls_,
                             "Whether to speak TLS (or LETHE_TLS; default off, and on with "
                             "any of the next four)")
                 ->envname("LETHE_TLS"),
             {"on", "off"});
  app_.add_option("--ca", globals.ca,
                  "Certificates to trust instead of the machine's (or LETHE_CA)")
      ->envname("LETHE_CA")
      ->type_name("FILE");
  app_.add_option("--client-certificate", globals.client_certificate,
                  "Certificate to show (or LETHE_CLIENT_CERTIFICATE)")
      ->envname("LETHE_CLIENT_CERTIFICATE")
      ->type_name("FILE");
  app_.add_option("--client-key", globals.client_key, "Its key (or LETHE_CLIENT_KEY)")
      ->envname("LETHE_CLIENT_KEY")
      ->type_name("FILE");
  app_.add_option("--server-name", globals.server_name,
                  "Name that the server's certificate must have (or LETHE_SERVER_NAME)")
      ->envname("LETHE_SERVER_NAME")
      ->type_name("NAME");
  app_.add_option("--token-file", globals.token_file,
                  "File with the bearer token (or LETHE_TOKEN_FILE; LETHE_TOKEN holds it itself)")
      ->envname("LETHE_TOKEN_FILE")
      ->type_name("FILE");
  TakesWords(app_.add_option("-o,--output", output_, "How data is printed (default table)"),
             {"table", "json", "jsonl"});
  app_.add_option("--timeout", timeout_, "Limit of one call, retries included (default 60s)")
      ->type_name("DURATION");
  app_.add_option("--profile", globals.profile,
                  "Profile with global options (or LETHE_PROFILE); see lethe profile")
      ->envname("LETHE_PROFILE")
      ->type_name("NAME");
  app_.add_flag("-q,--quiet", globals.quiet, "No notes and no progress on standard error");
  AddTenantCommands(app_, context_, action_);
  AddMemoryCommands(app_, context_, action_);
  AddInsertCommand(app_, context_, action_);
  AddQueryCommand(app_, context_, action_);
  AddForgetCommand(app_, context_, action_);
  AddEvictCommand(app_, context_, action_);
  AddEditCommand(app_, context_, action_);
  AddErasureCommands(app_, context_, action_);
  AddJobCommands(app_, context_, action_);
  AddCertificateCommands(app_, context_, action_);
  AddLogCommands(app_, context_, action_);
  AddExportCommand(app_, context_, action_);
  AddBackupCommands(app_, context_, action_);
  AddSolveCommand(app_, context_, action_);
  AddWitnessCommands(app_, context_, action_);
  AddDoctorCommand(app_, context_, action_);
  AddHealthCommand(app_, context_, action_);
  AddTopCommand(app_, context_, action_);
  AddAccessCommands(app_, context_, action_);
  AddProfileCommands(app_, context_, action_);
  AddCompletionCommand(app_, context_, action_);
  AddVersionCommand(app_, context_, action_);
  app_.footer(kFooter);  // after the verbs, which would inherit it
}

// What never asks a server must not fail for what is said about one: a shell starts with the
// completion, and a file of profiles is put right with the help of `lethe profile`.
bool Program::AsksServer() const {
  static constexpr const char* kOffline[] = {"profile", "completion",    "version",    "access",
                                             "solve",   "backup verify", "witness key"};
  const Named named = InnermostNamed(app_);
  // Without the name of the program, which stands first.
  const std::string path = absl::StrCat(named.parents, " ", named.verb->get_name(), " ");
  return std::none_of(std::begin(kOffline), std::end(kOffline), [&](const char* offline) {
    return absl::StartsWith(path, absl::StrCat(app_.get_name(), " ", offline, " "));
  });
}

// Files that cannot be read and options that do not go together are told before anything is done.
int Program::CheckConnection() {
  const GlobalOptions& globals = context_.globals;
  for (const auto& [option, file] : {std::pair("--ca", &globals.ca),
                                     std::pair("--client-certificate", &globals.client_certificate),
                                     std::pair("--client-key", &globals.client_key),
                                     std::pair("--token-file", &globals.token_file)}) {
    if (file->empty() || access(file->c_str(), R_OK) == 0) continue;
    return context_.FileError(
        absl::StrCat(option, ": cannot read ", *file, ": ", std::strerror(errno)));
  }
  const absl::Status valid = client::Validate(context_.ConnectionOptions());
  return valid.ok() ? kExitOk : context_.UsageError(valid.message());
}

int Program::SettleGlobals() {
  GlobalOptions& globals = context_.globals;
  const bool asks_server = AsksServer();
  if (asks_server) {
    const absl::StatusOr<Profiles> profiles = ReadProfiles(app_);
    if (!profiles.ok()) return context_.FileError(profiles.status().message());
    const std::string& name = globals.profile.empty() ? profiles->standard : globals.profile;
    if (!name.empty()) {
      const absl::StatusOr<const Profile*> profile = profiles->Find(name);
      if (!profile.ok()) return context_.UsageError(profile.status().message());
      if (const absl::Status applied = ApplyProfile(**profile, app_); !applied.ok()) {
        return context_.FileError(applied.message());
      }
    }
  }
  globals.output = Formats().at(output_);
  globals.tls = tls_ == "on";
  const absl::StatusOr<absl::Duration> duration = ParseTimeout(timeout_);
  if (!duration.ok()) return context_.UsageError(duration.status().message());
  globals.timeout = *duration;
  return asks_server ? CheckConnection() : kExitOk;
}

int Program::Run(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    io_.err << app_.help();
    return kExitUsage;
  }
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app_.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    const Named named = InnermostNamed(app_);
    io_.out << named.verb->help(named.parents);
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    const std::vector<std::string> unknown = app_.remaining(/*recurse=*/true);
    const bool no_such_verb =
        dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !unknown.empty();
    context_.UsageError(no_such_verb ? absl::StrCat("no such command: ", unknown.front())
                                     : error.what());
    const Named named = InnermostNamed(app_);
    io_.err << "Try '" << named.parents << (named.parents.empty() ? "" : " ")
            << named.verb->get_name() << " --help'.\n";
    return kExitUsage;
  }
  if (const int status = SettleGlobals(); status != kExitOk) return status;
  const int status = action_();
  io_.out.flush();
  if (!io_.out) return context_.FileError("standard output: writing failed");
  return status;
}

int RunCli(const std::vector<std::string>& arguments, Io& io, const Connector& connector) {
  return Program(io, connector).Run(arguments);
}

}  // namespace lethe::cli
