#include "client/cli/commands.h"
#include "client/cli/exit_codes.h"
#include "client/cli/render.h"

namespace lethe::cli {
namespace {

struct Arguments {
  std::string name;
  bool yes = false;
};

int PrintTenant(Context& context, const absl::StatusOr<client::Tenant>& tenant) {
  if (!tenant.ok()) return context.RpcError(tenant.status());
  Print(context, ToJson(*tenant), RenderFields(ToFields(*tenant)));
  return kExitOk;
}

int ListTenants(Context& context) {
  ListPrinter list(context, {{.title = "TENANT", .flexible = true},
                             {.title = "MEMORIES", .right = true},
                             {.title = "CERTIFICATES", .right = true},
                             {.title = "CREATED"}});
  client::Client client = context.client();
  for (const absl::StatusOr<client::Tenant>& tenant : client.ListTenants()) {
    if (!tenant.ok()) return context.RpcError(tenant.status());
    list.Add(ToJson(*tenant), {tenant->name, FormatCount(tenant->memory_count),
                               FormatCount(tenant->certificate_count), tenant->create_time});
  }
  list.Finish("no tenants");
  return kExitOk;
}

int DeleteTenant(Context& context, const std::string& name, bool yes) {
  client::Client client = context.client();
  if (!yes) {
    const absl::StatusOr<client::Tenant> tenant = client.GetTenant(name);
    if (!tenant.ok()) return context.RpcError(tenant.status());
    context.io().err << "This erases every token of " << FormatCount(tenant->memory_count)
                     << " memories of tenant " << tenant->name
                     << " and closes its log of certificates:\n"
                     << RenderFields(ToFields(*tenant), 2);
    if (!context.Confirm(yes, "Delete the tenant?")) return kExitUsage;
  }
  const absl::StatusOr<client::TenantDeletion> deletion = client.DeleteTenant(name);
  if (!deletion.ok()) return context.RpcError(deletion.status());
  Print(context,
        {{"erased_tokens", deletion->erased_tokens}, {"certificate_id", deletion->certificate_id}},
        RenderFields({{"erased tokens", FormatCount(deletion->erased_tokens)},
                      {"certificate", deletion->certificate_id}}));
  return kExitOk;
}

}  // namespace

void AddTenantCommands(CLI::App& app, Context& context, Action& action) {
  CLI::App* group = AddGroup(app, "tenant", "Create, show and delete tenants");
  auto arguments = std::make_shared<Arguments>();
  // `run` gets the tenant that NAME or --tenant names.
  const auto with_name = [&context, &action, arguments](
                             CLI::App* verb, std::function<int(const std::string&)> run) {
    verb->add_option("name", arguments->name, "The tenant (default: --tenant)")->type_name("");
    verb->callback([&context, &action, arguments, run] {
      action = [&context, arguments, run] {
        const absl::StatusOr<std::string> tenant = context.Tenant(arguments->name);
        return tenant.ok() ? run(*tenant) : context.UsageError(tenant.status().message());
      };
    });
  };
  with_name(AddVerb(*group, "create", "Create a tenant and its log of certificates"),
            [&context](const std::string& tenant) {
              return PrintTenant(context, context.client().CreateTenant(tenant));
            });
  with_name(AddVerb(*group, "get", "Show a tenant; the key is what verifiers pin"),
            [&context](const std::string& tenant) {
              return PrintTenant(context, context.client().GetTenant(tenant));
            });
  AddVerb(*group, "list", "List all tenants")->callback([&context, &action] {
    action = [&context] { return ListTenants(context); };
  });
  CLI::App* remove = AddVerb(*group, "delete", "Erase every memory and close the log");
  remove->add_flag("-y,--yes", arguments->yes, "Do it without asking");
  with_name(remove, [&context, arguments](const std::string& tenant) {
    return DeleteTenant(context, tenant, arguments->yes);
  });
}

}  // namespace lethe::cli
