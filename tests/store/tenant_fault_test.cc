// A fault at every I/O of a tenant's life (life.h), of every kind that fault_vfs.h knows. By
// default a sample; LETHE_FAULTS=all strikes every position with every kind. LETHE_TEST_SEED
// repeats a run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "store/sqlite_tenant_store.h"
#include "tests/store/fault_vfs.h"
#include "tests/store/life.h"
#include "tests/store/life_judge.h"
#include "tests/store/store_testing.h"

namespace lethe::store {
namespace {

// What flipped bits came to.
struct Flips {
  uint64_t harmless = 0;                      // everything is as it should be
  uint64_t refused = 0;                       // to be opened, or to be read
  std::map<std::string, uint64_t> unnoticed;  // outside of what is claimed
};

struct Counts {
  uint64_t positions = 0;
  uint64_t struck = 0;
  uint64_t failed = 0;
  uint64_t refused = 0;
  uint64_t indeterminate = 0;
  uint64_t happened = 0;
  uint64_t controls = 0;
  uint64_t violations = 0;
};

uint64_t Seed() {
  static const uint64_t seed = [] {
    const char* fixed = std::getenv("LETHE_TEST_SEED");
    const uint64_t drawn =
        fixed != nullptr ? std::strtoull(fixed, nullptr, 10) : std::random_device{}();
    std::cout << "LETHE_TEST_SEED=" << drawn << std::endl;
    return drawn;
  }();
  return seed;
}

bool All() {
  const char* how = std::getenv("LETHE_FAULTS");
  return how != nullptr && std::string(how) == "all";
}

class FaultTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    KeepFilesInRam();
    InstallFaultVfs();
    book_ = new Book;
  }
  static void TearDownTestSuite() {
    delete book_;
    book_ = nullptr;
  }

  std::string Dir() const { return temp_.path() + "/tenant"; }
  void TearDown() override { EXPECT_FALSE(HasFailure()) << "LETHE_TEST_SEED=" << Seed(); }

  void Begin(const Start& start, const FaultPlan& plan) {
    Book::Lay(start, Dir());
    StartFaults(plan);
  }

  // Positions of the kind in the chapter.
  uint64_t CountPositions(const Start& start, FaultKind kind) {
    Begin(start, {.kind = kind, .at = 0, .seed = 0});
    Life life(Dir(), start.model);
    EXPECT_TRUE(life.Live(start.chapter)) << life.problem();
    return Settle();
  }

  void Strike(const Start& start, const FaultPlan& plan) {
    Begin(start, plan);
    Life life(Dir(), start.model);
    std::string bytes;
    life.off = PowerIsOff;
    life.closed = [&] {
      if (PowerIsOff()) Settle();
      if (bytes.empty()) bytes = JudgeBytes(Dir(), life.model(), start.copies);
    };
    const bool lived = life.Live(start.chapter);
    const std::string struck = Struck();
    Settle();
    if (struck.empty()) return;
    std::string problem = lived && life.Look() ? bytes : life.problem();
    if (problem.empty()) {
      problem = JudgeKeys(Dir(), life.model(), start.copies, All(), counts_.controls);
    }
    ++counts_.struck;
    counts_.failed += life.failed();
    counts_.refused += life.refused();
    counts_.indeterminate += life.indeterminate();
    counts_.happened += life.happened();
    if (problem.empty()) return;
    ++counts_.violations;
    ADD_FAILURE() << start.chapter.name << ", " << struck << " at " << plan.at << ": " << problem;
  }

  // Strikes at every `step`-th position, from a random one on.
  void StrikeEvery(FaultKind kind, uint64_t step) {
    std::mt19937_64 random(Seed());
    if (All()) step = 1;
    for (const Start& start : book_->starts()) {
      const uint64_t positions = CountPositions(start, kind);
      counts_.positions += positions;
      for (uint64_t at = 1 + random() % step; at <= positions; at += step) {
        Strike(start, {.kind = kind, .at = at, .seed = Seed()});
        if (counts_.violations >= 10) return;
      }
    }
    std::cout << counts_.positions << " positions, " << counts_.struck << " struck, "
              << counts_.failed << " steps failed, " << counts_.indeterminate
              << " of them indeterminate (" << counts_.happened << " had happened), "
              << counts_.refused << " openings refused, " << counts_.controls << " rows opened, "
              << counts_.violations << " violations" << std::endl;
    EXPECT_GT(counts_.failed, 0u);
  }

