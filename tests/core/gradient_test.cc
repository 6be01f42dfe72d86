// Backward against central differences of what a query reads, through cold solves of moved
// problems.
//
// Published weights are exact up to one rounding, so a difference quotient is limited by rounding,
// 2^-53 / h, and by truncation. Three central differences (h, 2h, 4h) are extrapolated twice
// (Romberg): truncation h^6, so that h can be 2^-12 of the scale and rounding stays near 1e-12. The
// demand is 1e-7 relative to the derivative, plus what rounding of L can do to the quotient. Keys
// and steps are multiples of powers of two: x + h is exact.
#include "core/svdd/gradient.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"

namespace lethe::svdd {
namespace {

constexpr double kRelative = 1e-7;
constexpr double kStep = 0x1p-12;

using Rows = std::vector<std::vector<double>>;

struct Problem {
  kernel::Kernel kernel{kernel::KernelKind::kRbf, 0.5};
  // Exactly one of the two is above 0.
  double box = 0.0;
  double capacity = 0.0;
  DuplicatesPolicy duplicates = DuplicatesPolicy::kShared;
  Rows keys;
  Rows values;
  std::vector<double> query;
  std::vector<double> readout_bar;
  std::optional<double> decision_bar;
  std::optional<double> log_denominator_bar;
};

double Rounded(double value) { return std::nearbyint(value * 0x1p24) * 0x1p-24; }

std::unique_ptr<ExactMemory> Solve(const Problem& problem) {
  const Capacity capacity = problem.box > 0.0 ? Capacity::FromBox(problem.box).value()
                                              : Capacity::FromCapacity(problem.capacity).value();
  auto memory = ExactMemory::Create({problem.kernel, capacity, problem.duplicates,
                                     static_cast<int>(problem.query.size()),
                                     static_cast<int>(problem.readout_bar.size())})
                    .value();
  std::vector<NewToken> tokens;
  for (size_t i = 0; i < problem.keys.size(); ++i) {
    tokens.push_back({i, problem.keys[i], problem.values[i]});
  }
  EXPECT_TRUE(memory->Insert(tokens).ok());
  return memory;
}

std::string Partition(const Snapshot& state, size_t n) {
  std::string labels(n, 'R');
  for (const SupportToken& token : state.supports) {
    labels[token.handle] = token.label == Label::kMargin ? 'S' : 'E';
  }
  return labels + (state.phase == Phase::kWarming ? "w" : "a");
}

// L and how large the terms are that rounding acts on.
struct Loss {
  double value = 0.0;
  double size = 0.0;
  std::string partition;
};

Loss Evaluate(const Problem& problem, const Snapshot& state) {
  const Readout readout = state.Query(problem.query, false);
  Loss loss;
  const auto add = [&loss](double bar, double output) {
    loss.value += bar * output;
    loss.size += std::abs(bar * output);
  };
  for (size_t k = 0; k < readout.value.size(); ++k) {
    add(problem.readout_bar[k], readout.value[k]);
    double largest = 0.0;
    for (const auto& value : problem.values) largest = std::max(largest, std::abs(value[k]));
    loss.size += std::abs(problem.readout_bar[k]) * largest;
  }
  if (problem.decision_bar.has_value()) {
    add(*problem.decision_bar, readout.decision.value());
    loss.size += std::abs(*problem.decision_bar) * (1 + 2 * readout.kernel_sum);
    if (problem.kernel.kind == kernel::KernelKind::kExpDot) {
      loss.size +=
          std::abs(*problem.decision_bar) * kernel::Diagonal(problem.kernel, problem.query);
    }
    for (size_t i = 0; i < problem.keys.size(); ++i) {
      loss.size = std::max(loss.size, std::abs(*problem.decision_bar) *
                                          kernel::Diagonal(problem.kernel, problem.keys[i]));
    }
  }
  if (problem.log_denominator_bar.has_value()) {
    add(*problem.log_denominator_bar, readout.log_denominator);
    loss.size += std::abs(*problem.log_denominator_bar);
  }
  loss.partition = Partition(state, problem.keys.size());
  return loss;
}

Loss Evaluate(const Problem& problem) { return Evaluate(problem, *Solve(problem)->snapshot()); }

using Move = std::function<void(Problem&, double)>;

// Counts what was compared, so that a test which compared nothing is seen.
class Comparison {
 public:
  explicit Comparison(const Problem& problem)
      : problem_(problem), partition_(Evaluate(problem).partition) {}

