#include "audit/tiles.h"

#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "audit/encoding.h"
#include "audit/merkle.h"
#include "audit/tlog_proof.h"
#include "gtest/gtest.h"

namespace lethe::audit {
namespace {

TEST(TilesTest, WritesThePathsOfTheSpecification) {
  EXPECT_EQ(TilePath({0, 0, 256}), "tile/0/000");
  EXPECT_EQ(TilePath({1, 7, 3}), "tile/1/007.p/3");
  EXPECT_EQ(TilePath({63, 999, 255}), "tile/63/999.p/255");
  EXPECT_EQ(TilePath({0, 1000, 256}), "tile/0/x001/000");
  EXPECT_EQ(TilePath({0, 1234067, 256}), "tile/0/x001/x234/067");
  EXPECT_EQ(EntriesPath(1234067, 1), "tile/entries/x001/x234/067.p/1");
  EXPECT_EQ(EntriesPath(5, 256), "tile/entries/005");
  EXPECT_EQ(TilePath({2, ~uint64_t{0}, 256}), "tile/2/x018/x446/x744/x073/x709/x551/615");
}

TEST(TilesTest, PathsReadBack) {
  const uint64_t seed = 20261129;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 5000; ++i) {
    ParsedTilePath path;
    path.entries = random() % 2 == 0;
    path.tile.level = path.entries ? 0 : static_cast<int>(random() % 64);
    path.tile.index = random() >> random() % 64;
    path.tile.width = static_cast<int>(1 + random() % 256);
    const std::string text =
        path.entries ? EntriesPath(path.tile.index, path.tile.width) : TilePath(path.tile);
    const absl::StatusOr<ParsedTilePath> parsed = ParseTilePath(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status();
    EXPECT_EQ(*parsed, path) << text;
  }
}

TEST(TilesTest, RefusesEveryOtherPath) {
  for (const absl::string_view path : {
           "",
           "tile",
           "tile/",
           "tile/0",
           "tile/0/",
           "/tile/0/000",
           "tile//000",
           "tile/00/000",
           "tile/+1/000",
           "tile/-1/000",
           "tile/64/000",
           "tile/0x1/000",
           "tile/99999999999999999999/000",
           "tile/Entries/000",
           "tile/entries",
           "tile/data/000",
           "tile/0/0",
           "tile/0/00",
           "tile/0/0000",
           "tile/0/x000",
           "tile/0/x000/000",
           "tile/0/x000/x001/000",
           "tile/0/x001",
           "tile/0/x001/",
           "tile/0/001/000",
           "tile/0/x001/x000",
           "tile/0/xx01/000",
           "tile/0/x1/000",
           "tile/0/x-01/000",
           "tile/0/ 01",
           "tile/0/01a",
           "tile/0/000/",
           "tile/0/000.p",
           "tile/0/000.p/",
           "tile/0/000.p/0",
           "tile/0/000.p/01",
           "tile/0/000.p/256",
           "tile/0/000.p/+1",
           "tile/0/000.p/1/",
           "tile/0/000.p/1.p/1",
           "tile/0/000p/1",
           "tile/0/.p/1",
           "tile/0/../0/000",
           "tile/0/x018/x446/x744/x073/x709/x551/616",
           "tile/0/x001/x000/x000/x000/x000/x000/x000/000",
       }) {
    EXPECT_FALSE(ParseTilePath(path).ok()) << path;
  }
  EXPECT_FALSE(ParseTilePath(absl::string_view("tile/0/000\0", 11)).ok());
  EXPECT_FALSE(ParseTilePath(absl::StrCat("tile/0/", std::string(100000, 'x'))).ok());
}

// By the definition: the tile of size s at level l has floor(s / 256^l) mod 256 hashes.
TEST(TilesTest, ListsTheTilesOfTheDefinition) {
  EXPECT_TRUE(TilesOf(0).empty());
  EXPECT_EQ(TilesOf(1), (std::vector<TileId>{{0, 0, 1}}));
  EXPECT_EQ(TilesOf(255), (std::vector<TileId>{{0, 0, 255}}));
  EXPECT_EQ(TilesOf(256), (std::vector<TileId>{{0, 0, 256}, {1, 0, 1}}));
  EXPECT_EQ(TilesOf(257), (std::vector<TileId>{{0, 0, 256}, {0, 1, 1}, {1, 0, 1}}));
  // The specification's example.
  std::map<int, int> full;
  std::map<int, int> partial;
  for (const TileId& tile : TilesOf(70000)) {
    if (tile.width == kTileWidth) {
      ++full[tile.level];
    } else {
      EXPECT_TRUE(partial.emplace(tile.level, tile.width).second);
    }
  }
  EXPECT_EQ(full, (std::map<int, int>{{0, 273}, {1, 1}}));
  EXPECT_EQ(partial, (std::map<int, int>{{0, 112}, {1, 17}, {2, 1}}));
  EXPECT_EQ(TilesOf(65536).back(), (TileId{2, 0, 1}));
  for (uint64_t size : {300u, 511u, 512u, 513u, 65535u, 65537u, 131072u}) {
    uint64_t hashes = 0;
    for (const TileId& tile : TilesOf(size)) {
      if (tile.level == 0) hashes += static_cast<uint64_t>(tile.width);
    }
    EXPECT_EQ(hashes, size);
  }
}

std::vector<Digest> Hashes(size_t count) {
  std::vector<Digest> hashes;
  for (size_t i = 0; i < count; ++i) hashes.push_back(Sha256(absl::StrCat(i)));
  return hashes;
}

TEST(TlogProofTest, WritesTheFormat) {
  EXPECT_EQ(TlogProof(73894, Hashes(2), "note\n"),
            absl::StrCat("c2sp.org/tlog-proof@v1\nindex 73894\n", Base64(Sha256("0")), "\n",
                         Base64(Sha256("1")), "\n\nnote\n"));
  EXPECT_EQ(TlogProof(0, {}, "note\n"), "c2sp.org/tlog-proof@v1\nindex 0\n\nnote\n");
}

TEST(TlogProofTest, ReadsBack) {
  for (const uint64_t index : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 53, ~uint64_t{0} >> 1}) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{20}, kMaxProofHashes}) {
      for (const std::string note : {"n", "a\n\nb\n", "\n", "\n\n\xE2\x80\x94 x\r\n"}) {
        const absl::StatusOr<ParsedTlogProof> parsed =
            ParseTlogProof(TlogProof(index, Hashes(count), note));
        ASSERT_TRUE(parsed.ok()) << parsed.status();
        EXPECT_EQ(parsed->index, index);
        EXPECT_EQ(parsed->proof, Hashes(count));
        EXPECT_EQ(parsed->checkpoint_note, note);
      }
    }
  }
}

