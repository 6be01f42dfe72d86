// Sweeps against a judge that shares nothing with them: every labelling tried, sums by definition.
#include "core/training/calibrate.h"

#include <gmock/gmock.h>

#include <Eigen/SVD>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/batched/judge.h"
#include "tests/model/runtime.h"

namespace lethe::training {
namespace {

TEST(TokenData, ValuesAreEqualByTheirNumbers) {
  TokenData data;
  data.tokens = 4;
  data.key_dimension = 1;
  data.value_dimension = 2;
  data.keys = {1, 2, 3, 4};
  data.values = {0.0, 1.0, -0.0, 1.0, 0.0, 2.0, 0.0, 1.0};
  EXPECT_EQ(ValueGroups(data), (std::vector<uint32_t>{0, 0, 2, 0}));
}

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

TokenData RandomTokens(uint64_t seed, size_t tokens, size_t d, size_t values) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  TokenData data;
  data.tokens = tokens;
  data.key_dimension = d;
  data.value_dimension = 2;
  for (size_t i = 0; i < tokens; ++i) {
    const size_t value = random() % values;
    for (size_t k = 0; k < d; ++k) {
      data.keys.push_back(0.4 * normal(random) + static_cast<double>((value >> k) & 1));
    }
    data.values.push_back(std::cos(static_cast<double>(value)));
    data.values.push_back(std::sin(static_cast<double>(value)));
  }
  return data;
}
MemoryShape ShapeOf(const TokenData& data, batched::KernelKind kernel) {
  return {.kernel = kernel,
          .parameter = 1.0,
          .key_dimension = data.key_dimension,
          .value_dimension = data.value_dimension};
}
Calibration Sweep(const jobs::CalibrateConfig& config,
                  const MemoryShape& shape,
                  const TokenData& data,
                  size_t threads = 1) {
  model::TestRuntime runtime(threads);
  absl::StatusOr<Calibration> sweep = Calibration::Create(config, shape, data);
  EXPECT_TRUE(sweep.ok()) << sweep.status();
  while (!sweep->done()) EXPECT_TRUE(sweep->Step(runtime.get()).ok());
  return *std::move(sweep);
}

double Kappa(batched::KernelKind kernel,
             double p,
             const Eigen::VectorXd& x,
             const Eigen::VectorXd& y) {
  if (kernel == batched::KernelKind::kRbf) return std::exp(-p * (x - y).squaredNorm());
  if (kernel == batched::KernelKind::kLaplacian) return std::exp(-p * (x - y).norm());
  return std::exp(p * x.dot(y));
}
Eigen::VectorXd KeyOf(const TokenData& data, uint32_t i) {
  return Eigen::Map<const Eigen::VectorXd>(data.key(i).data(),
                                           static_cast<Eigen::Index>(data.key_dimension));
}
Eigen::VectorXd ValueOf(const TokenData& data, uint32_t i) {
  return Eigen::Map<const Eigen::VectorXd>(data.value(i).data(),
                                           static_cast<Eigen::Index>(data.value_dimension));
}

// Ten tokens of which two are held out: each sample is the other eight, few enough to try all ways
// to label them.
TEST(CalibrationTest, EveryPairIsWhatTheDefinitionSays) {
  size_t all_recalled = 0;
  size_t none_recalled = 0;
  size_t half_recalled = 0;
  for (const auto kernel :
       {batched::KernelKind::kRbf, batched::KernelKind::kLaplacian, batched::KernelKind::kExpDot}) {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      SCOPED_TRACE(testing::Message() << "seed " << seed);
      const TokenData data = RandomTokens(seed, 10, 3, 3);
      const jobs::CalibrateConfig config{.boxes = {0.1, 0.2, 0.4},
                                         .widths = {0.5, 1.5},
                                         .ridge = 1e-3,
                                         .queries = 512,
                                         .seed = seed};
      const Calibration sweep = Sweep(config, ShapeOf(data, kernel), data);
      const Split split = SplitTokens(data.tokens, config.held_out, seed);
      ASSERT_EQ(split.held_out.size(), 2u);
      ASSERT_EQ(sweep.cells().size(), 6u);
      for (const CalibrationCell& cell : sweep.cells()) {
        SCOPED_TRACE(testing::Message() << "box " << cell.box << " width " << cell.width);
        if (cell.box == 0.1) {
          EXPECT_FALSE(cell.feasible) << "eight weights of 0.1 are less than one";
          EXPECT_EQ(cell.samples, 0u);
          continue;
        }
        // The width in terms of the median is what makes one pair mean the same for all keys.
        const double m = sweep.median();
        const double f = cell.width;
        EXPECT_DOUBLE_EQ(cell.parameter, kernel == batched::KernelKind::kRbf ? 1 / (f * m * f * m)
                                         : kernel == batched::KernelKind::kLaplacian
                                             ? 1 / (f * m)
                                             : 1 / (f * f * m));
        Eigen::MatrixXd gram(8, 8);
        for (int i = 0; i < 8; ++i) {
          for (int j = 0; j < 8; ++j) {
            gram(i, j) =
                Kappa(kernel, cell.parameter, KeyOf(data, split.kept[static_cast<size_t>(i)]),
                      KeyOf(data, split.kept[static_cast<size_t>(j)]));
          }
        }
        const auto best = batched::TryAllLabels(gram, cell.box, config.ridge);
        ASSERT_TRUE(best.has_value());
        EXPECT_EQ(cell.unsolved, 0u);
        uint64_t weighted = 0;
        uint64_t bounded = 0;
        std::vector<Eigen::Index> margin;
        for (Eigen::Index i = 0; i < 8; ++i) {
          const double a = best->weights[i];
          weighted += a > 1e-9;
          bounded += a > cell.box - 1e-9;
          if (a > 1e-9 && a < cell.box - 1e-9) margin.push_back(i);
        }
        EXPECT_EQ(cell.weighted, weighted);
        EXPECT_EQ(cell.bounded, bounded);
        double condition = 1.0;
        if (!margin.empty()) {
          Eigen::MatrixXd part = gram(margin, margin);
          part.diagonal().array() += config.ridge / 2;
          const auto values = Eigen::JacobiSVD<Eigen::MatrixXd>(part).singularValues();
          condition = values.maxCoeff() / values.minCoeff();
        }
        EXPECT_NEAR(cell.condition / condition, 1.0, 1e-6);

        size_t recalled = 0;
        for (const uint32_t query : split.held_out) {
          Eigen::VectorXd read = Eigen::VectorXd::Zero(2);
          double total = 0.0;
          for (Eigen::Index i = 0; i < 8; ++i) {
            const uint32_t token = split.kept[static_cast<size_t>(i)];
            const double share = best->weights[i] * Kappa(kernel, cell.parameter,
                                                          KeyOf(data, query), KeyOf(data, token));
            read += share * ValueOf(data, token);
            total += share;
          }
          read /= total;
          double own = (read - ValueOf(data, query)).norm();
          bool nearest = true;
          for (uint32_t other = 0; other < data.tokens; ++other) {
            if (ValueOf(data, other) == ValueOf(data, query)) continue;
            nearest = nearest && own < (read - ValueOf(data, other)).norm();
          }
          recalled += nearest;
        }
        EXPECT_EQ(cell.queries, 512u);
        const double recall = Calibration::recall(cell);
        if (recalled == 2) {
          EXPECT_EQ(recall, 1.0);
        }
        if (recalled == 0) {
          EXPECT_EQ(recall, 0.0);
        }
        if (recalled == 1) {
          EXPECT_NEAR(recall, 0.5, 0.15);  // 512 draws of two: 6 deviations
        }
        all_recalled += recalled == 2;
        none_recalled += recalled == 0;
        half_recalled += recalled == 1;
      }
    }
  }
  EXPECT_GT(all_recalled, 0u);
  EXPECT_GT(half_recalled, 0u);
  EXPECT_GT(all_recalled + none_recalled + half_recalled, 70u);
}

