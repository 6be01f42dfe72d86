#include <cmath>
#include <future>

#include "absl/strings/ascii.h"
#include "absl/time/clock.h"
#include "client/cli/commands.h"
#include "client/cli/exit_codes.h"
#include "client/cli/render.h"
#include "client/cli/top.h"

namespace lethe::cli {
namespace {

struct Arguments {
  double interval = 2.0;
  uint64_t tenants = 20;
  uint64_t count = 0;
  bool once = false;
};

// How often a key is looked for while the server is asked.
constexpr absl::Duration kGlance = absl::Milliseconds(50);
constexpr size_t kUnboundedRows = size_t{1} << 20;

Json ToJson(const TopRow& row) {
  Json json = {{"tenant", row.memory.name.tenant},
               {"memory", row.memory.name.memory},
               {"tokens", row.tokens()},
               {"margin", row.memory.partition.margin},
               {"error", row.memory.partition.error},
               {"reserve", row.memory.partition.reserve},
               {"phase", client::ToString(row.memory.phase)},
               {"verdict", client::ToString(row.verdict)}};
  if (row.change.has_value()) json["change"] = *row.change;
  return json;
}

Json ToJson(const TopLook& look) {
  Json rows = Json::array();
  for (const TopRow& row : look.rows) rows.push_back(ToJson(row));
  Json troubles = Json::array();
  for (const TopTrouble& trouble : look.troubles) {
    troubles.push_back({{"tenant", trouble.tenant},
                        {"code", absl::StatusCodeToString(trouble.status.code())},
                        {"message", std::string(trouble.status.message())}});
  }
  return {{"time", absl::FormatTime(absl::RFC3339_sec, absl::Now(), absl::UTCTimeZone())},
          {"tenants", look.tenants},
          {"looked_at", look.looked_at},
          {"tokens", look.tokens},
          {"memories", std::move(rows)},
          {"troubles", std::move(troubles)}};
}

// For scripts: look after look, as text or JSON.
int Write(Context& context, TopWatcher& watcher, const Arguments& arguments) {
  const uint64_t count = arguments.once ? 1 : arguments.count;
  for (uint64_t turn = 0; count == 0 || turn < count; ++turn) {
    if (turn > 0) absl::SleepFor(absl::Seconds(arguments.interval));
    const absl::StatusOr<TopLook> look = watcher.Look();
    if (!look.ok()) return context.RpcError(look.status());
    if (context.globals.output == OutputFormat::kTable) {
      std::vector<std::string> lines =
          TopLines(*look, context.globals.address, absl::Seconds(arguments.interval), "", kWidth,
                   kUnboundedRows);
      lines.erase(lines.begin());  // which says how to end it
      for (const std::string& line : lines) context.io().out << line << "\n";
    } else {
      context.io().out << Dump(ToJson(*look),
                               context.globals.output == OutputFormat::kJson ? 2 : -1)
                       << "\n";
    }
    context.io().out.flush();
    if (!context.io().out) return kExitOk;  // reported by whoever runs us
  }
  return kExitOk;
}

// For people. The server is asked beside, so that a key is heard at once.
int Draw(Context& context, TopWatcher& watcher, const Arguments& arguments) {
  Terminal& terminal = *context.io().terminal;
  const absl::Duration interval = absl::Seconds(arguments.interval);
  TopLook shown;
  absl::Status first_error;
  bool seen = false;
  std::string trouble = "asking";
  std::future<absl::StatusOr<TopLook>> asked;
  absl::Time next = absl::Now();
  terminal.Enter();
  for (bool changed = true;;) {
    if (!asked.valid() && absl::Now() >= next) {
      next = absl::Now() + interval;
      asked = std::async(std::launch::async, [&watcher] { return watcher.Look(); });
    }
    if (changed) {
      terminal.Draw(TopFrame(TopLines(shown, context.globals.address, interval, trouble,
                                      terminal.columns(), terminal.rows())));
      changed = false;
    }
    const absl::Duration wait =
        asked.valid() ? kGlance : std::max(next - absl::Now(), absl::ZeroDuration());
    const Terminal::Event event = terminal.Wait(wait);
    if (event == Terminal::Event::kQuit) break;
    changed = event == Terminal::Event::kResized;
    if (asked.valid() && asked.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
      absl::StatusOr<TopLook> look = asked.get();
      changed = true;
      if (look.ok()) {
        shown = *std::move(look);
        seen = true;
        trouble.clear();
      } else if (!seen) {
        first_error = look.status();
        break;  // nothing to look at
      } else {
        trouble = std::string("no answer: ") + std::string(look.status().message());
      }
    }
  }
  terminal.Leave();
  watcher.Stop();
  if (asked.valid()) asked.wait();  // at most one call's time limit
  return first_error.ok() ? kExitOk : context.RpcError(first_error);
}

int Top(Context& context, const Arguments& arguments) {
  if (!std::isfinite(arguments.interval) || arguments.interval < 0.1 || arguments.interval > 3600) {
    return context.UsageError("--interval: must be in 0.1 to 3600 seconds");
  }
  const bool live =
      !arguments.once && arguments.count == 0 && context.globals.output == OutputFormat::kTable;
  if (live && context.io().terminal == nullptr) {
    return context.UsageError("this is no terminal; give --once, or -o jsonl");
  }
  if (context.globals.output == OutputFormat::kJson && !arguments.once) {
    return context.UsageError("-o json is one value: give --once, or -o jsonl");
  }
  // A look that hangs must not hold up the end for a minute.
  if (live) context.globals.timeout = std::min(context.globals.timeout, absl::Seconds(5));
  TopWatcher watcher(context.client(), context.globals.tenant, arguments.tenants);
  return live ? Draw(context, watcher, arguments) : Write(context, watcher, arguments);
}

}  // namespace

void AddTopCommand(CLI::App& app, Context& context, Action& action) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = AddVerb(app, "top", "Watch the memories of a server",
                           "Of --tenant, or of the first tenants by name; looking at a tenant\n"
                           "opens it on the server. +/- is the change of tokens since the turn\n"
                           "before. q or Ctrl-C ends.");
  verb->add_option("--interval", arguments->interval, "Between two turns (default 2)")
      ->type_name("SECONDS");
  verb->add_option("--tenants", arguments->tenants,
                   "Tenants to look at where none is named (default 20)")
      ->check(CLI::Range(1, 1000).description(""))
      ->type_name("N");
  verb->add_flag("--once", arguments->once, "One turn, for scripts");
  verb->add_option("--count", arguments->count, "So many turns, for scripts")
      ->check(CLI::Range(1, 1'000'000).description(""))
      ->type_name("N");
  verb->callback([&context, &action, arguments] {
    action = [&context, arguments] { return Top(context, *arguments); };
  });
}

}  // namespace lethe::cli
