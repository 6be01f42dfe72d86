#include "core/training/calibrate.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/batched/backend.h"
#include "core/model/state_bytes.h"

namespace lethe::training {
namespace {

using jobs::CalibrateConfig;

constexpr size_t kLeastTokens = 8;
constexpr size_t kPairs = 4096;
// Of the points of one step.
constexpr size_t kStepNumbers = size_t{4} << 20;
constexpr uint64_t kPairStream = 3'000'101;
constexpr uint64_t kSampleStream = 3'000'102;  // and those behind it
constexpr std::string_view kCheckpointLine = "lethe calibration checkpoint 1\n";

double Squared(std::span<const double> x, std::span<const double> y) {
  double sum = 0.0;
  for (size_t k = 0; k < x.size(); ++k) sum += (x[k] - y[k]) * (x[k] - y[k]);
  return sum;
}
double Product(std::span<const double> x, std::span<const double> y) {
  double sum = 0.0;
  for (size_t k = 0; k < x.size(); ++k) sum += x[k] * y[k];
  return sum;
}

// ln kappa
double Exponent(batched::KernelKind kind,
                double parameter,
                std::span<const double> x,
                std::span<const double> y) {
  switch (kind) {
    case batched::KernelKind::kRbf:
      return -parameter * Squared(x, y);
    case batched::KernelKind::kLaplacian:
      return -parameter * std::sqrt(Squared(x, y));
    default:
      return parameter * Product(x, y);
  }
}

double ParameterOf(batched::KernelKind kind, double width, double median) {
  switch (kind) {
    case batched::KernelKind::kRbf:
      return 1.0 / (width * width * median * median);
    case batched::KernelKind::kLaplacian:
      return 1.0 / (width * median);
    default:
      return 1.0 / (width * width * median);
  }
}

}  // namespace

absl::StatusOr<Calibration> Calibration::Create(const CalibrateConfig& config,
                                                const MemoryShape& memory,
                                                const TokenData& data) {
  Calibration made(config, memory, data);
  made.split_ = SplitTokens(data.tokens, config.held_out, config.seed);
  if (made.split_.kept.size() < kLeastTokens || made.split_.held_out.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tokens: the memory has ", data.tokens, ", of which calibrate.held_out holds out ",
        made.split_.held_out.size(), "; at least 1 must be held out and ", kLeastTokens, " left"));
  }
  for (const std::vector<double>* numbers : {&data.keys, &data.values}) {
    for (const double number : *numbers) {
      if (!std::isfinite(number)) return absl::InvalidArgumentError("tokens: not all are finite");
    }
  }
  made.groups_ = ValueGroups(data);
  made.n_ = std::min<size_t>(config.tokens, made.split_.kept.size());
  // All samples would be the same one.
  if (made.n_ == made.split_.kept.size()) made.config_.samples = 1;
  made.per_ =
      std::clamp<size_t>(kStepNumbers / (made.n_ * data.key_dimension), 1, made.config_.samples);
  made.parts_ = (made.config_.samples + made.per_ - 1) / made.per_;
  LETHE_RETURN_IF_ERROR(made.FindMedian());
  for (const double width : config.widths) {
    for (const double box : config.boxes) {
      CalibrationCell cell;
      cell.box = box;
      cell.width = width;
      cell.parameter = ParameterOf(made.kernel_, width, made.median_);
      cell.feasible = box * static_cast<double>(made.n_) > 1.0;
      made.cells_.push_back(cell);
    }
  }
  return made;
}

absl::Status Calibration::FindMedian() {
  const model::CounterRandom random(config_.seed, kPairStream);
  const std::vector<uint32_t>& kept = split_.kept;
  std::vector<double> found;
  for (uint64_t draw = 0; draw < kPairs; ++draw) {
    const size_t i = random.Below(2 * draw, kept.size());
    size_t j = random.Below(2 * draw + 1, kept.size() - 1);
    if (j >= i) ++j;
    const std::span<const double> x = data_->key(kept[i]);
    const double value = kernel_ == batched::KernelKind::kExpDot
                             ? Product(x, x)
                             : std::sqrt(Squared(x, data_->key(kept[j])));
    // Copies say nothing of how far keys are apart.
    if (value > 0) found.push_back(value);
  }
  if (found.empty()) {
    return absl::InvalidArgumentError(
        "tokens: their keys are all equal, so that no width is better than another");
  }
  const auto middle = found.begin() + static_cast<ptrdiff_t>(found.size() / 2);
  std::nth_element(found.begin(), middle, found.end());
  median_ = *middle;
  return absl::OkStatus();
}