  void Check(const std::string& name, double derivative, double h, const Move& move) {
    std::vector<double> quotients;
    double size = 0.0;
    for (const double multiple : {1.0, 2.0, 4.0}) {
      double values[2];
      for (const int side : {0, 1}) {
        Problem moved = problem_;
        move(moved, (side == 0 ? -1 : 1) * multiple * h);
        const Loss loss = Evaluate(moved);
        if (loss.partition != partition_) {
          ++skipped;
          return;
        }
        values[side] = loss.value;
        size = std::max(size, loss.size);
      }
      quotients.push_back((values[1] - values[0]) / (2 * multiple * h));
    }
    const double first = (4 * quotients[0] - quotients[1]) / 3;
    const double second = (4 * quotients[1] - quotients[2]) / 3;
    const double quotient = (16 * first - second) / 15;
    const double rounding = 8 * 0x1p-53 * size / h;
    EXPECT_NEAR(derivative, quotient, kRelative * std::abs(derivative) + rounding) << name;
    // What was compared must be able to fail: rounding alone must not excuse the derivative.
    if (std::abs(derivative) > 1e3 * rounding) ++telling;
    ++compared;
  }

  int compared = 0;
  int telling = 0;
  int skipped = 0;

 private:
  const Problem& problem_;
  const std::string partition_;
};

// Every input. Copies of one key are moved together and held against the sum of their rows.
void CheckAll(const Problem& problem, double key_step, Comparison& comparison) {
  const auto memory = Solve(problem);
  const auto state = memory->snapshot();
  const auto gradients = Backward(*memory, problem.query, problem.readout_bar, problem.decision_bar,
                                  problem.log_denominator_bar);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  const size_t d = problem.query.size();
  const size_t m = problem.readout_bar.size();
  ASSERT_EQ(gradients->handles.size(), state->supports.size());
  ASSERT_EQ(gradients->keys.size(), state->supports.size() * d);
  ASSERT_EQ(gradients->values.size(), state->supports.size() * m);

  std::vector<bool> seen(problem.keys.size());
  for (size_t i = 0; i < gradients->handles.size(); ++i) {
    const TokenHandle handle = gradients->handles[i];
    for (size_t k = 0; k < m; ++k) {
      comparison.Check("value " + std::to_string(handle), gradients->values[i * m + k], kStep,
                       [&](Problem& moved, double step) { moved.values[handle][k] += step; });
    }
    if (seen[handle]) continue;
    std::vector<size_t> together;
    std::vector<double> row(d);
    for (size_t j = 0; j < problem.keys.size(); ++j) {
      if (problem.keys[j] != problem.keys[handle]) continue;
      together.push_back(j);
      seen[j] = true;
    }
    for (size_t j = 0; j < gradients->handles.size(); ++j) {
      if (problem.keys[gradients->handles[j]] != problem.keys[handle]) continue;
      for (size_t k = 0; k < d; ++k) row[k] += gradients->keys[j * d + k];
    }
    for (size_t k = 0; k < d; ++k) {
      comparison.Check("key " + std::to_string(handle) + "," + std::to_string(k), row[k], key_step,
                       [&](Problem& moved, double step) {
                         for (const size_t j : together) moved.keys[j][k] += step;
                       });
    }
  }
  for (size_t k = 0; k < d; ++k) {
    comparison.Check("query " + std::to_string(k), gradients->query[k], kStep,
                     [k](Problem& moved, double step) { moved.query[k] += step; });
  }
  const double parameter = problem.kernel.parameter;
  comparison.Check("kernel parameter", gradients->kernel_parameter, parameter * kStep,
                   [](Problem& moved, double step) { moved.kernel.parameter += step; });
  if (problem.box > 0.0) {
    comparison.Check("box", gradients->box, problem.box * kStep,
                     [](Problem& moved, double step) { moved.box += step; });
  } else {
    // N = 1 / C, also where it is an integer.
    comparison.Check("capacity", -gradients->box / (problem.capacity * problem.capacity),
                     problem.capacity * kStep,
                     [](Problem& moved, double step) { moved.capacity += step; });
  }
}

struct Kind {
  std::string name;
  kernel::Kernel kernel;
  double box;
  double capacity;
};

std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }

Problem RandomProblem(const Kind& kind, uint64_t seed, size_t n, size_t d = 3) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  const auto row = [&](size_t size) {
    std::vector<double> numbers(size);
    for (double& number : numbers) number = Rounded(normal(random));
    return numbers;
  };
  Problem problem{.kernel = kind.kernel, .box = kind.box, .capacity = kind.capacity};
  for (size_t i = 0; i < n; ++i) {
    problem.keys.push_back(row(d));
    problem.values.push_back(row(2));
  }
  problem.query = row(d);
  problem.readout_bar = row(2);
  problem.decision_bar = Rounded(normal(random));
  problem.log_denominator_bar = Rounded(normal(random));
  return problem;
}

