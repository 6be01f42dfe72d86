// kill -9 at every call that changes a file, SQLite's and ours, in every step of a tenant's life
// (life.h): before it, after it, and in the middle of a write. A child lives a chapter and says
// what it begins and what is acknowledged; after its end the same rules must hold as after a fault,
// and the chapter can be lived to its end. By default a sample; LETHE_FAULTS=all kills everywhere.
// LETHE_TEST_SEED repeats a run.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/check.h"
#include "tests/store/life.h"
#include "tests/store/life_judge.h"
#include "tests/store/store_testing.h"
#include "tests/store/vault/fault_calls.h"

namespace lethe::store {
namespace {

// What the child had said when it died.
struct Said {
  bool ended = false;  // by itself
  bool sound = false;  // and found nothing wrong
  uint64_t calls = 0;
  Model model;  // after what was acknowledged
  const Step* begun = nullptr;
};

class KillPoints : public ::testing::TestWithParam<Fault> {
 protected:
  static void SetUpTestSuite() {
    KeepFilesInRam();
    book_ = new Book;
  }
  static void TearDownTestSuite() {
    delete book_;
    book_ = nullptr;
  }
  std::string Dir() const { return temp_.path() + "/tenant"; }

  [[noreturn]] void RunChild(const Start& start, uint64_t at, int pipe) {
    const auto say = [pipe](const std::string& line) {
      LETHE_CHECK(::write(pipe, line.data(), line.size()) == static_cast<ssize_t>(line.size()));
    };
    Life life(Dir(), start.model);
    life.begun = [&](const Step& step) { say(absl::StrCat("b", step.name, "\n")); };
    life.acknowledged = [&](const Step& step) { say(absl::StrCat("a", step.name, "\n")); };
    ArmFault(GetParam(), at);
    const bool lived = life.Live(start.chapter);
    say(absl::StrCat("c", DisarmFault(), "\n"));
    if (!lived) std::cerr << "child: " << life.problem() << std::endl;
    ::_exit(lived ? 0 : 1);
  }

  Said LetLive(const Start& start, uint64_t at) {
    int pipe[2];
    LETHE_CHECK(::pipe(pipe) == 0);
    const pid_t child = ::fork();
    LETHE_CHECK(child >= 0);
    if (child == 0) {
      ::close(pipe[0]);
      RunChild(start, at, pipe[1]);
    }
    ::close(pipe[1]);
    std::string all;
    char bytes[4096];
    ssize_t count = 0;
    while ((count = ::read(pipe[0], bytes, sizeof bytes)) > 0) {
      all.append(bytes, static_cast<size_t>(count));
    }
    ::close(pipe[0]);
    int status = 0;
    LETHE_CHECK(::waitpid(child, &status, 0) == child);
    Said said{.ended = WIFEXITED(status),
              .sound = WIFEXITED(status) && WEXITSTATUS(status) == 0,
              .calls = 0,
              .model = start.model};
    for (const absl::string_view line : absl::StrSplit(all, '\n', absl::SkipEmpty())) {
      const std::string rest(line.substr(1));
      if (line[0] == 'c') {
        said.calls = std::strtoull(rest.c_str(), nullptr, 10);
        continue;
      }
      const Step* const step = FindStep(start.chapter, rest);
      LETHE_CHECK(step != nullptr);
      said.begun = line[0] == 'b' ? step : nullptr;
      if (line[0] == 'a') Acknowledge(*step, said.model);
    }
    return said;
  }

  // What is wrong after a kill.
  std::string Judge(const Start& start, const Said& said) {
    std::string problem = JudgeBytes(Dir(), said.model, start.copies);
    if (!problem.empty()) return problem;
    Life life(Dir(), said.model);
    if (said.begun != nullptr && said.model.made) life.Doubt(*said.begun);
    if (!life.Live(start.chapter) || !life.Look()) return life.problem();
    happened_ += life.happened();
    return JudgeKeys(Dir(), life.model(), start.copies, all_, controls_);
  }

  static Book* book_;
  TempFolder temp_;
  const bool all_ = [] {
    const char* how = std::getenv("LETHE_FAULTS");
    return how != nullptr && std::string(how) == "all";
  }();
  uint64_t happened_ = 0;
  uint64_t controls_ = 0;
};

Book* KillPoints::book_ = nullptr;

TEST_P(KillPoints, LoseNothingAndBringNothingBack) {
  const char* fixed = std::getenv("LETHE_TEST_SEED");
  const uint64_t seed =
      fixed != nullptr ? std::strtoull(fixed, nullptr, 10) : std::random_device{}();
  SCOPED_TRACE(absl::StrCat("LETHE_TEST_SEED=", seed));
  std::mt19937_64 random(seed);
  const uint64_t step = all_ ? 1 : 23;
  uint64_t points = 0;
  uint64_t violations = 0;
  std::map<std::string, uint64_t> kills;  // by step
  for (const Start& start : book_->starts()) {
    Book::Lay(start, Dir());
    const Said clean = LetLive(start, 0);
    ASSERT_TRUE(clean.sound);
    points += clean.calls;
    for (uint64_t at = 1 + random() % step; at <= clean.calls && violations < 10; at += step) {
      Book::Lay(start, Dir());
      const Said said = LetLive(start, at);
      ASSERT_TRUE(!said.ended || said.sound);
      if (said.ended) continue;  // a tree of SQLite's grew in another way this time
      ++kills[said.begun == nullptr ? "between steps" : said.begun->name];
      const std::string problem = Judge(start, said);
      if (problem.empty()) continue;
      ++violations;
      ADD_FAILURE() << start.chapter.name << ", call " << at << ": " << problem;
    }
  }
  uint64_t sum = 0;
  for (const auto& [name, count] : kills) sum += count;
  std::cout << "LETHE_TEST_SEED=" << seed << ": " << points << " points, " << sum << " kills in "
            << kills.size() << " places, " << happened_ << " steps that were cut off had happened, "
            << controls_ << " rows opened, " << violations << " violations" << std::endl;
  EXPECT_GT(happened_, 0u);
  EXPECT_GE(kills.size(), 10u);
}

INSTANTIATE_TEST_SUITE_P(At,
                         KillPoints,
                         ::testing::Values(Fault::kKillBefore,
                                           Fault::kKillAfter,
                                           Fault::kKillShort),
                         [](const auto& instance) {
                           return instance.param == Fault::kKillBefore  ? "Before"
                                  : instance.param == Fault::kKillAfter ? "After"
                                                                        : "Short";
                         });

}  // namespace
}  // namespace lethe::store
