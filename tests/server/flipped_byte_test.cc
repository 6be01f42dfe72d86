// Bytes that changed in a tenant's file while nobody looked: that tenant alone is not served, or
// what needs them is refused, or the change is of no consequence. No answer about tokens is ever
// wrong. A certificate's envelope is judged by whoever verifies it.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/server/log_testing.h"

namespace lethe::service {
namespace {

constexpr size_t kPage = 4096;
constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

class FlippedByteTest : public testing::Test {
 protected:
  FlippedByteTest() {
    EXPECT_THAT(service_->CreateTenant("sound", {}), IsOk());
    EXPECT_THAT(service_->CreateMemory("sound", "m", SmallConfig(), {}), IsOk());
    EXPECT_THAT(service_->Insert("sound", "m", Spiral(5), {}), IsOk());
    service_.MakeMemory("m");
    std::vector<TokenInput> tokens = Spiral(40);
    for (size_t i = 0; i < 10; ++i) tokens[i].subject = "anna";
    service_.Insert("m", tokens);
    service_.Forget("m", {"a39"});
    digest_ = service_.Digest("m");
    service_.Stop();
    std::ifstream file(path(), std::ios::binary);
    good_ = {std::istreambuf_iterator<char>(file), {}};
  }

  std::string path() const { return service_.data() + "/tenants/t/tenant.db"; }
  void Write(const std::string& bytes) const {
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << bytes;
  }
  size_t RootOf(const std::string& name) {
    int page = 0;
    EXPECT_TRUE(absl::SimpleAtoi(
        RawText(service_,
                absl::StrCat("SELECT rootpage FROM sqlite_schema WHERE name = '", name, "'")),
        &page));
    return static_cast<size_t>(page);
  }
  // Whether nothing was noticed. Every answer that is given is what it was.
  bool ServedAsBefore() {
    service_.Restart();
    EXPECT_THAT(service_->Describe("sound", "m", true, {}), IsOk());
    const bool served = TenantServed();
    EXPECT_THAT(service_->Insert("sound", "m", Spiral(5), {}), IsOk());
    service_.Stop();
    return served;
  }

  bool TenantServed() {
    const auto described = service_->Describe("t", "m", false, {});
    if (!described.ok()) {
      EXPECT_THAT(described, HasCode(kUnavailable));
      EXPECT_THAT(service_->Insert("t", "m", Spiral(1, "z"), {}), HasCode(kUnavailable));
      return false;
    }
    EXPECT_EQ(described->state_digest, digest_);
    std::vector<std::string> ids;
    for (int i = 0; i < 39; ++i) ids.push_back(absl::StrCat("a", i));
    ForgetInput by_id = ForgetOf("m", ids);
    ForgetInput by_subject = ForgetSubjectOf("m", "anna");
    for (ForgetInput* input : {&by_id, &by_subject}) {
      input->dry_run = true;
      const auto plan = service_->Forget(*input, {});
      if (!plan.ok()) {
        EXPECT_THAT(plan, HasCode(absl::StatusCode::kDataLoss));
        return false;
      }
      EXPECT_EQ(plan->matched, input == &by_id ? 39u : 10u);
    }
    const auto checkpoint = service_->GetCheckpoint("t");
    EXPECT_THAT(checkpoint, IsOk());
    EXPECT_EQ(VerifiedCheckpoint(*checkpoint).size, 2u);
    return true;
  }

  Harness service_;
  std::string digest_;
  std::string good_;
};

TEST_F(FlippedByteTest, OneInATableOrAnIndexKeepsThatTenantAloneFromBeingServed) {
  // In the middle of what a column of a table holds.
  for (const char* column :
       {"body) FROM tokens WHERE handle = 7", "id_key) FROM tokens WHERE handle = 7",
        "leaf) FROM certificates WHERE sequence = 0", "config) FROM memories",
        "range) FROM log_head"}) {
    SCOPED_TRACE(column);
    Write(good_);
    const std::string value =
        absl::HexStringToBytes(RawText(service_, absl::StrCat("SELECT hex(", column)));
    std::string bytes = good_;
    ASSERT_GT(value.size(), 8u);
    for (size_t at = 0; (at = bytes.find(value, at)) != std::string::npos; at += value.size()) {
      char& byte = bytes[at + value.size() / 2];
      byte = static_cast<char>(byte ^ 0x41);
    }
    ASSERT_NE(bytes, good_);
    Write(bytes);
    EXPECT_FALSE(ServedAsBefore());
  }
  // In the last cell of an index's page.
  for (const std::string name : {"tokens_by_handle", "tokens_by_id", "tokens_by_subject"}) {
    SCOPED_TRACE(name);
    Write(good_);
    std::string bytes = good_;
    const size_t page = RootOf(name);
    // Cells fill a page from its end: the first byte of them in use is not far from there.
    const size_t at = page * kPage - 9;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x41);
    Write(bytes);
    // How an index is read decides whether a key out of order matters to the only subject there is.
    const bool served = ServedAsBefore();
    EXPECT_TRUE(!served || name == "tokens_by_subject");
  }
  Write(good_);
  EXPECT_TRUE(ServedAsBefore());
}

TEST_F(FlippedByteTest, OneBitAnywhereIsNoticedOrOfNoConsequence) {
  const uint64_t seed = std::random_device()();
  RecordProperty("seed", absl::StrCat(seed));
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  int noticed = 0;
  constexpr int kRounds = 40;
  for (int round = 0; round < kRounds; ++round) {
    std::string bytes = good_;
    const size_t at = random() % bytes.size();
    SCOPED_TRACE(absl::StrCat("byte ", at));
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8)));
    Write(bytes);
    noticed += ServedAsBefore() ? 0 : 1;
  }
  std::printf("%d flips, %d of them noticed, the others without consequence\n", kRounds, noticed);
}

}  // namespace
}  // namespace lethe::service
