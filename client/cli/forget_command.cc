#include <memory>
#include <utility>

#include "client/cli/commands.h"
#include "client/cli/erasure.h"

namespace lethe::cli {
namespace {

struct Arguments {
  std::vector<std::string> ids;
  std::string subject;
  bool everything = false;
  ErasureFlags flags;
};

// What a dry run says; its verdict and request id are of no use to anyone.
std::string PlanText(const client::ForgetResult& plan, size_t indent) {
  return RenderFields({{"would erase", FormatCount(plan.matched - plan.held)},
                       {"held", FormatCount(plan.held)},
                       {"not found", FormatCount(plan.not_found)},
                       {"already erased", FormatCount(plan.already_erased)},
                       {"partition now", Text(plan.before)},
                       {"partition after", Text(plan.after)}},
                      indent);
}

int Forget(Context& context, const Arguments& arguments, bool has_subject) {
  const absl::StatusOr<client::MemoryName> name = context.Memory();
  if (!name.ok()) return context.UsageError(name.status().message());
  client::ForgetRequest request;
  request.name = *name;
  request.ids = arguments.ids;
  if (has_subject) request.subject = arguments.subject;
  request.everything = arguments.everything;
  if ((request.ids.empty() ? 0 : 1) + (has_subject ? 1 : 0) + (request.everything ? 1 : 0) != 1) {
    return context.UsageError("exactly one of --id, --subject and --everything is needed");
  }
  client::Client client = context.client();
  return RunErasure(
      context, std::move(request), arguments.flags, "Forget for good?",
      [&client](const client::ForgetRequest& forget) { return client.Forget(forget); }, PlanText);
}

}  // namespace

void AddErasureFlags(CLI::App& verb, ErasureFlags& flags) {
  verb.add_flag("--dry-run", flags.dry_run, "Say what would happen and stop");
  verb.add_flag("-y,--yes", flags.yes, "Do it without asking");
  verb.add_option("--request-id", flags.request_id,
                  "The same id again returns the first answer (default: a new one)")
      ->type_name("ID");
}

void AddForgetCommand(CLI::App& app, Context& context, Action& action) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb =
      AddVerb(app, "forget", "Erase tokens and get a signed certificate",
              "Without --yes the plan is shown first; on a terminal you are then asked.");
  verb->add_option("--id", arguments->ids, "A token; may be repeated")
      ->allow_extra_args(false)
      ->type_name("ID");
  CLI::Option* subject =
      verb->add_option("--subject", arguments->subject, "Every token of this data subject")
          ->type_name("SUBJECT");
  verb->add_flag("--everything", arguments->everything, "Every token of the memory");
  AddErasureFlags(*verb, arguments->flags);
  verb->callback([&context, &action, arguments, subject] {
    action = [&context, arguments, given = subject->count() > 0] {
      return Forget(context, *arguments, given);
    };
  });
}

}  // namespace lethe::cli
