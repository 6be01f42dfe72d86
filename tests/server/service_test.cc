// Tenants, memories, inserts, queries, descriptions: what each call does and refuses.
#include "server/service/service.h"

#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/server/service_testing.h"

namespace lethe::service {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(TenantTest, CreateGetListDelete) {
  Harness service(/*with_tenant=*/false);
  for (const char* name : {"b", "a", "c"}) {
    const auto info = service->CreateTenant(name, {});
    ASSERT_THAT(info, IsOk());
    EXPECT_EQ(info->name, name);
    EXPECT_THAT(info->log_origin, MatchesRegex("lethe\\.test/log/[0-9a-f]+"));
    EXPECT_EQ(info->log_origin.size(), std::string("lethe.test/log/").size() + 16);
    EXPECT_EQ(info->verification_key.rfind(info->log_origin + "+", 0), 0u);
    EXPECT_THAT(info->create_time, MatchesRegex("20[0-9-]+T[0-9:.]+Z"));
  }
  EXPECT_THAT(service->CreateTenant("a", {}), Fails(kExists, "name"));
  EXPECT_THAT(service->CreateTenant("A", {}), Fails(kInvalid, "name"));
  EXPECT_THAT(service->GetTenant("nobody"), HasCode(kNotFound));
  EXPECT_THAT(service->GetTenant("../a"), Fails(kInvalid, "name"));

