// Memories with an encoder: what clients send is raw, what is kept is what the encoder makes of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "audit/encoding.h"
#include "audit/hash.h"
#include "core/model/memory_encoder.h"
#include "server/service/names.h"
#include "tests/model/encoder_artefact.h"
#include "tests/server/service_testing.h"

namespace lethe::service {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

std::string Artefact(uint64_t seed = 1) {
  return model::EncoderArtefact({.key_dimension = 6,
                                 .value_dimension = 3,
                                 .projected_key = 2,
                                 .projected_value = 1,
                                 .width = 0.5},
                                seed);
}

MemoryConfig WithEncoder(const std::string& artefact = Artefact()) {
  MemoryConfig config;
  config.capacity = 3;
  config.encoder = artefact;
  return config;
}

std::vector<double> Numbers(std::mt19937_64& random, size_t count) {
  std::vector<double> numbers(count);
  for (double& number : numbers) number = std::normal_distribution<double>()(random);
  return numbers;
}

std::vector<TokenInput> RawTokens(int count, const std::string& prefix = "a", uint64_t seed = 7) {
  std::mt19937_64 random(seed);
  std::vector<TokenInput> tokens(static_cast<size_t>(count));
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i].id = absl::StrCat(prefix, i);
    tokens[i].key = Numbers(random, 6);
    tokens[i].value = Numbers(random, 3);
  }
  return tokens;
}

QueryInput RawQuery(const std::string& memory) {
  std::mt19937_64 random(11);
  QueryInput query;
  query.tenant = std::string("t");
  query.memory = memory;
  for (int i = 0; i < 5; ++i) query.queries.push_back(Numbers(random, 6));
  query.top_tokens = 3;
  return query;
}

class EncoderTest : public ::testing::Test {
 protected:
  EncoderTest() { EXPECT_THAT(service_->CreateMemory("t", "m", WithEncoder(), {}), IsOk()); }
  Harness service_;
};

TEST_F(EncoderTest, GivesTheMemoryItsDimensionsAndItsKernel) {
  for (int start = 0; start < 2; ++start) {
    const auto info = service_->GetMemory("t", "m");
    ASSERT_THAT(info, IsOk());
    EXPECT_EQ(info->config.key_dimension, 2u);
    EXPECT_EQ(info->config.value_dimension, 1u);
    EXPECT_EQ(info->config.kernel->kind, kernel::KernelKind::kRbf);
    EXPECT_NEAR(info->config.kernel->parameter, 0.5, 1e-7);
    EXPECT_THAT(info->config.encoder, IsEmpty());
    ASSERT_TRUE(info->config.encoder_info.has_value());
    EXPECT_EQ(info->config.encoder_info->sha256, audit::Hex(audit::Sha256(Artefact())));
    EXPECT_EQ(info->config.encoder_info->raw_key_dimension, 6u);
    EXPECT_EQ(info->config.encoder_info->raw_value_dimension, 3u);
    service_.Restart();
  }
}

TEST_F(EncoderTest, BadOnesAreRefusedByField) {
  const auto refused = [&](const char* field, const std::function<void(MemoryConfig&)>& spoil) {
    MemoryConfig config = WithEncoder();
    spoil(config);
    EXPECT_THAT(service_->CreateMemory("t", "bad", config, {}), Fails(kInvalid, field));
  };
  refused("config.encoder", [](MemoryConfig& c) { c.encoder = "none"; });
  refused("config.encoder", [](MemoryConfig& c) { c.encoder.push_back('x'); });
  refused("config.encoder", [](MemoryConfig& c) { c.encoder.resize(kMaxEncoderBytes + 1); });
  refused("config.key_dimension", [](MemoryConfig& c) { c.key_dimension = 6; });
  refused("config.value_dimension", [](MemoryConfig& c) { c.value_dimension = 3; });
  refused("config.box", [](MemoryConfig& c) { c.capacity.reset(); });
  // A configuration that was read has no artefact, and would lose the encoder unseen.
  const MemoryConfig read = service_->GetMemory("t", "m")->config;
  EXPECT_THAT(service_->CreateMemory("t", "bad", read, {}), Fails(kInvalid, "config.encoder_info"));
}

