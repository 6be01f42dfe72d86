// lethe doctor: whether a running installation is in order, with what to do where it is not.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "client/cli/commands.h"
#include "client/cli/doctor.h"
#include "client/cli/exit_codes.h"
#include "client/cli/health.h"
#include "client/cli/render.h"

namespace lethe::cli {
namespace {

struct Arguments {
  std::string config;
  std::string backup_age = "36h";
  bool offline = false;
  bool strict = false;
  Installation installation;
};

std::string Word(Verdict verdict) {
  return verdict == Verdict::kOk ? "ok" : verdict == Verdict::kWarn ? "warn" : "fail";
}

Finding CheckServer(Context& context) {
  const absl::StatusOr<std::string> health = CheckHealth(context.ConnectionOptions(), "");
  const std::string& address = context.globals.address;
  if (!health.ok()) {
    return {Verdict::kFail, "server",
            absl::StrCat(address, ": ", absl::StatusCodeToString(health.status().code())),
            "start lethed, or say where it is and what to trust: --address, --ca; --offline for "
            "the files alone"};
  }
  if (*health != "SERVING") {
    return {Verdict::kFail, "server", absl::StrCat(address, ": ", *health),
            "it stops, or cannot write its files: see its log"};
  }
  return {Verdict::kOk, "server", absl::StrCat(address, ": SERVING"), ""};
}

// Signature lines beyond the log's own are cosignatures of witnesses.
size_t Cosignatures(const std::string& note) {
  size_t lines = 0;
  for (const absl::string_view line : absl::StrSplit(note, '\n')) {
    lines += absl::StartsWith(line, "\xe2\x80\x94 ") ? 1U : 0U;
  }
  return lines == 0 ? 0 : lines - 1;
}

// witness: whether each log as it is now has as many cosignatures as the server is told of
// witnesses; it keeps none that it has not verified.
Finding CheckWitnesses(Context& context, size_t witnesses) {
  if (witnesses == 0) {
    return {Verdict::kWarn, "witness", "the settings name none",
            "without one, who runs the server could show different logs: lethed --witness"};
  }
  size_t tenants = 0;
  size_t lacking = 0;
  client::Client client = context.client();
  for (const absl::StatusOr<client::Tenant>& tenant : client.ListTenants()) {
    if (!tenant.ok()) {
      return {Verdict::kWarn, "witness", std::string(tenant.status().message()),
              "give a token with the role auditor for every tenant: --token-file"};
    }
    const absl::StatusOr<client::Checkpoint> checkpoint = client.GetCheckpoint(tenant->name);
    if (!checkpoint.ok()) {
      return {Verdict::kWarn, "witness",
              absl::StrCat("tenant ", tenant->name, ": ", checkpoint.status().message()),
              "give a token with the role auditor for every tenant: --token-file"};
    }
    ++tenants;
    lacking += Cosignatures(checkpoint->note) < witnesses ? 1U : 0U;
  }
  const std::string found =
      absl::StrCat(tenants - lacking, " of ", tenants, " logs carry the cosignatures of ",
                   witnesses, " witnesses");
  if (lacking == 0) return {Verdict::kOk, "witness", found, ""};
  return {Verdict::kWarn, "witness", found,
          "let the witnesses sign: lethe witness sign; a log that grew since is signed next time"};
}

// A line each, and below it what to do; nothing is shortened.
void Report(Context& context, const std::vector<Finding>& findings) {
  if (context.globals.output == OutputFormat::kTable) {
    for (const Finding& finding : findings) {
      context.io().out << absl::StrFormat("%-4s  %-11s  %s\n", Word(finding.verdict), finding.check,
                                          finding.found);
      if (!finding.advice.empty()) {
        context.io().out << std::string(19, ' ') << "-> " << finding.advice << "\n";
      }
    }
    return;
  }
  ListPrinter list(context, {});
  for (const Finding& finding : findings) {
    list.Add({{"verdict", Word(finding.verdict)},
              {"check", finding.check},
              {"found", finding.found},
              {"advice", finding.advice}},
             {});
  }
  list.Finish("");
}

int Doctor(Context& context, Arguments& arguments) {
  Installation& installation = arguments.installation;
  if (!arguments.config.empty()) {
    const absl::Status read = ReadSettings(arguments.config, installation);
    if (!read.ok()) return context.FileError(read.message());
  }
  if (installation.data.empty()) {
    return context.UsageError("which installation? give --config FILE or --data DIR");
  }
  if (installation.vault.empty()) installation.vault = installation.data + "/vault";
  if (!absl::ParseDuration(arguments.backup_age, &installation.backup_age) ||
      installation.backup_age <= absl::ZeroDuration()) {
    return context.UsageError("--backup-age: not a duration such as 36h");
  }
  const absl::Time now = absl::Now();
  std::vector<Finding> findings;
  const auto add = [&findings](std::vector<Finding> more) {
    for (Finding& finding : more) findings.push_back(std::move(finding));
  };
  if (!arguments.offline) add({CheckServer(context)});
  add(CheckFormats(installation));
  add(CheckKeys(installation));
  add(CheckDisk(installation));
  add(CheckClock(installation, now));
  add(CheckAnchors(installation));
  if (!arguments.offline && findings.front().verdict == Verdict::kOk) {
    add({CheckWitnesses(context, installation.witnesses)});
  }
  add(CheckBackups(installation, now));
  add(CheckCertificates(installation, now));

  const Verdict worst =
      std::max_element(findings.begin(), findings.end(), [](const auto& a, const auto& b) {
        return a.verdict < b.verdict;
      })->verdict;
  Report(context, findings);
  return worst == Verdict::kFail || (arguments.strict && worst == Verdict::kWarn) ? kExitUnsound
                                                                                  : kExitOk;
}

}  // namespace

void AddDoctorCommand(CLI::App& app, Context& context, Action& action) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = AddVerb(
      app, "doctor", "Check a running installation: server, keys, disk, clock, backups, ...",
      "Runs beside the server, as its user. Each line is ok, warn or fail, with what\n"
      "to do.\n"
      "Exit status 0, or 4 when something failed (with --strict: or warned).");
  verb->add_option("--config", arguments->config, "Settings file of lethed, for what follows")
      ->type_name("FILE");
  Installation& installation = arguments->installation;
  verb->add_option("--data", installation.data, "Data folder of the server")->type_name("DIR");
  verb->add_option("--vault", installation.vault, "Its vault (default vault in the data folder)")
      ->type_name("DIR");
  verb->add_option("--certificate", installation.tls_certificate, "Its certificate of TLS")
      ->type_name("FILE");
  verb->add_option("--backups", installation.backups, "Folder of deploy/backup.sh")
      ->type_name("DIR");
  verb->add_option("--backup-age", arguments->backup_age,
                   "How old the newest backup may be (default 36h; three times that is a failure)")
      ->type_name("DURATION");
  verb->add_flag("--offline", arguments->offline, "Look at the files alone, ask no server");
  verb->add_flag("--strict", arguments->strict, "A warning counts as a failure");
  verb->callback([&context, &action, arguments] {
    action = [&context, arguments] { return Doctor(context, *arguments); };
  });
}

}  // namespace lethe::cli
