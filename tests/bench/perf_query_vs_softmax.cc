// A readout from the tokens with weight against an exact softmax over all tokens.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/svdd/memory.h"
#include "tests/bench/bench.h"
#include "tests/bench/perf_data.h"
#include "tests/bench/perf_timing.h"
#include "tests/bench/report.h"

namespace lethe::bench {
namespace {

using svdd::ExactMemory;

constexpr size_t kDimension = 64;
constexpr double kGamma = 1.0 / 64;
constexpr double kCapacity = 50.0;
constexpr size_t kTokens = 100000;
constexpr size_t kFillBatch = 10000;
constexpr size_t kChecked = 1000;  // tokens of the memory that must agree with the softmax
constexpr double kTolerance = 1e-12;
constexpr double kBar = 100.0;

// Softmax attention over all tokens with logits -gamma |q - x|^2, which are 2 gamma <q, x> - gamma
// |x|^2 but for a constant: one matrix-vector product for the logits, one exp, one product for the
// values.
class Softmax {
 public:
  explicit Softmax(const Tokens& tokens)
      : keys_(tokens.keys.data(), Rows(tokens.key_dimension), Rows(tokens.size())),
        values_(tokens.values.data(), Rows(tokens.value_dimension), Rows(tokens.size())),
        offsets_(-kGamma * keys_.colwise().squaredNorm().transpose()),
        weights_(keys_.cols()) {}

  const Eigen::VectorXd& Readout(std::span<const double> query) {
    const Eigen::Map<const Eigen::VectorXd> q(query.data(), Rows(query.size()));
    scaled_ = 2 * kGamma * q;
    weights_ = offsets_;
    weights_.noalias() += keys_.transpose() * scaled_;
    weights_ = (weights_.array() - weights_.maxCoeff()).exp().matrix();
    value_.noalias() = values_ * weights_;
    value_ /= weights_.sum();
    return value_;
  }

 private:
  static Eigen::Index Rows(size_t n) { return static_cast<Eigen::Index>(n); }

  Eigen::Map<const Eigen::MatrixXd> keys_;  // a token a column
  Eigen::Map<const Eigen::MatrixXd> values_;
  Eigen::VectorXd offsets_;
  Eigen::VectorXd weights_;
  Eigen::VectorXd scaled_;
  Eigen::VectorXd value_;
};

std::unique_ptr<ExactMemory> MemoryOf(const Tokens& tokens, size_t count, double capacity) {
  auto memory = ExactMemory::Create({{kernel::KernelKind::kRbf, kGamma},
                                     *svdd::Capacity::FromCapacity(capacity),
                                     svdd::DuplicatesPolicy::kShared,
                                     static_cast<int>(kDimension),
                                     static_cast<int>(kDimension)})
                    .value();
  for (size_t first = 0; first < count; first += kFillBatch) {
    const size_t batch = std::min(kFillBatch, count - first);
    LETHE_CHECK(memory->Insert(AsNewTokens(tokens, first, batch, first + 1)).ok());
  }
  return memory;
}

// While a memory is warming up all its tokens weigh the same, and its readout is the softmax.
double LargestDifference(const Tokens& tokens, const Tokens& queries) {
  Tokens few = tokens;
  few.keys.resize(kChecked * kDimension);
  few.values.resize(kChecked * kDimension);
  Softmax softmax(few);
  const auto snapshot = MemoryOf(few, kChecked, 2.0 * kChecked)->snapshot();
  double largest = 0.0;
  for (size_t i = 0; i < std::min<size_t>(queries.size(), 20); ++i) {
    const Eigen::VectorXd& theirs = softmax.Readout(queries.Key(i));
    const svdd::Readout ours = snapshot->Query(queries.Key(i), false);
    for (size_t k = 0; k < kDimension; ++k) {
      largest = std::max(largest, std::abs(theirs[static_cast<Eigen::Index>(k)] - ours.value[k]));
    }
  }
  return largest;
}

absl::StatusOr<Result> Run(const Settings& settings) {
  const int64_t rounds = settings.Count("--rounds", 100, 20);
  constexpr int kQueriesARound = 50;
  RedundantStream stream(kDimension, kDimension, settings.seed);
  const Tokens tokens = stream.Next(kTokens);
  const Tokens queries = stream.Next(static_cast<size_t>(rounds));
  const auto memory = MemoryOf(tokens, kTokens, kCapacity);
  const auto snapshot = memory->snapshot();
  Softmax softmax(tokens);
  const double difference = LargestDifference(tokens, queries);

  Samples ours;
  Samples theirs;
  double sum = 0.0;  // of something of each answer, so that none is left out
  for (size_t round = 0; round < queries.size(); ++round) {
    const auto query = queries.Key(round);
    theirs.Add(SecondsOf([&] { sum += softmax.Readout(query)[0]; }));
    // One query is too short for the clock; the softmax before it has emptied the caches.
    const double seconds = SecondsOf([&] {
      for (int i = 0; i < kQueriesARound; ++i) sum += snapshot->Query(query, false).value[0];
    });
    ours.Add(seconds / kQueriesARound);
  }
  LETHE_CHECK(std::isfinite(sum));

  Result result;
  result.seeds = {settings.seed};
  Table& times = result.tables.emplace_back();
  times.title =
      absl::StrCat("One query of ", kDimension, " numbers, ", kDimension,
                   " values back, fp64, one thread each, "
                   "processor time: from the tokens with weight, and from all of them by Eigen ",
                   EIGEN_WORLD_VERSION, ".", EIGEN_MAJOR_VERSION, ".", EIGEN_MINOR_VERSION,
                   " (product, exp, product). Redundant stream, ", kTokens, " tokens, capacity ",
                   kCapacity, ".");
  times.columns = {
      {"readout", ""}, {"tokens read", ""}, {"median", "us"}, {"mean", "us"}, {"least", "us"}};
  const auto add = [&](const char* name, size_t read, const Samples& samples) {
    times.rows.push_back({std::string(name), static_cast<int64_t>(read), 1e6 * samples.Median(),
                          1e6 * samples.Mean(), 1e6 * samples.Min()});
  };
  add("our Query", snapshot->supports.size(), ours);
  add("softmax over all tokens", kTokens, theirs);
  const double ratio = theirs.Median() / ours.Median();
  result.claims.push_back({"a query against an exact softmax over all tokens, medians",
                           absl::StrCat(Short(ratio, 3), " times faster"),
                           absl::StrCat("at least ", kBar), ratio >= kBar});
  result.claims.push_back(
      {absl::StrCat("both give the same readout where all tokens weigh the same (", kChecked,
                    " tokens, warming up)"),
       absl::StrCat("largest difference ", Short(difference, 2)),
       absl::StrCat("at most ", Short(kTolerance, 1)), difference <= kTolerance});
  Plot& plot = result.plot.emplace();
  plot.title = absl::StrCat("One query of a memory of ", kTokens, " tokens, d = ", kDimension);
  plot.y_label = "microseconds, median";
  plot.log_y = true;
  plot.categories = {"our Query", "softmax over all tokens"};
  plot.series = {{"median", {1e6 * ours.Median(), 1e6 * theirs.Median()}}};
  return result;
}

const Registration kRegistration({"query-vs-softmax",
                                  "a readout against an exact softmax over all tokens",
                                  {{"--rounds", "N", "different queries (100, quick 20)",
                                    Flag::Kind::kCount}},
                                  Run});

}  // namespace
}  // namespace lethe::bench
