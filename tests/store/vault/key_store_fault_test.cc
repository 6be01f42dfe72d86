// Kills and failed system calls at every place where destroying, allocating and changing the epoch
// change a file. After each: the file opens, what was answered holds, nothing else has changed, and
// the step can be done again.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/store/vault/fault_calls.h"
#include "tests/store/vault/vault_fixture.h"

namespace lethe::store {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kSlots = 60;
const std::vector<uint64_t> kGone = {3, 30};  // before the step
const std::vector<uint64_t> kVictims = {1, 2, 15, 30, 31, 59, 60};

enum class Step { kDestroy, kRotate, kAllocate };

// What the step said of itself.
struct Answer {
  bool ok = false;             // what was asked for has happened
  bool evidence = false;       // and nothing is left of what should be gone
  bool indeterminate = false;  // nobody knows
};

Answer Take(KeyStore& store, Step step) {
  switch (step) {
    case Step::kDestroy: {
      const auto result = store.Destroy(kVictims);
      return {result.ok(), result.ok() && result->evidence.ok(), IsIndeterminate(result.status())};
    }
    case Step::kRotate: {
      const auto result = store.Rotate();
      return {result.ok(), result.ok() && result->evidence.ok(), IsIndeterminate(result.status())};
    }
    case Step::kAllocate: {
      const auto result = store.Allocate(5);
      return {result.ok(), result.ok(), IsIndeterminate(result.status())};
    }
  }
  return {};
}

class Faults : public VaultTest {
 protected:
  void SetUp() override {
    options_.rewrap_batch = 25;
    VaultTest::SetUp();
    ASSERT_OK(store_->Allocate(kSlots));
    marks_ = MarkAll();
    ASSERT_OK(store_->Destroy(kGone));
    wrapped_ = WrappedKeys();
    Close();
    kek_ = ReadFile(kek_folder() + "/kek-0000000001");
    fs::create_directory(Master());
    fs::copy(temp_.path() + "/keys.db", Master());
    fs::copy(kek_folder(), Master() + "/kek");
  }
  std::string Master() const { return temp_.path() + "/master"; }

  // The files as they were before the step.
  void Restore() {
    Close();
    for (const std::string& file : files()) fs::remove(file);
    fs::remove_all(kek_folder());
    fs::copy(Master() + "/keys.db", path());
    fs::copy(Master() + "/kek", kek_folder());
    fs::permissions(kek_folder(), fs::perms::owner_all);
    Reopen();
  }

  // Pieces of the wrapped keys of these slots, as the master had them, in the raw files.
  size_t CopiesOf(const std::vector<uint64_t>& slots) {
    std::string bytes;
    for (const std::string& file : files()) {
      if (fs::exists(file)) bytes += ReadFile(file);
    }
    size_t count = 0;
    for (uint64_t slot : slots) {
      const std::string& wrapped = wrapped_[slot - 1];
      if (wrapped == std::string(kWrappedKeyBytes, '\0')) continue;  // destroyed before the step
      for (size_t at = 0; at + 12 <= wrapped.size(); at += 12) {
        if (bytes.find(wrapped.substr(at, 12)) != std::string::npos) ++count;
      }
    }
    return count;
  }
  std::vector<uint64_t> AllSlots() const {
    std::vector<uint64_t> all;
    for (uint64_t slot = 1; slot <= kSlots; ++slot) all.push_back(slot);
    return all;
  }
  bool Destroyed(uint64_t slot) { return *store_->State(slot) == SlotState::kDestroyed; }

  // Every key that must be there is the one that it was, and no other is there.
  void ExpectLive(const std::set<uint64_t>& destroyed) {
    for (uint64_t slot = 1; slot <= kSlots; ++slot) {
      ASSERT_EQ(OpensMark(*store_, slot, marks_[slot - 1]), !destroyed.contains(slot)) << slot;
    }
  }

