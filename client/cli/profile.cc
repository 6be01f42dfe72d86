#include "client/cli/profile.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/program/nearest_name.h"
#include "core/program/toml_file.h"

namespace lethe::cli {
namespace {

using program::TomlFile;

constexpr char kStandard[] = "default";
constexpr char kProfile[] = "profile";

// Names of global options that take a value, but for --profile itself.
std::vector<std::string> KnownKeys(const CLI::App& app) {
  std::vector<std::string> keys;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty() || option->get_items_expected_max() == 0) continue;
    if (option->get_lnames()[0] != kProfile) keys.push_back(option->get_lnames()[0]);
  }
  return keys;
}

bool NamesFile(const CLI::App& app, const std::string& key) {
  return app.get_option("--" + key)->get_type_name() == "FILE";
}

absl::StatusOr<Profile> ReadProfile(const TomlFile& file,
                                    std::string name,
                                    const toml::node& node,
                                    const CLI::App& app) {
  const std::vector<std::string> known = KnownKeys(app);
  if (!node.is_table()) return file.Error(node, absl::StrCat(name, ": must be a table"));
  LETHE_RETURN_IF_ERROR(file.OnlyKeys(*node.as_table(), known));
  Profile profile{.name = std::move(name), .settings = {}};
  for (const std::string& key : known) {
    const toml::node* value = node.as_table()->get(key);
    if (value == nullptr) continue;
    if (!value->is_string()) {
      return file.Error(
          *value, absl::StrCat(key, ": must be a string, and is ", program::TypeName(*value)));
    }
    std::string text = **value->as_string();
    if (NamesFile(app, key)) {
      text = (std::filesystem::path(file.path()).parent_path() / text).lexically_normal().string();
    }
    profile.settings.push_back({key, std::move(text), file.Where(*value)});
  }
  return profile;
}

std::vector<std::string> NamesOf(const Profiles& profiles) {
  std::vector<std::string> names;
  for (const Profile& profile : profiles.profiles) names.push_back(profile.name);
  return names;
}

}  // namespace

absl::StatusOr<const Profile*> Profiles::Find(absl::string_view name) const {
  for (const Profile& profile : profiles) {
    if (profile.name == name) return &profile;
  }
  return absl::NotFoundError(absl::StrCat("profile ", program::UnknownName(name, NamesOf(*this)),
                                          " (", path.empty() ? "no home folder" : path, ")"));
}

std::string ProfilePath() {
  // The specification: a relative path there is to be ignored.
  const char* configuration = std::getenv("XDG_CONFIG_HOME");
  if (configuration != nullptr && configuration[0] == '/') {
    return absl::StrCat(configuration, "/lethe/config.toml");
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr || home[0] != '/') return "";
  return absl::StrCat(home, "/.config/lethe/config.toml");
}

absl::StatusOr<Profiles> ReadProfiles(const CLI::App& app) {
  Profiles profiles;
  profiles.path = ProfilePath();
  if (profiles.path.empty()) return profiles;
  absl::StatusOr<TomlFile> file = TomlFile::Read(profiles.path);
  if (absl::IsNotFound(file.status())) return profiles;
  LETHE_RETURN_IF_ERROR(file.status());
  profiles.exists = true;
  LETHE_RETURN_IF_ERROR(file->OnlyKeys(file->root(), {kStandard, kProfile}));
  bool token = false;
  if (const toml::node* node = file->root().get(kProfile); node != nullptr) {
    if (!node->is_table()) return file->Error(*node, "profile: must be tables, [profile.NAME]");
    for (const auto& [key, value] : *node->as_table()) {
      LETHE_ASSIGN_OR_RETURN(Profile profile,
                             ReadProfile(*file, std::string(key.str()), value, app));
      for (const ProfileSetting& setting : profile.settings) {
        token |= absl::StartsWith(setting.name, "token");
      }
      profiles.profiles.push_back(std::move(profile));
    }
  }
  if (token) {
    LETHE_RETURN_IF_ERROR(TomlFile::Read(profiles.path, TomlFile::Access::kOwnerAlone).status());
  }
  if (const toml::node* node = file->root().get(kStandard); node != nullptr) {
    if (!node->is_string()) return file->Error(*node, "default: must be a string");
    profiles.standard = **node->as_string();
    if (const auto found = profiles.Find(profiles.standard); !found.ok()) {
      return file->Error(*node, absl::StrCat("default: ", program::UnknownName(profiles.standard,
                                                                               NamesOf(profiles))));
    }
  }
  return profiles;
}

absl::Status ApplyProfile(const Profile& profile, CLI::App& app) {
  for (const ProfileSetting& setting : profile.settings) {
    CLI::Option* option = app.get_option("--" + setting.name);
    if (option->count() > 0) continue;
    // A token of the environment wins over the profile's file of one.
    if (setting.name == "token-file" && std::getenv("LETHE_TOKEN") != nullptr) continue;
    try {
      option->add_result(setting.value);
      option->run_callback();
    } catch (const CLI::Error& error) {
      // CLI11 begins with the flag.
      absl::string_view what = error.what();
      const std::string prefix = absl::StrCat("--", setting.name, ": ");
      if (const size_t at = what.find(prefix); at != absl::string_view::npos) {
        what.remove_prefix(at + prefix.size());
      }
      return absl::InvalidArgumentError(
          absl::StrCat(setting.where, ": ", setting.name, ": ", what));
    }
  }
  return absl::OkStatus();
}

}  // namespace lethe::cli