constexpr kernel::Kernel kRbf{kernel::KernelKind::kRbf, 0.5};
constexpr kernel::Kernel kLaplacian{kernel::KernelKind::kLaplacian, 0.75};
constexpr kernel::Kernel kExpDot{kernel::KernelKind::kExpDot, 0.375};

class GradientTest : public testing::TestWithParam<Kind> {};

TEST_P(GradientTest, IsTheCentralDifferenceOfEveryInput) {
  int compared = 0;
  int telling = 0;
  int skipped = 0;
  uint64_t errors = 0;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Problem problem = RandomProblem(GetParam(), seed, 16);
    errors += Solve(problem)->snapshot()->counts.error;
    Comparison comparison(problem);
    CheckAll(problem, kStep, comparison);
    compared += comparison.compared;
    telling += comparison.telling;
    skipped += comparison.skipped;
  }
  std::printf("%d derivatives compared, %d skipped\n", compared, skipped);
  EXPECT_GE(compared, 60);
  EXPECT_GE(telling, compared * 9 / 10);
  EXPECT_LE(skipped, compared / 4);
  EXPECT_GT(errors, 0u);
}

INSTANTIATE_TEST_SUITE_P(Kinds,
                         GradientTest,
                         testing::Values(Kind{"rbf_box", kRbf, 0.11, 0.0},
                                         Kind{"rbf_integer", kRbf, 0.0, 10.0},
                                         Kind{"rbf_capacity", kRbf, 0.0, 8.6},
                                         Kind{"laplacian_box", kLaplacian, 0.13, 0.0},
                                         Kind{"laplacian_integer", kLaplacian, 0.0, 8.0},
                                         Kind{"exp_dot_box", kExpDot, 0.21, 0.0},
                                         Kind{"exp_dot_integer", kExpDot, 0.0, 5.0}),
                         [](const auto& param) { return param.param.name; });

// Many copies of few keys: groups in the margin and at the box, of one and of more tokens with
// weight.
TEST(GradientCopiesTest, GroupsMoveTogetherUnderEveryPolicy) {
  for (const auto policy : {DuplicatesPolicy::kShared, DuplicatesPolicy::kOldestFirst,
                            DuplicatesPolicy::kNewestFirst}) {
    int compared = 0;
    int telling = 0;
    int flagged = 0;
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      SCOPED_TRACE(testing::Message()
                   << "policy " << int{static_cast<uint8_t>(policy)} << ", seed " << seed);
      Problem problem = RandomProblem({"", seed % 2 == 0 ? kRbf : kExpDot, 0.0, 6.7}, seed, 18);
      problem.duplicates = policy;
      std::mt19937_64 random(seed);
      for (size_t i = 7; i < problem.keys.size(); ++i) {
        problem.keys[i] = problem.keys[std::uniform_int_distribution<size_t>(0, 6)(random)];
      }
      const auto memory = Solve(problem);
      flagged += Backward(*memory, problem.query, problem.readout_bar, {}, {})->flags.copies;
      Comparison comparison(problem);
      CheckAll(problem, kStep, comparison);
      compared += comparison.compared;
      telling += comparison.telling;
    }
    EXPECT_GE(compared, 150);
    EXPECT_GE(telling, compared * 9 / 10);
    EXPECT_GE(flagged, 4);
  }
}

TEST(GradientCopiesTest, EqualCopiesShareEqually) {
  Problem problem = RandomProblem({"", kRbf, 0.0, 4.5}, 11, 8, 2);
  problem.keys[5] = problem.keys[2];
  problem.values[5] = problem.values[2];
  const auto memory = Solve(problem);
  const auto gradients =
      Backward(*memory, problem.query, problem.readout_bar, problem.decision_bar, {});
  ASSERT_TRUE(gradients.ok());
  const auto position = [&](TokenHandle handle) {
    return static_cast<size_t>(
        std::find(gradients->handles.begin(), gradients->handles.end(), handle) -
        gradients->handles.begin());
  };
  ASSERT_LT(position(2), gradients->handles.size());
  for (size_t k = 0; k < 2; ++k) {
    EXPECT_EQ(gradients->keys[position(2) * 2 + k], gradients->keys[position(5) * 2 + k]);
    EXPECT_NE(gradients->keys[position(2) * 2 + k], 0.0);
  }
}