  // After the step was struck, with the files closed. `answer` is what was answered, if anything.
  void Judge(Step step, const Answer& answer) {
    const std::set<uint64_t> gone(kGone.begin(), kGone.end());
    if (answer.evidence && step == Step::kDestroy) {
      EXPECT_EQ(CopiesOf(kVictims), 0u);
    }
    if (answer.evidence && step == Step::kRotate) {
      EXPECT_EQ(CopiesOf(AllSlots()), 0u);
      EXPECT_FALSE(fs::exists(kek_folder() + "/kek-0000000001"));
    }
    ASSERT_OK(TryOpen());
    if (step == Step::kRotate) {
      // Whatever was struck: the epochs that are gone are known.
      const std::vector<uint32_t> epochs = *kms_->Epochs();
      const bool first_is_gone = epochs.front() != 1;
      ASSERT_EQ(*store_->EndedEpochs(),
                first_is_gone ? std::vector<uint32_t>{1} : std::vector<uint32_t>{});
      if (first_is_gone) ++epochs_found_gone_;
    }
    switch (step) {
      case Step::kDestroy: {
        const bool done = Destroyed(kVictims[0]);
        for (uint64_t slot : kVictims) {
          ASSERT_EQ(Destroyed(slot), done || gone.contains(slot)) << slot;  // all or none
        }
        ASSERT_TRUE(done || !answer.ok);
        std::set<uint64_t> destroyed = gone;
        if (done) destroyed.insert(kVictims.begin(), kVictims.end());
        ExpectLive(destroyed);
        // Once more, as the outbox does: now it is done, with evidence.
        const auto result = store_->Destroy(kVictims);
        ASSERT_OK(result);
        ASSERT_OK(result->evidence);
        EXPECT_EQ(CopiesOf(kVictims), 0u);
        destroyed.insert(kVictims.begin(), kVictims.end());
        ExpectLive(destroyed);
        break;
      }
      case Step::kRotate: {
        ExpectLive(gone);
        const uint32_t current = *kms_->CurrentEpoch();
        EXPECT_LE(current, 2u);
        const auto result = store_->FinishRotation();
        ASSERT_OK(result);
        ASSERT_OK(result->evidence);
        EXPECT_EQ(*kms_->Epochs(), std::vector<uint32_t>{current});
        ASSERT_TRUE(current == 2 || !answer.ok);
        EXPECT_EQ(*store_->EndedEpochs(),
                  current == 2 ? std::vector<uint32_t>{1} : std::vector<uint32_t>{});
        if (current == 2) {
          EXPECT_EQ(CopiesOf(AllSlots()), 0u);
          for (const auto& entry : fs::directory_iterator(kek_folder())) {
            EXPECT_NE(ReadFile(entry.path().string()), kek_);
          }
        } else {
          EXPECT_GT(CopiesOf(AllSlots()), 0u);  // the scan can find them
        }
        ExpectLive(gone);
        break;
      }
      case Step::kAllocate:
        ASSERT_TRUE(store_->slots() == kSlots || store_->slots() == kSlots + 5);
        ASSERT_TRUE(store_->slots() == kSlots + 5 || !answer.ok);
        ExpectLive(gone);
        for (uint64_t slot = kSlots + 1; slot <= store_->slots(); ++slot) {
          SealMark(*store_, slot);
        }
        ASSERT_OK(store_->Allocate(5));
        break;
    }
  }

