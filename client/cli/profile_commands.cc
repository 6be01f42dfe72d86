#include <utility>

#include "client/cli/commands.h"
#include "client/cli/exit_codes.h"
#include "client/cli/profile.h"
#include "client/cli/render.h"

namespace lethe::cli {
namespace {

Json ToJson(const Profile& profile, const Profiles& profiles) {
  Json json = {{"name", profile.name}, {"default", profile.name == profiles.standard}};
  for (const ProfileSetting& setting : profile.settings) json[setting.name] = setting.value;
  return json;
}

int List(Context& context, const Profiles& profiles) {
  const auto value = [](const Profile& profile, const char* name) {
    for (const ProfileSetting& setting : profile.settings) {
      if (setting.name == name) return setting.value;
    }
    return std::string();
  };
  ListPrinter list(context, {{.title = "PROFILE", .flexible = true},
                             {.title = "ADDRESS", .flexible = true},
                             {.title = "TENANT", .flexible = true},
                             {.title = "DEFAULT"}});
  for (const Profile& profile : profiles.profiles) {
    list.Add(ToJson(profile, profiles),
             {profile.name, value(profile, "address"), value(profile, "tenant"),
              profile.name == profiles.standard ? "yes" : ""});
  }
  list.Finish("no profiles in " + profiles.path);
  return kExitOk;
}

int Show(Context& context, const Profiles& profiles, const std::string& named) {
  const std::string name = !named.empty()                     ? named
                           : !context.globals.profile.empty() ? context.globals.profile
                                                              : profiles.standard;
  if (name.empty()) {
    return context.UsageError("which profile? name one; the file has no default");
  }
  const absl::StatusOr<const Profile*> profile = profiles.Find(name);
  if (!profile.ok()) return context.UsageError(profile.status().message());
  Fields fields = {{"profile", (*profile)->name}, {"file", profiles.path}};
  for (const ProfileSetting& setting : (*profile)->settings) {
    fields.push_back({setting.name, setting.value});
  }
  Print(context, ToJson(**profile, profiles), RenderFields(fields));
  return kExitOk;
}

}  // namespace

void AddProfileCommands(CLI::App& app, Context& context, Action& action) {
  CLI::App* group = AddGroup(app, "profile", "Named sets of global options");
  const auto with_profiles = [&app, &context, &action](std::function<int(const Profiles&)> run) {
    return [&app, &context, &action, run = std::move(run)] {
      action = [&app, &context, run] {
        const absl::StatusOr<Profiles> profiles = ReadProfiles(app);
        if (!profiles.ok()) return context.FileError(profiles.status().message());
        return run(*profiles);
      };
    };
  };
  const std::string footer =
      "They stand in ~/.config/lethe/config.toml ($XDG_CONFIG_HOME/lethe/config.toml):\n"
      "  default = \"local\"\n"
      "  [profile.local]\n"
      "  address = \"127.0.0.1:7421\"\n"
      "A key is a global option that takes a value. --profile or LETHE_PROFILE names\n"
      "the one to use. Flags and environment variables win over it.";
  AddVerb(*group, "list", "List the profiles", footer)
      ->callback(
          with_profiles([&context](const Profiles& profiles) { return List(context, profiles); }));
  CLI::App* show = AddVerb(*group, "show", "Show what a profile sets", footer);
  auto name = std::make_shared<std::string>();
  show->add_option("name", *name, "The profile (default: the one in use)")->type_name("");
  show->callback(with_profiles(
      [&context, name](const Profiles& profiles) { return Show(context, profiles, *name); }));
}

}  // namespace lethe::cli