Calibration::Sample Calibration::DrawSample(uint64_t number) const {
  const model::CounterRandom random(config_.seed, kSampleStream + number);
  uint64_t draw = 0;
  Sample sample;
  sample.tokens = DrawDifferent(random, split_.kept.size(), n_, &draw);
  for (uint32_t& token : sample.tokens) token = split_.kept[token];
  for (uint64_t j = 0; j < config_.queries; ++j) {
    sample.queries.push_back(split_.held_out[random.Below(draw++, split_.held_out.size())]);
  }
  return sample;
}

Calibration::Found Calibration::Look(const Sample& sample,
                                     double parameter,
                                     std::span<const double> weights,
                                     std::span<const uint8_t> labels) const {
  Found found;
  std::vector<uint32_t> supports;  // places in the sample
  std::vector<uint32_t> margin;
  for (uint32_t i = 0; i < n_; ++i) {
    if (weights[i] > 0) supports.push_back(i);
    if (labels[i] == static_cast<uint8_t>(batched::Label::kMargin)) margin.push_back(i);
  }
  // One token of each value that could be meant.
  std::vector<uint32_t> candidates;
  std::set<uint32_t> seen;
  for (const auto* tokens : {&sample.tokens, &sample.queries}) {
    for (const uint32_t token : *tokens) {
      if (seen.insert(groups_[token]).second) candidates.push_back(token);
    }
  }
  std::vector<double> exponents(supports.size());
  std::vector<double> read(data_->value_dimension);
  for (const uint32_t query : sample.queries) {
    double largest = -std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < supports.size(); ++i) {
      exponents[i] =
          Exponent(kernel_, parameter, data_->key(query), data_->key(sample.tokens[supports[i]])) +
          std::log(weights[supports[i]]);
      largest = std::max(largest, exponents[i]);
    }
    double total = 0.0;
    std::ranges::fill(read, 0.0);
    for (size_t i = 0; i < supports.size(); ++i) {
      const double share = std::exp(exponents[i] - largest);
      total += share;
      const std::span<const double> value = data_->value(sample.tokens[supports[i]]);
      for (size_t k = 0; k < read.size(); ++k) read[k] += share * value[k];
    }
    for (double& number : read) number /= total;
    double nearest = std::numeric_limits<double>::infinity();
    uint32_t group = std::numeric_limits<uint32_t>::max();
    for (const uint32_t candidate : candidates) {
      const double distance = Squared(read, data_->value(candidate));
      if (distance < nearest) {
        nearest = distance;
        group = groups_[candidate];
      }
    }
    if (group == groups_[query]) ++found.recalled;
  }
  if (margin.size() > 1) {
    const auto size = static_cast<Eigen::Index>(margin.size());
    Eigen::MatrixXd gram(size, size);
    for (Eigen::Index i = 0; i < size; ++i) {
      for (Eigen::Index j = 0; j <= i; ++j) {
        gram(i, j) = std::exp(Exponent(kernel_, parameter,
                                       data_->key(sample.tokens[margin[static_cast<size_t>(i)]]),
                                       data_->key(sample.tokens[margin[static_cast<size_t>(j)]])));
        gram(j, i) = gram(i, j);
      }
      gram(i, i) += config_.ridge / 2;
    }
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(gram, Eigen::EigenvaluesOnly);
    const double least = solver.eigenvalues().minCoeff();
    const double most = solver.eigenvalues().maxCoeff();
    // Rounding can bring the least one to 0 or below.
    found.condition = most / std::max(least, most * std::numeric_limits<double>::epsilon());
  }
  return found;
}

