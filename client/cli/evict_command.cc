#include <cstdint>
#include <memory>

#include "client/cli/commands.h"
#include "client/cli/erasure.h"

namespace lethe::cli {
namespace {

struct Arguments {
  uint64_t budget = 0;
  ErasureFlags flags;
};

std::string PlanText(const client::EvictResult& plan, size_t indent) {
  return RenderFields({{"would take out", FormatCount(plan.evicted)},
                       {"from reserve", FormatCount(plan.reserve)},
                       {"surplus copies", FormatCount(plan.surplus)},
                       {"held", FormatCount(plan.held)},
                       {"would retain", FormatCount(plan.retained)},
                       {"budget reached", plan.budget_reached ? "yes" : "no, the rest has weight"},
                       {"partition now", Text(plan.before)},
                       {"partition after", Text(plan.after)}},
                      indent);
}

int Evict(Context& context, const Arguments& arguments) {
  const absl::StatusOr<client::MemoryName> name = context.Memory();
  if (!name.ok()) return context.UsageError(name.status().message());
  client::Client client = context.client();
  return RunErasure(
      context, client::EvictRequest{.name = *name, .budget = arguments.budget}, arguments.flags,
      "Take them out for good?",
      [&client](const client::EvictRequest& request) { return client.Evict(request); }, PlanText);
}

}  // namespace

void AddEvictCommand(CLI::App& app, Context& context, Action& action) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb =
      AddVerb(app, "evict", "Take out what no query reads, down to a budget",
              "Readouts stay what they are. The certificate says how far that promise\n"
              "goes: from then on the memory is that of the tokens retained.\n"
              "Without --yes the plan is shown first; on a terminal you are then asked.");
  verb->add_option("--budget", arguments->budget, "How many tokens may stay; at least 1")
      ->required()
      ->check([](const std::string& text) {
        const bool digits = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
        return digits && text.find_first_not_of('0') != text.npos ? std::string()
                                                                  : "must be a number from 1 on";
      })
      ->type_name("N");
  AddErasureFlags(*verb, arguments->flags);
  verb->callback([&context, &action, arguments] {
    action = [&context, arguments] { return Evict(context, *arguments); };
  });
}

}  // namespace lethe::cli
