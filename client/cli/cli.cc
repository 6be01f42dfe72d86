#include "client/cli/cli.h"

#include <algorithm>
#include <map>

#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/commands.h"
#include "client/cli/exit_codes.h"
#include "client/cli/table.h"

namespace lethe::cli {
namespace {

constexpr char kFooter[] =
    "Data goes to standard output, everything else to standard error.\n"
    "Exit status: 0 done; 1 wrong usage, or a destructive verb without --yes;\n"
    "2 a file is bad; 3 a certificate or backup did not verify; 64 + n gRPC status n.";

constexpr char kGlobalHint[] = "Global options such as --tenant and --output: lethe --help";

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

int RunCli(const std::vector<std::string>& arguments, Io& io, const Connector& connector) {
  Context context(io, connector);
  GlobalOptions& globals = context.globals;
  Action action;
  std::string timeout = "60s";

  CLI::App app("Lethe: memory that can prove it has forgotten.", "lethe");
  app.formatter(std::make_shared<HelpFormatter>());
  app.require_subcommand(1);
  app.add_option("--address", globals.address, "Server (default 127.0.0.1:7421, or LETHE_ADDRESS)")
      ->envname("LETHE_ADDRESS")
      ->type_name("HOST:PORT");
  app.add_option("-t,--tenant", globals.tenant, "Tenant (or LETHE_TENANT)")
      ->envname("LETHE_TENANT")
      ->type_name("NAME");
  app.add_option("-m,--memory", globals.memory, "Memory (or LETHE_MEMORY)")
      ->envname("LETHE_MEMORY")
      ->type_name("NAME");
  const std::map<std::string, OutputFormat> formats = {{"table", OutputFormat::kTable},
                                                       {"json", OutputFormat::kJson},
                                                       {"jsonl", OutputFormat::kJsonLines}};
  std::string output = "table";
  app.add_option("-o,--output", output, "table, json or jsonl (default table)")
      ->check([&formats](const std::string& text) {
        return formats.count(text) > 0 ? std::string() : "must be table, json or jsonl";
      })
      ->type_name("FORMAT");
  app.add_option("--timeout", timeout, "Limit of one call, retries included (default 60s)")
      ->type_name("DURATION");
  app.add_flag("-q,--quiet", globals.quiet, "No notes and no progress on standard error");
  AddTenantCommands(app, context, action);
  AddMemoryCommands(app, context, action);
  AddInsertCommand(app, context, action);
  AddQueryCommand(app, context, action);
  AddForgetCommand(app, context, action);
  AddEvictCommand(app, context, action);
  AddEditCommand(app, context, action);
  AddCertificateCommands(app, context, action);
  AddLogCommands(app, context, action);
  AddExportCommand(app, context, action);
  AddBackupCommands(app, context, action);
  AddSolveCommand(app, context, action);
  AddWitnessCommands(app, context, action);
  AddVersionCommand(app, context, action);
  app.footer(kFooter);  // after the verbs, which would inherit it

  if (arguments.empty()) {
    io.err << app.help();
    return kExitUsage;
  }
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    const Named named = InnermostNamed(app);
    io.out << named.verb->help(named.parents);
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
    const bool no_such_verb =
        dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !unknown.empty();
    context.UsageError(no_such_verb ? absl::StrCat("no such command: ", unknown.front())
                                    : error.what());
    const Named named = InnermostNamed(app);
    io.err << "Try '" << named.parents << (named.parents.empty() ? "" : " ")
           << named.verb->get_name() << " --help'.\n";
    return kExitUsage;
  }
  globals.output = formats.at(output);
  const absl::StatusOr<absl::Duration> duration = ParseTimeout(timeout);
  if (!duration.ok()) return context.UsageError(duration.status().message());
  globals.timeout = *duration;
  const int status = action();
  io.out.flush();
  if (!io.out) return context.FileError("standard output: writing failed");
  return status;
}

}  // namespace lethe::cli
