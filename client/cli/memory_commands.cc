#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/exit_codes.h"
#include "client/cli/render.h"
#include "client/cli/small_file.h"
#include "client/retry.h"
#include "core/base/status_macros.h"

namespace lethe::cli {
namespace {

struct Arguments {
  std::string name;
  bool yes = false;
  bool refit = false;
  std::optional<std::string> kernel;  // rbf
  std::optional<double> gamma;
  std::optional<double> scale;
  std::optional<double> box;
  std::optional<double> capacity;
  std::string duplicates = "shared";
  uint32_t key_dimension = 0;
  uint32_t value_dimension = 0;
  std::string encoder;  // a file
};

absl::StatusOr<client::MemoryConfig> MakeConfig(const Arguments& arguments) {
  client::MemoryConfig config;
  if (!arguments.encoder.empty()) {
    LETHE_ASSIGN_OR_RETURN(config.encoder, ReadSmallFile(arguments.encoder));
    if (config.encoder.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--encoder: ", arguments.encoder, " is empty"));
    }
  } else if (arguments.key_dimension == 0 || arguments.value_dimension == 0) {
    return absl::InvalidArgumentError(
        "--key-dimension and --value-dimension are needed, or --encoder");
  }
  const std::string kernel = arguments.kernel.value_or("rbf");
  const bool dot = kernel == "exp_dot";
  if (dot ? arguments.gamma.has_value() : arguments.scale.has_value()) {
    return absl::InvalidArgumentError("--gamma is for rbf and laplacian, --scale for exp_dot");
  }
  const std::optional<double> parameter = dot ? arguments.scale : arguments.gamma;
  if (!config.encoder.empty() && arguments.kernel.has_value() != parameter.has_value()) {
    return absl::InvalidArgumentError(
        "with --encoder give --kernel and its --gamma or --scale, or neither");
  }
  if (parameter.has_value()) {
    config.kernel = dot                     ? client::Kernel::ExpDot(*parameter)
                    : kernel == "laplacian" ? client::Kernel::Laplacian(*parameter)
                                            : client::Kernel::Rbf(*parameter);
  } else if (config.encoder.empty()) {
    return absl::InvalidArgumentError(dot ? "exp_dot needs --scale" : kernel + " needs --gamma");
  }
  if (arguments.box.has_value() == arguments.capacity.has_value()) {
    return absl::InvalidArgumentError("exactly one of --capacity and --box is needed");
  }
  config.box = arguments.box;
  config.capacity = arguments.capacity;
  config.duplicates =
      arguments.duplicates == "oldest-first"   ? client::DuplicatesPolicy::kOldestFirst
      : arguments.duplicates == "newest-first" ? client::DuplicatesPolicy::kNewestFirst
                                               : client::DuplicatesPolicy::kShared;
  config.key_dimension = arguments.key_dimension;
  config.value_dimension = arguments.value_dimension;
  return config;
}

int PrintMemory(Context& context, const absl::StatusOr<client::Memory>& memory) {
  if (!memory.ok()) return context.RpcError(memory.status());
  Print(context, ToJson(*memory), RenderFields(ToFields(*memory)));
  return kExitOk;
}

int CreateMemory(Context& context, const client::MemoryName& name, const Arguments& arguments) {
  const absl::StatusOr<client::MemoryConfig> config = MakeConfig(arguments);
  if (!config.ok()) return context.UsageError(config.status().message());
  return PrintMemory(context, context.client().CreateMemory(name, *config));
}

int ListMemories(Context& context) {
  const absl::StatusOr<std::string> tenant = context.Tenant();
  if (!tenant.ok()) return context.UsageError(tenant.status().message());
  ListPrinter list(context, {{.title = "MEMORY", .flexible = true},
                             {.title = "PHASE"},
                             {.title = "MARGIN", .right = true},
                             {.title = "ERROR", .right = true},
                             {.title = "RESERVE", .right = true},
                             {.title = "CREATED"}});
  client::Client client = context.client();
  for (const absl::StatusOr<client::Memory>& memory : client.ListMemories(*tenant)) {
    if (!memory.ok()) return context.RpcError(memory.status());
    const Json json = ToJson(*memory);
    list.Add(json, {memory->name.memory, json["phase"].get<std::string>(),
                    FormatCount(memory->partition.margin), FormatCount(memory->partition.error),
                    FormatCount(memory->partition.reserve), memory->create_time});
  }
  list.Finish("no memories");
  return kExitOk;
}

int DescribeMemory(Context& context, const client::MemoryName& name, bool refit) {
  const absl::StatusOr<client::Description> description = context.client().Describe(name, refit);
  if (!description.ok()) return context.RpcError(description.status());
  Print(context, ToJson(*description), RenderFields(ToFields(*description)));
  return kExitOk;
}

// A memory that is not found may be one whose deletion is not finished: only another call to delete
// it says that it is, and finishes it.
int DeleteMemory(Context& context, const client::MemoryName& name, bool yes) {
  client::Client client = context.client();
  if (!yes) {
    const absl::StatusOr<client::Memory> memory = client.GetMemory(name);
    if (!memory.ok() && !absl::IsNotFound(memory.status())) {
      return context.RpcError(memory.status());
    }
    if (memory.ok()) {
      context.io().err << "This erases every token of the memory, then the memory itself:\n"
                       << RenderFields(ToFields(*memory), 2);
    } else {
      context.io().err << "There is no memory " << name.memory << " of tenant " << name.tenant
                       << " to be seen. If an earlier deletion did not end, deleting it again\n"
                          "destroys the keys that are left, and its answer is NOT_FOUND as well.\n";
    }
    if (!context.Confirm(yes, "Delete the memory?")) return kExitUsage;
  }
  const absl::StatusOr<client::MemoryDeletion> deletion = client.DeleteMemory(name);
  if (!deletion.ok()) {
    const int status = context.RpcError(deletion.status());
    if (client::IsTransient(deletion.status()) || absl::IsDeadlineExceeded(deletion.status())) {
      context.Note(
          "the memory may be deleted and its keys not yet destroyed; send it again until the\n"
          "answer is OK or NOT_FOUND");
    }
    return status;
  }
  Print(context, ToJson(*deletion), RenderFields(ToFields(*deletion)));
  return kExitOk;
}

void AddCreateOptions(CLI::App& verb, Arguments& arguments) {
  TakesWords(verb.add_option("--kernel", arguments.kernel, "The kernel (default rbf)"),
             {"rbf", "laplacian", "exp_dot"});
  verb.add_option("--gamma", arguments.gamma, "Of rbf: exp(-gamma |x-y|^2); of laplacian")
      ->type_name("NUMBER");
  verb.add_option("--scale", arguments.scale, "Of exp_dot: exp(scale <x,y>)")->type_name("NUMBER");
  verb.add_option("--capacity", arguments.capacity,
                  "At least so many tokens carry the answer; or give --box")
      ->type_name("N");
  verb.add_option("--box", arguments.box, "The largest weight of a token, in (0, 1]")
      ->type_name("C");
  TakesWords(verb.add_option("--duplicates", arguments.duplicates,
                             "Who gets the weight of equal keys (default shared)"),
             {"shared", "oldest-first", "newest-first"});
  verb.add_option("--key-dimension", arguments.key_dimension, "Numbers in a key")->type_name("D");
  verb.add_option("--value-dimension", arguments.value_dimension, "Numbers in a value")
      ->type_name("M");
  verb.add_option("--encoder", arguments.encoder,
                  "Artefact of an encoder, which then stands before the memory; kernel and "
                  "dimensions are its own")
      ->type_name("FILE");
}

}  // namespace

void AddMemoryCommands(CLI::App& app, Context& context, Action& action) {
  CLI::App* group = AddGroup(app, "memory", "Create, show and delete memories");
  auto arguments = std::make_shared<Arguments>();
  const auto with_name = [&context, &action, arguments](
                             CLI::App* verb, std::function<int(const client::MemoryName&)> run) {
    verb->add_option("name", arguments->name, "The memory (default: --memory)")->type_name("");
    verb->callback([&context, &action, arguments, run] {
      action = [&context, arguments, run] {
        const absl::StatusOr<client::MemoryName> name = context.Memory(arguments->name);
        return name.ok() ? run(*name) : context.UsageError(name.status().message());
      };
    });
  };
  CLI::App* create = AddVerb(*group, "create", "Create a memory; its configuration never changes");
  AddCreateOptions(*create, *arguments);
  with_name(create, [&context, arguments](const client::MemoryName& name) {
    return CreateMemory(context, name, *arguments);
  });
  with_name(AddVerb(*group, "get", "Show configuration and partition"),
            [&context](const client::MemoryName& name) {
              return PrintMemory(context, context.client().GetMemory(name));
            });
  AddVerb(*group, "list", "List the memories of the tenant")->callback([&context, &action] {
    action = [&context] { return ListMemories(context); };
  });
  CLI::App* remove = AddVerb(*group, "delete", "Erase every token, then the memory");
  remove->add_flag("-y,--yes", arguments->yes, "Do it without asking");
  with_name(remove, [&context, arguments](const client::MemoryName& name) {
    return DeleteMemory(context, name, arguments->yes);
  });
  CLI::App* describe = AddVerb(*group, "describe", "Show state digest, radius and solver health");
  describe->add_flag("--refit", arguments->refit,
                     "Also solve from scratch on the server and compare every bit");
  with_name(describe, [&context, arguments](const client::MemoryName& name) {
    return DescribeMemory(context, name, arguments->refit);
  });
}

void AddVersionCommand(CLI::App& app, Context& context, Action& action) {
  AddVerb(app, "version", "Show the version of this program")->callback([&context, &action] {
    action = [&context] {
      Print(context, {{"version", LETHE_VERSION}}, absl::StrCat("lethe ", LETHE_VERSION, "\n"));
      return kExitOk;
    };
  });
}

}  // namespace lethe::cli
