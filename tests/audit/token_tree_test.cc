#include "audit/token_tree.h"

#include <algorithm>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "audit/encoding.h"
#include "gtest/gtest.h"

namespace lethe::audit {
namespace {

struct Token {
  Digest plain;
  Digest blinded;
};

Token MakeToken(uint64_t number) {
  return {Sha256(absl::StrCat("plain", number)), Sha256(absl::StrCat("blind", number))};
}

// The definition, on a list: shares no code with the tree.
Digest Judge(std::span<const Token> tokens, Digest Token::*leaf) {
  if (tokens.empty()) return Sha256("lethe/empty/v1");
  const auto priority = [&](size_t i) {
    return Sha256(absl::StrCat("lethe/token-priority/v1", absl::string_view("\0", 1),
                               AsBytes(tokens[i].plain)));
  };
  size_t top = 0;
  for (size_t i = 1; i < tokens.size(); ++i) {
    if (priority(i) > priority(top)) top = i;
  }
  const Digest left = Judge(tokens.first(top), leaf);
  const Digest right = Judge(tokens.subspan(top + 1), leaf);
  return Sha256(absl::StrCat("\x02", AsBytes(left), AsBytes(tokens[top].*leaf), AsBytes(right)));
}

void ExpectEqualsJudge(TokenTree& tree, const std::map<uint64_t, Token>& survivors) {
  std::vector<Token> tokens;
  for (const auto& [handle, token] : survivors) tokens.push_back(token);
  ASSERT_EQ(tree.size(), tokens.size());
  ASSERT_EQ(tree.plain_root(), Judge(tokens, &Token::plain));
  ASSERT_EQ(tree.blinded_root(), Judge(tokens, &Token::blinded));
}

TEST(TokenTreeTest, MatchesRootsComputedElsewhere) {
  TokenTree tree;
  EXPECT_EQ(Hex(tree.plain_root()),
            "e67dba263da02147076c8266d79544c9ab5f2f4ff8fac37367383e21f9d65619");
  EXPECT_EQ(tree.plain_root(), tree.blinded_root());
  for (uint64_t i = 0; i < 20; ++i) {
    const Token token{Sha256(absl::StrCat("plain", i)), Sha256(absl::StrCat("blind", i))};
    ASSERT_TRUE(tree.Insert(i, token.plain, token.blinded).ok());
  }
  EXPECT_EQ(Hex(tree.plain_root()),
            "889e295fca1fc4d23088fefb633ade5746da0b9a12a994200a5fb4f5cd759a5a");
  EXPECT_EQ(Hex(tree.blinded_root()),
            "46d81c6349354f5cc95709bbcd844deb7c69abff340e3617b25b7919d775310e");
}

TEST(TokenTreeTest, EqualPriorityMakesTheEarlierTokenTheAncestor) {
  for (const std::vector<uint64_t>& order :
       {std::vector<uint64_t>{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}}) {
    TokenTree tree;
    for (const uint64_t i : order) {
      ASSERT_TRUE(tree.Insert(i, Sha256("same"), Sha256(absl::StrCat("blind", i))).ok());
    }
    EXPECT_EQ(Hex(tree.plain_root()),
              "ebfe77b3f74fa58dfbf83307e0ba536539b838da7e5b8e760ff4723b3623518c");
    EXPECT_EQ(Hex(tree.blinded_root()),
              "f3c9f74ef53022036662bdd036531f6e0f4a15e980e621a612315c0fc7abf8d7");
  }
}

TEST(TokenTreeTest, AnyHistoryEqualsAFreshBuildFromTheSurvivors) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    TokenTree tree;
    std::map<uint64_t, Token> survivors;
    uint64_t number = 0;
    for (int step = 0; step < 300; ++step) {
      const uint64_t handle = random() % 60;
      const auto place = survivors.find(handle);
      if (place != survivors.end()) {
        ASSERT_TRUE(tree.Erase(handle).ok());
        survivors.erase(place);
      } else {
        // Few distinct contents, so that equal leaves meet.
        const Token token = random() % 4 == 0 ? MakeToken(random() % 3) : MakeToken(++number);
        ASSERT_TRUE(tree.Insert(handle, token.plain, token.blinded).ok());
        survivors[handle] = token;
      }
      // Roots at irregular times, so that pending hashes pile up.
      if (random() % 3 == 0) ExpectEqualsJudge(tree, survivors);
    }
    ExpectEqualsJudge(tree, survivors);
  }
}

