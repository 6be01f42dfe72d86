// What can be said of a job's configuration: its fields with their names and bounds, in one list
// from which checks, stored bytes and messages are made. Threads: functions without state.
#ifndef LETHE_SERVER_SERVICE_JOB_CONFIG_H_
#define LETHE_SERVER_SERVICE_JOB_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/service/job_types.h"

namespace lethe::service {

struct FieldBounds {
  double least = 0.0;
  double most = 0.0;
};

// Calls visit(name, member, bounds) for each field, in an order that never changes; members are
// uint64_t, double, std::vector<double> or LmAttention. `Config` may be const.
template <typename Visit>
void VisitFields(auto& config, const Visit& visit) requires requires {
  config.target_recall;
}
{
  visit("boxes", config.boxes, FieldBounds{1e-6, 1.0});
  visit("widths", config.widths, FieldBounds{1e-6, 1e6});
  visit("target_supports", config.target_supports, FieldBounds{1e-6, 1.0});
  visit("target_recall", config.target_recall, FieldBounds{0.0, 1.0});
  visit("held_out", config.held_out, FieldBounds{0.01, 0.9});
  visit("seed", config.seed, FieldBounds{0.0, 9007199254740991.0});
}
template <typename Visit>
void VisitFields(auto& config, const Visit& visit) requires requires {
  config.projected_dimension;
}
{
  visit("projected_dimension", config.projected_dimension, FieldBounds{1, 4096});
  visit("problem_size", config.problem_size, FieldBounds{4, 512});
  visit("box", config.box, FieldBounds{1e-6, 1.0});
  visit("steps", config.steps, FieldBounds{1, 1e7});
  visit("batch", config.batch, FieldBounds{1, 65536});
  visit("learning_rate", config.learning_rate, FieldBounds{1e-9, 1.0});
  visit("weight_decay", config.weight_decay, FieldBounds{0.0, 10.0});
  visit("clip", config.clip, FieldBounds{0.0, 1e6});
  visit("held_out", config.held_out, FieldBounds{0.01, 0.9});
  visit("seed", config.seed, FieldBounds{0.0, 9007199254740991.0});
}
template <typename Visit>
void VisitFields(auto& config, const Visit& visit) requires requires {
  config.layers;
}
{
  visit("attention", config.attention, FieldBounds{1, 5});
  visit("layers", config.layers, FieldBounds{1, 64});
  visit("width", config.width, FieldBounds{1, 8192});
  visit("heads", config.heads, FieldBounds{1, 256});
  visit("block", config.block, FieldBounds{2, 65536});
  visit("chunk", config.chunk, FieldBounds{1, 65536});
  visit("box", config.box, FieldBounds{1e-6, 1.0});
  visit("steps", config.steps, FieldBounds{1, 1e7});
  visit("batch", config.batch, FieldBounds{1, 65536});
  visit("learning_rate", config.learning_rate, FieldBounds{1e-9, 1.0});
  visit("warm_up", config.warm_up, FieldBounds{0.0, 1e7});
  visit("weight_decay", config.weight_decay, FieldBounds{0.0, 10.0});
  visit("clip", config.clip, FieldBounds{0.0, 1e6});
  visit("held_out", config.held_out, FieldBounds{0.01, 0.9});
  visit("seed", config.seed, FieldBounds{0.0, 9007199254740991.0});
}

// INVALID_ARGUMENT names the field: "train_lm.heads: must divide width".
absl::Status CheckJobConfig(const JobConfig& config);

// The bytes that the store keeps. DATA_LOSS for what EncodeJobConfig would not have written.
std::string EncodeJobConfig(const JobConfig& config);
absl::StatusOr<JobConfig> DecodeJobConfig(absl::string_view blob);

// As a JSON object with the fields in their order, for manifests.
std::string JobConfigJson(const JobConfig& config);

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_JOB_CONFIG_H_
