// Profiles: named sets of global options in a file of the user's, so that nobody types an address
// and the files of TLS each time.
//
//     default = "local"
//
//     [profile.local]
//     tenant = "clinic"
//
//     [profile.production]
//     address = "lethe.example.org:7421"
//     tenant = "clinic"
//     timeout = "30s"
//
// A key is the name of a global option that takes a value. Flags and environment variables win over
// a profile. A file that names a token must be its owner's alone: who can change it can have the
// token sent elsewhere.
//
// Errors: as core/program/toml_file.h. Threads: reads the environment of the process.
#ifndef LETHE_CLIENT_CLI_PROFILE_H_
#define LETHE_CLIENT_CLI_PROFILE_H_

#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lethe::cli {

struct ProfileSetting {
  std::string name;   // "address"
  std::string value;  // paths as they were found from the file's folder
  std::string where;  // "<path>:<line>"
};
struct Profile {
  std::string name;
  std::vector<ProfileSetting> settings;  // in the order of the file
};
struct Profiles {
  std::string path;
  bool exists = false;
  std::string standard;           // used where none is named; empty for none
  std::vector<Profile> profiles;  // by name

  // NOT_FOUND proposes the nearest name.
  absl::StatusOr<const Profile*> Find(absl::string_view name) const;
};

// $XDG_CONFIG_HOME/lethe/config.toml, or ~/.config/lethe/config.toml; empty without a home.
std::string ProfilePath();

// The file's profiles; none without a file. `app` says which options there are.
absl::StatusOr<Profiles> ReadProfiles(const CLI::App& app);

// Gives `app`, which has parsed the command line, what the profile says of options that neither a
// flag nor a variable set. INVALID_ARGUMENT begins with file:line and key.
absl::Status ApplyProfile(const Profile& profile, CLI::App& app);

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_PROFILE_H_