  void Flip(const Start& start, const FaultPlan& plan);
  // A difference that no flipped bit may make; others are counted.
  std::string JudgeFlip(const Facts& found, const Life& life);

  static Book* book_;
  TempFolder temp_;
  Counts counts_;
  Flips flips_;
};

Book* FaultTest::book_ = nullptr;

// What is claimed of bits that flip: a row that is read has the bytes that were written, and no row
// is missing or back; the leaves of the log are those that were written.
bool IsClaimed(const std::string& fact) {
  return absl::StrContains(fact, ": row ") || absl::StartsWith(fact, "leaf ");
}

std::string FaultTest::JudgeFlip(const Facts& found, const Life& life) {
  // The step that failed may have happened.
  std::string first;
  for (const Model& model : life.Possible()) {
    const Facts wanted = FactsOf(model);
    if (found == wanted) {
      ++flips_.harmless;
      return "";
    }
    Facts claimed_wanted;
    Facts claimed_found;
    std::ranges::copy_if(wanted, std::inserter(claimed_wanted, claimed_wanted.end()),
                         [](const auto& fact) { return IsClaimed(fact.first); });
    std::ranges::copy_if(found, std::inserter(claimed_found, claimed_found.end()),
                         [](const auto& fact) { return IsClaimed(fact.first); });
    if (claimed_wanted == claimed_found) {
      const std::string difference = Difference(wanted, found);
      ++flips_.unnoticed[difference.substr(0, difference.find('\'', 1) + 1)];
      return "";
    }
    if (first.empty()) first = Difference(claimed_wanted, claimed_found);
  }
  return first;
}

void FaultTest::Flip(const Start& start, const FaultPlan& plan) {
  Begin(start, plan);
  Life life(Dir(), start.model);
  life.Live(start.chapter);
  life.Stop();
  const std::string struck = Struck();
  Settle();
  if (struck.empty()) return;
  ++counts_.struck;
  std::string problem = life.wrong().empty() ? "" : JudgeFlip(life.wrong(), life);
  if (problem.empty()) {
    const auto opened = OpenTenantStore(Dir(), TestOptions(Dir()));
    const absl::StatusOr<Facts> found =
        opened.ok() ? FactsOf(**opened) : absl::StatusOr<Facts>(opened.status());
    if (found.ok()) {
      problem = JudgeFlip(*found, life);
    } else {
      ++flips_.refused;
    }
  }
  if (problem.empty()) return;
  ++counts_.violations;
  ADD_FAILURE() << start.chapter.name << ", " << struck << " at " << plan.at << ": " << problem
                << "; it had said: " << life.problem();
}

TEST_F(FaultTest, FlippedBits) {
  std::mt19937_64 random(Seed());
  const uint64_t step = All() ? 1 : 23;
  for (const Start& start : book_->starts()) {
    const uint64_t positions = CountPositions(start, FaultKind::kFlip);
    counts_.positions += positions;
    for (uint64_t at = 1 + random() % step; at <= positions; at += step) {
      Flip(start, {.kind = FaultKind::kFlip, .at = at, .seed = Seed()});
    }
  }
  std::cout << counts_.positions << " positions, " << counts_.struck << " struck, "
            << flips_.refused << " refused, " << flips_.harmless << " without effect, "
            << counts_.violations
            << " violations; not noticed, and not claimed to be:" << std::endl;
  for (const auto& [fact, count] : flips_.unnoticed) {
    std::cout << "  " << count << " " << fact << std::endl;
  }
  EXPECT_GT(flips_.refused, 0u);
}

TEST_F(FaultTest, Errors) { StrikeEvery(FaultKind::kError, 8); }
TEST_F(FaultTest, ShortWrites) { StrikeEvery(FaultKind::kShort, 13); }
TEST_F(FaultTest, LostSyncs) { StrikeEvery(FaultKind::kLostSync, 4); }
TEST_F(FaultTest, PowerCuts) { StrikeEvery(FaultKind::kPowerCut, 11); }

}  // namespace
}  // namespace lethe::store
