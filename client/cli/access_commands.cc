// `lethe access`: what the access file of a server needs, made without a server.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "audit/bearer_token.h"
#include "audit/encoding.h"
#include "client/cli/commands.h"
#include "client/cli/exit_codes.h"
#include "client/cli/render.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"

namespace lethe::cli {
namespace {

struct Arguments {
  std::string name;
  std::vector<std::string> grants;
  std::string out;
};

// Of the characters that the server takes; none of them means anything in TOML.
bool IsPlain(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("._/@-:*", c);
  });
}

absl::Status WriteToken(const std::string& path, const std::string& token) {
  const FileDescriptor file(::open(
      path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file.valid()) return SystemError(errno, "create it", path);
  LETHE_RETURN_IF_ERROR(WriteAll(file.get(), token + "\n", path));
  return Sync(file.get(), path);
}

int NewToken(Context& context, const Arguments& arguments) {
  if (!IsPlain(arguments.name)) {
    return context.UsageError("--name: must be of A-Z, a-z, 0-9, '.', '_', '/', '@' and '-'");
  }
  for (const std::string& grant : arguments.grants) {
    if (!IsPlain(grant) || !absl::StrContains(grant, ':')) {
      return context.UsageError("--grant: must be TENANT:ROLE, or *:ROLE for every tenant");
    }
  }
  const std::string token = audit::NewBearerToken();
  if (!arguments.out.empty()) {
    if (const absl::Status written = WriteToken(arguments.out, token); !written.ok()) {
      return context.FileError(written.message());
    }
  }
  const std::string digest = audit::Hex(audit::DigestOfToken(token));
  const std::string entry =
      absl::StrCat("[[token]]\nname = \"", arguments.name, "\"\nsha256 = \"", digest,
                   "\"\ngrants = [\"", absl::StrJoin(arguments.grants, "\", \""), "\"]\n");
  Json json = {{"name", arguments.name}, {"sha256", digest}, {"grants", arguments.grants}};
  if (arguments.out.empty()) {
    json["token"] = token;
    context.Note("this is the only time that the token is shown");
  }
  Print(context, json,
        arguments.out.empty() ? absl::StrCat("token: ", token, "\n\n", entry) : entry);
  return kExitOk;
}

}  // namespace

void AddAccessCommands(CLI::App& app, Context& context, Action& action) {
  CLI::App* group = AddGroup(app, "access", "Tokens for the access file of a server");
  CLI::App* verb =
      AddVerb(*group, "new-token", "Make a bearer token and the lines of the access file for it",
              "Asks no server. The server keeps the digest alone. With --out the token goes to\n"
              "a new file, and what is printed can be appended to the access file as it is.");
  auto arguments = std::make_shared<Arguments>();
  verb->add_option("--name", arguments->name, "Name of the caller, for the server's logs")
      ->required()
      ->type_name("NAME");
  verb->add_option("--grant", arguments->grants, "What it may do; repeated: several")
      ->required()
      ->allow_extra_args(false)
      ->type_name("TENANT:ROLE");
  verb->add_option("--out", arguments->out, "New file for the token")->type_name("PATH");
  verb->callback([&context, &action, arguments] {
    action = [&context, arguments] { return NewToken(context, *arguments); };
  });
}

}  // namespace lethe::cli