// Which copy takes a change of the group's weight depends on its sign.
TEST(GradientCopiesTest, SaysWhenCopiesAreFilledExactlyToTheBox) {
  Problem problem = RandomProblem({"", kRbf, 0.0, 4.0}, 1, 10, 2);
  for (auto& key : problem.keys) key = problem.keys[0];
  problem.duplicates = DuplicatesPolicy::kOldestFirst;
  ASSERT_EQ(Evaluate(problem).partition, "EEEERRRRRRa");
  const auto gradients =
      Backward(*Solve(problem), problem.query, problem.readout_bar, problem.decision_bar, {});
  ASSERT_TRUE(gradients.ok());
  EXPECT_TRUE(gradients->flags.small_slack);
  EXPECT_TRUE(gradients->flags.copies);
  EXPECT_FALSE(gradients->flags.no_margin);

  problem.duplicates = DuplicatesPolicy::kNewestFirst;
  ASSERT_EQ(Evaluate(problem).partition, "RRRRRREEEEa");
  const auto newest =
      Backward(*Solve(problem), problem.query, problem.readout_bar, problem.decision_bar, {});
  ASSERT_TRUE(newest.ok());
  EXPECT_TRUE(newest->flags.small_slack);
  EXPECT_TRUE(newest->flags.copies);
}

TEST(GradientTest, TokensInReserveMoveNothing) {
  const Problem problem = RandomProblem({"", kRbf, 0.0, 4.0}, 5, 30, 2);
  const Loss here = Evaluate(problem);
  int moved_tokens = 0;
  for (size_t i = 0; i < problem.keys.size(); ++i) {
    if (here.partition[i] != 'R') continue;
    Problem moved = problem;
    moved.keys[i][0] += kStep;
    moved.values[i][1] += 1.0;
    const Loss there = Evaluate(moved);
    if (there.partition != here.partition) continue;
    EXPECT_EQ(there.value, here.value);
    ++moved_tokens;
  }
  EXPECT_GE(moved_tokens, 10);
}

TEST(GradientTest, WarmingMovesWithKeysButNotThroughTheWeights) {
  for (const kernel::Kernel& kernel : {kRbf, kLaplacian, kExpDot}) {
    Problem problem = RandomProblem({"", kernel, 0.0, 9.5}, 3, 6);
    problem.decision_bar.reset();
    Comparison comparison(problem);
    CheckAll(problem, kStep, comparison);
    EXPECT_EQ(comparison.skipped, 0);
    EXPECT_GE(comparison.compared, 6 * 5);
    const auto gradients = Backward(*Solve(problem), problem.query, problem.readout_bar, {}, 1.0);
    EXPECT_TRUE(gradients->flags.warming);
    EXPECT_FALSE(gradients->flags.no_margin);
    EXPECT_FALSE(gradients->flags.small_slack);
    EXPECT_EQ(gradients->box, 0.0);
  }
}

// As many tokens as the capacity, or two ends that hold it all: every weight stands at the box.
TEST(GradientTest, WithoutAMarginOnlyTheReadoutMoves) {
  Problem full = RandomProblem({"", kRbf, 0.0, 6.0}, 4, 6);
  Problem ends = RandomProblem({"", kRbf, 0.0, 2.0}, 9, 3, 2);
  ends.keys = {{-1, 0}, {0, 0.25}, {1, 0}};
  for (Problem* problem : {&full, &ends}) {
    problem->decision_bar.reset();
    const auto memory = Solve(*problem);
    ASSERT_EQ(memory->snapshot()->counts.margin, 0u);
    const auto gradients =
        Backward(*memory, problem->query, problem->readout_bar, {}, problem->log_denominator_bar);
    ASSERT_TRUE(gradients.ok());
    EXPECT_TRUE(gradients->flags.no_margin);
    EXPECT_FALSE(gradients->flags.warming);
    // Scaling every weight leaves the readout and moves ln D by ln of it.
    EXPECT_NEAR(gradients->box, *problem->log_denominator_bar * problem->capacity,
                1e-14 * std::abs(gradients->box));
    Comparison comparison(*problem);
    CheckAll(*problem, kStep, comparison);
    EXPECT_EQ(comparison.skipped, 1);  // the capacity
    EXPECT_GE(comparison.compared, 10);
    const auto refused = Backward(*memory, problem->query, problem->readout_bar, 1.0, {});
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(absl::StartsWith(refused.status().message(), "decision_bar"));
  }
}

