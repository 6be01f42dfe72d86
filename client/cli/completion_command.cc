#include "client/cli/commands.h"
#include "client/cli/exit_codes.h"
#include "core/program/completion.h"

namespace lethe::cli {

void AddCompletionCommand(CLI::App& app, Context& context, Action& action) {
  CLI::App* verb = AddVerb(app, "completion", "Print a completion script for a shell",
                           "bash: source <(lethe completion bash)\n"
                           "zsh:  lethe completion zsh > a folder of $fpath/_lethe");
  auto shell = std::make_shared<std::string>();
  TakesWords(verb->add_option("shell", *shell, "The shell"), {"bash", "zsh"})->required();
  verb->callback([&app, &context, &action, shell] {
    action = [&app, &context, shell] {
      const program::CommandView view = program::ViewOf(app);
      context.io().out << (*shell == "bash" ? program::BashCompletion(view)
                                            : program::ZshCompletion(view));
      return kExitOk;
    };
  });
}

}  // namespace lethe::cli
