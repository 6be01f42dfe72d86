// Small lives of a memory under chosen regimes, among them the seeds that once showed a fault and
// noise far below what other streams have: after every operation the published state equals a cold
// refit bit for bit. trajectory_test.cc draws regimes, sizes and operations as well.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "core/svdd/kkt_check.h"
#include "core/svdd/memory.h"

namespace lethe::svdd {
namespace {

enum class Keys { kGaussian, kClustered, kNoise, kDuplicates, kGrid, kConstant };

struct Life {
  std::string name;
  Keys keys;
  double noise;
  int dimension;
  double capacity;
  kernel::Kernel kernel;
  DuplicatesPolicy duplicates;
  int seeds;
  std::vector<int> found_wrong = {};  // seeds that once showed a fault
};

std::ostream& operator<<(std::ostream& out, const Life& life) { return out << life.name; }

struct Token {
  TokenHandle handle;
  std::vector<double> key;
  std::vector<double> value;
};

class RegimeLife {
 public:
  RegimeLife(const Life& life, uint64_t seed) : life_(life), random_(seed) {
    for (int i = 0; i < 5; ++i) centres_.push_back(Gaussian(1.5));
    // Noise far below 1e-16 shows only around zero.
    if (life.keys == Keys::kNoise && life.noise < 1e-15) {
      std::fill(centres_[0].begin(), centres_[0].end(), 0.0);
    }
    memory_ = ExactMemory::Create({life.kernel, *Capacity::FromCapacity(life.capacity),
                                   life.duplicates, life.dimension, 2})
                  .value();
  }

  void Step() {
    const size_t n = alive_.size();
    const double target = 4 * life_.capacity + 8;
    const bool insert =
        n == 0 || std::bernoulli_distribution(static_cast<double>(n) < target ? 0.7 : 0.4)(random_);
    if (insert) {
      Insert(std::uniform_int_distribution<size_t>(1, 3)(random_));
    } else {
      const bool all = std::bernoulli_distribution(0.01)(random_);
      Forget(all ? n : std::min(n, std::uniform_int_distribution<size_t>(1, 3)(random_)));
    }
  }

  void Check() {
    const auto state = memory_->snapshot();
    ASSERT_TRUE(SameBits(*state, *memory_->Refit()));
    std::vector<double> keys;
    std::vector<TokenHandle> handles;
    for (const Token& token : alive_) {
      keys.insert(keys.end(), token.key.begin(), token.key.end());
      handles.push_back(token.handle);
    }
    const KktReport kkt = CheckKkt(*state, keys, handles);
    ASSERT_TRUE(kkt.labels_match_weights);
    ASSERT_LE(kkt.mass_error, kkt.tolerance);
    // Copies filled one after another carry one gradient but different labels.
    if (life_.duplicates == DuplicatesPolicy::kShared) {
      ASSERT_TRUE(kkt.ok()) << kkt.max_violation << " above " << kkt.tolerance;
    }
  }

  // A memory that never saw the forgotten tokens, fed one by one.
  void CheckAgainstStranger() {
    auto stranger = ExactMemory::Create(memory_->snapshot()->options).value();
    for (const Token& token : alive_) {
      const NewToken fresh{token.handle, token.key, token.value};
      ASSERT_TRUE(stranger->Insert({&fresh, 1}).ok());
    }
    ASSERT_TRUE(SameBits(*memory_->snapshot(), *stranger->snapshot()));
  }

  const SolverCounters& counters() const { return memory_->counters(); }

 private:
  std::vector<double> Gaussian(double spread) {
    std::normal_distribution<double> normal(0.0, spread);
    std::vector<double> key(static_cast<size_t>(life_.dimension));
    for (double& coordinate : key) coordinate = normal(random_);
    return key;
  }

