// KEK files when system calls fail and when the process is killed at one of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/store/vault/fault_calls.h"
#include "tests/store/vault/file_kms_fixture.h"

namespace lethe::store {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

TEST_F(FileKmsTest, ADestroyedKeyIsOverwrittenBeforeItsNameGoes) {
  // The calls fail one after the other. What stays under the other name is whole or zeros.
  int zeros = 0;
  for (uint64_t at = 1;; ++at) {
    ASSERT_LT(at, 20u);
    auto kms = Create();
    ASSERT_OK(kms->Rotate());
    const std::string file = ReadFile(PathOf(1));
    const std::string discarded = folder_ + "/.old-kek-0000000001";
    ArmFault(Fault::kFail, at);
    const absl::Status status = kms->Destroy(1);
    DisarmFault();
    if (fs::exists(discarded)) {
      const std::string left = ReadFile(discarded);
      EXPECT_TRUE(left == file || left == std::string(64, '\0'));
      if (left != file) ++zeros;
    }
    EXPECT_OK(kms->Destroy(1));  // again, and it is done
    EXPECT_THAT(Names(), ElementsAre("kek-0000000002"));
    fs::remove_all(folder_);
    if (status.ok()) break;
  }
  EXPECT_EQ(zeros, 2);  // syncing the zeros failed, unlinking failed
}

// One step of a KEK's life, killed at each system call that changes a file.
struct Step {
  std::string name;
  std::function<absl::Status(FileKms& kms)> run;
};

class KilledKms : public FileKmsTest, public ::testing::WithParamInterface<Fault> {};

TEST_P(KilledKms, LeavesWholeEpochsOnly) {
  const std::vector<Step> steps = {{"rotate", [](FileKms& kms) { return kms.Rotate().status(); }},
                                   {"destroy", [](FileKms& kms) { return kms.Destroy(1); }},
                                   {"destroy all", [](FileKms& kms) { return kms.DestroyAll(); }}};
  uint64_t kills = 0;
  for (const Step& step : steps) {
    for (uint64_t at = 1;; ++at) {
      SCOPED_TRACE(absl::StrCat(step.name, ", call ", at));
      ASSERT_LT(at, 50u);
      auto kms = Create();
      ASSERT_OK(kms->Rotate());
      const std::string first = ReadFile(PathOf(1));
      const std::string second = ReadFile(PathOf(2));
      kms.reset();
      const pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        // Its own: a fork leaves no secrets.
        const auto own = FileKms::Open(folder_);
        if (!own.ok()) ::_exit(9);
        ArmFault(GetParam(), at);
        const absl::Status status = step.run(**own);
        DisarmFault();
        ::_exit(status.ok() ? 0 : 1);
      }
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      const auto opened = FileKms::Open(folder_);
      if (step.name == "destroy all" && absl::IsNotFound(opened.status())) {
        EXPECT_THAT(Names(), ElementsAre(".end-kek-0000000002"));
        EXPECT_EQ(ReadFile(folder_ + "/.end-kek-0000000002"), std::string(64, '\0'));
        EXPECT_CODE(FileKms::Create(folder_), absl::StatusCode::kFailedPrecondition);
      } else {
        ASSERT_OK(opened);
        const std::vector<uint32_t> epochs = *(*opened)->Epochs();
        EXPECT_EQ(Names().size(), epochs.size());  // nothing half-made is left
        for (uint32_t epoch : epochs) {
          EXPECT_LE(epoch, step.name == "rotate" ? 3u : 2u);
          if (epoch <= 2) {
            EXPECT_EQ(ReadFile(PathOf(epoch)), epoch == 1 ? first : second);
          }
        }
        EXPECT_TRUE(fs::exists(PathOf(2)));
        EXPECT_TRUE(step.name != "rotate" || fs::exists(PathOf(1)));
        // The step can be done again.
        EXPECT_OK(step.run(**opened));
      }
      fs::remove_all(folder_);
      if (WIFEXITED(status)) {
        EXPECT_EQ(WEXITSTATUS(status), 0);
        EXPECT_GT(at, 3u);  // or nothing was struck
        break;
      }
      ++kills;
    }
  }
  std::cout << kills << " kills" << std::endl;
}

INSTANTIATE_TEST_SUITE_P(Faults,
                         KilledKms,
                         ::testing::Values(Fault::kKillBefore,
                                           Fault::kKillAfter,
                                           Fault::kKillShort));

}  // namespace
}  // namespace lethe::store
