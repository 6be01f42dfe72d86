// Every case of tests/golden/svdd.json, solved elsewhere in 60-digit arithmetic: full, and after
// deleting each token, by refit and by decremental deletion. Partitions equal, every weight (and
// mu) the truth rounded to nearest, readouts and decisions to 1e-13.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/svdd/kkt_check.h"
#include "core/svdd/memory.h"
#include "tests/core/vectors_json.h"

namespace lethe::svdd {
namespace {

using nlohmann::json;

struct Problem {
  explicit Problem(const json& data) {
    options.emplace(VectorOptions(data));
    for (const json& row : data["keys"]) keys.push_back(Numbers(row));
    for (const json& row : data["values"]) values.push_back(Numbers(row));
    for (const json& row : data["queries"]) queries.push_back(Numbers(row));
  }

  std::unique_ptr<ExactMemory> Memory(size_t without) const {
    auto memory = ExactMemory::Create(*options).value();
    std::vector<NewToken> tokens;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (i != without) tokens.push_back({i, keys[i], values[i]});
    }
    EXPECT_TRUE(memory->Insert(tokens).ok());
    return memory;
  }

  // Fed one token a call: the incremental path.
  std::unique_ptr<ExactMemory> MemoryByStream() const {
    auto memory = ExactMemory::Create(*options).value();
    for (size_t i = 0; i < keys.size(); ++i) {
      const NewToken token{i, keys[i], values[i]};
      EXPECT_TRUE(memory->Insert({&token, 1}).ok());
    }
    return memory;
  }

  std::optional<MemoryOptions> options;
  std::vector<std::vector<double>> keys;
  std::vector<std::vector<double>> values;
  std::vector<std::vector<double>> queries;
};

void ExpectTruth(const Problem& problem, const Snapshot& state, const json& truth) {
  if (truth["tokens"].empty()) {
    EXPECT_EQ(state.phase, Phase::kEmpty);
    return;
  }
  EXPECT_EQ(state.phase == Phase::kWarming, truth["warming"].get<bool>());
  std::string partition(truth["tokens"].size(), 'R');
  std::vector<double> alpha(truth["tokens"].size(), 0.0);
  for (const SupportToken& token : state.supports) {
    for (size_t p = 0; p < partition.size(); ++p) {
      if (truth["tokens"][p].get<size_t>() != token.handle) continue;
      partition[p] = token.label == Label::kMargin ? 'S' : 'E';
      alpha[p] = token.alpha;
    }
  }
  EXPECT_EQ(partition, truth["partition"].get<std::string>());
  for (size_t p = 0; p < alpha.size(); ++p) EXPECT_EQ(alpha[p], Number(truth["alpha"][p])) << p;
  const bool margin = partition.find('S') != std::string::npos;
  if (!margin && truth.contains("mu")) {
    // No margin: mu is an interval, of which the reference printed one point.
    EXPECT_FALSE(state.mu.has_value());
    EXPECT_LE(state.mu_low.value_or(-INFINITY), Number(truth["mu"]));
    EXPECT_GE(state.mu_high.value_or(INFINITY), Number(truth["mu"]));
  } else {
    ASSERT_EQ(state.mu.has_value(), truth.contains("mu"));
  }
  if (state.mu.has_value()) {
    EXPECT_EQ(*state.mu, Number(truth["mu"]));
    EXPECT_NEAR(*state.radius_squared, Number(truth["radius2"]),
                1e-13 * std::max(1.0, std::abs(Number(truth["radius2"]))));
  } else if (truth.contains("mu_interval")) {
    const json& interval = truth["mu_interval"];
    EXPECT_EQ(state.mu_low.has_value(), !interval[0].is_null());
    EXPECT_EQ(state.mu_high.has_value(), !interval[1].is_null());
    if (state.mu_low.has_value()) {
      EXPECT_EQ(*state.mu_low, Number(interval[0]));
    }
    if (state.mu_high.has_value()) {
      EXPECT_EQ(*state.mu_high, Number(interval[1]));
    }
  }
  for (size_t q = 0; q < problem.queries.size(); ++q) {
    const Readout readout = state.Query(problem.queries[q], false);
    const double decision = Number(truth["decision"][q]);
    EXPECT_NEAR(readout.kernel_sum, decision, 1e-13 * std::max(1.0, std::abs(decision)));
    for (size_t k = 0; k < readout.value.size(); ++k) {
      const double value = Number(truth["readout"][q][k]);
      EXPECT_NEAR(readout.value[k], value, 1e-13 * std::max(1.0, std::abs(value)));
    }
  }
  if (state.mu.has_value() && truth.contains("margin")) {
    EXPECT_LE(state.proof.slack, Number(truth["margin"]) * (1 + 1e-9) + 1e-30);
  }

  std::vector<double> keys;
  std::vector<TokenHandle> handles;
  for (const json& token : truth["tokens"]) {
    handles.push_back(token.get<size_t>());
    const std::vector<double>& key = problem.keys[handles.back()];
    keys.insert(keys.end(), key.begin(), key.end());
  }
  const KktReport kkt = CheckKkt(state, keys, handles);
  // Groups of copies have one label a group in the optimum, one a token in the partition: only
  // their gradient can be held against the labels.
  EXPECT_TRUE(kkt.labels_match_weights);
  EXPECT_LE(kkt.mass_error, kkt.tolerance);
  if (*problem.options == MemoryOptions{problem.options->kernel, problem.options->capacity,
                                        DuplicatesPolicy::kShared, problem.options->key_dimension,
                                        2}) {
    EXPECT_LE(kkt.max_violation, kkt.tolerance);
  }
}

const json& Document() {
  static const json document =
      json::parse(std::ifstream(std::string(LETHE_SOURCE_DIR) + "/tests/golden/svdd.json"));
  return document;
}

class GoldenTest : public testing::TestWithParam<size_t> {};

TEST_P(GoldenTest, RefitStreamAndDeletionAreTheTruthRounded) {
  const json& data = Document()["cases"][GetParam()];
  const Problem problem(data);
  const size_t none = problem.keys.size();
  const auto cold = problem.Memory(none);
  ExpectTruth(problem, *cold->snapshot(), data["full"]);
  EXPECT_TRUE(SameBits(*problem.MemoryByStream()->snapshot(), *cold->snapshot()));

  for (const json& truth : data["after_deleting"]) {
    const auto deleted = truth["deleted"].get<size_t>();
    SCOPED_TRACE("deleted " + std::to_string(deleted));
    const auto refit = problem.Memory(deleted);
    ExpectTruth(problem, *refit->snapshot(), truth);
    const auto memory = problem.Memory(none);
    const TokenHandle handle = deleted;
    const auto preview = memory->Preview({&handle, 1});
    ASSERT_TRUE(memory->Forget({&handle, 1}).ok());
    EXPECT_TRUE(SameBits(*memory->snapshot(), *refit->snapshot()));
    EXPECT_TRUE(SameBits(**preview, *refit->snapshot()));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases,
                         GoldenTest,
                         testing::Range(size_t{0}, Document()["cases"].size()),
                         [](const auto& param) {
                           std::string name = Document()["cases"][param.param]["name"];
                           for (char& c : name)
                             c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace lethe::svdd