  std::vector<double> Key() {
    const auto some = [&](size_t n) {
      return std::uniform_int_distribution<size_t>(0, n - 1)(random_);
    };
    std::vector<double> key;
    switch (life_.keys) {
      case Keys::kGaussian:
        return Gaussian(1.0);
      case Keys::kClustered:
        key = Gaussian(0.2);
        break;
      case Keys::kNoise:
        key = Gaussian(life_.noise);
        break;
      case Keys::kDuplicates:
        return centres_[some(centres_.size())];
      case Keys::kGrid:
        key.resize(static_cast<size_t>(life_.dimension));
        for (double& coordinate : key) coordinate = static_cast<double>(some(4));
        return key;
      case Keys::kConstant:
        return centres_[0];
    }
    const std::vector<double>& centre = centres_[some(centres_.size())];
    for (size_t k = 0; k < key.size(); ++k) key[k] += centre[k];
    return key;
  }

  void Insert(size_t count) {
    std::vector<NewToken> batch;
    const size_t first = alive_.size();
    for (size_t i = 0; i < count; ++i) {
      alive_.push_back({next_++, Key(), {1.0, static_cast<double>(next_)}});
    }
    for (size_t i = first; i < alive_.size(); ++i) {
      batch.push_back({alive_[i].handle, alive_[i].key, alive_[i].value});
    }
    ASSERT_TRUE(memory_->Insert(batch).ok());
  }

  void Forget(size_t count) {
    std::vector<TokenHandle> handles;
    for (size_t i = 0; i < count; ++i) {
      const size_t victim = std::uniform_int_distribution<size_t>(0, alive_.size() - 1)(random_);
      handles.push_back(alive_[victim].handle);
      alive_.erase(alive_.begin() + static_cast<std::ptrdiff_t>(victim));
    }
    ASSERT_TRUE(memory_->Forget(handles).ok());
  }

