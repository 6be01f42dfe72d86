// The files of a static log: hashes and entries in tiles of 256.
//
//     tile/<L>/<N>[.p/<W>]         hash i of tile N of level L is the root over the leaves
//                                  [(256 N + i) 256^L, (256 N + i + 1) 256^L), 32 bytes each
//     tile/entries/<N>[.p/<W>]     leaves 256 N and following, each u16be(size) || leaf
//
// N is written in groups of three digits, all but the last after an x: 1234067 = x001/x234/067. A
// tile of fewer than 256 hashes (at the right edge of its level) has its width W in the path.
//
// Errors: INVALID_ARGUMENT. Threads: safe. Source: c2sp.org/tlog-tiles.
#ifndef LETHE_AUDIT_TILES_H_
#define LETHE_AUDIT_TILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lethe::audit {

inline constexpr int kTileWidth = 256;
inline constexpr int kTileHeight = 8;     // log2 of the width: node level 8 L is tile level L
inline constexpr int kMaxTileLevel = 63;  // what the format allows; a log ends at level 7

struct TileId {
  int level = 0;
  uint64_t index = 0;
  int width = kTileWidth;

  friend bool operator==(const TileId&, const TileId&) = default;
};

// Require a level of 0 to 63 and a width of 1 to 256.
std::string TilePath(const TileId& tile);
std::string EntriesPath(uint64_t index, int width);

struct ParsedTilePath {
  bool entries = false;  // then level is 0
  TileId tile;

  friend bool operator==(const ParsedTilePath&, const ParsedTilePath&) = default;
};
// INVALID_ARGUMENT for any path that the two above would not have written.
absl::StatusOr<ParsedTilePath> ParseTilePath(absl::string_view path);

// Every tile of a log of this size, level by level from 0, by index: the full ones and, last in its
// level, the partial one. Each level-0 tile has an entries file of the same index and width. Cost:
// size / 255 elements.
std::vector<TileId> TilesOf(uint64_t size);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_TILES_H_
