// Training jobs as JSON and as text.
#ifndef LETHE_CLIENT_CLI_JOB_VIEW_H_
#define LETHE_CLIENT_CLI_JOB_VIEW_H_

#include <string>

#include "client/cli/render.h"
#include "client/job_types.h"

namespace lethe::cli {

Json ToJson(const client::Job& job);
Fields ToFields(const client::Job& job);

// "train-encoder"; what the command line calls a kind or a field.
std::string Dashed(absl::string_view name);

// What a watch shows of a job on one line: state, bar, steps, loss, speed, time left.
std::string JobLine(const client::Job& job);

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_JOB_VIEW_H_
