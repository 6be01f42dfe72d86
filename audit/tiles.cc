#include "audit/tiles.h"

#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace lethe::audit {
namespace {

constexpr absl::string_view kEntries = "entries";

std::string Path(absl::string_view level, uint64_t index, int width) {
  LETHE_CHECK(width >= 1 && width <= kTileWidth);
  std::string number = absl::StrFormat("%03d", index % 1000);
  for (index /= 1000; index > 0; index /= 1000) {
    number = absl::StrFormat("x%03d/%s", index % 1000, number);
  }
  std::string path = absl::StrCat("tile/", level, "/", number);
  if (width < kTileWidth) absl::StrAppend(&path, ".p/", width);
  return path;
}

absl::Status Refuse(absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat("tile path: ", problem));
}

// Numbers without signs, spaces or leading zeros.
template <typename Number>
bool ParseDecimal(absl::string_view text, Number* number) {
  return absl::SimpleAtoi(text, number) && absl::StrCat(*number) == text;
}

absl::StatusOr<uint64_t> ParseIndex(absl::string_view text) {
  uint64_t index = 0;
  while (true) {
    const bool more = absl::ConsumePrefix(&text, "x");
    if (text.size() < 3) return Refuse("an index group is not three digits");
    uint64_t group = 0;
    for (size_t i = 0; i < 3; ++i) {
      if (!absl::ascii_isdigit(static_cast<unsigned char>(text[i]))) {
        return Refuse("an index group is not three digits");
      }
      group = 10 * group + static_cast<uint64_t>(text[i] - '0');
    }
    if (index > (std::numeric_limits<uint64_t>::max() - group) / 1000) {
      return Refuse("the index is too large");
    }
    index = 1000 * index + group;
    text.remove_prefix(3);
    if (!more) break;
    if (!absl::ConsumePrefix(&text, "/")) return Refuse("an index ends too early");
  }
  if (!text.empty()) return Refuse("an index goes on after its last group");
  return index;
}

}  // namespace

std::string TilePath(const TileId& tile) {
  LETHE_CHECK(tile.level >= 0 && tile.level <= kMaxTileLevel);
  return Path(absl::StrCat(tile.level), tile.index, tile.width);
}

std::string EntriesPath(uint64_t index, int width) { return Path(kEntries, index, width); }

absl::StatusOr<ParsedTilePath> ParseTilePath(absl::string_view path) {
  absl::string_view rest = path;
  if (!absl::ConsumePrefix(&rest, "tile/")) return Refuse("does not begin with tile/");
  const size_t slash = rest.find('/');
  if (slash == absl::string_view::npos) return Refuse("no index");
  ParsedTilePath parsed;
  const absl::string_view level = rest.substr(0, slash);
  parsed.entries = level == kEntries;
  if (!parsed.entries && (!ParseDecimal(level, &parsed.tile.level) || parsed.tile.level < 0 ||
                          parsed.tile.level > kMaxTileLevel)) {
    return Refuse("the level is neither 0 to 63 nor entries");
  }
  rest.remove_prefix(slash + 1);
  if (const size_t partial = rest.find(".p/"); partial != absl::string_view::npos) {
    if (!ParseDecimal(rest.substr(partial + 3), &parsed.tile.width) || parsed.tile.width < 1 ||
        parsed.tile.width >= kTileWidth) {
      return Refuse("the width is not 1 to 255");
    }
    rest = rest.substr(0, partial);
  }
  LETHE_ASSIGN_OR_RETURN(parsed.tile.index, ParseIndex(rest));
  // Leading groups of zeros are the one thing left that has two texts.
  const std::string canonical =
      parsed.entries ? EntriesPath(parsed.tile.index, parsed.tile.width) : TilePath(parsed.tile);
  if (canonical != path) return Refuse("the index has leading zeros");
  return parsed;
}

std::vector<TileId> TilesOf(uint64_t size) {
  std::vector<TileId> tiles;
  int level = 0;
  for (uint64_t hashes = size; hashes > 0; hashes /= kTileWidth, ++level) {
    const uint64_t full = hashes / kTileWidth;
    for (uint64_t index = 0; index < full; ++index) tiles.push_back({level, index, kTileWidth});
    const int rest = static_cast<int>(hashes % kTileWidth);
    if (rest > 0) tiles.push_back({level, full, rest});
  }
  return tiles;
}

}  // namespace lethe::audit