TEST(CalibrationTest, TheMedianIsThatOfDistances) {
  // Two places: every pair of different keys is 5 apart, equal ones do not count.
  TokenData data;
  data.tokens = 40;
  data.key_dimension = 2;
  data.value_dimension = 1;
  for (size_t i = 0; i < data.tokens; ++i) {
    data.keys.push_back(i % 2 == 0 ? 0.0 : 3.0);
    data.keys.push_back(i % 2 == 0 ? 0.0 : 4.0);
    data.values.push_back(static_cast<double>(i % 2));
  }
  const MemoryShape rbf = ShapeOf(data, batched::KernelKind::kRbf);
  EXPECT_EQ(Calibration::Create({}, rbf, data)->median(), 5.0);
  const MemoryShape dot = ShapeOf(data, batched::KernelKind::kExpDot);
  EXPECT_EQ(Calibration::Create({}, dot, data)->median(), 25.0) << "a squared length";
}

TEST(CalibrationTest, RecommendsWhatMeetsTheTargetsAndOtherwiseSaysSo) {
  const TokenData data = RandomTokens(3, 300, 3, 4);
  const MemoryShape shape = ShapeOf(data, batched::KernelKind::kRbf);
  jobs::CalibrateConfig config{
      .tokens = 64, .samples = 4, .target_supports = 0.6, .target_recall = 0.5};
  const Calibration good = Sweep(config, shape, data);
  ASSERT_TRUE(good.Recommended().has_value()) << good.Report();
  const CalibrationCell& chosen = good.cells()[*good.Recommended()];
  EXPECT_TRUE(good.Meets(chosen));
  size_t meeting = 0;
  for (const CalibrationCell& cell : good.cells()) {
    if (!good.Meets(cell)) continue;
    ++meeting;
    EXPECT_LE(Calibration::recall(cell), Calibration::recall(chosen));
  }
  EXPECT_LT(meeting, good.cells().size()) << "or the targets choose nothing";
  const Json report = Json::parse(good.Report());
  EXPECT_EQ(report["recommended"]["box"], chosen.box);
  EXPECT_EQ(report["recommended"]["gamma"], chosen.parameter);
  EXPECT_EQ(report["table"].size(), 25u);
  EXPECT_EQ(report["sample_tokens"], 64);

  // Each target by itself can leave none.
  for (auto target :
       {&jobs::CalibrateConfig::target_supports, &jobs::CalibrateConfig::target_recall,
        &jobs::CalibrateConfig::target_condition}) {
    jobs::CalibrateConfig strict = config;
    strict.*target = target == &jobs::CalibrateConfig::target_supports ? 1e-6 : 1.0;
    if (target == &jobs::CalibrateConfig::target_condition) strict.boxes = {0.02};
    const Calibration none = Sweep(strict, shape, data);
    EXPECT_FALSE(none.Recommended().has_value());
    const Json said = Json::parse(none.Report());
    EXPECT_TRUE(said["recommended"].is_null());
    EXPECT_THAT(std::string(said["statement"]), StartsWith("no pair "));
  }
}

