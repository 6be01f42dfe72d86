// Quotas: rates, places for streams, and what a tenant may keep.
#include "server/service/quotas.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "server/service/retry_delay.h"
#include "tests/server/service_testing.h"

namespace lethe::service {
namespace {

using testing::HasSubstr;

TenantQuotas With(Quota quota, uint64_t limit) {
  TenantQuotas quotas;
  quotas[quota] = limit;
  return quotas;
}

// Refused by this quota.
MATCHER_P(RefusedBy, name, "") {
  const absl::Status& status = StatusOf(arg);
  *result_listener << Describe(status);
  return absl::IsResourceExhausted(status) &&
         absl::StartsWith(status.message(), std::string("quota ") + name + ":");
}

class RateTest : public testing::Test {
 protected:
  ServiceCounters counters_;
  absl::Time now_ = absl::FromUnixSeconds(1000);
};

TEST_F(RateTest, ABucketHoldsTwoSecondsAndIsFilledByTime) {
  Quotas quotas{{.defaults = With(Quota::kQueries, 10)}, &counters_, [this] { return now_; }};
  for (int i = 0; i < 20; ++i) EXPECT_THAT(quotas.Take(Quota::kQueries, "t", 1), IsOk()) << i;
  const absl::Status refused = quotas.Take(Quota::kQueries, "t", 1);
  EXPECT_THAT(refused, RefusedBy("queries"));
  const auto delay = RetryDelayOf(refused);
  ASSERT_TRUE(delay.has_value());
  EXPECT_EQ(*delay, absl::Milliseconds(100));
  EXPECT_EQ(counters_.quota_refusals[static_cast<size_t>(Quota::kQueries)], 1u);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("may have 10 a second"));
  // After that delay, and not just before it.
  now_ += *delay - absl::Milliseconds(1);
  EXPECT_THAT(quotas.Take(Quota::kQueries, "t", 1), RefusedBy("queries"));
  now_ += absl::Milliseconds(1);
  EXPECT_THAT(quotas.Take(Quota::kQueries, "t", 1), IsOk());
  EXPECT_THAT(quotas.Take(Quota::kQueries, "t", 1), RefusedBy("queries"));
  EXPECT_THAT(quotas.Take(Quota::kQueries, "another", 1), IsOk()) << "each tenant has its own";
  EXPECT_THAT(quotas.Take(Quota::kInserts, "t", 1000), IsOk()) << "each rate has its own";
  now_ += absl::Hours(1);
  for (int i = 0; i < 20; ++i) EXPECT_THAT(quotas.Take(Quota::kQueries, "t", 1), IsOk());
  EXPECT_THAT(quotas.Take(Quota::kQueries, "t", 1), RefusedBy("queries"));
}

TEST_F(RateTest, ALargeBatchIsServedAndThoseBehindItWait) {
  Quotas quotas{{.defaults = With(Quota::kInserts, 100)}, &counters_, [this] { return now_; }};
  EXPECT_THAT(quotas.Take(Quota::kInserts, "t", 1200), IsOk());  // 200 were there
  const absl::Status refused = quotas.Take(Quota::kInserts, "t", 1);
  EXPECT_THAT(refused, RefusedBy("inserts"));
  EXPECT_EQ(RetryDelayOf(refused), absl::Milliseconds(10010));
  now_ += absl::Seconds(10);
  EXPECT_THAT(quotas.Take(Quota::kInserts, "t", 1), RefusedBy("inserts"));
  now_ += absl::Milliseconds(10);
  EXPECT_THAT(quotas.Take(Quota::kInserts, "t", 1), IsOk());
}

TEST_F(RateTest, AClockThatGoesBackBringsNothingAndTakesNothing) {
  Quotas quotas{{.defaults = With(Quota::kErasures, 1)}, &counters_, [this] { return now_; }};
  EXPECT_THAT(quotas.Take(Quota::kErasures, "t", 1), IsOk());
  now_ -= absl::Hours(1);
  EXPECT_THAT(quotas.Take(Quota::kErasures, "t", 1), IsOk());
  EXPECT_THAT(quotas.Take(Quota::kErasures, "t", 1), RefusedBy("erasures"));
  now_ += absl::Seconds(1);
  EXPECT_THAT(quotas.Take(Quota::kErasures, "t", 1), IsOk());
}

TEST_F(RateTest, NewSettingsHoldAtOnce) {
  Quotas quotas{{}, &counters_, [this] { return now_; }};
  EXPECT_THAT(quotas.Take(Quota::kQueries, "t", 1'000'000), IsOk());
  quotas.Set({.defaults = With(Quota::kQueries, 1), .tenants = {{"big", {}}}});
  EXPECT_THAT(quotas.Take(Quota::kQueries, "t", 2), IsOk());
  EXPECT_THAT(quotas.Take(Quota::kQueries, "t", 1), RefusedBy("queries"));
  EXPECT_THAT(quotas.Take(Quota::kQueries, "big", 1'000'000), IsOk()) << "an entry of its own";
  EXPECT_THAT(quotas.Take(Quota::kQueries, "big", 1'000'000), IsOk());
  quotas.Set({});
  EXPECT_THAT(quotas.Take(Quota::kQueries, "t", 1), IsOk());
}

TEST_F(RateTest, StreamsHavePlacesAsLongAsTheyLive) {
  Quotas quotas{{.defaults = With(Quota::kStreams, 2)}, &counters_, [this] { return now_; }};
  auto first = quotas.EnterStream("t");
  auto second = quotas.EnterStream("t");
  EXPECT_THAT(first, IsOk());
  EXPECT_THAT(second, IsOk());
  const auto third = quotas.EnterStream("t");
  EXPECT_THAT(third, RefusedBy("streams"));
  EXPECT_TRUE(RetryDelayOf(third.status()).has_value());
  EXPECT_THAT(quotas.EnterStream("another"), IsOk());
  { const StreamPlace ended = *std::move(first); }
  EXPECT_THAT(quotas.EnterStream("t"), IsOk());
}

class ServiceQuotaTest : public testing::Test {
 protected:
  void Limit(Quota quota, uint64_t limit) {
    service_->quotas().Set({.defaults = With(quota, limit)});
  }
  absl::Status Insert(std::vector<TokenInput> tokens) {
    return service_->Insert("t", "m", std::move(tokens), {}).status();
  }
  Harness service_;
};

TEST_F(ServiceQuotaTest, TokensCountOnceAndErasuresAreNeverRefused) {
  service_.MakeMemory("m");
  Limit(Quota::kTokens, 5);
  EXPECT_THAT(Insert(Spiral(5)), IsOk());
  EXPECT_THAT(Insert(Spiral(5)), IsOk()) << "a repetition adds nothing";
  const std::string digest = service_.Digest("m");
  EXPECT_THAT(Insert(Spiral(6)), RefusedBy("tokens"));
  EXPECT_EQ(service_.Digest("m"), digest) << "nothing was changed";
  service_.MakeMemory("other");
  EXPECT_THAT(service_->Insert("t", "other", Spiral(1), {}), RefusedBy("tokens"))
      << "of the tenant, not of a memory";
  service_.Forget("m", {"a0", "a1"});
  EXPECT_THAT(Insert(Spiral(2, "b")), IsOk());
  EXPECT_THAT(Insert(Spiral(1, "c")), RefusedBy("tokens"));
  Limit(Quota::kTokens, 1);  // less than there is
  EXPECT_EQ(service_.Forget("m", {"a2"}).erased, 1u);
  EXPECT_THAT(service_->Edit(EditOf("m", {MakeToken("a3", 0.5, 0.5)}), {}), IsOk());
}

TEST_F(ServiceQuotaTest, Memories) {
  Limit(Quota::kMemories, 1);
  service_.MakeMemory("m");
  EXPECT_THAT(service_->CreateMemory("t", "n", SmallConfig(), {}), RefusedBy("memories"));
  EXPECT_THAT(service_->DeleteMemory("t", "m", {}), IsOk());
  EXPECT_THAT(service_->CreateMemory("t", "n", SmallConfig(), {}), IsOk());
}

// Pages that an erasure freed count no more, though the file keeps them.
TEST_F(ServiceQuotaTest, BytesAreThoseInUse) {
  service_.MakeMemory("m");
  std::vector<TokenInput> large = Spiral(40);
  for (TokenInput& token : large) token.payload = std::string(60000, 'x');
  Limit(Quota::kBytes, 3'000'000);
  EXPECT_THAT(Insert(large), IsOk());
  TokenInput more = MakeToken("more", 7.0, 7.0);
  more.payload = std::string(60000, 'x');
  absl::Status status;
  int added = 0;
  for (; added < 20 && status.ok(); ++added) {
    more.id = "more" + std::to_string(added);
    more.key[0] += 1.0;
    status = Insert({more});
  }
  EXPECT_THAT(status, RefusedBy("bytes"));
  EXPECT_GT(added, 2);
  std::vector<std::string> ids;
  for (const TokenInput& token : large) ids.push_back(token.id);
  service_.Forget("m", ids);
  EXPECT_THAT(Insert({more}), IsOk());
}

TEST_F(ServiceQuotaTest, RatesOfEachKind) {
  service_.MakeMemory("m");
  service_.options().tenant.now = [] { return absl::FromUnixSeconds(2'000'000'000); };
  service_.Restart();
  EXPECT_THAT(Insert(Spiral(8)), IsOk());
  const QueryInput query{.tenant = "t", .memory = "m", .queries = {{0.0, 0.0}, {1.0, 0.0}}};
  Limit(Quota::kQueries, 1);
  EXPECT_THAT(service_->Query(query, {}), IsOk());
  EXPECT_THAT(service_->Query(query, {}), RefusedBy("queries"));
  Limit(Quota::kInserts, 1);
  EXPECT_THAT(Insert(Spiral(3, "b")), IsOk());
  EXPECT_THAT(Insert(Spiral(1, "c")), RefusedBy("inserts"));
  Limit(Quota::kErasures, 1);
  for (const char* id : {"a0", "a1"}) {
    EXPECT_THAT(service_->Forget(ForgetOf("m", {id}), {}), IsOk());
  }
  EXPECT_THAT(service_->Forget(ForgetOf("m", {"a2"}), {}), RefusedBy("erasures"));
  EXPECT_THAT(service_->Evict(EvictOf("m", 3), {}), RefusedBy("erasures"));
  EXPECT_THAT(service_->Edit(EditOf("m", {MakeToken("a3", 0.5, 0.5)}), {}), RefusedBy("erasures"));
  EXPECT_THAT(service_->DeleteMemory("t", "m", {}), RefusedBy("erasures"));
  EXPECT_THAT(service_->Discover("t", {{.type = "", .value = "somebody"}}, {}),
              RefusedBy("erasures"));
  // Nothing is kept about names that no tenant has.
  EXPECT_THAT(
      service_->Forget({.tenant = "nobody", .memory = "m", .target = ForgetEverything{}}, {}),
      HasCode(kNotFound));
}

// Only what was done counts.
TEST_F(ServiceQuotaTest, WhatIsRefusedCostsNothingOfARate) {
  service_.MakeMemory("m");
  service_.options().tenant.now = [] { return absl::FromUnixSeconds(2'000'000'000); };
  service_.Restart();
  const QueryInput query{.tenant = "t", .memory = "m", .queries = {{0.0, 0.0}}};
  const QueryInput elsewhere{.tenant = "t", .memory = "nowhere", .queries = {{0.0, 0.0}}};
  QuotaSettings settings{.defaults = With(Quota::kQueries, 1)};
  settings.defaults[Quota::kInserts] = 1;
  settings.defaults[Quota::kErasures] = 1;
  service_->quotas().Set(settings);
  EXPECT_THAT(Insert(Spiral(2)), IsOk());
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(service_->Query(elsewhere, {}), HasCode(kNotFound));
    EXPECT_THAT(service_->Forget(ForgetOf("nowhere", {"a"}), {}), HasCode(kNotFound));
  }
  EXPECT_THAT(service_->Query(query, {}), IsOk());
  EXPECT_THAT(service_->Query(query, {}), IsOk());
  EXPECT_THAT(service_->Query(query, {}), RefusedBy("queries"));
  EXPECT_THAT(service_->Forget(ForgetOf("m", {"a0"}), {}), IsOk());
  EXPECT_THAT(Insert(Spiral(1, "b")), RefusedBy("inserts"));

  settings.defaults[Quota::kInserts] = 2;
  settings.defaults[Quota::kTokens] = 2;
  service_.Restart();
  service_->quotas().Set(settings);
  for (int i = 0; i < 5; ++i) EXPECT_THAT(Insert(Spiral(4, "c")), RefusedBy("tokens"));
  FailOnce(service_, "InsertTokens", absl::ResourceExhaustedError("full"));
  EXPECT_THAT(Insert(Spiral(1, "d")), HasCode(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(Insert(Spiral(1, "d")), IsOk());
  // What its caller gave up has been worked on.
  const CallOptions gone{.still_wanted = [] { return absl::CancelledError("gone"); }};
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(service_->Insert("t", "m", Spiral(2, "e"), gone).status(),
                HasCode(absl::StatusCode::kCancelled));
  }
  EXPECT_THAT(Insert(Spiral(1, "e")), RefusedBy("inserts"));
}

}  // namespace
}  // namespace lethe::service
