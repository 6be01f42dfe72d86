#include "server/http/log_routes.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "audit/encoding.h"
#include "audit/hash.h"
#include "audit/tiles.h"
#include "core/base/status_macros.h"

namespace lethe::http {
namespace {

constexpr int kTilesInLevels = 8;  // a tile is eight levels of the tree high

constexpr char kBytes[] = "application/octet-stream";
// A full tile never changes; all else may have grown by the next call.
constexpr char kNow[] = "no-cache";
constexpr char kForEver[] = "public, max-age=31536000, immutable";
// Where it took credentials to get it, nobody else may be given it by a proxy.
constexpr char kForEverByCaller[] = "private, max-age=31536000, immutable";

struct Answer {
  std::string body;
  const char* type = kPlainText;
  bool for_ever = false;
};

// What the calls read.
struct Source {
  service::Service* service;
  service::CallOptions call;
  std::string tenant;
};

// A tenant that is not open is opened as far as its log for it, and nothing is solved.
constexpr auto kDepth = service::TenantRegistry::Depth::kLog;

absl::StatusOr<Answer> Keys(const Source& source, const HttpRequest& /*request*/) {
  LETHE_ASSIGN_OR_RETURN(const service::CheckpointInfo checkpoint,
                         source.service->GetCheckpoint(source.tenant, kDepth, source.call));
  Answer answer;
  for (const service::LogKeyInfo& key : checkpoint.keys) {
    absl::StrAppend(&answer.body, key.first_sequence, " ", key.vkey, "\n");
  }
  return answer;
}

absl::StatusOr<Answer> Checkpoint(const Source& source, const HttpRequest& /*request*/) {
  LETHE_ASSIGN_OR_RETURN(service::CheckpointInfo checkpoint,
                         source.service->GetCheckpoint(source.tenant, kDepth, source.call));
  return Answer{.body = std::move(checkpoint.note)};
}

absl::StatusOr<Answer> Tile(const Source& source, const HttpRequest& request) {
  LETHE_ASSIGN_OR_RETURN(const audit::ParsedTilePath parsed,
                         audit::ParseTilePath("tile/" + request.Variable("tile")));
  LETHE_ASSIGN_OR_RETURN(const std::unique_ptr<audit::LogSource> log,
                         source.service->OpenLog(source.tenant, kDepth, source.call));
  const audit::TileId& tile = parsed.tile;
  const int level = parsed.entries ? 0 : tile.level * kTilesInLevels;
  const uint64_t hashes = level < 64 ? log->size() >> level : 0;
  const auto width = static_cast<uint64_t>(tile.width);
  // In this order no product overflows.
  if (tile.index > hashes / audit::kTileWidth || tile.index * audit::kTileWidth + width > hashes) {
    return absl::NotFoundError("the log has no such tile");
  }
  const uint64_t first = tile.index * audit::kTileWidth;
  Answer answer{.type = kBytes, .for_ever = tile.width == audit::kTileWidth};
  if (parsed.entries) {
    LETHE_RETURN_IF_ERROR(
        log->Entries(first, first + width - 1, [&](const audit::ExportEntry& entry) {
          const size_t bytes = entry.leaf.size();  // at most kMaxLeafBytes
          answer.body += {static_cast<char>(bytes >> 8), static_cast<char>(bytes & 0xff)};
          answer.body += entry.leaf;
          return absl::OkStatus();
        }));
    return answer;
  }
  for (uint64_t i = 0; i < width; ++i) {
    LETHE_ASSIGN_OR_RETURN(const audit::Digest hash, log->Node(level, first + i));
    answer.body += std::string(audit::AsBytes(hash));
  }
  return answer;
}

// Every route takes the tenant from its path.
void Add(Router& router,
         service::Service* service,
         bool open,
         const std::string& rest,
         const std::string& summary,
         const std::string& type,
         absl::StatusOr<Answer> (*answer)(const Source&, const HttpRequest&)) {
  const std::string pattern = "/v1/tenants/{tenant}/log/" + rest;
  router.Add(
      {.method = "GET",
       .pattern = pattern,
       .operation = absl::StrCat("GET ", pattern, open ? ", public" : ""),
       .summary = summary,
       .schemas = {.answer_type = type},
       .handler = [service, open, answer](const HttpRequest& request,
                                          HttpCall& call) -> absl::StatusOr<HttpResponse> {
         LETHE_RETURN_IF_ERROR(call.Admit(request.Variable("tenant"), ""));
         LETHE_ASSIGN_OR_RETURN(
             Answer found,
             answer(Source{service, call.options(), request.Variable("tenant")}, request));
         const char* const cache = !found.for_ever ? kNow : open ? kForEver : kForEverByCaller;
         return HttpResponse{.type = found.type,
                             .body = std::move(found.body),
                             .headers = {{"Cache-Control", cache}}};
       }});
}

}  // namespace

void AddLogRoutes(service::Service* service, bool open, Router& router) {
  Add(router, service, open, "keys", "The keys of a log, a line each", kPlainText, Keys);
  Add(router, service, open, "checkpoint", "The checkpoint of a log, a C2SP signed note",
      kPlainText, Checkpoint);
  Add(router, service, open, "tile/{tile...}", "A tile of a log, as C2SP tlog-tiles names it",
      kBytes, Tile);
}

}  // namespace lethe::http