TEST(TokenTreeTest, AbsoluteHandlesLeaveNoTrace) {
  const uint64_t seed = 99;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  TokenTree dense;
  TokenTree sparse;
  TokenTree backwards;
  std::vector<uint64_t> handles;
  for (uint64_t i = 0; i < 500; ++i)
    handles.push_back((handles.empty() ? 0 : handles.back()) + 1 + random() % 1000);
  for (uint64_t i = 0; i < 500; ++i) {
    const Token token = MakeToken(i);
    ASSERT_TRUE(dense.Insert(i, token.plain, token.blinded).ok());
    ASSERT_TRUE(sparse.Insert(handles[i], token.plain, token.blinded).ok());
    const Token last = MakeToken(499 - i);
    ASSERT_TRUE(backwards.Insert(~i, last.plain, last.blinded).ok());
  }
  EXPECT_EQ(dense.plain_root(), sparse.plain_root());
  EXPECT_EQ(dense.blinded_root(), sparse.blinded_root());
  EXPECT_EQ(dense.plain_root(), backwards.plain_root());
}

TEST(TokenTreeTest, OrderAndContentMatter) {
  const Token a = MakeToken(1);
  const Token b = MakeToken(2);
  TokenTree ab;
  TokenTree ba;
  ASSERT_TRUE(ab.Insert(1, a.plain, a.blinded).ok() && ab.Insert(2, b.plain, b.blinded).ok());
  ASSERT_TRUE(ba.Insert(1, b.plain, b.blinded).ok() && ba.Insert(2, a.plain, a.blinded).ok());
  EXPECT_NE(ab.plain_root(), ba.plain_root());
  EXPECT_NE(ab.blinded_root(), ba.blinded_root());
  EXPECT_NE(ab.plain_root(), ab.blinded_root());
}

TEST(TokenTreeTest, AnErasureCanBeUndone) {
  TokenTree tree;
  for (uint64_t i = 0; i < 100; ++i) {
    const Token token = MakeToken(i);
    ASSERT_TRUE(tree.Insert(i, token.plain, token.blinded).ok());
  }
  const Digest plain = tree.plain_root();
  const Digest blinded = tree.blinded_root();
  for (uint64_t i = 0; i < 100; ++i) {
    const TokenTree::Leaves* found = tree.Find(i);
    ASSERT_NE(found, nullptr);
    const TokenTree::Leaves leaves = *found;
    ASSERT_TRUE(tree.Erase(i).ok());
    EXPECT_EQ(tree.Find(i), nullptr);
    EXPECT_NE(tree.plain_root(), plain);
    ASSERT_TRUE(tree.Insert(i, leaves.plain, leaves.blinded).ok());
    EXPECT_EQ(tree.plain_root(), plain);
    EXPECT_EQ(tree.blinded_root(), blinded);
  }
}

TEST(TokenTreeTest, BadCallsChangeNothing) {
  TokenTree tree;
  EXPECT_EQ(tree.Erase(1).code(), absl::StatusCode::kNotFound);
  const Token token = MakeToken(1);
  ASSERT_TRUE(tree.Insert(1, token.plain, token.blinded).ok());
  const Digest root = tree.plain_root();
  EXPECT_EQ(tree.Insert(1, token.blinded, token.plain).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(tree.Erase(2).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(tree.size(), 1u);
  EXPECT_EQ(tree.plain_root(), root);
}

// Someone who picks the tokens can make the tree a list; that must not overflow a stack.
TEST(TokenTreeTest, SurvivesTokensSortedByPriority) {
  std::vector<std::pair<Digest, Digest>> by_priority;
  for (uint64_t i = 0; i < 5000; ++i) {
    const Digest plain = MakeToken(i).plain;
    by_priority.emplace_back(
        Sha256(absl::StrCat("lethe/token-priority/v1", absl::string_view("\0", 1), AsBytes(plain))),
        plain);
  }
  std::sort(by_priority.begin(), by_priority.end());
  TokenTree tree;
  for (size_t i = 0; i < by_priority.size(); ++i) {
    ASSERT_TRUE(tree.Insert(i, by_priority[i].second, by_priority[i].second).ok());
  }
  // Each token is the root over all earlier ones.
  Digest root = Sha256("lethe/empty/v1");
  const Digest empty = root;
  for (const auto& [priority, plain] : by_priority) {
    root = Sha256(absl::StrCat("\x02", AsBytes(root), AsBytes(plain), AsBytes(empty)));
  }
  EXPECT_EQ(tree.plain_root(), root);
  for (size_t i = 0; i < by_priority.size(); ++i) ASSERT_TRUE(tree.Erase(i).ok());
  EXPECT_EQ(tree.plain_root(), empty);
}

}  // namespace
}  // namespace lethe::audit
