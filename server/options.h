// The options of lethed: one table from which flags, environment variables, keys of the settings
// file, help, the manual and the documents are made, so that they cannot drift apart.
//
// An option is named once: "ballast" is --ballast, LETHE_BALLAST and the key ballast. No option
// holds a secret; where one is needed, an option names the file that has it, since flags show in
// process lists and settings files are copied about.
//
// To add one: a member of Config (config.h), a line in the table (options.cc), one in
// docs/lethed.toml and one in docs/configuration.md, which tests miss otherwise.
#ifndef LETHE_SERVER_OPTIONS_H_
#define LETHE_SERVER_OPTIONS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/config.h"

namespace lethe::server {

struct Option {
  // What the settings file may hold for it. Flags and environment variables are texts.
  enum class Kind {
    kText,
    kSwitch,    // true or false
    kNumber,    // a whole number
    kBytes,     // "64MiB", or a whole number of bytes
    kDuration,  // "1m30s"
    kList,      // texts; a flag may be repeated, a variable is separated by white space
  };

  std::string name;
  Kind kind = Kind::kText;
  std::string placeholder;   // "DIR"; empty for a switch
  std::string help;          // sentences, without the default
  std::string default_text;  // as a person reads it; empty: none worth a word
  // Parses what was given, one text unless kList. INVALID_ARGUMENT begins with `where`.
  std::function<
      absl::Status(absl::string_view where, const std::vector<std::string>& texts, Config& config)>
      set;
  // The value as TOML; empty when there is none.
  std::function<std::string(const Config&)> show;

  std::string Flag() const;         // "--max-open-tenants"
  std::string Environment() const;  // "LETHE_MAX_OPEN_TENANTS"
};

// In the order of the help.
const std::vector<Option>& Options();

}  // namespace lethe::server

#endif  // LETHE_SERVER_OPTIONS_H_
