// `lethe`, without a process around it: arguments and streams in, an exit status out.
#ifndef LETHE_CLIENT_CLI_CLI_H_
#define LETHE_CLIENT_CLI_CLI_H_

#include <string>
#include <vector>

#include "client/cli/context.h"

namespace lethe::cli {

// `arguments` without the program's name. Reads LETHE_ADDRESS, LETHE_TENANT, LETHE_MEMORY,
// LETHE_PROFILE and the file of profiles (profile.h).
int RunCli(const std::vector<std::string>& arguments, Io& io, const Connector& connector);

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_CLI_H_