TEST_F(EncoderTest, WhatARequestBecomesIsBounded) {
  MemoryConfig wide;
  wide.capacity = 3;
  wide.encoder = model::EncoderArtefact(
      {.key_dimension = 1, .value_dimension = 1, .projected_key = 4000, .projected_value = 96});
  ASSERT_THAT(service_->CreateMemory("t", "wide", wide, {}), IsOk());
  std::vector<TokenInput> tokens(513);
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i].id = absl::StrCat("w", i);
    tokens[i].key = tokens[i].value = {1.0};
  }
  EXPECT_THAT(service_->Insert("t", "wide", tokens, {}), Fails(kInvalid, "tokens"));
  EXPECT_THAT(service_->Edit(EditOf("wide", tokens), {}), Fails(kInvalid, "tokens"));
  QueryInput query;
  query.tenant = std::string("t");
  query.memory = std::string("wide");
  query.queries.assign(525, {1.0});
  EXPECT_THAT(service_->Query(query, {}), Fails(kInvalid, "queries"));
  query.queries.resize(1);
  query.local = LocalChunkInput{};
  query.local->keys.assign(1025, {1.0});
  query.local->values = query.local->keys;
  EXPECT_THAT(service_->Query(query, {}), Fails(kInvalid, "local.keys"));
  query.local->keys.resize(600);
  query.local->values.resize(600);
  EXPECT_THAT(service_->Query(query, {}), Fails(kInvalid, "local.keys"));
  query.queries.assign(300, {1.0});
  query.local.reset();
  CallOptions unwanted;
  unwanted.still_wanted = [] { return absl::CancelledError("gone"); };
  EXPECT_THAT(service_->Query(query, unwanted), HasCode(absl::StatusCode::kCancelled));
}

