#include "store/tenant_glance.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "audit/hash.h"
#include "store/schema.h"
#include "store/validation.h"

namespace lethe::store {
namespace {

struct CloseDatabase {
  void operator()(sqlite3* handle) const { sqlite3_close(handle); }
};
struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Handle = std::unique_ptr<sqlite3, CloseDatabase>;
using Row = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

// "file:" with what has a meaning there escaped.
std::string ImmutableUri(const std::string& path) {
  std::string uri = "file:";
  for (const char c : path) {
    if (c == '?' || c == '#' || c == '%') {
      absl::StrAppend(&uri, "%", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
    } else {
      uri.push_back(c);
    }
  }
  return absl::StrCat(uri, "?immutable=1");
}

// The first row of a query; null when there is none or it fails.
Row FirstRow(sqlite3* handle, const char* sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(handle, sql, -1, &statement, nullptr) != SQLITE_OK) return nullptr;
  Row row(statement);
  return sqlite3_step(statement) == SQLITE_ROW ? std::move(row) : nullptr;
}

std::string Bytes(const Row& row, int column) {
  const void* data = sqlite3_column_blob(row.get(), column);
  const int size = sqlite3_column_bytes(row.get(), column);
  return data == nullptr ? ""
                         : std::string(static_cast<const char*>(data), static_cast<size_t>(size));
}

}  // namespace

std::optional<TenantGlance> GlanceAtTenant(const std::string& dir) {
  const std::string path = absl::StrCat(dir, "/tenant.db");
  struct stat info {};
  // Closing a connection in order removes the log, an empty one too.
  if (::lstat(absl::StrCat(path, "-wal").c_str(), &info) == 0) return std::nullopt;
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  sqlite3* opened = nullptr;
  const int code = sqlite3_open_v2(
      ImmutableUri(path).c_str(), &opened,
      SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
      nullptr);
  const Handle handle(opened);
  if (code != SQLITE_OK) return std::nullopt;

  const auto number = [&](const char* sql) -> int64_t {
    const Row row = FirstRow(handle.get(), sql);
    return row == nullptr ? -1 : sqlite3_column_int64(row.get(), 0);
  };
  if (number("PRAGMA application_id") != kTenantIdentity.application_id ||
      number("PRAGMA user_version") != kTenantIdentity.user_version) {
    return std::nullopt;
  }
  const int64_t page_bytes = number("PRAGMA page_size");
  if (page_bytes <= 0 || info.st_size % page_bytes != 0) return std::nullopt;

  TenantGlance glance;
  glance.file_bytes = static_cast<uint64_t>(info.st_size);
  const Row tenant =
      FirstRow(handle.get(), "SELECT name, uid, log_origin, create_time, state FROM tenant");
  if (tenant == nullptr || sqlite3_column_int64(tenant.get(), 4) != 0) return std::nullopt;
  glance.record = {.name = Bytes(tenant, 0),
                   .uid = Bytes(tenant, 1),
                   .log_origin = Bytes(tenant, 2),
                   .create_time_micros = sqlite3_column_int64(tenant.get(), 3)};
  if (number("SELECT count(*) FROM outbox") != 0) return std::nullopt;
  const int64_t memories = number("SELECT count(*) FROM memories");
  const int64_t certificates = number("SELECT coalesce(max(sequence) + 1, 0) FROM certificates");
  const Row head = FirstRow(handle.get(), "SELECT size, range, checkpoint FROM log_head");
  const Row key =
      FirstRow(handle.get(), "SELECT vkey FROM log_keys ORDER BY first_sequence DESC LIMIT 1");
  if (memories < 0 || head == nullptr || key == nullptr ||
      sqlite3_column_int64(head.get(), 0) != certificates) {
    return std::nullopt;
  }
  glance.memories = static_cast<uint64_t>(memories);
  glance.vkey = Bytes(key, 0);
  glance.head.count = static_cast<uint64_t>(certificates);
  const std::string range = Bytes(head, 1);
  for (size_t at = 0; at < range.size(); at += sizeof(Bytes32)) {
    const absl::StatusOr<Bytes32> hash =
        ReadHash(absl::string_view(range).substr(at, sizeof(Bytes32)));
    if (!hash.ok()) return std::nullopt;
    glance.head.range.push_back(*hash);
  }
  glance.head.checkpoint = Bytes(head, 2);
  if (glance.head.checkpoint.empty()) return std::nullopt;
  return glance;
}

}  // namespace lethe::store
