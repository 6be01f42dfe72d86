// Which box and kernel width suit the tokens of a memory: a sweep.
//
// For each pair (C, f) and each of S samples of n tokens that are not held out, the problem
//
//     (8) of core/batched/problem.h with box C, ridge rho and kernel parameter p
//     rbf p = 1 / (f m)^2,  laplacian p = 1 / (f m),  exp_dot p = 1 / (f^2 m)
//
// is solved in double, with m the median distance of two keys (exp_dot: the median squared length),
// over random pairs. Of the solutions it is told
//
//     supports    share of the tokens with weight, mean over samples
//     errors      share of the tokens whose weight is C
//     recall      share of held-out tokens that are recalled: the readout at such a token's key,
//                 sum_i a_i kappa(q, x_i) v_i / sum_i a_i kappa(q, x_i), is nearer to its own value
//                 than to any other one of the sample or of the held-out tokens it was asked with
//     condition   largest over smallest eigenvalue of K_SS + (rho/2) I, S the margin; the worst
//
// A pair with n C <= 1 is infeasible and says so. Where a problem was not solved, the pair counts
// it and meets no target. The pair that is recommended meets all targets and has the best recall;
// of several the one with the fewest supports, then the best condition, then the first.
//
// A sweep is done in steps that depend on nothing but their number, so that it can stop between any
// two; the bits are those of backend and build. Cost a step: solutions of some samples at one pair,
// S queries (n + queries) (d + e) for recall, |S|^3 for eigenvalues.
//
// Errors: INVALID_ARGUMENT says what of tokens and configuration does not go together. Threads:
// compatible; the runtime's team works.
#ifndef LETHE_CORE_TRAINING_CALIBRATE_H_
#define LETHE_CORE_TRAINING_CALIBRATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/jobs/job_config.h"
#include "core/model/svdd_gate.h"
#include "core/training/job_options.h"
#include "core/training/token_data.h"

namespace lethe::training {

struct CalibrationCell {
  double box = 0.0;
  double width = 0.0;
  double parameter = 0.0;  // p
  bool feasible = false;
  uint64_t samples = 0;  // so far
  uint64_t unsolved = 0;
  uint64_t queries = 0;
  uint64_t recalled = 0;
  uint64_t weighted = 0;  // tokens with weight, of all samples
  uint64_t bounded = 0;   // of them at the box
  double condition = 1.0;

  friend bool operator==(const CalibrationCell&, const CalibrationCell&) = default;
};

class Calibration {
 public:
  // `data` has keys and values, and outlives it. Requires a configuration that CheckConfig accepts.
  static absl::StatusOr<Calibration> Create(const jobs::CalibrateConfig& config,
                                            const MemoryShape& memory,
                                            const TokenData& data);

  uint64_t step() const { return step_; }
  uint64_t steps() const { return cells_.size() * parts_; }
  bool done() const { return step() >= steps(); }
  // The next one. Requires !done(). After an error nothing has changed.
  absl::Status Step(const model::Runtime& runtime);
  // Of the last step: how many tokens it solved for.
  uint64_t tokens_of_step() const { return tokens_of_step_; }

  // The state between two steps, and back. DATA_LOSS "checkpoint: ...".
  std::string Checkpoint() const;
  absl::Status Restore(std::string_view bytes);

  const std::vector<CalibrationCell>& cells() const { return cells_; }
  size_t sample_tokens() const { return n_; }
  double median() const { return median_; }
  double supports(const CalibrationCell& cell) const { return Share(cell, cell.weighted); }
  double errors(const CalibrationCell& cell) const { return Share(cell, cell.bounded); }
  static double recall(const CalibrationCell& cell);
  bool Meets(const CalibrationCell& cell) const;
  // Requires done().
  std::optional<size_t> Recommended() const;

  // The artefact: JSON with the whole table, and the recommendation or that there is none.
  // Requires done().
  std::string Report() const;

 private:
  Calibration(const jobs::CalibrateConfig& config, const MemoryShape& memory, const TokenData& data)
      : config_(config), kernel_(KernelOf(config.kernel, memory)), data_(&data) {}
  double Share(const CalibrationCell& cell, uint64_t tokens) const;
  absl::Status FindMedian();

  struct Sample {
    std::vector<uint32_t> tokens;
    std::vector<uint32_t> queries;  // held-out tokens
  };
  Sample DrawSample(uint64_t number) const;
  struct Found {
    uint64_t recalled = 0;
    double condition = 1.0;
  };
  Found Look(const Sample& sample,
             double parameter,
             std::span<const double> weights,
             std::span<const uint8_t> labels) const;

  jobs::CalibrateConfig config_;
  batched::KernelKind kernel_;
  const TokenData* data_;
  Split split_;
  std::vector<uint32_t> groups_;
  size_t n_ = 0;      // tokens of a sample
  size_t per_ = 0;    // samples of a step
  size_t parts_ = 0;  // steps of a pair
  double median_ = 0.0;
  uint64_t step_ = 0;
  std::vector<CalibrationCell> cells_;
  uint64_t tokens_of_step_ = 0;
};

}  // namespace lethe::training

#endif  // LETHE_CORE_TRAINING_CALIBRATE_H_