  const auto first = service->ListTenants({.size = 2, .token = ""});
  ASSERT_THAT(first, IsOk());
  ASSERT_EQ(first->items.size(), 2u);
  EXPECT_EQ(first->items[0].name, "a");
  EXPECT_EQ(first->items[1].name, "b");
  const auto second = service->ListTenants({.size = 2, .token = first->next_page_token});
  ASSERT_THAT(second, IsOk());
  ASSERT_EQ(second->items.size(), 1u);
  EXPECT_EQ(second->items[0].name, "c");
  EXPECT_EQ(second->next_page_token, "");
  EXPECT_THAT(service->ListTenants({.size = 1001, .token = ""}), Fails(kInvalid, "page_size"));
  EXPECT_THAT(service->ListTenants({.size = 1, .token = "x"}), Fails(kInvalid, "page_token"));
}

TEST(MemoryTest, EveryBadConfigurationNamesItsField) {
  Harness service;
  const auto refused = [&](const char* field, const std::function<void(MemoryConfig&)>& spoil) {
    MemoryConfig config = SmallConfig();
    spoil(config);
    EXPECT_THAT(service->CreateMemory("t", "m", config, {}), Fails(kInvalid, field));
  };
  refused("config.kernel", [](MemoryConfig& c) { c.kernel.reset(); });
  for (const double gamma : {0.0, -1.0, kNan, kInf}) {
    refused("config.kernel.gamma", [&](MemoryConfig& c) { c.kernel->parameter = gamma; });
    refused("config.kernel.scale", [&](MemoryConfig& c) {
      c.kernel = kernel::Kernel{kernel::KernelKind::kExpDot, gamma};
    });
  }
  refused("config.box", [](MemoryConfig& c) { c.capacity.reset(); });
  refused("config.box and config.capacity", [](MemoryConfig& c) { c.box = 0.5; });
  for (const double box : {0.0, -0.5, 1.0000001, 2.0, kNan, kInf, 1e-9}) {
    refused("config.box", [&](MemoryConfig& c) {
      c.capacity.reset();
      c.box = box;
    });
  }
  for (const double capacity : {0.0, 0.5, -3.0, kNan, kInf, 1e9}) {
    refused("config.capacity", [&](MemoryConfig& c) { c.capacity = capacity; });
  }
  for (const uint32_t dimension : {0u, 4097u, 4000000000u}) {
    refused("config.key_dimension", [&](MemoryConfig& c) { c.key_dimension = dimension; });
    refused("config.value_dimension", [&](MemoryConfig& c) { c.value_dimension = dimension; });
  }
  EXPECT_THAT(service->CreateMemory("t", "M", SmallConfig(), {}), Fails(kInvalid, "name"));
  EXPECT_THAT(service->CreateMemory("T", "m", SmallConfig(), {}), Fails(kInvalid, "tenant"));
  EXPECT_THAT(service->CreateMemory("nobody", "m", SmallConfig(), {}), HasCode(kNotFound));
  // Nothing of all that left a memory behind.
  EXPECT_TRUE(service->ListMemories("t", {})->items.empty());
  EXPECT_EQ(service->GetTenant("t")->memory_count, 0u);
}

TEST(MemoryTest, CreateGetListKeepTheConfiguration) {
  Harness service;
  MemoryConfig config = SmallConfig();
  config.capacity.reset();
  config.box = 0.1;
  config.duplicates = svdd::DuplicatesPolicy::kOldestFirst;
  ASSERT_THAT(service->CreateMemory("t", "b", config, {}), IsOk());
  service.MakeMemory("a");
  EXPECT_THAT(service->CreateMemory("t", "a", SmallConfig(), {}), Fails(kExists, "name"));
  for (int round = 0; round < 2; ++round) {
    const auto info = service->GetMemory("t", "b");
    ASSERT_THAT(info, IsOk());
    EXPECT_EQ(info->tenant, "t");
    EXPECT_EQ(info->config.box, 0.1);
    EXPECT_FALSE(info->config.capacity.has_value());
    EXPECT_EQ(info->config.duplicates, svdd::DuplicatesPolicy::kOldestFirst);
    EXPECT_EQ(info->phase, svdd::Phase::kEmpty);
    const auto page = service->ListMemories("t", {.size = 1, .token = ""});
    ASSERT_EQ(page->items.size(), 1u);
    EXPECT_EQ(page->items[0].name, "a");
    const auto next = service->ListMemories("t", {.size = 1, .token = page->next_page_token});
    ASSERT_EQ(next->items.size(), 1u);
    EXPECT_EQ(next->items[0].name, "b");
    EXPECT_EQ(next->next_page_token, "");
    service.Restart();
  }
  EXPECT_THAT(service->GetMemory("t", "c"), HasCode(kNotFound));
  EXPECT_THAT(service->GetMemory("t", ""), Fails(kInvalid, "name"));
}

TEST(InsertTest, BadItemsAreRejectedByNameAndAlone) {
  Harness service;
  service.MakeMemory("m");
  std::vector<TokenInput> tokens;
  std::vector<std::string> fields;
  const auto add = [&](const std::string& field, const std::function<void(TokenInput&)>& spoil) {
    TokenInput token = MakeToken(absl::StrCat("t", tokens.size()), 0.1, 0.2);
    spoil(token);
    fields.push_back(field.empty() ? "" : absl::StrCat("tokens[", tokens.size(), "].", field));
    tokens.push_back(token);
  };
  add("", [](TokenInput&) {});
  add("key[1]", [](TokenInput& t) { t.key[1] = kNan; });
  add("key[0]", [](TokenInput& t) { t.key[0] = -kInf; });
  add("key", [](TokenInput& t) { t.key.pop_back(); });
  add("key", [](TokenInput& t) { t.key.push_back(0); });
  add("value", [](TokenInput& t) { t.value.clear(); });
  add("value[0]", [](TokenInput& t) { t.value[0] = kInf; });
  add("id", [](TokenInput& t) { t.id = std::string(257, 'x'); });
  add("id", [](TokenInput& t) { t.id = std::string("\xff"); });
  add("id", [](TokenInput& t) { t.id = std::string("a\x01"); });
  add("subject", [](TokenInput& t) { t.subject = std::string(257, 'x'); });
  add("subject", [](TokenInput& t) { t.subject = std::string("\xc3"); });
  add("payload", [](TokenInput& t) { t.payload = std::string(65537, 'x'); });
  add("labels", [](TokenInput& t) {
    for (int i = 0; i < 17; ++i) t.labels[absl::StrCat(i)] = std::string("x");
  });
  add("labels", [](TokenInput& t) { t.labels["a"] = std::string(129, 'x'); });
  add("labels", [](TokenInput& t) { t.labels[""] = std::string("x"); });
  add("", [](TokenInput& t) { t.payload = std::string(65536, 'x'); });

  const InsertReply reply = service.Insert("m", tokens);
  ASSERT_EQ(reply.results.size(), tokens.size());
  EXPECT_EQ(reply.inserted, 2u);
  EXPECT_EQ(reply.rejected, tokens.size() - 2);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const InsertItem& item = reply.results[i];
    EXPECT_EQ(item.id, tokens[i].id);
    if (fields[i].empty()) {
      EXPECT_EQ(item.outcome, InsertOutcome::kInserted) << i;
      EXPECT_FALSE(item.error.has_value()) << i;
    } else {
      EXPECT_EQ(item.outcome, InsertOutcome::kRejected) << i;
      ASSERT_TRUE(item.error.has_value()) << i;
      EXPECT_EQ(item.error->field, fields[i]);
      EXPECT_EQ(item.error->code, absl::StatusCode::kInvalidArgument);
      EXPECT_NE(item.error->message, "");
    }
  }
  // The rejected ones are not there.
  EXPECT_EQ(service.Forget("m", {"t1", "t3"}).not_found, 2u);
}