// Two ends and a third key that enters the margin at one height: there the derivative by it jumps
// from 0 to something else, and the flag says so on both sides of the jump.
TEST(GradientTest, SaysWhenTheSlackIsSmall) {
  Problem problem = RandomProblem({"", kRbf, 0.0, 1.0}, 2, 3, 2);
  problem.keys = {{-1, 0}, {1, 0}, {0, 0}};
  const auto third = [&](double height) {
    problem.keys[2] = {0, height};
    const auto memory = Solve(problem);
    const auto gradients = Backward(*memory, problem.query, problem.readout_bar,
                                    problem.decision_bar, problem.log_denominator_bar);
    EXPECT_TRUE(gradients.ok());
    return std::make_pair(memory->snapshot()->supports.size() == 3, gradients.value());
  };
  double inside = 0.0;
  double outside = 1.0;
  ASSERT_FALSE(third(inside).first);
  ASSERT_TRUE(third(outside).first);
  while (std::nextafter(inside, 1.0) < outside) {
    const double middle = 0.5 * (inside + outside);
    (third(middle).first ? outside : inside) = middle;
  }
  const auto [reserve_has_weight, reserve] = third(inside);
  const auto [margin_has_weight, margin] = third(outside);
  EXPECT_FALSE(reserve_has_weight);
  EXPECT_TRUE(margin_has_weight);
  EXPECT_TRUE(reserve.flags.small_slack);
  EXPECT_TRUE(margin.flags.small_slack);
  EXPECT_GT(std::abs(margin.keys[5]), 1e-3);
  for (const double far : {inside - 1e-3, outside + 1e-3}) {
    EXPECT_FALSE(third(far).second.flags.small_slack);
  }
}

// A pair so close that derivatives are of order 1 / distance, from multipliers of order 1 /
// distance^2: double-double has digits enough for the first, loses them for the second, and finds
// K_SS singular for the third.
TEST(GradientTest, KeepsItsDigitsOnNearDuplicates) {
  for (const double distance : {0x1p-28, 0x1p-42, 0x1p-60}) {
    SCOPED_TRACE(distance);
    Problem problem = RandomProblem({"", kRbf, 0.0, 1.0}, 8, 3, 2);
    problem.keys = {{0, distance}, {0, -distance}, {-1.5, 0}};
    ASSERT_EQ(Evaluate(problem).partition, "SSSa");
    Comparison comparison(problem);
    const auto gradients = Backward(*Solve(problem), problem.query, problem.readout_bar,
                                    problem.decision_bar, problem.log_denominator_bar);
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    const double h = distance * 0x1p-10;
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_GT(std::abs(gradients->keys[i * 2 + 1]), 1e-3 / distance);
      comparison.Check("key " + std::to_string(i), gradients->keys[i * 2 + 1], h,
                       [i](Problem& moved, double step) { moved.keys[i][1] += step; });
    }
    comparison.Check("kernel parameter", gradients->kernel_parameter, kStep / 4,
                     [](Problem& moved, double step) { moved.kernel.parameter += step; });
    EXPECT_EQ(comparison.telling, 3);
  }
}

