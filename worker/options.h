// The settings of lethe-worker. For each the first of these that has it counts: the flag
// (--backend cuda), the environment variable (LETHE_WORKER_BACKEND), the settings file (backend =
// "cuda"), the default. The file is named by --config or LETHE_WORKER_CONFIG; none is looked for.
//
// No option holds a secret: the bearer token stands in a file, or in the variable LETHE_TOKEN as
// for the command line `lethe`. Threads: reads the environment of the process.
#ifndef LETHE_WORKER_OPTIONS_H_
#define LETHE_WORKER_OPTIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/options.h"
#include "core/batched/select.h"
#include "core/jobs/job_config.h"
#include "core/program/event_log.h"

namespace lethe::worker {

struct Options {
  std::string server = "127.0.0.1:7421";
  bool tls = false;
  std::string ca;
  std::string client_certificate;
  std::string client_key;
  std::string server_name;
  std::string token_file;
  batched::BackendKind backend = batched::BackendKind::kAuto;
  std::vector<jobs::JobKind> kinds;  // empty: all
  uint64_t threads = 0;              // 0: as many as the machine has processors
  std::string name;                  // empty: of host and process
  std::string metrics_listen;        // empty: nowhere
  bool metrics_beyond_loopback = false;
  // A checkpoint is due when either has passed since the last one; 0 steps: by time alone.
  absl::Duration checkpoint_time = absl::Seconds(60);
  uint64_t checkpoint_steps = 0;
  program::LogLevel log_level = program::LogLevel::kInfo;
};

struct CommandLine {
  bool print = false;  // print `text`, nothing else
  std::string text;
  Options options;
  std::vector<std::string> warnings;  // sentences for the log
};

// Parses the arguments after the program's name, the environment and the settings file.
// INVALID_ARGUMENT begins with the flag, the variable, or file:line and key.
absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments);

// What says how to reach the server; LETHE_TOKEN where no file is named.
client::Options ConnectionOptions(const Options& options);

// lethe-worker(8).
std::string ManualPage();

}  // namespace lethe::worker

#endif  // LETHE_WORKER_OPTIONS_H_