TEST(InsertTest, BadRequestsChangeNothing) {
  Harness service;
  service.MakeMemory("m");
  const std::string before = service.Digest("m");
  EXPECT_THAT(service->Insert("t", "m", {}, {}), Fails(kInvalid, "tokens"));
  EXPECT_THAT(service->Insert("t", "m", std::vector<TokenInput>(10001), {}),
              Fails(kInvalid, "tokens"));
  EXPECT_THAT(service->Insert("nobody", "m", Spiral(1), {}), HasCode(kNotFound));
  EXPECT_THAT(service->Insert("t", "none", Spiral(1), {}), HasCode(kNotFound));
  EXPECT_THAT(service->Insert("t", "No", Spiral(1), {}), Fails(kInvalid, "memory"));
  CallOptions gone;
  gone.still_wanted = [] { return absl::DeadlineExceededError("late"); };
  EXPECT_THAT(service->Insert("t", "m", Spiral(1), gone),
              HasCode(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(service.Digest("m"), before);
}

TEST(InsertTest, IsIdempotentById) {
  Harness service;
  service.MakeMemory("m");
  EXPECT_EQ(service.Insert("m", Spiral(5)).inserted, 5u);
  const std::string digest = service.Digest("m");
  const InsertReply again = service.Insert("m", Spiral(5));
  EXPECT_EQ(again.inserted, 0u);
  EXPECT_EQ(again.unchanged, 5u);
  EXPECT_EQ(service.Digest("m"), digest);

  // Each part of the content counts.
  const TokenInput original = Spiral(1)[0];
  std::vector<std::function<void(TokenInput&)>> changes = {
      [](TokenInput& t) { t.key[0] += 1; }, [](TokenInput& t) { t.value[0] += 1; },
      [](TokenInput& t) { t.subject = std::string("s"); },
      [](TokenInput& t) { t.payload = std::string("p"); },
      [](TokenInput& t) { t.labels["a"] = std::string(""); }};
  for (const auto& change : changes) {
    TokenInput other = original;
    change(other);
    const InsertReply reply = service.Insert("m", {other});
    ASSERT_EQ(reply.rejected, 1u);
    EXPECT_EQ(reply.results[0].error->code, kExists);
    EXPECT_EQ(reply.results[0].error->field, "tokens[0].id");
  }
  EXPECT_EQ(service.Digest("m"), digest);
}

TEST(InsertTest, DuplicatesWithinOneBatch) {
  Harness service;
  service.MakeMemory("m");
  TokenInput other = MakeToken("x", 1, 1, 9);
  const InsertReply reply =
      service.Insert("m", {MakeToken("x", 1, 1), MakeToken("x", 1, 1), other});
  EXPECT_EQ(reply.results[0].outcome, InsertOutcome::kInserted);
  EXPECT_EQ(reply.results[1].outcome, InsertOutcome::kUnchanged);
  EXPECT_EQ(reply.results[2].outcome, InsertOutcome::kRejected);
  EXPECT_EQ(reply.results[2].error->field, "tokens[2].id");
  EXPECT_EQ(reply.partition.margin + reply.partition.error + reply.partition.reserve, 1u);
}

TEST(InsertTest, ServerMadeIdsAreRandomHex) {
  Harness service;
  service.MakeMemory("m");
  const InsertReply reply =
      service.Insert("m", {MakeToken("", 1, 1), MakeToken("", 1, 1), MakeToken("", 2, 1)});
  std::set<std::string> ids;
  for (const InsertItem& item : reply.results) {
    EXPECT_EQ(item.outcome, InsertOutcome::kInserted);
    EXPECT_THAT(item.id, MatchesRegex("[0-9a-f]+"));
    EXPECT_EQ(item.id.size(), 32u);
    ids.insert(item.id);
  }
  EXPECT_EQ(ids.size(), 3u);
}

TEST(InsertTest, MinusZeroIsZeroInKeysAndItselfInValues) {
  Harness service;
  service.MakeMemory("m");
  service.MakeMemory("n");
  service.Insert("m", {MakeToken("x", -0.0, 1)});
  service.Insert("n", {MakeToken("x", 0.0, 1)});
  EXPECT_EQ(service.Digest("m"), service.Digest("n"));
  EXPECT_EQ(service.Insert("m", {MakeToken("x", 0.0, 1)}).unchanged, 1u);
  EXPECT_EQ(service.Insert("m", {MakeToken("x", -0.0, 1)}).unchanged, 1u);
}

TEST(InsertTest, BatchesOfOneGroupSeeEachOther) {
  Harness service;
  service.MakeMemory("m");
  std::vector<std::vector<TokenInput>> batches = {Spiral(3), Spiral(4), {MakeToken("a1", 9, 9)}};
  const auto replies = service->InsertBatches("t", "m", batches, {});
  ASSERT_THAT(replies, IsOk());
  ASSERT_EQ(replies->size(), 3u);
  EXPECT_EQ((*replies)[0].inserted, 3u);
  EXPECT_EQ((*replies)[1].inserted, 1u);
  EXPECT_EQ((*replies)[1].unchanged, 3u);
  EXPECT_EQ((*replies)[2].rejected, 1u);
  service.MakeMemory("n");
  service.Insert("n", Spiral(4));
  EXPECT_EQ(service.Digest("m"), service.Digest("n"));
}

TEST(QueryTest, PhasesAnswerWithTheirState) {
  Harness service;
  service.MakeMemory("m", 3);
  QueryInput query{.tenant = "t", .memory = "m", .queries = {{0, 0}, {9, 9}}, .top_tokens = 2};
  auto reply = service->Query(query, {});
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->phase, svdd::Phase::kEmpty);
  ASSERT_EQ(reply->results.size(), 2u);
  EXPECT_TRUE(reply->results[0].readout.empty());
  EXPECT_EQ(reply->results[0].position, QueryPosition::kUndefined);
  EXPECT_EQ(reply->results[0].log_denominator, -kInf);

  service.Insert("m", {MakeToken("x", 0, 0, 4.0), MakeToken("y", 1, 0, 2.0)});
  reply = service->Query(query, {});
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->phase, svdd::Phase::kWarming);
  ASSERT_EQ(reply->results[0].readout.size(), 1u);
  // Equal weights; kappa = exp(-|q - x|^2 / 2).
  const double k = std::exp(-0.5);
  EXPECT_NEAR(reply->results[0].readout[0], (4.0 + 2.0 * k) / (1.0 + k), 1e-14);
  EXPECT_NEAR(reply->results[0].log_denominator, std::log((1.0 + k) / 2), 1e-14);
  EXPECT_FALSE(reply->results[0].decision.has_value());
  EXPECT_EQ(reply->results[0].position, QueryPosition::kUndefined);
  ASSERT_EQ(reply->results[0].tokens.size(), 2u);
  EXPECT_EQ(reply->results[0].tokens[0].id, "x");
  EXPECT_EQ(reply->results[0].tokens[0].weight, 0.5);
  EXPECT_NEAR(reply->results[0].tokens[0].share, 1.0 / (1.0 + k), 1e-14);

  service.Insert("m", Spiral(20));
  query.queries = {{0, 0}, {100, 100}};
  reply = service->Query(query, {});
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->phase, svdd::Phase::kActive);
  EXPECT_EQ(reply->results[1].position, QueryPosition::kOutside);
  // Every kernel value underflows there, and the answer is finite all the same.
  EXPECT_TRUE(std::isfinite(reply->results[1].readout[0]));
  EXPECT_TRUE(std::isfinite(reply->results[1].log_denominator));
  for (const QueryItem& item : reply->results) {
    ASSERT_EQ(item.tokens.size(), 2u);
    EXPECT_GE(item.tokens[0].share, item.tokens[1].share);
  }
}

