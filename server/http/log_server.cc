#include "server/http/log_server.h"

#include <httplib.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/encoding.h"
#include "audit/hash.h"
#include "audit/tiles.h"
#include "core/base/status_macros.h"

namespace lethe::http {
namespace {

constexpr size_t kThreads = 4;
constexpr std::chrono::seconds kTimeout(5);
constexpr size_t kCallsAConnection = 1000;
constexpr int kTilesInLevels = 8;  // a tile is eight levels of the tree high

constexpr char kText[] = "text/plain; charset=utf-8";
constexpr char kBytes[] = "application/octet-stream";
// A full tile never changes; all else may have grown by the next call.
constexpr char kForEver[] = "public, max-age=31536000, immutable";
constexpr char kNow[] = "no-cache";

struct Answer {
  std::string body;
  const char* type = kText;
  const char* cache = kNow;
};

int HttpCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return 400;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnavailable:
      return 503;
    default:
      return 500;
  }
}

// What the calls read.
struct Source {
  service::Service* service;
  service::CallOptions call;
};

// A tenant that is not open is opened as far as its log for it, and nothing is solved.
constexpr auto kDepth = service::TenantRegistry::Depth::kLog;

absl::StatusOr<Answer> Keys(const Source& source, const std::string& tenant) {
  LETHE_ASSIGN_OR_RETURN(const service::CheckpointInfo checkpoint,
                         source.service->GetCheckpoint(tenant, kDepth, source.call));
  Answer answer;
  for (const service::LogKeyInfo& key : checkpoint.keys) {
    absl::StrAppend(&answer.body, key.first_sequence, " ", key.vkey, "\n");
  }
  return answer;
}

absl::StatusOr<Answer> Checkpoint(const Source& source, const std::string& tenant) {
  LETHE_ASSIGN_OR_RETURN(service::CheckpointInfo checkpoint,
                         source.service->GetCheckpoint(tenant, kDepth, source.call));
  return Answer{.body = std::move(checkpoint.note)};
}

absl::StatusOr<Answer> Tile(const Source& source,
                            const std::string& tenant,
                            const std::string& path) {
  LETHE_ASSIGN_OR_RETURN(const audit::ParsedTilePath parsed, audit::ParseTilePath(path));
  LETHE_ASSIGN_OR_RETURN(const std::unique_ptr<audit::LogSource> log,
                         source.service->OpenLog(tenant, kDepth, source.call));
  const audit::TileId& tile = parsed.tile;
  const int level = parsed.entries ? 0 : tile.level * kTilesInLevels;
  const uint64_t hashes = level < 64 ? log->size() >> level : 0;
  const auto width = static_cast<uint64_t>(tile.width);
  // In this order no product overflows.
  if (tile.index > hashes / audit::kTileWidth || tile.index * audit::kTileWidth + width > hashes) {
    return absl::NotFoundError("the log has no such tile");
  }
  const uint64_t first = tile.index * audit::kTileWidth;
  Answer answer{.type = kBytes, .cache = tile.width == audit::kTileWidth ? kForEver : kNow};
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

void Write(absl::StatusOr<Answer> answer, httplib::Response& response) {
  if (!answer.ok()) {
    response.status = HttpCode(answer.status());
    response.set_header("Cache-Control", kNow);
    response.set_content(absl::StrCat(std::string(answer.status().message()), "\n"), kText);
    return;
  }
  response.set_header("Cache-Control", answer->cache);
  response.set_content(std::move(answer->body), answer->type);
}

}  // namespace

struct LogServer::Impl {
  httplib::Server server;
  std::thread thread;
  std::atomic<bool> ended = false;     // the thread serves no more
  std::atomic<bool> stopping = false;  // calls wait for nothing any more
  uint16_t port = 0;
};

LogServer::LogServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LogServer::~LogServer() { Stop(); }

uint16_t LogServer::port() const { return impl_->port; }

absl::StatusOr<std::unique_ptr<LogServer>> LogServer::Start(service::Service* service,
                                                            const std::string& host,
                                                            uint16_t port) {
  auto impl = std::make_unique<Impl>();
  httplib::Server& server = impl->server;
  const Source source{service, {.still_wanted = [state = impl.get()] {
                        return state->stopping ? absl::UnavailableError("the server stops")
                                               : absl::OkStatus();
                      }}};
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  // Not SO_REUSEPORT, the library's choice: a second server could take half of the connections.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.set_payload_max_length(0);
  server.set_read_timeout(kTimeout);
  server.set_write_timeout(kTimeout);
  server.set_keep_alive_timeout(kTimeout.count());
  server.set_keep_alive_max_count(kCallsAConnection);
  server.set_default_headers({{"X-Content-Type-Options", "nosniff"}});
  server.set_pre_routing_handler([](const httplib::Request& request, httplib::Response& response) {
    if (request.method == "GET" || request.method == "HEAD") {
      return httplib::Server::HandlerResponse::Unhandled;
    }
    response.status = 405;
    response.set_header("Allow", "GET, HEAD");
    response.set_content("only GET\n", kText);
    return httplib::Server::HandlerResponse::Handled;
  });
  server.Get(R"(/v1/tenants/([^/]+)/log/keys)",
             [source](const httplib::Request& request, httplib::Response& response) {
               Write(Keys(source, request.matches[1]), response);
             });
  server.Get(R"(/v1/tenants/([^/]+)/log/checkpoint)",
             [source](const httplib::Request& request, httplib::Response& response) {
               Write(Checkpoint(source, request.matches[1]), response);
             });
  server.Get(R"(/v1/tenants/([^/]+)/log/(tile/[a-z0-9./]+))",
             [source](const httplib::Request& request, httplib::Response& response) {
               Write(Tile(source, request.matches[1], request.matches[2]), response);
             });
  server.set_error_handler([](const httplib::Request& /*request*/, httplib::Response& response) {
    if (response.body.empty()) response.set_content("no such page\n", kText);
  });
  int bound = port;
  if (port == 0) {
    bound = server.bind_to_any_port(host);
  } else if (!server.bind_to_port(host, port)) {
    bound = -1;
  }
  if (bound <= 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen for HTTP on ", host, ":", port,
                                               "; is another server running on this port?"));
  }
  impl->port = static_cast<uint16_t>(bound);
  impl->thread = std::thread([state = impl.get()] {
    state->server.listen_after_bind();
    state->ended = true;
  });
  while (!server.is_running() && !impl->ended) std::this_thread::yield();
  if (impl->ended) {
    impl->thread.join();
    return absl::UnavailableError("the HTTP server ended at once");
  }
  return std::unique_ptr<LogServer>(new LogServer(std::move(impl)));
}

void LogServer::Stop() {
  if (!impl_->thread.joinable()) return;
  impl_->stopping = true;
  impl_->server.stop();
  impl_->thread.join();
}

}  // namespace lethe::http
