// Random inserts, erasures, edits, evictions and restarts against a model that is a list of tokens:
// the digest must always be that of a fresh memory fed with the survivors.
#include <algorithm>
#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/service/service.h"
#include "tests/server/service_testing.h"

namespace lethe::service {
namespace {

class Model {
 public:
  std::vector<TokenInput> tokens;  // survivors in insertion order
  std::set<std::string> erased;    // erased and not inserted again

  bool Has(const std::string& id) const {
    return std::any_of(tokens.begin(), tokens.end(),
                       [&](const TokenInput& token) { return token.id == id; });
  }
  void Erase(const std::string& id) {
    tokens.erase(std::remove_if(tokens.begin(), tokens.end(),
                                [&](const TokenInput& token) { return token.id == id; }),
                 tokens.end());
    erased.insert(id);
  }
};

struct Case {
  uint64_t seed;
  double capacity;
  svdd::DuplicatesPolicy duplicates;
  bool refit;
};

class ModelTest : public testing::TestWithParam<Case> {
 protected:
  // The digest of a memory that was only ever given these tokens, in one batch.
  std::string FreshDigest(const std::vector<TokenInput>& tokens, const MemoryConfig& config) {
    const std::string name = absl::StrCat("fresh", fresh_++);
    EXPECT_THAT(judge_->CreateMemory("t", name, config, {}), IsOk());
    if (!tokens.empty()) judge_.Insert(name, tokens);
    std::string digest = judge_.Digest(name);
    EXPECT_THAT(judge_->DeleteMemory("t", name, {}), IsOk());
    return digest;
  }

  Harness judge_;
  int fresh_ = 0;
};

TEST_P(ModelTest, DigestIsAFunctionOfTheSurvivors) {
  const Case& c = GetParam();
  SCOPED_TRACE(absl::StrCat("seed ", c.seed));
  std::mt19937_64 random(c.seed);
  const auto pick = [&random](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  Harness service;
  service.options().tenant.refit_on_forget = c.refit;
  service.Restart();
  MemoryConfig config = SmallConfig(c.capacity);
  config.duplicates = c.duplicates;
  ASSERT_THAT(service->CreateMemory("t", "m", config, {}), IsOk());
  Model model;
  uint64_t certificates = 0;
  int made = 0;
  for (int step = 0; step < 48; ++step) {
    SCOPED_TRACE(absl::StrCat("step ", step));
    const size_t action = pick(13);
    if (action < 5 || model.tokens.size() < 3) {
      std::vector<TokenInput> batch;
      uint64_t expected = 0;
      for (size_t i = 0, count = 1 + pick(6); i < count; ++i) {
        std::string id = absl::StrCat("x", made);
        if (!model.erased.empty() && pick(4) == 0) {
          id = *model.erased.begin();  // an erased id comes back, with other content
        } else {
          ++made;
        }
        batch.push_back(RandomToken(random, id));
        if (model.Has(id)) continue;
        ++expected;
        model.erased.erase(id);
        model.tokens.push_back(batch.back());
      }
      ASSERT_EQ(service.Insert("m", batch).inserted, expected);
    } else if (action < 8) {
      std::vector<std::string> ids = {absl::StrCat("never", step)};
      uint64_t live = 0;
      for (size_t i = 0, count = 1 + pick(4); i < count && !model.tokens.empty(); ++i) {
        ids.push_back(model.tokens[pick(model.tokens.size())].id);
        model.Erase(ids.back());
        ++live;
      }
      const ForgetReply reply = service.Forget("m", ids);
      ASSERT_EQ(reply.erased, live);
      ASSERT_EQ(reply.not_found, 1u);
      ++certificates;
      if (c.refit) {
        ASSERT_EQ(reply.verdict, Verdict::kBitIdentical);
      }
    } else if (action < 9) {
      const std::string subject = absl::StrCat("p", 1 + pick(6));
      std::vector<std::string> ids;
      for (const TokenInput& token : model.tokens) {
        if (token.subject == subject) ids.push_back(token.id);
      }
      for (const std::string& id : ids) model.Erase(id);
      const auto reply = service->Forget(ForgetSubjectOf("m", subject), {});
      ASSERT_THAT(reply, IsOk());
      ASSERT_EQ(reply->erased, ids.size());
      certificates += ids.empty() ? 0u : 1u;
    } else if (action < 10) {
      service.Restart();
    } else if (action < 12) {
      // New content for a few, in the order of the request; one of them stays as it is.
      std::vector<TokenInput> edits = {model.tokens[pick(model.tokens.size())]};
      for (size_t i = 0, count = pick(4); i < count; ++i) {
        const std::string id = model.tokens[pick(model.tokens.size())].id;
        const bool named = std::any_of(edits.begin(), edits.end(),
                                       [&](const TokenInput& edit) { return edit.id == id; });
        if (named) continue;
        edits.push_back(RandomToken(random, id));
        edits.back().payload += absl::StrCat(" in step ", step);
      }
      for (size_t i = 1; i < edits.size(); ++i) {
        model.Erase(edits[i].id);
        model.erased.erase(edits[i].id);
        model.tokens.push_back(edits[i]);
      }
      const auto reply = service->Edit(EditOf("m", edits), {});
      ASSERT_THAT(reply, IsOk());
      ASSERT_EQ(reply->edited, edits.size() - 1);
      ASSERT_EQ(reply->unchanged, 1u);
      certificates += edits.size() > 1 ? 1u : 0u;
    } else {
      const size_t budget = 1 + pick(model.tokens.size());
      const auto reply = service->Evict(EvictOf("m", budget), {});
      ASSERT_THAT(reply, IsOk());
      certificates += reply->certificate_id.empty() ? 0u : 1u;
      std::vector<std::string> gone;
      for (const TokenInput& token : model.tokens) {
        ForgetInput input = ForgetOf("m", {token.id});
        input.dry_run = true;
        if (service->Forget(input, {})->already_erased == 1) gone.push_back(token.id);
      }
      ASSERT_EQ(gone.size(), reply->reserve + reply->surplus);
      for (const std::string& id : gone) model.Erase(id);
      ASSERT_EQ(reply->retained, model.tokens.size());
    }
    if (step % 4 == 3) {
      ASSERT_EQ(service.Digest("m"), FreshDigest(model.tokens, config));
      // Each erasure has its certificate and another one about its keys.
      ASSERT_EQ(service->GetTenant("t")->certificate_count, 2 * certificates);
      std::set<std::string> subjects;
      for (const TokenInput& token : model.tokens) {
        if (!token.subject.empty()) subjects.insert(token.subject);
      }
      ASSERT_EQ(service->Describe("t", "m", false, {})->subjects, subjects.size());
    }
  }
  const std::string digest = service.Digest("m");
  service.Restart();
  EXPECT_EQ(service.Digest("m"), digest);
  EXPECT_EQ(ErasureLog(service).size(), certificates);
}

INSTANTIATE_TEST_SUITE_P(
    Seeds,
    ModelTest,
    testing::Values(Case{1, 3, svdd::DuplicatesPolicy::kShared, false},
                    Case{2, 4.5, svdd::DuplicatesPolicy::kShared, true},
                    Case{3, 6, svdd::DuplicatesPolicy::kOldestFirst, false},
                    Case{4, 2, svdd::DuplicatesPolicy::kNewestFirst, true},
                    Case{5, 1, svdd::DuplicatesPolicy::kShared, false},
                    Case{6, 12.25, svdd::DuplicatesPolicy::kOldestFirst, true}),
    [](const auto& instance) { return absl::StrCat("Seed", instance.param.seed); });

}  // namespace
}  // namespace lethe::service
