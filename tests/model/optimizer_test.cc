#include "core/model/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "core/model/random.h"

namespace lethe::model {
namespace {

TEST(Philox, KnownAnswers) {
  // From the authors' own file of known answers (Random123, kat_vectors).
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}),
            (RandomBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (RandomBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (RandomBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(CounterRandom, Distributions) {
  const CounterRandom random(17, 3);
  constexpr uint64_t kCount = 20000;
  double sum = 0;
  double squares = 0;
  std::set<uint64_t> seen;
  std::vector<int> bins(7);
  for (uint64_t i = 0; i < kCount; ++i) {
    const double x = random.Normal(i);
    sum += x;
    squares += x * x;
    seen.insert(random.Integer(i));
    ++bins[random.Below(i, 7)];
    ASSERT_LT(random.Below(i, 1), 1u);
  }
  // Five standard errors.
  EXPECT_NEAR(sum / kCount, 0.0, 5 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount, 1.0, 5 * std::sqrt(2.0 / kCount));
  EXPECT_EQ(seen.size(), kCount);
  for (const int count : bins) EXPECT_NEAR(count, kCount / 7.0, 5 * std::sqrt(kCount / 7.0));
  // Streams and seeds differ; large bounds use the high bits.
  EXPECT_NE(CounterRandom(17, 4).Integer(0), random.Integer(0));
  EXPECT_NE(CounterRandom(18, 3).Integer(0), random.Integer(0));
  EXPECT_EQ(random.Below(5, UINT64_MAX) >> 8, (random.Integer(5) - 1) >> 8);
}

TEST(RateAt, WarmsUpAndFallsAlongACosine) {
  OptimizerOptions options;
  options.peak_rate = 1.0;
  options.last_rate = 0.1;
  options.warm_up = 10;
  options.steps = 110;
  EXPECT_DOUBLE_EQ(RateAt(options, 1), 0.1);
  EXPECT_DOUBLE_EQ(RateAt(options, 10), 1.0);
  EXPECT_NEAR(RateAt(options, 60), 0.55, 1e-12);
  EXPECT_DOUBLE_EQ(RateAt(options, 110), 0.1);
  EXPECT_DOUBLE_EQ(RateAt(options, 1000), 0.1);
}

struct Descent {
  Descent() {
    table.Add("matrix", 1, 2, Decays::kYes);
    table.Add("gain", 1, 1, Decays::kNo);
    state.mean.resize(3);
    state.squares.resize(3);
  }
  UpdateReport Step(const std::vector<double>& gradient) {
    return Update<double>(nullptr, options, table, gradient, &state, values);
  }
  OptimizerOptions options;
  ParameterTable table;
  OptimizerState<double> state;
  std::vector<double> values = {1.0, -2.0, 3.0};
};

TEST(Update, IsAdamWByItsFormula) {
  Descent run;
  run.options.clip = 0;
  run.options.warm_up = 0;
  std::vector<double> x = run.values;
  std::vector<double> m(3);
  std::vector<double> v(3);
  for (int t = 1; t <= 5; ++t) {
    const std::vector<double> g = {0.1 * t, -1.0, t % 2 == 0 ? 3.0 : -2.0};
    const double rate = run.Step(g).rate;
    for (size_t i = 0; i < 3; ++i) {
      m[i] = 0.9 * m[i] + 0.1 * g[i];
      v[i] = 0.95 * v[i] + 0.05 * g[i] * g[i];
      const double step =
          m[i] / (1 - std::pow(0.9, t)) / (std::sqrt(v[i] / (1 - std::pow(0.95, t))) + 1e-8);
      x[i] -= rate * (step + (i < 2 ? 0.1 * x[i] : 0.0));
      EXPECT_NEAR(run.values[i], x[i], 1e-12) << t;
    }
  }
}

TEST(Update, ClipsByTheWholeLength) {
  Descent clipped;
  Descent scaled;
  clipped.options.clip = scaled.options.clip = 1.0;
  EXPECT_DOUBLE_EQ(clipped.Step({3.0, 0.0, 4.0}).gradient_length, 5.0);
  scaled.Step({0.6, 0.0, 0.8});
  EXPECT_NEAR(clipped.state.mean[0], scaled.state.mean[0], 1e-15);
  EXPECT_NEAR(clipped.state.squares[2], scaled.state.squares[2], 1e-15);
}

TEST(Update, AGradientThatIsNotFiniteChangesNothing) {
  Descent run;
  const std::vector<double> before = run.values;
  EXPECT_TRUE(run.Step({0.0, std::numeric_limits<double>::quiet_NaN(), 0.0}).skipped);
  EXPECT_EQ(run.values, before);
  EXPECT_EQ(run.state.mean, std::vector<double>(3));
  EXPECT_EQ(run.state.skipped, 1u);
  EXPECT_FALSE(run.Step({1.0, 1.0, 1.0}).skipped);
}

// Its length is finite in double, its squares are not in the precision of the moments.
TEST(Update, AGradientWithoutSquaresChangesNothing) {
  ParameterTable table;
  table.Add("x", 1, 2, Decays::kYes);
  OptimizerOptions options;
  options.clip = 0;
  OptimizerState<float> state;
  state.mean = state.squares = {0.5F, 0.25F};
  std::vector<float> values = {1.0F, 2.0F};
  const auto step = [&](float entry) {
    return Update<float>(nullptr, options, table, std::vector<float>{entry, 0.0F}, &state, values);
  };
  const UpdateReport report = step(1e25F);
  EXPECT_TRUE(report.skipped);
  EXPECT_TRUE(std::isfinite(report.gradient_length));
  EXPECT_EQ(state.squares, (std::vector<float>{0.5F, 0.25F}));
  EXPECT_EQ(values, (std::vector<float>{1.0F, 2.0F}));
  EXPECT_EQ(state.step, 1u);
  EXPECT_EQ(state.skipped, 1u);
  // What is just not left out stays possible, however often it comes.
  for (int i = 0; i < 200; ++i) ASSERT_FALSE(step(0x1p+61F).skipped);
  EXPECT_TRUE(Validate(state).ok());
  EXPECT_TRUE(std::isfinite(values[0]));
  // Clipping comes first.
  options.clip = 1.0;
  EXPECT_FALSE(step(1e25F).skipped);
  Descent run;
  run.options.clip = 0;
  EXPECT_TRUE(run.Step({1e154, 0.0, 0.0}).skipped);
}

TEST(OptimizerState, RefusesWhatNoRunComesToByName) {
  const auto message = [](const auto& change) {
    OptimizerState<float> state;
    state.mean = {-1.0F, 2.0F};
    state.squares = {0.0F, 4.0F};
    state.step = 3;
    state.skipped = 3;
    change(state);
    return std::string(Validate(state).message());
  };
  using State = OptimizerState<float>;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(message([](State&) {}), "");
  EXPECT_THAT(message([](State& s) { s.step = UINT64_MAX; }), testing::StartsWith("step"));
  EXPECT_THAT(message([](State& s) { s.step = kMaxSteps + 1; }), testing::StartsWith("step"));
  EXPECT_THAT(message([](State& s) { s.skipped = 4; }), testing::StartsWith("skipped"));
  EXPECT_THAT(message([](State& s) { s.squares[1] = -1e-30F; }), testing::StartsWith("squares"));
  EXPECT_THAT(message([](State& s) { s.squares[0] = 1e38F; }), testing::StartsWith("squares"));
  EXPECT_THAT(message([=](State& s) { s.squares[0] = nan; }), testing::StartsWith("squares"));
  EXPECT_THAT(message([](State& s) { s.mean[0] = -1e30F; }), testing::StartsWith("mean"));
  EXPECT_THAT(message([=](State& s) { s.mean[1] = nan; }), testing::StartsWith("mean"));
}

TEST(Update, BitsDoNotDependOnThreads) {
  ParameterTable table;
  table.Add("w", 300, 401, Decays::kYes);
  std::vector<float> results[2];
  for (const size_t threads : {size_t{1}, size_t{3}}) {
    Team team(threads);
    std::vector<float> gradient(table.size());
    FillNormal<float>(1, 2, 1.0, gradient);
    std::vector<float> values(table.size());
    OptimizerState<float> state;
    state.mean.resize(table.size());
    state.squares.resize(table.size());
    for (int i = 0; i < 3; ++i) Update<float>(&team, {}, table, gradient, &state, values);
    results[threads == 1 ? 0 : 1] = values;
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(OptimizerOptions, RefusesNonsenseByName) {
  OptimizerOptions options;
  EXPECT_TRUE(Validate(options).ok());
  options.beta1 = 1.0;
  EXPECT_THAT(std::string(Validate(options).message()), testing::HasSubstr("optimizer.beta1"));
  options = {};
  options.warm_up = options.steps + 1;
  EXPECT_THAT(std::string(Validate(options).message()), testing::HasSubstr("optimizer.steps"));
  options = {};
  options.steps = kMaxSteps + 1;
  EXPECT_THAT(std::string(Validate(options).message()), testing::HasSubstr("optimizer.steps"));
  options = {};
  options.peak_rate = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(std::string(Validate(options).message()), testing::HasSubstr("optimizer.peak_rate"));
}

}  // namespace
}  // namespace lethe::model