TEST(CalibrationTest, StepsCanBeInterruptedAndThreadsDoNotMatter) {
  const TokenData data = RandomTokens(5, 200, 4, 5);
  const MemoryShape shape = ShapeOf(data, batched::KernelKind::kRbf);
  const jobs::CalibrateConfig config{
      .boxes = {0.1, 0.3}, .widths = {0.5, 1.0, 2.0}, .tokens = 48, .samples = 5};
  const std::string whole = Sweep(config, shape, data).Report();
  EXPECT_EQ(Sweep(config, shape, data, 3).Report(), whole);
  std::string state;
  model::TestRuntime runtime(2);
  for (size_t steps = 0; steps <= 6; ++steps) {
    absl::StatusOr<Calibration> sweep = Calibration::Create(config, shape, data);
    ASSERT_TRUE(sweep.ok());
    ASSERT_EQ(sweep->steps(), 6u);
    if (!state.empty()) {
      ASSERT_TRUE(sweep->Restore(state).ok());
    }
    EXPECT_EQ(sweep->step(), steps);
    if (sweep->done()) {
      EXPECT_EQ(sweep->Report(), whole);
      break;
    }
    ASSERT_TRUE(sweep->Step(runtime.get()).ok());
    state = sweep->Checkpoint();
  }
  absl::StatusOr<Calibration> sweep = Calibration::Create(config, shape, data);
  for (size_t size = 0; size < state.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(sweep->Restore(state.substr(0, size)))) << size;
  }
  EXPECT_TRUE(absl::IsDataLoss(sweep->Restore(state + "x")));
  EXPECT_EQ(sweep->step(), 0u) << "after an error nothing has changed";
}

TEST(CalibrationTest, WhatCannotBeSweptIsSaid) {
  const auto fails = [](const TokenData& data, const jobs::CalibrateConfig& config = {}) {
    return std::string(Calibration::Create(config, ShapeOf(data, batched::KernelKind::kRbf), data)
                           .status()
                           .message());
  };
  EXPECT_THAT(fails(RandomTokens(1, 9, 2, 2)), StartsWith("tokens: the memory has 9"));
  EXPECT_THAT(fails(RandomTokens(1, 0, 2, 2)), StartsWith("tokens: the memory has 0"));
  TokenData same = RandomTokens(1, 20, 2, 2);
  std::ranges::fill(same.keys, 1.0);
  EXPECT_THAT(fails(same), HasSubstr("all equal"));
  // A pair whose kernel overflows is counted, not an error.
  TokenData large = RandomTokens(1, 40, 2, 2);
  for (double& number : large.keys) number *= 1e3;
  const jobs::CalibrateConfig narrow{
      .boxes = {0.5}, .widths = {1e-3}, .kernel = jobs::JobKernel::kExpDot};
  const Calibration sweep = Sweep(narrow, ShapeOf(large, batched::KernelKind::kRbf), large);
  EXPECT_EQ(sweep.cells()[0].unsolved, sweep.cells()[0].samples);
  EXPECT_GT(sweep.cells()[0].samples, 0u);
  EXPECT_FALSE(sweep.Recommended().has_value());
}

}  // namespace
}  // namespace lethe::training
