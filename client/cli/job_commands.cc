// lethe job: training jobs, which workers of the server run.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/commands.h"
#include "client/cli/exit_codes.h"
#include "client/cli/job_view.h"
#include "client/cli/small_file.h"
#include "client/retry.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"

namespace lethe::cli {
namespace {

struct Arguments {
  std::string id;
  std::string state;
  std::string out;
  std::string manifest;
  std::string request_id;
  std::vector<std::pair<std::string, std::string>> fields;  // of a new job
  bool watch = false;
  bool yes = false;
};
using Shared = std::shared_ptr<Arguments>;

int PrintJob(Context& context, const absl::StatusOr<client::Job>& job) {
  if (!job.ok()) return context.RpcError(job.status());
  Print(context, ToJson(*job), RenderFields(ToFields(*job)));
  return kExitOk;
}

// A line that is drawn again in place on a terminal; elsewhere a line each time that the state or
// the tenth of the steps is another one.
class WatchLine {
 public:
  explicit WatchLine(Context& context) : context_(context) {}
  ~WatchLine() { Wipe(); }
  WatchLine(const WatchLine&) = delete;
  WatchLine& operator=(const WatchLine&) = delete;

  void Show(const client::Job& job) {
    if (context_.globals.quiet) return;
    std::ostream& err = context_.io().err;
    const std::string line = JobLine(job);
    if (context_.io().err_is_terminal) {
      err << "\r\033[K" << Shorten(line, kWidth - 1) << std::flush;
      visible_ = true;
      return;
    }
    const uint64_t tenth =
        job.progress.steps == 0 ? 0 : 10 * job.progress.step / job.progress.steps;
    if (state_ == job.state && tenth_ == tenth) return;
    state_ = job.state;
    tenth_ = tenth;
    context_.Note(line);
  }
  void Wipe() {
    if (std::exchange(visible_, false)) context_.io().err << "\r\033[K" << std::flush;
  }