  const Life& life_;
  std::mt19937_64 random_;
  std::vector<std::vector<double>> centres_;
  std::unique_ptr<ExactMemory> memory_;
  std::vector<Token> alive_;
  TokenHandle next_ = 1;
};

class RegimeTest : public testing::TestWithParam<Life> {};

TEST_P(RegimeTest, EveryStateIsTheRefitBitForBit) {
  const Life& life = GetParam();
  uint64_t updates = 0;
  uint64_t climbs = 0;
  uint64_t fallbacks = 0;
  std::vector<int> all = life.found_wrong;
  for (int seed = 1; seed <= life.seeds; ++seed) all.push_back(seed);
  for (const int seed : all) {
    SCOPED_TRACE(life.name + ", seed " + std::to_string(seed));
    RegimeLife trajectory(life, static_cast<uint64_t>(seed));
    for (int step = 0; step < 60; ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      trajectory.Step();
      trajectory.Check();
      if (HasFatalFailure()) return;
    }
    trajectory.CheckAgainstStranger();
    if (HasFatalFailure()) return;
    updates += trajectory.counters().updates;
    climbs += trajectory.counters().climbs;
    fallbacks += trajectory.counters().fallbacks;
  }
  RecordProperty("updates", std::to_string(updates));
  RecordProperty("climbs", std::to_string(climbs));
  RecordProperty("fallbacks", std::to_string(fallbacks));
  std::printf("%s: %llu updates, %llu climbed, %llu fell back\n", life.name.c_str(),
              static_cast<unsigned long long>(updates), static_cast<unsigned long long>(climbs),
              static_cast<unsigned long long>(fallbacks));
}

constexpr kernel::Kernel kRbf{kernel::KernelKind::kRbf, 0.5};
constexpr auto kShared = DuplicatesPolicy::kShared;

INSTANTIATE_TEST_SUITE_P(
    Lives,
    RegimeTest,
    testing::Values(Life{"gaussian", Keys::kGaussian, 0, 3, 6.5, kRbf, kShared, 10},
                    Life{"gaussian_integer_capacity", Keys::kGaussian, 0, 2, 5, kRbf, kShared, 10},
                    Life{"gaussian_box_one", Keys::kGaussian, 0, 4, 1, kRbf, kShared, 6},
                    Life{"gaussian_high_dimension",
                         Keys::kGaussian,
                         0,
                         128,
                         7.3,
                         {kernel::KernelKind::kRbf, 1.0 / 128},
                         kShared,
                         3},
                    Life{"one_dimension", Keys::kGaussian, 0, 1, 6.1, kRbf, kShared, 8, {15}},
                    Life{"clustered", Keys::kClustered, 0, 3, 8.7, kRbf, kShared, 8},
                    Life{"noise_2e_2", Keys::kNoise, 0.02, 3, 7.9, kRbf, kShared, 8},
                    Life{"noise_1e_3", Keys::kNoise, 1e-3, 3, 7.9, kRbf, kShared, 8},
                    Life{"noise_1e_6", Keys::kNoise, 1e-6, 3, 7.9, kRbf, kShared, 6},
                    Life{"noise_1e_9", Keys::kNoise, 1e-9, 3, 7.9, kRbf, kShared, 6},
                    Life{"noise_1e_12", Keys::kNoise, 1e-12, 3, 7.9, kRbf, kShared, 6},
                    Life{"noise_1e_14_integer", Keys::kNoise, 1e-14, 2, 6, kRbf, kShared, 4, {82}},
                    Life{"noise_1e_40", Keys::kNoise, 1e-40, 2, 4.3, kRbf, kShared, 2},
                    Life{"noise_1e_100", Keys::kNoise, 1e-100, 2, 4.3, kRbf, kShared, 2},
                    Life{"noise_1e_60_laplacian",
                         Keys::kNoise,
                         1e-60,
                         2,
                         4.3,
                         {kernel::KernelKind::kLaplacian, 0.6},
                         kShared,
                         2},
                    Life{"duplicates_shared", Keys::kDuplicates, 0, 3, 6.3, kRbf, kShared, 8},
                    Life{"duplicates_oldest_first", Keys::kDuplicates, 0, 3, 6.3, kRbf,
                         DuplicatesPolicy::kOldestFirst, 8},
                    Life{"duplicates_newest_first", Keys::kDuplicates, 0, 3, 6, kRbf,
                         DuplicatesPolicy::kNewestFirst, 8},
                    Life{"grid", Keys::kGrid, 0, 2, 6.5, kRbf, kShared, 4},
                    Life{"grid_integer", Keys::kGrid, 0, 2, 4, kRbf, DuplicatesPolicy::kOldestFirst,
                         4},
                    Life{"constant", Keys::kConstant, 0, 2, 5, kRbf, kShared, 4},
                    Life{"constant_oldest_first", Keys::kConstant, 0, 2, 4.5, kRbf,
                         DuplicatesPolicy::kOldestFirst, 4},
                    Life{"wide_gamma",
                         Keys::kGaussian,
                         0,
                         3,
                         5.5,
                         {kernel::KernelKind::kRbf, 1e-5},
                         kShared,
                         6},
                    Life{"sharp_gamma",
                         Keys::kGaussian,
                         0,
                         3,
                         5.5,
                         {kernel::KernelKind::kRbf, 1e4},
                         kShared,
                         6},
                    Life{"laplacian",
                         Keys::kGaussian,
                         0,
                         3,
                         7.2,
                         {kernel::KernelKind::kLaplacian, 0.6},
                         kShared,
                         8},
                    Life{"exp_dot",
                         Keys::kGaussian,
                         0,
                         3,
                         6.4,
                         {kernel::KernelKind::kExpDot, 0.5},
                         kShared,
                         8,
                         {11}},
                    Life{"exp_dot_noise",
                         Keys::kNoise,
                         1e-6,
                         3,
                         6,
                         {kernel::KernelKind::kExpDot, 0.8},
                         kShared,
                         5}),
    [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace lethe::svdd