TEST(GradientTest, IsTheSameThroughAFactorWithAHistory) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Problem problem = RandomProblem({"", kRbf, 0.0, 6.5}, seed, 40);
    const auto cold = Solve(problem);
    const Problem others = RandomProblem({"", kRbf, 0.0, 6.5}, seed + 100, 60);
    auto lived = ExactMemory::Create(cold->snapshot()->options).value();
    std::vector<TokenHandle> strangers;
    for (size_t i = 0; i < others.keys.size(); ++i) {
      const NewToken stranger{i, others.keys[i], others.values[i]};
      ASSERT_TRUE(lived->Insert({&stranger, 1}).ok());
      strangers.push_back(i);
    }
    for (size_t i = 0; i < problem.keys.size(); ++i) {
      const NewToken token{1000 + i, problem.keys[i], problem.values[i]};
      ASSERT_TRUE(lived->Insert({&token, 1}).ok());
    }
    std::shuffle(strangers.begin(), strangers.end(), std::mt19937_64(seed));
    for (const TokenHandle stranger : strangers) {
      ASSERT_TRUE(lived->Forget({&stranger, 1}).ok());
    }
    const auto a = Backward(*cold, problem.query, problem.readout_bar, problem.decision_bar,
                            problem.log_denominator_bar);
    const auto b = Backward(*lived, problem.query, problem.readout_bar, problem.decision_bar,
                            problem.log_denominator_bar);
    ASSERT_TRUE(a.ok() && b.ok());
    ASSERT_EQ(a->keys.size(), b->keys.size());
    for (size_t i = 0; i < a->keys.size(); ++i) {
      EXPECT_NEAR(a->keys[i], b->keys[i], 1e-15 * std::abs(a->keys[i]));
    }
    EXPECT_NEAR(a->box, b->box, 1e-15 * std::abs(a->box));
    EXPECT_NEAR(a->kernel_parameter, b->kernel_parameter, 1e-15 * std::abs(a->kernel_parameter));
  }
}

// At the kink of |q - x| the mean over both sides is returned, and said.
TEST(GradientTest, TakesTheMeanWhereTheQueryIsAKey) {
  Problem problem = RandomProblem({"", kLaplacian, 0.0, 4.5}, 6, 10);
  const auto memory = Solve(problem);
  const auto at = [&](const std::vector<double>& query) {
    return Backward(*memory, query, problem.readout_bar, problem.decision_bar, 1.0).value();
  };
  const std::vector<double> key = problem.keys[memory->snapshot()->supports[0].handle];
  const Gradients here = at(key);
  EXPECT_TRUE(here.flags.coinciding);
  EXPECT_FALSE(at(problem.query).flags.coinciding);
  for (size_t k = 0; k < key.size(); ++k) {
    std::vector<double> before = key;
    std::vector<double> after = key;
    before[k] -= 0x1p-36;
    after[k] += 0x1p-36;
    const Gradients left = at(before);
    const Gradients right = at(after);
    EXPECT_GT(std::abs(left.query[k] - right.query[k]), 1e-3);
    EXPECT_NEAR(here.query[k], 0.5 * (left.query[k] + right.query[k]), 1e-9);
  }
  EXPECT_FALSE(
      Backward(*Solve(RandomProblem({"", kRbf, 0.0, 4.5}, 6, 10)), key, problem.readout_bar, {}, {})
          ->flags.coinciding);
}

TEST(GradientTest, BadInputIsNamed) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const Problem problem = RandomProblem({"", kExpDot, 0.0, 2.5}, 1, 6);
  const auto memory = Solve(problem);
  const auto error = [&](std::vector<double> query, std::vector<double> readout_bar,
                         std::optional<double> decision_bar, std::optional<double> log_bar) {
    const auto status = Backward(*memory, query, readout_bar, decision_bar, log_bar).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  const std::vector<double> query = {0, 0, 0};
  const std::vector<double> bar = {1, 1};
  EXPECT_EQ(error({0, 0}, bar, {}, {}), "query: has 2 numbers, must have 3");
  EXPECT_EQ(error({0, kNan, 0}, bar, {}, {}), "query[1]: must be finite");
  EXPECT_EQ(error({0, 1e101, 0}, bar, {}, {}).substr(0, 8), "query[1]");
  EXPECT_EQ(error({50, 0, 0}, bar, {}, {}).substr(0, 6), "query:");
  EXPECT_EQ(error(query, {1}, {}, {}), "readout_bar: has 1 numbers, must have 2");
  EXPECT_EQ(error(query, {1, -INFINITY}, {}, {}), "readout_bar[1]: must be finite");
  EXPECT_EQ(error(query, bar, kNan, {}), "decision_bar: must be finite");
  EXPECT_EQ(error(query, bar, {}, kNan), "log_denominator_bar: must be finite");
  EXPECT_EQ(Backward(*memory, query, std::vector<double>{1e308, 1e308}, 1e308, {}).status().code(),
            absl::StatusCode::kOutOfRange);
  const auto empty = ExactMemory::Create(memory->snapshot()->options).value();
  EXPECT_EQ(Backward(*empty, query, bar, {}, {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace lethe::svdd
