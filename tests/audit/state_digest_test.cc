#include "audit/state_digest.h"

#include <set>
#include <string>
#include <vector>

#include "audit/commitments.h"
#include "audit/encoding.h"
#include "audit/token_tree.h"
#include "gtest/gtest.h"

namespace lethe::audit {
namespace {

// The golden values were computed by a Python script from the text of the format alone.

const std::vector<double> kKey = {1.0, -0.0};
const std::vector<double> kValue = {2.5};
const std::vector<std::pair<std::string, std::string>> kLabels = {{"ward", ""}, {"unit", "icu"}};

TokenContent Token() {
  TokenContent token;
  token.id = "t-1";
  token.key = kKey;
  token.value = kValue;
  token.subject = "patient-17";
  token.payload = absl::string_view("\x00\xff", 2);
  token.labels = kLabels;
  return token;
}

Salt TheSalt() {
  Salt salt;
  salt.fill(0x22);
  return salt;
}

ConfigContent Config() {
  return {.kernel_kind = 1,
          .kernel_parameter = 0.5,
          .total = 10.0,
          .box = 1.0,
          .duplicates = 2,
          .key_dimension = 7,
          .value_dimension = 3};
}

StateContent OneToken(uint8_t phase, uint8_t label) {
  const Digest plain = PlainLeaf(EncodeToken(Token()));
  TokenTree tree;
  EXPECT_TRUE(tree.Insert(5, plain, plain).ok());
  StateContent state;
  state.config = ConfigDigest(Config());
  state.phase = phase;
  state.tokens = 1;
  state.supports = {{plain, label, 1.0}};
  state.tree_root = tree.plain_root();
  return state;
}

TEST(TokenBytesTest, AreGolden) {
  const std::string bytes = EncodeToken(Token());
  EXPECT_EQ(
      Hex(bytes),
      "00000003742d31000000103ff000000000000080000000000000000000000840040000000000000000000a7061"
      "7469656e742d31370000000200ff0000000200000004756e697400000003696375000000047761726400000000");
  EXPECT_EQ(Hex(PlainLeaf(bytes)),
            "224601eb4e285f0ee3a39ebe4938fbbaf4d5d671a0ee985bcb3c13eb40a5c6cf");
  EXPECT_EQ(Hex(BlindedLeaf(TheSalt(), bytes)),
            "003f9107e4458f1eb1e45f2596bc0c38644ea61e4c0fb57716e2dd65ae5f1729");
}

TEST(TokenBytesTest, TheOrderOfLabelsDoesNotMatterAndEveryFieldDoes) {
  const std::string bytes = EncodeToken(Token());
  const std::vector<std::pair<std::string, std::string>> swapped = {kLabels[1], kLabels[0]};
  TokenContent token = Token();
  token.labels = swapped;
  EXPECT_EQ(EncodeToken(token), bytes);

  const std::vector<double> positive_zero = {1.0, 0.0};
  const std::vector<double> moved_key = {1.0};
  const std::vector<double> moved_value = {-0.0, 2.5};
  const std::vector<std::pair<std::string, std::string>> shifted = {{"uniti", "cu"}, {"ward", ""}};
  std::set<std::string> all = {bytes};
  const auto add = [&](auto change) {
    TokenContent other = Token();
    change(other);
    EXPECT_TRUE(all.insert(EncodeToken(other)).second);
  };
  add([&](TokenContent& t) { t.id = "t-2"; });
  add([&](TokenContent& t) { t.key = positive_zero; });
  add([&](TokenContent& t) { t.key = moved_key, t.value = moved_value; });
  add([&](TokenContent& t) { t.subject = ""; });
  add([&](TokenContent& t) { t.subject = "", t.payload = "patient-17"; });
  add([&](TokenContent& t) { t.payload = ""; });
  add([&](TokenContent& t) { t.labels = shifted; });
  add([&](TokenContent& t) { t.labels = {}; });
}

TEST(ConfigDigestTest, IsGoldenAndEveryFieldMatters) {
  EXPECT_EQ(Hex(ConfigDigest(Config())),
            "632128641b6b68bb7009f4bd024a6bdc973c60941d71aefaa979fb43074a6e12");
  std::set<Digest> all = {ConfigDigest(Config())};
  const auto add = [&](auto change) {
    ConfigContent other = Config();
    change(other);
    EXPECT_TRUE(all.insert(ConfigDigest(other)).second);
  };
  add([](ConfigContent& c) { c.kernel_kind = 2; });
  add([](ConfigContent& c) { c.kernel_parameter = 0.25; });
  add([](ConfigContent& c) { c.total = 11.0; });
  add([](ConfigContent& c) { c.box = 0.5; });
  add([](ConfigContent& c) { c.duplicates = 1; });
  add([](ConfigContent& c) { c.key_dimension = 8; });
  add([](ConfigContent& c) { c.value_dimension = 4; });
  Digest artefact{};
  add([&](ConfigContent& c) { c.encoder = artefact; });
  for (size_t i = 0; i < artefact.size(); ++i) artefact[i] = static_cast<uint8_t>(i);
  add([&](ConfigContent& c) { c.encoder = artefact; });
  ConfigContent with_encoder = Config();
  with_encoder.encoder = artefact;
  EXPECT_EQ(Hex(ConfigDigest(with_encoder)),
            "361a5c3ea9f4ab48f826b42007842bb74ee48435ad20568f591fe47da8a6e3bb");
}

TEST(StateDigestTest, IsGoldenInEveryPhase) {
  EXPECT_EQ(Hex(OneToken(3, 1).tree_root),
            "810773b384cbb06bfc8b2864bab3f195086527162c0c31aab7ebfd55a8ed2ac0");
  StateContent unique = OneToken(3, 1);
  unique.mu = -0.25;
  EXPECT_EQ(Hex(StateDigest(unique)),
            "62cdb77933d456c7e24f870af6e6139082020c3465051f16b36c774eb014d46a");
  StateContent interval = OneToken(3, 2);
  interval.mu_high = 0.75;
  EXPECT_EQ(Hex(StateDigest(interval)),
            "659c5a2e93d7f5e13ad42f1cf698fed3a695a60f60e77bc6cde1be70d0c2bf38");
  interval.mu_low = -1.5;
  EXPECT_EQ(Hex(StateDigest(interval)),
            "c035ed436ea653e8541fb4f282bb6de7e552b7628ad79def49373ecb01ee8aa3");
  EXPECT_EQ(Hex(StateDigest(OneToken(2, 2))),
            "60de92fe5cd5b0c4156a68ed1ca50a00dbe2b4e64a43f4383916e862a7111ade");
  StateContent empty;
  empty.config = ConfigDigest(Config());
  empty.phase = 1;
  empty.tree_root = TokenTree().plain_root();
  EXPECT_EQ(Hex(StateDigest(empty)),
            "ddd605ee2c397106cb7a89b019b1570d7a74e696b7aec1ac52b656f2135f867c");
}

TEST(StateDigestTest, EveryFieldMatters) {
  StateContent base = OneToken(3, 1);
  base.mu = 0.5;
  std::set<Digest> all = {StateDigest(base)};
  const auto add = [&](auto change) {
    StateContent other = base;
    change(other);
    EXPECT_TRUE(all.insert(StateDigest(other)).second);
  };
  add([](StateContent& s) { s.config[31] ^= 1; });
  add([](StateContent& s) { s.tokens = 2; });
  add([](StateContent& s) { s.mu = 0x1.0000000000001p-1; });
  add([](StateContent& s) { s.mu.reset(); });
  add([](StateContent& s) { s.mu.reset(), s.mu_low = 0.5; });
  add([](StateContent& s) { s.mu.reset(), s.mu_high = 0.5; });
  add([](StateContent& s) { s.supports[0].leaf[0] ^= 1; });
  add([](StateContent& s) { s.supports[0].label = 2; });
  add([](StateContent& s) { s.supports[0].alpha = 0x1.fffffffffffffp-1; });
  add([](StateContent& s) { s.supports.push_back(s.supports[0]); });
  add([](StateContent& s) { s.supports.clear(); });
  add([](StateContent& s) { s.tree_root[0] ^= 0x80; });
}

TEST(StateDigestDeathTest, AContradictoryMuIsABrokenInvariant) {
  StateContent state = OneToken(3, 1);
  state.mu = 0.5;
  state.mu_low = 0.5;
  EXPECT_DEATH(StateDigest(state), "mu");
  StateContent warming = OneToken(2, 2);
  warming.mu = 0.5;
  EXPECT_DEATH(StateDigest(warming), "phase");
}

TEST(CommitmentsTest, AreGoldenAndBindEveryPart) {
  Salt salt;
  salt.fill(0x11);
  EXPECT_EQ(Hex(SubjectCommitment(salt, "clinic", "patient-17")),
            "2d8f4452225f8060602a22bf94de00dbf9e48c28eecd5fdc10db809a04fc20ff");
  EXPECT_EQ(Hex(RequestCommitment(salt, "clinic", "request-1")),
            "10e1ab1ea0b079d28ee852b3818aadfd988d52f464c50edda131b597ff4603c3");
  const std::set<Digest> all = {
      SubjectCommitment(salt, "clinic", "p"),  SubjectCommitment(salt, "clini", "cp"),
      RequestCommitment(salt, "clinic", "p"),  SubjectCommitment(TheSalt(), "clinic", "p"),
      SubjectCommitment(salt, "clinic", "p2"), SubjectCommitment(salt, "clinic2", "p")};
  EXPECT_EQ(all.size(), 6u);
}

}  // namespace
}  // namespace lethe::audit