absl::Status Calibration::Step(const model::Runtime& runtime) {
  LETHE_CHECK(!done());
  CalibrationCell cell = cells_[step_ / parts_];
  const uint64_t first = step_ % parts_ * per_;
  const size_t count = std::min<uint64_t>(per_, config_.samples - first);
  tokens_of_step_ = 0;
  if (cell.feasible) {
    std::vector<Sample> samples;
    std::vector<double> points;
    points.reserve(count * n_ * data_->key_dimension);
    for (size_t s = 0; s < count; ++s) {
      samples.push_back(DrawSample(first + s));
      for (const uint32_t token : samples.back().tokens) {
        const std::span<const double> key = data_->key(token);
        points.insert(points.end(), key.begin(), key.end());
      }
    }
    batched::Batch<double> batch;
    batch.problems = count;
    batch.n = n_;
    batch.points = points;
    batch.dimension = data_->key_dimension;
    batch.kernel.kind = kernel_;
    batch.parameter = {&cell.parameter, 1};
    batch.box = {&cell.box, 1};
    batch.ridge = {&config_.ridge, 1};
    batched::Solution<double> solution;
    LETHE_RETURN_IF_ERROR(runtime.backend->Solve(batch, runtime.solver, &solution));
    std::vector<Found> found(count);
    std::atomic<bool> no_memory = false;  // what a team runs must not throw
    const auto look = [&](size_t s) {
      try {
        found[s] = Look(samples[s], cell.parameter,
                        std::span<const double>(solution.weights).subspan(s * n_, n_),
                        std::span<const uint8_t>(solution.labels).subspan(s * n_, n_));
      } catch (const std::bad_alloc&) {
        no_memory = true;
      }
    };
    runtime.team->Run(count, 1, [&](size_t, size_t begin, size_t end) {
      for (size_t s = begin; s < end; ++s) {
        if (batched::IsSolved(solution.outcome[s])) look(s);
      }
    });
    if (no_memory) {
      return absl::ResourceExhaustedError("this worker has not the memory for the job");
    }
    for (size_t s = 0; s < count; ++s) {
      ++cell.samples;
      if (!batched::IsSolved(solution.outcome[s])) {
        ++cell.unsolved;
        continue;
      }
      cell.queries += samples[s].queries.size();
      cell.recalled += found[s].recalled;
      cell.condition = std::max(cell.condition, found[s].condition);
      for (size_t i = s * n_; i < (s + 1) * n_; ++i) {
        if (solution.labels[i] != static_cast<uint8_t>(batched::Label::kReserve)) ++cell.weighted;
        if (solution.labels[i] == static_cast<uint8_t>(batched::Label::kError)) ++cell.bounded;
      }
    }
    tokens_of_step_ = count * n_;
  }
  cells_[step_ / parts_] = cell;
  ++step_;
  return absl::OkStatus();
}

std::string Calibration::Checkpoint() const {
  model::ByteWriter writer;
  writer.WriteRaw(kCheckpointLine);
  writer.Write(step_);
  for (const CalibrationCell& cell : cells_) {
    writer.Write(cell.samples);
    writer.Write(cell.unsolved);
    writer.Write(cell.queries);
    writer.Write(cell.recalled);
    writer.Write(cell.weighted);
    writer.Write(cell.bounded);
    writer.Write(cell.condition);
  }
  return writer.Take();
}

absl::Status Calibration::Restore(std::string_view bytes) {
  model::ByteReader reader(bytes);
  reader.ReadRaw(kCheckpointLine);
  const auto step = reader.Read<uint64_t>();
  std::vector<CalibrationCell> cells = cells_;
  for (CalibrationCell& cell : cells) {
    cell.samples = reader.Read<uint64_t>();
    cell.unsolved = reader.Read<uint64_t>();
    cell.queries = reader.Read<uint64_t>();
    cell.recalled = reader.Read<uint64_t>();
    cell.weighted = reader.Read<uint64_t>();
    cell.bounded = reader.Read<uint64_t>();
    cell.condition = reader.Read<double>();
    if (cell.unsolved > cell.samples || cell.samples > config_.samples ||
        cell.recalled > cell.queries || cell.bounded > cell.weighted || !(cell.condition >= 1)) {
      return absl::DataLossError("checkpoint: holds counts that no sweep comes to");
    }
  }
  if (!reader.AtEnd() || step > steps()) {
    return absl::DataLossError("checkpoint: is not one of this sweep");
  }
  step_ = step;
  cells_ = std::move(cells);
  return absl::OkStatus();
}

