// Page tokens and stored records: what goes in comes out, and nothing else is accepted.
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/service/names.h"
#include "server/service/paging.h"
#include "server/service/records.h"
#include "tests/server/service_testing.h"

namespace lethe::service {
namespace {

constexpr absl::StatusCode kDataLoss = absl::StatusCode::kDataLoss;

TEST(PagingTest, RoundTrip) {
  for (const std::string& cursor : {std::string("a"), std::string("icu"), std::string("123456")}) {
    const std::string token = EncodePageToken("tenants", cursor);
    const auto decoded = DecodePageToken("tenants", token);
    ASSERT_THAT(decoded, IsOk());
    EXPECT_EQ(*decoded, cursor);
  }
  const auto first = DecodePageToken("tenants", "");
  ASSERT_THAT(first, IsOk());
  EXPECT_EQ(*first, "");
}

TEST(PagingTest, RefusesEveryChangedCharacterAndOtherLists) {
  const std::string token = EncodePageToken("memories/1", "icu");
  EXPECT_THAT(DecodePageToken("memories/2", token), Fails(kInvalid, "page_token"));
  for (size_t i = 0; i < token.size(); ++i) {
    std::string changed = token;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_THAT(DecodePageToken("memories/1", changed), Fails(kInvalid, "page_token")) << i;
    EXPECT_THAT(DecodePageToken("memories/1", token.substr(0, i + (i == 0 ? 1 : 0))),
                Fails(kInvalid, "page_token"))
        << i;
  }
  EXPECT_THAT(DecodePageToken("memories/1", "nonsense"), Fails(kInvalid, "page_token"));
  EXPECT_THAT(DecodePageToken("memories/1", std::string(100000, 'A')),
              Fails(kInvalid, "page_token"));
}

TEST(PagingTest, PageSizes) {
  EXPECT_EQ(*PageSize(0), kDefaultPageSize);
  EXPECT_EQ(*PageSize(1), 1u);
  EXPECT_EQ(*PageSize(1000), 1000u);
  EXPECT_THAT(PageSize(1001), Fails(kInvalid, "page_size"));
}

TEST(RecordsTest, ConfigKeepsWhatTheClientSaid) {
  MemoryConfig config = SmallConfig();
  config.capacity.reset();
  config.box = 0.1;  // not exactly 1/10: the bits must survive
  config.duplicates = svdd::DuplicatesPolicy::kNewestFirst;
  config.kernel = kernel::Kernel{kernel::KernelKind::kExpDot, 0.125};
  const auto decoded = DecodeConfig(EncodeConfig(config));
  ASSERT_THAT(decoded, IsOk());
  EXPECT_EQ(decoded->box, config.box);
  EXPECT_FALSE(decoded->capacity.has_value());
  EXPECT_EQ(*decoded->kernel, *config.kernel);
  EXPECT_EQ(decoded->duplicates, config.duplicates);
  EXPECT_EQ(decoded->key_dimension, 2u);
  EXPECT_EQ(decoded->value_dimension, 1u);
}

TEST(RecordsTest, LabelsRoundTrip) {
  for (const std::map<std::string, std::string>& labels :
       {std::map<std::string, std::string>{}, {{"a", ""}}, {{"a", "1"}, {"b", "\xc3\xa9"}}}) {
    const auto decoded = DecodeLabels(EncodeLabels(labels));
    ASSERT_THAT(decoded, IsOk());
    EXPECT_EQ(*decoded, labels);
  }
}

TEST(RecordsTest, AnswersRoundTrip) {
  StoredAnswer answer;
  answer.memory_uid = std::string(32, '7');
  answer.reply = ForgetReply{.matched = 5,
                             .erased = 4,
                             .not_found = 3,
                             .already_erased = 2,
                             .held = 1,
                             .partition_before = {1, 2, 3},
                             .partition_after = {4, 5, 6},
                             .verdict = Verdict::kBitIdentical,
                             .certificate_id = "c",
                             .request_id = "r",
                             .state_digest = "d"};
  const auto decoded = DecodeAnswer(EncodeAnswer(answer));
  ASSERT_THAT(decoded, IsOk());
  EXPECT_EQ(decoded->memory_uid, answer.memory_uid);
  const ForgetReply& forgotten = std::get<ForgetReply>(decoded->reply);
  EXPECT_EQ(forgotten.matched, 5u);
  EXPECT_EQ(forgotten.erased, 4u);
  EXPECT_EQ(forgotten.not_found, 3u);
  EXPECT_EQ(forgotten.already_erased, 2u);
  EXPECT_EQ(forgotten.held, 1u);
  EXPECT_EQ(forgotten.partition_before, (svdd::PartitionCounts{1, 2, 3}));
  EXPECT_EQ(forgotten.partition_after, (svdd::PartitionCounts{4, 5, 6}));
  EXPECT_EQ(forgotten.verdict, Verdict::kBitIdentical);
  EXPECT_EQ(forgotten.certificate_id, "c");
  EXPECT_EQ(forgotten.request_id, "");  // is never stored
  EXPECT_EQ(forgotten.state_digest, "d");

  answer.reply = EvictReply{.reserve = 8,
                            .surplus = 7,
                            .held = 6,
                            .retained = 5,
                            .budget_reached = true,
                            .partition_before = {1, 2, 3},
                            .partition_after = {4, 5, 6},
                            .verdict = Verdict::kProven,
                            .certificate_id = "c",
                            .request_id = "r",
                            .state_digest = "d"};
  const auto evict = DecodeAnswer(EncodeAnswer(answer));
  ASSERT_THAT(evict, IsOk());
  EXPECT_EQ(evict->memory_uid, answer.memory_uid);
  const EvictReply& evicted = std::get<EvictReply>(evict->reply);
  EXPECT_EQ(evicted.reserve, 8u);
  EXPECT_EQ(evicted.surplus, 7u);
  EXPECT_EQ(evicted.held, 6u);
  EXPECT_EQ(evicted.retained, 5u);
  EXPECT_TRUE(evicted.budget_reached);
  EXPECT_EQ(evicted.partition_before, (svdd::PartitionCounts{1, 2, 3}));
  EXPECT_EQ(evicted.partition_after, (svdd::PartitionCounts{4, 5, 6}));
  EXPECT_EQ(evicted.verdict, Verdict::kProven);
  EXPECT_EQ(evicted.certificate_id, "c");
  EXPECT_EQ(evicted.request_id, "");
  EXPECT_EQ(evicted.state_digest, "d");

  answer.reply = EditReply{.edited = 8,
                           .unchanged = 7,
                           .partition_before = {1, 2, 3},
                           .partition_after = {4, 5, 6},
                           .verdict = Verdict::kBitIdentical,
                           .certificate_id = "c",
                           .request_id = "r",
                           .state_digest = "d"};
  const auto edit = DecodeAnswer(EncodeAnswer(answer));
  ASSERT_THAT(edit, IsOk());
  const EditReply& edited = std::get<EditReply>(edit->reply);
  EXPECT_EQ(edited.edited, 8u);
  EXPECT_EQ(edited.unchanged, 7u);
  EXPECT_EQ(edited.partition_before, (svdd::PartitionCounts{1, 2, 3}));
  EXPECT_EQ(edited.partition_after, (svdd::PartitionCounts{4, 5, 6}));
  EXPECT_EQ(edited.verdict, Verdict::kBitIdentical);
  EXPECT_EQ(edited.certificate_id, "c");
  EXPECT_EQ(edited.request_id, "");
  EXPECT_EQ(edited.state_digest, "d");
}

TEST(RecordsTest, CutOrLengthenedBlobsAreDataLoss) {
  const std::string config = EncodeConfig(SmallConfig());
  const std::string labels = EncodeLabels({{"a", "1"}, {"b", "2"}});
  const std::vector<std::string> answers = {
      EncodeAnswer({.memory_uid = "u", .reply = ForgetReply()}),
      EncodeAnswer({.memory_uid = "u", .reply = EvictReply()}),
      EncodeAnswer({.memory_uid = "u", .reply = EditReply()})};
  for (size_t cut = 0; cut < config.size(); ++cut) {
    EXPECT_THAT(DecodeConfig(config.substr(0, cut)), HasCode(kDataLoss)) << cut;
  }
  for (size_t cut = 0; cut < labels.size(); ++cut) {
    EXPECT_THAT(DecodeLabels(labels.substr(0, cut)), HasCode(kDataLoss)) << cut;
  }
  for (const std::string& answer : answers) {
    ASSERT_THAT(DecodeAnswer(answer), IsOk());
    for (size_t cut = 0; cut < answer.size(); ++cut) {
      EXPECT_THAT(DecodeAnswer(answer.substr(0, cut)), HasCode(kDataLoss)) << cut;
    }
    EXPECT_THAT(DecodeAnswer(answer + "x"), HasCode(kDataLoss));
    for (char kind = 0; kind < 8; ++kind) {
      std::string other = answer;
      if (std::exchange(other[0], kind) != kind) {
        EXPECT_THAT(DecodeAnswer(other), HasCode(kDataLoss));
      }
    }
  }
  EXPECT_THAT(DecodeConfig(config + "x"), HasCode(kDataLoss));
  EXPECT_THAT(DecodeLabels(labels + "x"), HasCode(kDataLoss));
  std::string other_version = config;
  other_version[0] = 9;
  EXPECT_THAT(DecodeConfig(other_version), HasCode(kDataLoss));
}

}  // namespace
}  // namespace lethe::service