// Against the definition, in long double.
TEST(QueryTest, AChunkBesideTheMemoryIsOneSoftmaxWithIt) {
  Harness service;
  service.MakeMemory("m", 3);
  QueryInput query{.tenant = "t", .memory = "m", .queries = {{0.5, 1}, {-1, 2}, {40, -30}}};
  query.top_tokens = 100;
  LocalChunkInput& local = query.local.emplace();
  auto reply = service->Query(query, {});
  ASSERT_THAT(reply, IsOk());
  EXPECT_TRUE(reply->results[0].readout.empty()) << "nothing in either";
  EXPECT_EQ(reply->results[0].log_denominator, -kInf);
  EXPECT_EQ(reply->results[0].local_share, 0.0);

  const std::vector<TokenInput> tokens = Spiral(20);
  local.keys = {{1, 0}, {0, -2}, {3, 3}};
  local.values = {{10}, {20}, {-5}};
  for (const bool filled : {false, true}) {
    if (filled) service.Insert("m", tokens);
    for (const bool causal : {false, true}) {
      for (const bool given : {false, true}) {
        local.causal = causal;
        local.scale = given ? std::optional(0.3) : std::nullopt;
        local.gate = given ? std::optional(11.0) : std::nullopt;
        reply = service->Query(query, {});
        ASSERT_THAT(reply, IsOk());
        for (size_t q = 0; q < 3; ++q) {
          const QueryItem& item = reply->results[q];
          const long double scale = given ? 0.3L : 1 / std::sqrt(2.0L);
          const auto logit = [&](const std::vector<double>& key) {
            return scale * (static_cast<long double>(query.queries[q][0]) * key[0] +
                            static_cast<long double>(query.queries[q][1]) * key[1]);
          };
          long double sum = 0;
          long double value = 0;
          long double shares = 0;
          for (const QueryToken& carried : item.tokens) {
            const auto token = std::find_if(
                tokens.begin(), tokens.end(),
                [&](const TokenInput& candidate) { return candidate.id == carried.id; });
            ASSERT_NE(token, tokens.end());
            const long double term =
                (given ? 11 : 1) * carried.weight * std::exp(logit(token->key));
            sum += term;
            value += term * token->value[0];
            shares += carried.share;
          }
          const size_t seen = causal ? q + 1 : 3;
          for (size_t j = 0; j < seen; ++j) {
            const long double term = std::exp(logit(local.keys[j]));
            sum += term;
            value += term * local.values[j][0];
          }
          ASSERT_EQ(item.readout.size(), 1u);
          EXPECT_NEAR(item.readout[0], static_cast<double>(value / sum), 1e-12);
          EXPECT_NEAR(item.log_denominator, static_cast<double>(std::log(sum)), 1e-12);
          ASSERT_TRUE(item.local_share.has_value());
          EXPECT_NEAR(*item.local_share, static_cast<double>(1 - shares), 1e-12);
          EXPECT_FALSE(item.decision.has_value());
          EXPECT_EQ(item.position, QueryPosition::kUndefined);
          EXPECT_LT(item.readout_bound, 1e-12);
          EXPECT_EQ(item.tokens.empty(), !filled);
        }
      }
    }
  }
}