  std::vector<std::string> marks_;
  std::vector<std::string> wrapped_;
  std::string kek_;
  uint64_t epochs_found_gone_ = 0;  // after a strike
};

class Killed : public Faults, public ::testing::WithParamInterface<std::tuple<Step, Fault>> {};

TEST_P(Killed, LosesNothingAndBringsNothingBack) {
  const auto [step, fault] = GetParam();
  uint64_t kills = 0;
  for (uint64_t at = 1;; ++at) {
    SCOPED_TRACE(absl::StrCat("call ", at));
    ASSERT_LT(at, 300u);
    Restore();
    Close();
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      if (!TryOpen().ok()) ::_exit(9);
      ArmFault(fault, at);
      const Answer answer = Take(*store_, step);
      DisarmFault();
      ::_exit(answer.evidence ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    const bool finished = WIFEXITED(status);
    ASSERT_TRUE(!finished || WEXITSTATUS(status) == 0);
    if (finished && step == Step::kRotate) {
      EXPECT_GE(epochs_found_gone_, 1u);  // a kill stood between the KMS and the answer
    }
    Judge(step, {.ok = finished, .evidence = finished});
    if (HasFailure()) return;
    if (finished) break;
    ++kills;
  }
  std::cout << kills << " kills" << std::endl;
  EXPECT_GE(kills, 4u);  // or nothing was struck
}

std::string StepName(Step step) {
  return step == Step::kDestroy ? "destroy" : step == Step::kRotate ? "rotate" : "allocate";
}

template <typename Info>
std::string CaseName(const Info& info) {
  static const char* const kNames[] = {"None",     "KillBefore", "KillAfter", "KillShort",
                                       "FailOnce", "FailAll",    "Full"};
  return StepName(std::get<0>(info.param)) + kNames[static_cast<int>(std::get<1>(info.param))];
}

const auto kSteps = ::testing::Values(Step::kDestroy, Step::kRotate, Step::kAllocate);

INSTANTIATE_TEST_SUITE_P(
    At,
    Killed,
    ::testing::Combine(kSteps,
                       ::testing::Values(Fault::kKillBefore, Fault::kKillAfter, Fault::kKillShort)),
    [](const auto& instance) { return CaseName(instance); });

class Failing : public Faults, public ::testing::WithParamInterface<std::tuple<Step, Fault>> {};

TEST_P(Failing, IsSaidAndLosesNothing) {
  const auto [step, fault] = GetParam();
  uint64_t struck = 0;
  uint64_t whole = 0;
  for (uint64_t at = 1;; ++at) {
    SCOPED_TRACE(absl::StrCat("call ", at));
    ASSERT_LT(at, 300u);
    Restore();
    ArmFault(fault, at);
    const Answer answer = Take(*store_, step);
    const uint64_t calls = DisarmFault();
    // With space again, or the device back, a store that still answers goes on without reopening.
    if (step == Step::kDestroy && store_->Health().ok()) {
      const auto again = store_->Destroy(kVictims);
      ASSERT_OK(again);
      ASSERT_OK(again->evidence);
    }
    if (step == Step::kRotate && store_->Health().ok()) {
      const auto again = store_->FinishRotation();
      ASSERT_OK(again);
      ASSERT_OK(again->evidence);
      if (*kms_->CurrentEpoch() == 2) {
        for (const auto& entry : fs::directory_iterator(kek_folder())) {
          EXPECT_NE(ReadFile(entry.path().string()), kek_) << entry.path();
        }
      }
    }
    if (step == Step::kDestroy && !answer.ok && !answer.indeterminate && !store_->Health().ok()) {
      ASSERT_OK(TryOpen());
      EXPECT_FALSE(Destroyed(kVictims[0]));  // an error that is no riddle has changed nothing
    }
    Close();
    Judge(step, answer);
    if (HasFailure()) return;
    if (calls < at) {
      EXPECT_TRUE(answer.evidence);
      break;
    }
    ++(answer.evidence ? whole : struck);
  }
  std::cout << struck << " answers were changed by a fault, " << whole << " were not" << std::endl;
  EXPECT_GE(struck, 2u);
}

// A key store that is being made.
class Making : public VaultTest, public ::testing::WithParamInterface<Fault> {
 protected:
  void SetUp() override {
    VaultTest::SetUp();
    Close();
    for (const std::string& file : files()) fs::remove(file);
  }
  void OpenKms() {
    file_kms_ = *FileKms::Open(kek_folder());
    kms_ = std::make_unique<WatchedKms>(file_kms_.get());
  }
};

TEST_P(Making, IsRepeatedAfterAFault) {
  const bool kills = GetParam() == Fault::kKillBefore || GetParam() == Fault::kKillAfter ||
                     GetParam() == Fault::kKillShort;
  uint64_t struck = 0;
  for (uint64_t at = 1;; ++at) {
    SCOPED_TRACE(absl::StrCat("call ", at));
    ASSERT_LT(at, 100u);
    bool finished = false;
    if (kills) {
      const pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        OpenKms();
        ArmFault(GetParam(), at);
        const auto made = KeyStore::Create(path(), Uid(1), kms_.get());
        DisarmFault();
        ::_exit(made.ok() ? 0 : 1);
      }
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      finished = WIFEXITED(status);
      ASSERT_TRUE(!finished || WEXITSTATUS(status) == 0);
    } else {
      OpenKms();
      ArmFault(GetParam(), at);
      auto made = KeyStore::Create(path(), Uid(1), kms_.get());
      finished = DisarmFault() < at;
      ASSERT_TRUE(!finished || made.ok());
      if (!made.ok() && GetParam() == Fault::kFail) {
        EXPECT_FALSE(fs::exists(path()));  // what the error left can be repeated
      }
      Close();
    }
    // Of another tenant, so that what a crash left is told from what is made now.
    OpenKms();
    auto again = KeyStore::Create(path(), Uid(2), kms_.get());
    if (absl::IsAlreadyExists(again.status())) {
      EXPECT_OK(TryOpen());
    } else {
      ASSERT_OK(again);
      EXPECT_FALSE(finished && kills);
      ASSERT_OK((*again)->Allocate(1));
    }
    again = absl::UnavailableError("closed");
    Close();
    EXPECT_FALSE(fs::exists(path() + ".new"));
    EXPECT_FALSE(fs::exists(path() + ".new-wal"));
    for (const std::string& file : files()) fs::remove(file);
    if (finished) break;
    ++struck;
  }
  EXPECT_GE(struck, 5u);
}

INSTANTIATE_TEST_SUITE_P(At,
                         Making,
                         ::testing::Values(Fault::kKillBefore,
                                           Fault::kKillAfter,
                                           Fault::kKillShort,
                                           Fault::kFail,
                                           Fault::kFailAll,
                                           Fault::kFull));

INSTANTIATE_TEST_SUITE_P(
    At,
    Failing,
    ::testing::Combine(kSteps, ::testing::Values(Fault::kFail, Fault::kFailAll, Fault::kFull)),
    [](const auto& instance) { return CaseName(instance); });

}  // namespace
}  // namespace lethe::store