double Calibration::Share(const CalibrationCell& cell, uint64_t tokens) const {
  const uint64_t all = (cell.samples - cell.unsolved) * n_;
  return all == 0 ? 0.0 : static_cast<double>(tokens) / static_cast<double>(all);
}
double Calibration::recall(const CalibrationCell& cell) {
  return cell.queries == 0 ? 0.0
                           : static_cast<double>(cell.recalled) / static_cast<double>(cell.queries);
}

bool Calibration::Meets(const CalibrationCell& cell) const {
  return cell.feasible && cell.unsolved == 0 && cell.samples > 0 &&
         supports(cell) <= config_.target_supports && recall(cell) >= config_.target_recall &&
         cell.condition <= config_.target_condition;
}

std::optional<size_t> Calibration::Recommended() const {
  LETHE_CHECK(done());
  std::optional<size_t> best;
  const auto rank = [this](const CalibrationCell& cell) {
    return std::tuple(-recall(cell), supports(cell), cell.condition);
  };
  for (size_t i = 0; i < cells_.size(); ++i) {
    if (!Meets(cells_[i])) continue;
    if (!best.has_value() || rank(cells_[i]) < rank(cells_[*best])) best = i;
  }
  return best;
}

std::string Calibration::Report() const {
  using Json = nlohmann::ordered_json;
  const char* const name = kernel_ == batched::KernelKind::kExpDot ? "scale" : "gamma";
  const auto row = [&](const CalibrationCell& cell) {
    Json json = {{"box", cell.box},
                 {"width", cell.width},
                 {name, cell.parameter},
                 {"feasible", cell.feasible},
                 {"unsolved", cell.unsolved}};
    if (cell.samples > cell.unsolved) {
      json["supports"] = supports(cell);
      json["errors"] = errors(cell);
      json["recall"] = recall(cell);
      json["condition"] = cell.condition;
    }
    json["meets_targets"] = Meets(cell);
    return json;
  };
  Json report = {
      {"format", "lethe-calibration/1"},
      {"kernel", std::string(KernelName(kernel_))},
      {kernel_ == batched::KernelKind::kExpDot ? "median_squared_length" : "median_distance",
       median_},
      {"ridge", config_.ridge},
      {"tokens", data_->tokens},
      {"held_out", split_.held_out.size()},
      {"sample_tokens", n_},
      {"samples", config_.samples},
      {"queries_per_sample", config_.queries},
      {"targets",
       {{"supports", config_.target_supports},
        {"recall", config_.target_recall},
        {"condition", config_.target_condition}}}};
  const std::optional<size_t> best = Recommended();
  if (best.has_value()) {
    report["recommended"] = row(cells_[*best]);
    report["statement"] =
        absl::StrCat("box ", cells_[*best].box, " with ", name, " ", cells_[*best].parameter,
                     " meets all targets in samples of ", n_, " tokens");
  } else {
    report["recommended"] = nullptr;
    double most_recall = 0.0;
    double fewest = 1.0;
    double condition = std::numeric_limits<double>::infinity();
    size_t solved = 0;
    for (const CalibrationCell& cell : cells_) {
      if (!cell.feasible || cell.unsolved > 0) continue;
      ++solved;
      most_recall = std::max(most_recall, recall(cell));
      fewest = std::min(fewest, supports(cell));
      condition = std::min(condition, cell.condition);
    }
    report["statement"] =
        solved == 0 ? std::string("no pair is feasible and solved in all samples")
                    : absl::StrCat("no pair meets all targets; best each by itself: recall ",
                                   most_recall, ", supports ", fewest, ", condition ", condition);
  }
  report["table"] = Json::array();
  for (const CalibrationCell& cell : cells_) report["table"].push_back(row(cell));
  return report.dump(1) + "\n";
}

}  // namespace lethe::training