TEST(QueryTest, BadChunksNameTheirField) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(5));
  const auto refused = [&](const char* field, const std::function<void(LocalChunkInput&)>& spoil) {
    QueryInput query{.tenant = "t", .memory = "m", .queries = {{0, 0}, {1, 1}}};
    query.local = LocalChunkInput{.keys = {{1, 2}, {3, 4}}, .values = {{5}, {6}}, .causal = true};
    spoil(*query.local);
    EXPECT_THAT(service->Query(query, {}), Fails(kInvalid, field));
  };
  refused("local.keys", [](LocalChunkInput& l) { l.keys.resize(1025, {0, 0}); });
  refused("local.values", [](LocalChunkInput& l) { l.values.pop_back(); });
  refused("local.causal", [](LocalChunkInput& l) {
    l.keys.pop_back();
    l.values.pop_back();
  });
  refused("local.keys[1]", [](LocalChunkInput& l) { l.keys[1].push_back(0); });
  refused("local.values[0]", [](LocalChunkInput& l) { l.values[0].clear(); });
  refused("local.keys[0].values[1]", [](LocalChunkInput& l) { l.keys[0][1] = kNan; });
  refused("local.keys[0].values[1]", [](LocalChunkInput& l) { l.keys[0][1] = -1e101; });
  refused("local.values[1].values[0]", [](LocalChunkInput& l) { l.values[1][0] = 1e301; });
  refused("local.scale", [](LocalChunkInput& l) { l.scale = 0.0; });
  refused("local.scale", [](LocalChunkInput& l) { l.scale = kNan; });
  refused("local.gate", [](LocalChunkInput& l) { l.gate = -1.0; });
  refused("local.gate", [](LocalChunkInput& l) { l.gate = kInf; });
}

