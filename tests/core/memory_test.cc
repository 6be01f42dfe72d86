// The contract of ExactMemory besides its numbers: bad input changes nothing, phases, previews,
// readouts far from everything, ties, and what the judge must catch.
#include "core/svdd/memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/svdd/kkt_check.h"

namespace lethe::svdd {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

MemoryOptions Options(double capacity, int d = 2, int m = 1) {
  return {{kernel::KernelKind::kRbf, 0.5},
          *Capacity::FromCapacity(capacity),
          DuplicatesPolicy::kShared,
          d,
          m};
}

absl::Status InsertOne(ExactMemory& memory,
                       TokenHandle handle,
                       const std::vector<double>& key,
                       double value = 0.0) {
  const NewToken token{handle, key, {&value, 1}};
  return memory.Insert({&token, 1}).status();
}

TEST(CapacityTest, SnapsReciprocalsOfIntegersAndRefusesTheRest) {
  EXPECT_EQ(Capacity::FromBox(0.1)->total(), 10.0);
  EXPECT_EQ(Capacity::FromBox(0.1)->box(), 1.0);
  EXPECT_EQ(*Capacity::FromBox(0.1), *Capacity::FromCapacity(10));
  EXPECT_EQ(Capacity::FromBox(0.15)->total(), 1.0);
  EXPECT_EQ(Capacity::FromBox(0.15)->box(), 0.15);
  EXPECT_EQ(Capacity::FromBox(0.15)->weight_at_box(), 0.15);
  for (const double bad : {0.0, -0.5, 1.0000001, kNan, kInfinity, 1e-7}) {
    EXPECT_EQ(Capacity::FromBox(bad).status().message().substr(0, 3), "box") << bad;
  }
  for (const double bad : {0.0, 0.99, kNan, kInfinity, 1e7}) {
    EXPECT_EQ(Capacity::FromCapacity(bad).status().message().substr(0, 8), "capacity") << bad;
  }
}

TEST(MemoryOptionsTest, NamesTheBadField) {
  EXPECT_EQ(Validate(Options(2, 0)).message().substr(0, 13), "key_dimension");
  EXPECT_EQ(Validate(Options(2, 5000)).message().substr(0, 13), "key_dimension");
  EXPECT_EQ(Validate(Options(2, 2, 0)).message().substr(0, 15), "value_dimension");
  MemoryOptions options = Options(2);
  options.kernel.parameter = kNan;
  EXPECT_EQ(ExactMemory::Create(options).status().message().substr(0, 12), "kernel.gamma");
}

TEST(ExactMemoryTest, BadInputNamesFieldAndIndexAndChangesNothing) {
  auto memory = ExactMemory::Create(Options(2)).value();
  ASSERT_TRUE(InsertOne(*memory, 5, {0, 0}).ok());
  const auto before = memory->snapshot();
  const double value = 0.0;
  const std::vector<double> good = {1, 1};
  const auto refused = [&](const std::vector<double>& key, TokenHandle handle) {
    const std::vector<NewToken> batch = {{handle - 1, good, {&value, 1}},
                                         {handle, key, {&value, 1}}};
    const absl::Status status = memory->Insert(batch).status();
    EXPECT_EQ(memory->snapshot(), before);
    EXPECT_EQ(memory->size(), 1u);
    return std::string(status.message());
  };
  EXPECT_EQ(refused({1}, 9), "tokens[1].key: has 1 numbers, this memory's have 2");
  EXPECT_EQ(refused({1, kNan}, 9), "tokens[1].key[1]: must be finite, got NaN");
  EXPECT_EQ(refused({-kInfinity, 1}, 9), "tokens[1].key[0]: must be finite, got an infinity");
  EXPECT_EQ(refused({1e101, 1}, 9), "tokens[1].key[0]: is above 1e+100 in magnitude");
  EXPECT_EQ(refused({1, 1}, 5).substr(0, 16), "tokens[0].handle");
  EXPECT_EQ(memory->Validate(good, {}).message(), "value: has 0 numbers, this memory's have 1");

  const std::vector<TokenHandle> unknown = {5, 6};
  EXPECT_EQ(memory->Forget(unknown).status().code(), absl::StatusCode::kNotFound);
  const std::vector<TokenHandle> twice = {5, 5};
  EXPECT_EQ(memory->Forget(twice).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(memory->Preview(unknown).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(memory->snapshot(), before);
}

TEST(ExactMemoryTest, GoesThroughItsPhasesAndBack) {
  auto memory = ExactMemory::Create(Options(2.5)).value();
  EXPECT_EQ(memory->snapshot()->phase, Phase::kEmpty);
  ASSERT_TRUE(InsertOne(*memory, 1, {0, 0}).ok());
  ASSERT_TRUE(InsertOne(*memory, 2, {1, 0}).ok());
  EXPECT_EQ(memory->snapshot()->phase, Phase::kWarming);
  EXPECT_EQ(memory->snapshot()->supports[1].alpha, 0.5);
  ASSERT_TRUE(InsertOne(*memory, 3, {0, 1}).ok());
  EXPECT_EQ(memory->snapshot()->phase, Phase::kActive);
  // Forgetting the first token ever, and then everything.
  const std::vector<TokenHandle> first = {1};
  ASSERT_TRUE(memory->Forget(first).ok());
  EXPECT_EQ(memory->snapshot()->phase, Phase::kWarming);
  EXPECT_EQ(memory->snapshot()->supports[0].handle, 2u);
  const std::vector<TokenHandle> rest = {2, 3};
  ASSERT_TRUE(memory->Forget(rest).ok());
  EXPECT_EQ(memory->snapshot()->phase, Phase::kEmpty);
  EXPECT_EQ(memory->size(), 0u);
  EXPECT_TRUE(memory->snapshot()->supports.empty());
  ASSERT_TRUE(InsertOne(*memory, 4, {0, 0}).ok());
  EXPECT_EQ(memory->snapshot()->supports[0].alpha, 1.0);
}

TEST(ExactMemoryTest, SnapshotsDoNotChangeUnderTheirReaders) {
  auto memory = ExactMemory::Create(Options(2)).value();
  for (TokenHandle handle = 1; handle <= 4; ++handle) {
    ASSERT_TRUE(InsertOne(*memory, handle, {std::sin(handle), std::cos(handle)}).ok());
  }
  const auto held = memory->snapshot();
  const Snapshot copy = *held;
  const std::vector<TokenHandle> some = {1, 3};
  const auto preview = memory->Preview(some).value();
  EXPECT_EQ(memory->snapshot(), held);
  ASSERT_TRUE(memory->Forget(some).ok());
  EXPECT_TRUE(SameBits(copy, *held));
  EXPECT_TRUE(SameBits(*preview, *memory->snapshot()));
}

// The promised cost of a token that lands in reserve, or leaves it: no new proof.
TEST(ExactMemoryTest, ReserveTokensNeedNoNewProof) {
  auto memory = ExactMemory::Create(Options(3.5)).value();
  for (TokenHandle handle = 1; handle <= 8; ++handle) {
    const auto angle = static_cast<double>(handle);
    ASSERT_TRUE(InsertOne(*memory, handle, {0.5 * std::sin(angle), 0.5 * std::cos(angle)}).ok());
  }
  const uint64_t proofs = memory->counters().proofs;
  EXPECT_GT(proofs, 0u);
  const auto before = memory->snapshot();
  for (TokenHandle handle = 11; handle <= 30; ++handle) {
    ASSERT_TRUE(InsertOne(*memory, handle, {0.001 * static_cast<double>(handle), 0.01}).ok());
  }
  EXPECT_EQ(memory->snapshot()->counts.reserve, before->counts.reserve + 20);
  for (TokenHandle handle = 11; handle <= 30; ++handle) {
    ASSERT_TRUE(memory->Forget({&handle, 1}).ok());
  }
  EXPECT_TRUE(SameBits(*memory->snapshot(), *before));
  EXPECT_EQ(memory->counters().proofs, proofs);
}

// A reserve token is safe to evict now, not for the future.
TEST(ExactMemoryTest, AReserveTokenCanBecomeASupportLater) {
  auto memory = ExactMemory::Create({{kernel::KernelKind::kRbf, 1.0 / 25},
                                     *Capacity::FromBox(1),
                                     DuplicatesPolicy::kShared,
                                     2,
                                     1})
                    .value();
  ASSERT_TRUE(InsertOne(*memory, 1, {-1, 0}).ok());
  ASSERT_TRUE(InsertOne(*memory, 2, {1, 0}).ok());
  ASSERT_TRUE(InsertOne(*memory, 3, {0, 0.9}).ok());
  EXPECT_EQ(memory->snapshot()->supports.size(), 2u);
  ASSERT_TRUE(InsertOne(*memory, 4, {0, -10}).ok());
  ASSERT_EQ(memory->snapshot()->supports.size(), 4u);
  EXPECT_NEAR(memory->snapshot()->supports[2].alpha, 0.0333, 5e-5);
}

TEST(SnapshotTest, ReadsFarFromEverythingWithoutUnderflow) {
  auto memory = ExactMemory::Create(Options(2, 1)).value();
  ASSERT_TRUE(InsertOne(*memory, 1, {0}, 3.0).ok());
  ASSERT_TRUE(InsertOne(*memory, 2, {1}, 5.0).ok());
  const std::vector<double> far = {1e4};
  const Readout readout = memory->snapshot()->Query(far, true);
  EXPECT_EQ(readout.kernel_sum, 0.0);
  // The nearer key outweighs the other by e^(0.5 (1e8 - 9999^2)); its value is the answer.
  EXPECT_EQ(readout.value[0], 5.0);
  EXPECT_NEAR(readout.log_denominator, -0.5 * 9999.0 * 9999.0 + std::log(0.5), 1e-7);
  EXPECT_EQ(readout.shares[1], 1.0);
  EXPECT_TRUE(std::isfinite(readout.decision_high));
  EXPECT_EQ(readout.decision_low, -kInfinity);
}

TEST(KktCheckTest, CatchesEveryKindOfBrokenState) {
  auto memory = ExactMemory::Create(Options(3.5)).value();
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  std::vector<double> keys;
  std::vector<TokenHandle> handles;
  for (TokenHandle handle = 1; handle <= 12; ++handle) {
    const std::vector<double> key = {normal(random), normal(random)};
    keys.insert(keys.end(), key.begin(), key.end());
    handles.push_back(handle);
    ASSERT_TRUE(InsertOne(*memory, handle, key).ok());
  }
  const Snapshot good = *memory->snapshot();
  ASSERT_TRUE(CheckKkt(good, keys, handles).ok());
  ASSERT_GE(good.counts.margin, 2u);
  const auto margin = static_cast<size_t>(
      std::find_if(good.supports.begin(), good.supports.end(),
                   [](const SupportToken& token) { return token.label == Label::kMargin; }) -
      good.supports.begin());

  Snapshot weight = good;
  weight.supports[margin].alpha += 1e-9;
  EXPECT_FALSE(CheckKkt(weight, keys, handles).ok());
  Snapshot label = good;
  label.supports[margin].label = Label::kError;
  EXPECT_FALSE(CheckKkt(label, keys, handles).ok());
  Snapshot mu = good;
  *mu.mu += 1e-9;
  EXPECT_FALSE(CheckKkt(mu, keys, handles).ok());
  Snapshot missing = good;
  missing.supports.erase(missing.supports.begin() + static_cast<std::ptrdiff_t>(margin));
  EXPECT_FALSE(CheckKkt(missing, keys, handles).ok());
  Snapshot counts = good;
  ++counts.counts.reserve;
  EXPECT_FALSE(CheckKkt(counts, keys, handles).ok());
  std::vector<double> moved = keys;
  moved[2 * (good.supports[margin].handle - 1)] += 1e-6;
  EXPECT_FALSE(CheckKkt(good, moved, handles).ok());
  std::vector<TokenHandle> others = handles;
  others[good.supports[margin].handle - 1] = 99;
  EXPECT_FALSE(CheckKkt(good, keys, others).ok());
}

}  // namespace
}  // namespace lethe::svdd
