// An index that has lost an entry, as a bit that flips in a page of SQLite's can make it: nothing
// that is asked for is left behind without a word.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/server/log_testing.h"
#include "tests/server/service_testing.h"

namespace lethe::service {
namespace {

// Makes the index anew without the entry of this handle, and calls it what it was before.
void LoseEntry(Harness& service, const std::string& index, int handle) {
  service.Stop();
  const std::string sql =
      RawText(service, absl::StrCat("SELECT sql FROM sqlite_schema WHERE name = '", index, "'"));
  const bool partial = sql.find("WHERE") != std::string::npos;
  const std::string without = absl::StrCat(sql, partial ? " AND" : " WHERE", " handle <> ", handle);
  Raw(service,
      absl::StrCat("DROP INDEX ", index, ";", without,
                   "; PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = '",
                   absl::StrReplaceAll(sql, {{"'", "''"}}), "' WHERE name = '", index, "'"));
  service.Restart();
}

class DamageTest : public ::testing::Test {
 protected:
  DamageTest() {
    service_.MakeMemory("m");
    std::vector<TokenInput> tokens = Spiral(6);
    for (size_t i = 0; i < 3; ++i) tokens[i].subject = "somebody";
    service_.Insert("m", tokens);
  }
  Harness service_;
};

TEST_F(DamageTest, ASubjectIsNotForgottenInPart) {
  LoseEntry(service_, "tokens_by_subject", 2);
  const std::string before = service_.Digest("m");
  EXPECT_THAT(service_->Forget(ForgetSubjectOf("m", "somebody"), {}),
              HasCode(absl::StatusCode::kDataLoss));
  EXPECT_EQ(service_.Digest("m"), before);
  EXPECT_EQ(Tokens(service_, "m"), 6u);
}

TEST_F(DamageTest, AnIdIsNotPassedOver) {
  LoseEntry(service_, "tokens_by_id", 2);
  // Opening counts by this index.
  EXPECT_THAT(service_->Forget(ForgetOf("m", {"a1"}), {}), HasCode(absl::StatusCode::kUnavailable));
}

TEST_F(DamageTest, ATokenThatIsNotFoundByItsHandleIsNotMissing) {
  LoseEntry(service_, "tokens_by_handle", 2);
  EXPECT_THAT(service_->Describe("t", "m", false, {}), HasCode(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace lethe::service