TEST(QueryTest, BadRequestsNameTheirField) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(5));
  const auto refused = [&](const char* field, const std::function<void(QueryInput&)>& spoil) {
    QueryInput query{.tenant = "t", .memory = "m", .queries = {{0, 0}, {1, 1}}, .top_tokens = 0};
    spoil(query);
    EXPECT_THAT(service->Query(query, {}), Fails(kInvalid, field));
  };
  refused("queries", [](QueryInput& q) { q.queries.clear(); });
  refused("queries", [](QueryInput& q) { q.queries.resize(10001); });
  refused("queries[1]", [](QueryInput& q) { q.queries[1].push_back(0); });
  refused("queries[0]", [](QueryInput& q) { q.queries[0].clear(); });
  refused("queries[1].values[1]", [](QueryInput& q) { q.queries[1][1] = kNan; });
  refused("queries[0].values[0]", [](QueryInput& q) { q.queries[0][0] = kInf; });
  refused("top_tokens", [](QueryInput& q) { q.top_tokens = 1001; });
  refused("tenant", [](QueryInput& q) { q.tenant = std::string("T"); });
  refused("memory", [](QueryInput& q) { q.memory = std::string("-"); });
  QueryInput query{.tenant = "t", .memory = "x", .queries = {{0, 0}}, .top_tokens = 0};
  EXPECT_THAT(service->Query(query, {}), HasCode(kNotFound));
  query.memory = std::string("m");
  CallOptions gone;
  gone.still_wanted = [] { return absl::CancelledError("gone"); };
  EXPECT_THAT(service->Query(query, gone), HasCode(absl::StatusCode::kCancelled));
}

TEST(QueryTest, AnswersTooLargeForOneMessageAreRefused) {
  Harness service;
  MemoryConfig config = SmallConfig();
  config.value_dimension = 4096;
  ASSERT_THAT(service->CreateMemory("t", "wide", config, {}), IsOk());
  QueryInput query{.tenant = "t", .memory = "wide", .queries = {}, .top_tokens = 0};
  query.queries.assign(10000, {0, 0});
  EXPECT_THAT(service->Query(query, {}), Fails(kInvalid, "queries"));
  query.queries.resize(100);
  EXPECT_THAT(service->Query(query, {}), IsOk());
}

