// Quotas as the settings say them, and what a reload takes.
#include "server/quota_text.h"

#include <string>
#include <vector>

#include "server/reload.h"
#include "tests/server/service_testing.h"

namespace lethe::server {
namespace {

using service::Fails;
using service::HasCode;
using service::IsOk;
using service::kInvalid;
using service::Quota;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(QuotaTextTest, EntriesInheritWhatTheyDoNotName) {
  // Also from an entry that comes behind them.
  const auto settings =
      ParseQuotas("quota", {"clinic:tokens=0,bytes=2GiB", "*:tokens=100,inserts=7,streams=3"});
  ASSERT_THAT(settings, IsOk());
  EXPECT_EQ(settings->defaults[Quota::kTokens], 100u);
  EXPECT_EQ(settings->defaults[Quota::kInserts], 7u);
  EXPECT_EQ(settings->defaults[Quota::kStreams], 3u);
  EXPECT_EQ(settings->defaults[Quota::kBytes], 0u);
  const service::TenantQuotas& clinic = settings->tenants.at("clinic");
  EXPECT_EQ(clinic[Quota::kTokens], 0u);
  EXPECT_EQ(clinic[Quota::kBytes], uint64_t{2} << 30);
  EXPECT_EQ(clinic[Quota::kInserts], 7u);
  const std::vector<std::string> texts = FormatQuotas(*settings);
  EXPECT_EQ(texts.size(), 2u);
  const auto again = ParseQuotas("quota", texts);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(*again, *settings);
  EXPECT_THAT(FormatQuotas({}), IsEmpty());
  EXPECT_THAT(ParseQuotas("quota", {}), IsOk());
}

TEST(QuotaTextTest, FaultsAreNamed) {
  for (const auto& [text, what] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"tokens=1"}, "has no ':'"},
           {{"*:"}, "names must be of tokens, memories, bytes"},
           {{"*:token=1"}, "names must be of"},
           {{"*:tokens=1,tokens=2"}, "a name twice"},
           {{"*:tokens=-1"}, "whole numbers"},
           {{"*:tokens="}, "whole numbers"},
           {{"*:tokens"}, "whole numbers"},
           {{"*:tokens=99999999999999999999"}, "whole numbers"},
           {{"*:tokens=9999999999999999999"}, "too large"},
           {{"*:bytes=5x"}, "number of bytes"},
           {{"*:tokens=1", "*:tokens=2"}, "a tenant twice"},
           {{"t:tokens=1", "t:tokens=2"}, "a tenant twice"},
           {{"No Name:tokens=1"}, "a name that no tenant can have"},
           {{":tokens=1"}, "a name that no tenant can have"}}) {
    const auto parsed = ParseQuotas("--quota", text);
    EXPECT_THAT(parsed, Fails(kInvalid, "--quota")) << text[0];
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(what));
  }
}

TEST(ReloaderTest, AllPartsOrNone) {
  std::vector<std::string> done;
  const auto part = [&done](const std::string& name, absl::Status status) {
    return [&done, name, status](const Config&) -> absl::StatusOr<std::function<void()>> {
      if (!status.ok()) return status;
      return [&done, name] { done.push_back(name); };
    };
  };
  Reloader reloader;
  reloader.Add("first", part("first", absl::OkStatus()));
  reloader.Add("second", part("second", absl::OkStatus()));
  EXPECT_THAT(reloader.Apply({}), IsOk());
  EXPECT_THAT(done, ElementsAre("first", "second"));
  reloader.Add("third", part("third", absl::InvalidArgumentError("no such file")));
  const absl::Status refused = reloader.Apply({});
  EXPECT_THAT(refused, Fails(kInvalid, "third"));
  EXPECT_THAT(done, ElementsAre("first", "second")) << "nothing changed";
}

TEST(ReloaderTest, OptionsThatNeedARestartAreNamed) {
  Config before;
  Config after;
  after.quotas.defaults[Quota::kTokens] = 5;
  after.slow_call = absl::Seconds(9);
  after.log_level = program::LogLevel::kDebug;
  EXPECT_THAT(NeedRestart(before, after), IsEmpty());
  after.origin = "other.example";
  after.ballast = 0;
  EXPECT_THAT(NeedRestart(before, after), ElementsAre("origin", "ballast"));
}

}  // namespace
}  // namespace lethe::server