TEST(TlogProofTest, RefusesEverythingElse) {
  const std::string good = TlogProof(7, Hashes(3), "note\n");
  const std::string hash = Base64(Sha256("1"));
  ASSERT_TRUE(ParseTlogProof(good).ok());
  const std::string head = "c2sp.org/tlog-proof@v1\n";
  const std::vector<std::string> bad = {
      "",
      head,
      absl::StrCat(head, "index 7"),
      absl::StrCat(head, "index 7\n"),
      absl::StrCat(head, "index 7\n\n"),
      absl::StrCat(head, "index 7\n", hash, "\n"),
      absl::StrCat(head, "\nnote\n"),
      absl::StrCat(" ", good),
      absl::StrReplaceAll(good, {{"@v1", "@v2"}}),
      absl::StrReplaceAll(good, {{"\n", "\r\n"}}),
      absl::StrReplaceAll(good, {{"@v1\n", "@v1\r\n"}}),
      absl::StrReplaceAll(good, {{"@v1\n", "@v1\n\n"}}),
      absl::StrReplaceAll(good, {{"index 7", "extra YQ==\nindex 7"}}),
      absl::StrReplaceAll(good, {{"index 7", "index  7"}}),
      absl::StrReplaceAll(good, {{"index 7", "index 07"}}),
      absl::StrReplaceAll(good, {{"index 7", "index -7"}}),
      absl::StrReplaceAll(good, {{"index 7", "index +7"}}),
      absl::StrReplaceAll(good, {{"index 7", "index 7 "}}),
      absl::StrReplaceAll(good, {{"index 7", "index"}}),
      absl::StrReplaceAll(good, {{"index 7", "index 9223372036854775808"}}),
      absl::StrReplaceAll(good, {{"index 7", "Index 7"}}),
      absl::StrReplaceAll(good, {{hash, hash + " "}}),
      absl::StrReplaceAll(good, {{hash, hash + "\r"}}),
      absl::StrReplaceAll(good, {{hash, hash.substr(0, 43)}}),
      absl::StrReplaceAll(good, {{hash, hash.substr(0, 40)}}),
      absl::StrReplaceAll(good, {{hash, hash + hash}}),
      absl::StrReplaceAll(good, {{hash, Hex(Sha256("1"))}}),
      absl::StrReplaceAll(good, {{hash, "# comment"}}),
      absl::StrReplaceAll(good, {{hash + "\n", hash + "\n" + std::string(200, 'A') + "\n"}}),
  };
  for (const std::string& text : bad) EXPECT_FALSE(ParseTlogProof(text).ok()) << text;
  std::string many = absl::StrCat(head, "index 7\n");
  for (size_t i = 0; i <= kMaxProofHashes; ++i) absl::StrAppend(&many, hash, "\n");
  EXPECT_FALSE(ParseTlogProof(absl::StrCat(many, "\nnote\n")).ok());
  // A megabyte of hashes is given up early.
  for (int i = 0; i < 20000; ++i) absl::StrAppend(&many, hash, "\n");
  EXPECT_FALSE(ParseTlogProof(absl::StrCat(many, "\nnote\n")).ok());
}

}  // namespace
}  // namespace lethe::audit