TEST(DescribeTest, SaysWhatIsThere) {
  Harness service;
  service.MakeMemory("m", 3);
  auto empty = service->Describe("t", "m", false, {});
  ASSERT_THAT(empty, IsOk());
  EXPECT_EQ(empty->memory.phase, svdd::Phase::kEmpty);
  EXPECT_FALSE(empty->mu.has_value());
  EXPECT_FALSE(empty->mu_is_interval);
  EXPECT_THAT(empty->state_digest, MatchesRegex("[0-9a-f]+"));
  EXPECT_EQ(empty->state_digest.size(), 64u);

  std::vector<TokenInput> tokens = Spiral(12);
  tokens[0].subject = tokens[1].subject = "p";
  tokens[2].subject = "q";
  service.Insert("m", tokens);
  const auto active = service->Describe("t", "m", true, {});
  ASSERT_THAT(active, IsOk());
  EXPECT_EQ(active->memory.phase, svdd::Phase::kActive);
  const svdd::PartitionCounts& partition = active->memory.partition;
  EXPECT_EQ(partition.margin + partition.error + partition.reserve, 12u);
  EXPECT_EQ(active->subjects, 2u);
  EXPECT_EQ(active->verdict, Verdict::kBitIdentical);
  EXPECT_EQ(active->mu.has_value(), !active->mu_is_interval);
  EXPECT_TRUE(active->radius_squared.has_value());
  EXPECT_GT(active->solver.precision_bits, 0u);
  EXPECT_LT(active->solver.kkt_residual, 1e-12);
  const auto plain = service->Describe("t", "m", false, {});
  EXPECT_EQ(plain->verdict, Verdict::kProven);
  EXPECT_EQ(plain->state_digest, active->state_digest);
  EXPECT_THAT(service->Describe("t", "none", false, {}), HasCode(kNotFound));
  EXPECT_THAT(service->Describe("t", "none", true, {}), HasCode(kNotFound));
}

TEST(DescribeTest, TheDigestSeesEveryPartOfAToken) {
  Harness service;
  const std::vector<std::function<void(TokenInput&)>> changes = {
      [](TokenInput&) {},
      [](TokenInput& t) { t.id = std::string("other"); },
      [](TokenInput& t) { t.key[0] = std::nextafter(t.key[0], 9.0); },
      [](TokenInput& t) { t.value[0] = std::nextafter(t.value[0], 9.0); },
      [](TokenInput& t) { t.subject = std::string("s"); },
      [](TokenInput& t) { t.payload = std::string("p"); },
      [](TokenInput& t) { t.labels["l"] = std::string("1"); }};
  std::set<std::string> digests;
  for (size_t i = 0; i < changes.size(); ++i) {
    const std::string memory = absl::StrCat("m", i);
    service.MakeMemory(memory);
    std::vector<TokenInput> tokens = Spiral(6);
    changes[i](tokens[3]);
    service.Insert(memory, tokens);
    digests.insert(service.Digest(memory));
  }
  // And the order.
  service.MakeMemory("reversed");
  std::vector<TokenInput> reversed = Spiral(6);
  std::reverse(reversed.begin(), reversed.end());
  service.Insert("reversed", reversed);
  digests.insert(service.Digest("reversed"));
  EXPECT_EQ(digests.size(), changes.size() + 1);
}

TEST(AdmissionTest, WritesBeyondTheLimitAreRefused) {
  Harness service;
  service.options().max_waiting_writes = 0;
  service.Restart();
  EXPECT_THAT(service->CreateMemory("t", "m", SmallConfig(), {}),
              HasCode(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(service->Insert("t", "m", Spiral(1), {}),
              HasCode(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(service->GetTenant("t"), IsOk());
}

}  // namespace
}  // namespace lethe::service