 private:
  Context& context_;
  bool visible_ = false;
  std::optional<client::JobState> state_;
  uint64_t tenth_ = 0;
};

int WatchOne(Context& context, const std::string& tenant, const std::string& id) {
  const bool lines = context.globals.output == OutputFormat::kJsonLines;
  WatchLine line(context);
  const absl::StatusOr<client::Job> job =
      context.client().WatchJob(tenant, id, [&](const client::Job& now) {
        if (lines && !HasEnded(now.state)) {
          context.io().out << Dump(ToJson(now)) << "\n" << std::flush;
        } else {
          line.Show(now);
        }
        return absl::OkStatus();
      });
  line.Wipe();
  const int printed = PrintJob(context, job);
  if (printed != kExitOk || job->state == client::JobState::kSucceeded) return printed;
  return context.Error(
      kExitJob, absl::StrCat("the job ",
                             job->state == client::JobState::kFailed ? "failed" : "was cancelled"));
}

int Submit(Context& context, jobs::JobKind kind, const Arguments& arguments) {
  const absl::StatusOr<client::MemoryName> memory = context.Memory();
  if (!memory.ok()) return context.UsageError(memory.status().message());
  client::NewJob job{.tenant = memory->tenant,
                     .memory = memory->memory,
                     .config = jobs::DefaultsOf(kind),
                     .request_id = arguments.request_id};
  for (const auto& [name, text] : arguments.fields) {
    if (const absl::Status set = jobs::SetField(name, text, job.config); !set.ok()) {
      return context.UsageError(set.message());
    }
  }
  if (const absl::Status fields = jobs::CheckFields(job.config); !fields.ok()) {
    return context.UsageError(fields.message());
  }
  if (job.request_id.empty()) job.request_id = client::NewRequestId();
  const absl::StatusOr<client::Job> made = context.client().SubmitJob(job);
  if (!made.ok() &&
      (client::IsTransient(made.status()) || absl::IsDeadlineExceeded(made.status()))) {
    context.Note(
        absl::StrCat("it may have been taken; repeat it with --request-id ", job.request_id));
  }
  if (!made.ok() || !arguments.watch) return PrintJob(context, made);
  context.Note(absl::StrCat("job ", made->id));
  return WatchOne(context, memory->tenant, made->id);
}

int List(Context& context, const Arguments& arguments) {
  const absl::StatusOr<std::string> tenant = context.Tenant();
  if (!tenant.ok()) return context.UsageError(tenant.status().message());
  std::optional<client::JobState> state;
  if (!arguments.state.empty()) {
    const absl::StatusOr<client::JobState> parsed = client::ParseJobState(arguments.state);
    if (!parsed.ok()) {
      return context.UsageError(absl::StrCat("--state: ", parsed.status().message()));
    }
    state = *parsed;
  }
  ListPrinter list(context, {{.title = "JOB"},
                             {.title = "KIND"},
                             {.title = "STATE"},
                             {.title = "STEP", .right = true},
                             {.title = "MEMORY", .flexible = true}});
  client::Client client = context.client();
  for (const absl::StatusOr<client::Job>& job : client.ListJobs(*tenant, state)) {
    if (!job.ok()) return context.RpcError(job.status());
    list.Add(
        ToJson(*job),
        {job->id, Dashed(jobs::JobKindName(job->kind)), std::string(client::ToText(job->state)),
         job->progress.steps == 0 ? std::string("-")
                                  : absl::StrCat(job->progress.step, "/", job->progress.steps),
         job->memory});
  }
  list.Finish("no jobs");
  return kExitOk;
}

int Delete(Context& context, const Arguments& arguments) {
  const absl::StatusOr<std::string> tenant = context.Tenant();
  if (!tenant.ok()) return context.UsageError(tenant.status().message());
  if (!context.Confirm(arguments.yes, "Destroy the job and its artefact for good?")) {
    return kExitUsage;
  }
  const absl::Status deleted = context.client().DeleteJob(*tenant, arguments.id);
  if (!deleted.ok()) return context.RpcError(deleted);
  context.Note(absl::StrCat("job ", arguments.id, " deleted"));
  return kExitOk;
}

// The artefact goes to a place beside the file, which takes its name only when all is there, is
// what the server says it is, and is on the disk.
int Artefact(Context& context, const Arguments& arguments) {
  const absl::StatusOr<std::string> tenant = context.Tenant();
  if (!tenant.ok()) return context.UsageError(tenant.status().message());
  if (arguments.manifest == arguments.out) {
    return context.UsageError("--out and --manifest: must be two files");
  }
  for (const std::string& path : {arguments.out, arguments.manifest}) {
    if (!path.empty() && ::access(path.c_str(), F_OK) == 0) {
      return context.FileError(absl::StrCat(path, ": exists"));
    }
  }
  const std::string part = absl::StrCat(arguments.out, ".part-", client::NewRequestId());
  const FileDescriptor file(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) {
    return context.FileError(SystemError(errno, "make it", part).message());
  }
  absl::Cleanup remove_part = [&part] { ::unlink(part.c_str()); };
  absl::Status local;  // what went wrong on this side
  const absl::StatusOr<client::JobArtefact> artefact = context.client().GetArtefact(
      *tenant, arguments.id, [&](absl::string_view piece) -> absl::Status {
        return local = WriteNext(file.get(), piece, part);
      });
  if (!local.ok()) return context.FileError(local.message());
  if (!artefact.ok()) return context.RpcError(artefact.status());
  if (const absl::Status synced = Sync(file.get(), part); !synced.ok()) {
    return context.FileError(synced.message());
  }
  if (const absl::Status named = NameFile(part, arguments.out); !named.ok()) {
    return context.FileError(named.message());
  }
  if (!arguments.manifest.empty()) {
    const absl::Status written =
        WriteNewFile(arguments.manifest, absl::StrCat(artefact->manifest, "\n"));
    if (!written.ok()) return context.FileError(written.message());
  }
  Print(context,
        {{"file", arguments.out}, {"bytes", artefact->bytes}, {"sha256", artefact->sha256}},
        RenderFields({{"file", arguments.out},
                      {"bytes", FormatCount(artefact->bytes)},
                      {"SHA-256", artefact->sha256}}));
  return kExitOk;
}

// A verb about one job.
template <typename Call>
int WithId(Context& context, const Arguments& arguments, const Call& call) {
  const absl::StatusOr<std::string> tenant = context.Tenant();
  if (!tenant.ok()) return context.UsageError(tenant.status().message());
  client::Client client = context.client();
  return PrintJob(context, call(client, *tenant, arguments.id));
}

void AddId(CLI::App& verb, const Shared& arguments) {
  verb.add_option("id", arguments->id, "The job")->required()->type_name("ID");
}

std::string DefaultOf(jobs::JobKind kind, const std::string& name) {
  for (const auto& [field, text] : jobs::FieldTexts(jobs::DefaultsOf(kind))) {
    if (field == name) return text;
  }
  return {};
}

// A flag a field, so that help and completion know them all.
void AddFieldFlags(CLI::App& verb, jobs::JobKind kind, const Shared& arguments) {
  const auto add = [&](const jobs::FieldInfo& info, const auto& member) {
    using Field = std::remove_cvref_t<decltype(member)>;
    const std::string name = info.name;
    CLI::Option* option = verb.add_option_function<std::string>(
        absl::StrCat("--", Dashed(name)),
        [arguments, name](const std::string& text) { arguments->fields.emplace_back(name, text); },
        absl::StrCat(info.help, " (default ", DefaultOf(kind, name), ")"));
    if constexpr (std::is_enum_v<Field>) {
      std::vector<std::string> words;
      for (auto i = static_cast<size_t>(info.least); i <= static_cast<size_t>(info.most); ++i) {
        words.emplace_back(info.words[i]);
      }
      TakesWords(option, std::move(words));
    } else if constexpr (std::is_same_v<Field, bool>) {
      TakesWords(option, {"true", "false"});
    } else {
      option->type_name(std::is_same_v<Field, std::vector<double>> ? "X,..."
                        : std::is_same_v<Field, double>            ? "X"
                                                                   : "N");
    }
  };
  std::visit([&](const auto& defaults) { VisitFields(defaults, add); }, jobs::DefaultsOf(kind));
}

void AddSubmitVerbs(CLI::App& group, Context& context, Action& action) {
  struct Kind {
    jobs::JobKind kind;
    const char* description;
  };
  for (const Kind& of :
       {Kind{jobs::JobKind::kCalibrate, "Find a box and a kernel width that suit the tokens"},
        Kind{jobs::JobKind::kTrainEncoder, "Learn projections so that readouts recall values"},
        Kind{jobs::JobKind::kTrainLm, "Train a small language model on the payloads"}}) {
    auto arguments = std::make_shared<Arguments>();
    const std::string name = Dashed(jobs::JobKindName(of.kind));
    CLI::App* verb =
        AddVerb(group, name.c_str(), of.description,
                "--memory names the memory that it reads. No artefact carries a deletion\n"
                "certificate (docs/jobs.md).");
    AddFieldFlags(*verb, of.kind, arguments);
    verb->add_option("--request-id", arguments->request_id,
                     "The same id again returns the first job")
        ->type_name("ID");
    verb->add_flag("--watch", arguments->watch, "Watch it until it has ended");
    verb->callback([&context, &action, arguments, kind = of.kind] {
      action = [&context, arguments, kind] { return Submit(context, kind, *arguments); };
    });
  }
}

}  // namespace

void AddJobCommands(CLI::App& app, Context& context, Action& action) {
  CLI::App& group = *AddGroup(app, "job", "Training jobs of a tenant");
  AddSubmitVerbs(*AddGroup(group, "submit", "Submit a job"), context, action);
  const auto add = [&](const char* name, const char* description, auto run,
                       const std::string& footer = "") {
    auto arguments = std::make_shared<Arguments>();
    CLI::App* verb = AddVerb(group, name, description, footer);
    verb->callback([&context, &action, arguments, run] {
      action = [&context, arguments, run] { return run(context, *arguments); };
    });
    return std::pair<CLI::App*, Shared>(verb, std::move(arguments));
  };
  {
    const auto [verb, arguments] =
        add("get", "Show a job", [](Context& shown, const Arguments& given) {
          return WithId(shown, given,
                        [](client::Client& client, const std::string& tenant,
                           const std::string& id) { return client.GetJob(tenant, id); });
        });
    AddId(*verb, arguments);
  }
  {
    const auto [verb, arguments] = add("list", "List the jobs of a tenant", List);
    verb->add_option("--state", arguments->state, "Only those in this state")->type_name("STATE");
  }
  {
    const auto [verb, arguments] = add(
        "cancel", "Cancel a job",
        [](Context& shown, const Arguments& given) {
          return WithId(shown, given,
                        [](client::Client& client, const std::string& tenant,
                           const std::string& id) { return client.CancelJob(tenant, id); });
        },
        "At once where nobody works on it, otherwise with the worker's next heartbeat.");
    AddId(*verb, arguments);
  }
  {
    const auto [verb, arguments] =
        add("delete", "Destroy a job that has ended, with its artefact", Delete);
    AddId(*verb, arguments);
    verb->add_flag("-y,--yes", arguments->yes, "Do not ask");
  }
  {
    const auto [verb, arguments] = add(
        "watch", "Watch a job until it has ended",
        [](Context& shown, const Arguments& given) {
          const absl::StatusOr<std::string> tenant = shown.Tenant();
          if (!tenant.ok()) return shown.UsageError(tenant.status().message());
          return WatchOne(shown, *tenant, given.id);
        },
        "Progress goes to standard error, the job as it ended to standard output; with\n"
        "--output jsonl a line each time that it changes. Exit status 5 when it failed\n"
        "or was cancelled.");
    AddId(*verb, arguments);
  }
  {
    const auto [verb, arguments] =
        add("artefact", "Download the artefact of a job that has succeeded", Artefact,
            "It takes its name only when size and SHA-256 are those that the server names.");
    AddId(*verb, arguments);
    verb->add_option("--out", arguments->out, "Where to, a new file")
        ->required()
        ->type_name("FILE");
    verb->add_option("--manifest", arguments->manifest, "Where the manifest goes, a new file")
        ->type_name("FILE");
  }
}

}  // namespace lethe::cli