TEST_F(EncoderTest, CountsAgainstTheQuotaOfBytes) {
  service_.options().quotas.defaults[Quota::kBytes] = 1'000'000;
  service_.Restart();
  MemoryConfig large;
  large.capacity = 3;
  large.encoder =
      model::EncoderArtefact({.key_dimension = 1000, .value_dimension = 1, .projected_key = 200});
  EXPECT_THAT(service_->CreateMemory("t", "large", large, {}),
              HasCode(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(service_->CreateMemory("t", "small", WithEncoder(), {}), IsOk());
}

// The same as a memory that is given what the encoder makes.
TEST_F(EncoderTest, ProjectsTokensQueriesAndLocalChunks) {
  const auto encoder = model::MemoryEncoder::Read(Artefact()).value();
  const auto project = [](auto encode, std::vector<double>& numbers, size_t size) {
    std::vector<double> out(size);
    encode(numbers, out);
    numbers = out;
  };
  const auto key = [&](std::vector<double>& raw) {
    project([&](const auto& in, auto& out) { encoder->EncodeKey(in, out); }, raw, 2);
  };
  const auto value = [&](std::vector<double>& raw) {
    project([&](const auto& in, auto& out) { encoder->EncodeValue(in, out); }, raw, 1);
  };
  MemoryConfig plain = SmallConfig();
  plain.kernel = service_->GetMemory("t", "m")->config.kernel;
  ASSERT_THAT(service_->CreateMemory("t", "plain", plain, {}), IsOk());
  std::vector<TokenInput> tokens = RawTokens(40);
  service_.Insert("m", tokens);
  for (TokenInput& token : tokens) key(token.key), value(token.value);
  service_.Insert("plain", tokens);
  EXPECT_EQ(Total(service_->GetMemory("t", "m")->partition), 40u);
  EXPECT_NE(service_.Digest("m"), service_.Digest("plain")) << "the encoder is in it";

  for (const bool local : {false, true}) {
    QueryInput raw = RawQuery("m");
    QueryInput projected = RawQuery("plain");
    for (std::vector<double>& query : projected.queries) {
      project([&](const auto& in, auto& out) { encoder->EncodeQuery(in, out); }, query, 2);
    }
    if (local) {
      LocalChunkInput chunk;
      std::mt19937_64 random(3);
      for (int i = 0; i < 4; ++i) {
        chunk.keys.push_back(Numbers(random, 6));
        chunk.values.push_back(Numbers(random, 3));
      }
      chunk.scale = 0.7;
      raw.local = projected.local = chunk;
      for (std::vector<double>& numbers : projected.local->keys) key(numbers);
      for (std::vector<double>& numbers : projected.local->values) value(numbers);
    }
    const auto found = service_->Query(raw, {});
    const auto expected = service_->Query(projected, {});
    ASSERT_THAT(found, IsOk());
    ASSERT_THAT(expected, IsOk());
    ASSERT_THAT(found->results, SizeIs(5));
    for (size_t i = 0; i < 5; ++i) {
      const QueryItem& item = found->results[i];
      EXPECT_EQ(item.readout, expected->results[i].readout);
      EXPECT_EQ(item.log_denominator, expected->results[i].log_denominator);
      EXPECT_EQ(item.position, expected->results[i].position);
      ASSERT_THAT(item.tokens, SizeIs(3));
      EXPECT_EQ(item.tokens[0].id, expected->results[i].tokens[0].id);
    }
  }
}

TEST_F(EncoderTest, ForgetsAsIfItHadNeverSeen) {
  service_.Insert("m", RawTokens(30));
  service_.Insert("m", RawTokens(10, "b", 8));
  std::vector<std::string> ids;
  for (int i = 0; i < 10; ++i) ids.push_back(absl::StrCat("b", i));
  service_.Forget("m", ids);
  ASSERT_THAT(service_->CreateMemory("t", "never", WithEncoder(), {}), IsOk());
  service_.Insert("never", RawTokens(30));
  EXPECT_EQ(service_.Digest("m"), service_.Digest("never"));
  // Another encoder is another configuration, whatever it makes of them.
  ASSERT_THAT(service_->CreateMemory("t", "other", WithEncoder(Artefact(2)), {}), IsOk());
  EXPECT_NE(service_.Digest("other"), [&] {
    EXPECT_THAT(service_->CreateMemory("t", "empty", WithEncoder(), {}), IsOk());
    return service_.Digest("empty");
  }());
  const std::string before = service_.Digest("m");
  service_.Restart();
  EXPECT_EQ(service_.Digest("m"), before);
  const auto verified = service_->Verify("t", "m", {});
  ASSERT_THAT(verified, IsOk());
  EXPECT_TRUE(verified->bits_equal);
  const std::vector<audit::CertificateBody> log = VerifiedLog(service_);
  EXPECT_NE(log.front().change->config, audit::Digest{});
  EXPECT_EQ(log.front().change->config, log.back().change->config);
}

// The raw tokens and the artefact are enough to solve the memory again, by another program.
TEST_F(EncoderTest, AnAuditorSolvesItFromRawTokens) {
  const std::vector<TokenInput> tokens = RawTokens(25);
  service_.Insert("m", tokens);
  const TempDir folder;
  std::ofstream(absl::StrCat(folder.path(), "/encoder.bin"), std::ios::binary) << Artefact();
  std::ofstream(absl::StrCat(folder.path(), "/other.bin"), std::ios::binary) << Artefact(2);
  {
    std::ofstream file(absl::StrCat(folder.path(), "/tokens.ndjson"));
    for (const TokenInput& token : tokens) {
      nlohmann::json line = {{"id", token.id}, {"key", token.key}, {"value", token.value}};
      file << line.dump() << "\n";
    }
  }
  const auto solved = [&](const std::string& rest) {
    const std::string command =
        absl::StrCat("cd '", folder.path(), "' && '", LETHE_BINARY_DIR,
                     "/lethe-verify' state --tokens tokens.ndjson --capacity 3 --digest ",
                     service_.Digest("m"), " ", rest, " > out 2>&1");
    return WEXITSTATUS(std::system(command.c_str()));
  };
  EXPECT_EQ(solved("--encoder encoder.bin"), 0);
  EXPECT_EQ(solved("--encoder other.bin"), 7) << "another encoder";
  EXPECT_EQ(solved("--encoder encoder.bin --kernel rbf --gamma 0.4"), 7) << "another kernel";
  EXPECT_EQ(solved("--encoder encoder.bin --gamma 0.4"), 1);
  EXPECT_EQ(solved("--encoder encoder.bin --kernel laplacian"), 1);
  EXPECT_EQ(solved("--gamma 0.5"), 7) << "no encoder";
  EXPECT_EQ(solved("--encoder tokens.ndjson"), 3) << "what is none";
  EXPECT_EQ(solved("--encoder absent.bin"), 2);
}

TEST_F(EncoderTest, WhatIsThereIsComparedAsItIsKept) {
  const std::vector<TokenInput> tokens = RawTokens(5);
  EXPECT_EQ(service_.Insert("m", tokens).inserted, 5u);
  EXPECT_EQ(service_.Insert("m", tokens).unchanged, 5u);
  EXPECT_EQ(service_.Insert("m", RawTokens(5, "a", 9)).rejected, 5u);
  const auto same = service_->Edit(EditOf("m", tokens), {});
  ASSERT_THAT(same, IsOk());
  EXPECT_EQ(same->unchanged, 5u);
  const std::vector<TokenInput> others = RawTokens(5, "a", 9);
  const auto edited = service_->Edit(EditOf("m", others, "r"), {});
  ASSERT_THAT(edited, IsOk());
  EXPECT_EQ(edited->edited, 5u);
  EXPECT_EQ(service_->Edit(EditOf("m", others, "r"), {})->certificate_id, edited->certificate_id);
  EXPECT_EQ(service_.Insert("m", others).unchanged, 5u);
}

TEST_F(EncoderTest, BadNumbersAreRefusedByField) {
  std::vector<TokenInput> tokens = RawTokens(6);
  tokens[1].key.pop_back();
  tokens[2].value.push_back(0.0);
  tokens[3].key[2] = std::numeric_limits<double>::quiet_NaN();
  tokens[4].key[0] = 1e308;
  tokens[4].key[1] = -1e308;
  tokens[4].key[5] = 1e308;
  const InsertReply reply = service_.Insert("m", tokens);
  EXPECT_EQ(reply.inserted, 2u);
  EXPECT_EQ(reply.results[1].error->field, "tokens[1].key");
  EXPECT_EQ(reply.results[2].error->field, "tokens[2].value");
  EXPECT_EQ(reply.results[3].error->field, "tokens[3].key");
  EXPECT_EQ(reply.results[4].outcome, InsertOutcome::kRejected);
  EXPECT_EQ(reply.results[4].error->field.rfind("tokens[4].key", 0), 0u);

  QueryInput query = RawQuery("m");
  query.queries[3].pop_back();
  EXPECT_THAT(service_->Query(query, {}), Fails(kInvalid, "queries[3]"));
  query = RawQuery("m");
  query.queries[4][0] = std::numeric_limits<double>::infinity();
  EXPECT_THAT(service_->Query(query, {}), Fails(kInvalid, "queries[4]"));
  query = RawQuery("m");
  query.local = LocalChunkInput{.keys = {{1, 2, 3, 4, 5, 6}}, .values = {{1, 2}}};
  EXPECT_THAT(service_->Query(query, {}), Fails(kInvalid, "local.values[0]"));
  query.local = LocalChunkInput{.keys = {{1, 2}}, .values = {{1, 2, 3}}};
  EXPECT_THAT(service_->Query(query, {}), Fails(kInvalid, "local.keys[0]"));
  std::vector<TokenInput> edit = RawTokens(1);
  edit[0].key.pop_back();
  EXPECT_THAT(service_->Edit(EditOf("m", edit), {}), Fails(kInvalid, "tokens[0].key"));
}

TEST_F(EncoderTest, ItsKeyIsDestroyedWithItsMemory) {
  for (const int tokens : {0, 3}) {
    if (tokens > 0) service_.Insert("m", RawTokens(tokens));
    int tried = 0;
    int destroyed = 0;
    service_.hooks().before = [&](const std::string& operation) -> absl::Status {
      if (operation == "FinishEndedKeys") ++destroyed;
      if (operation != "DestroyEndedKeys" || tried++ > 0) return absl::OkStatus();
      return absl::UnavailableError("not now");
    };
    EXPECT_THAT(service_->DeleteMemory("t", "m", {}), HasCode(absl::StatusCode::kUnavailable));
    if (tokens > 0) service_.Restart();  // which finishes it
    EXPECT_THAT(service_->DeleteMemory("t", "m", {}), HasCode(absl::StatusCode::kNotFound));
    EXPECT_GT(destroyed, 0);
    service_.hooks().before = {};
    ASSERT_THAT(service_->CreateMemory("t", "m", WithEncoder(), {}), IsOk());
  }
  EXPECT_THAT(service_->DeleteMemory("t", "m", {}), IsOk());
}

}  // namespace
}  // namespace lethe::service
