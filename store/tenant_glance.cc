#include "store/tenant_glance.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "audit/hash.h"
#include "store/anchor.h"
#include "store/case_table.h"
#include "store/schema.h"
#include "store/validation.h"
#include "store/vault/vault_folder.h"

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
Row FirstRow(const Handle& handle, const char* sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(handle.get(), sql, -1, &statement, nullptr) != SQLITE_OK) return nullptr;
  Row row(statement);
  return sqlite3_step(statement) == SQLITE_ROW ? std::move(row) : nullptr;
}

// -1 when there is none.
int64_t Number(const Handle& handle, const char* sql) {
  const Row row = FirstRow(handle, sql);
  return row == nullptr ? -1 : sqlite3_column_int64(row.get(), 0);
}

std::string Bytes(const Row& row, int column) {
  const void* data = sqlite3_column_blob(row.get(), column);
  const int size = sqlite3_column_bytes(row.get(), column);
  return data == nullptr ? ""
                         : std::string(static_cast<const char*>(data), static_cast<size_t>(size));
}

// Closing a connection in order removes the log, an empty one too.
bool HasLog(const std::string& path) {
  struct stat info {};
  return ::lstat(absl::StrCat(path, "-wal").c_str(), &info) == 0;
}

// A database that nobody has open; null when it was not closed in order or has another format.
Handle OpenClosed(const std::string& path, const DatabaseIdentity& identity, uint64_t& bytes) {
  struct stat info {};
  if (HasLog(path) || ::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return nullptr;
  sqlite3* opened = nullptr;
  const int code = sqlite3_open_v2(
      ImmutableUri(path).c_str(), &opened,
      SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
      nullptr);
  Handle handle(opened);
  if (code != SQLITE_OK || Number(handle, "PRAGMA application_id") != identity.application_id) {
    return nullptr;
  }
  const int64_t version = Number(handle, "PRAGMA user_version");
  if (version < identity.least_version || version > identity.user_version) return nullptr;
  const int64_t page_bytes = Number(handle, "PRAGMA page_size");
  if (page_bytes <= 0 || info.st_size % page_bytes != 0) return nullptr;
  bytes = static_cast<uint64_t>(info.st_size);
  return handle;
}

// Whether this is the vault of the tenant, with an anchor that ends as its log does.
bool VaultAgrees(const std::string& vault,
                 const TenantRecord& tenant,
                 int64_t certificates,
                 const std::string& last_leaf) {
  if (!CheckHex("uid", tenant.uid, 32).ok()) return false;
  const std::string folder = absl::StrCat(vault, "/", tenant.uid);
  const std::string keys = KeysFileOf(folder);
  struct stat info {};
  if (HasLog(keys) || ::stat(keys.c_str(), &info) != 0) return false;
  uint64_t bytes = 0;
  const Handle anchor = OpenClosed(AnchorFileOf(folder), kAnchorIdentity, bytes);
  if (anchor == nullptr) return false;
  const Row log = FirstRow(anchor, "SELECT tenant_uid, origin FROM log");
  if (log == nullptr || Bytes(log, 0) != tenant.uid || Bytes(log, 1) != tenant.log_origin) {
    return false;
  }
  if (Number(anchor, "SELECT coalesce(max(sequence) + 1, 0) FROM entries") != certificates) {
    return false;
  }
  if (certificates == 0) return true;
  const Row last = FirstRow(anchor, "SELECT leaf_hash FROM entries ORDER BY sequence DESC LIMIT 1");
  return last != nullptr && Bytes(last, 0) == last_leaf;
}

// False when they cannot be read.
bool ReadOpenCases(const Handle& handle, std::vector<OpenCase>& cases) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(handle.get(), kSelectOpenCases, -1, &statement, nullptr) != SQLITE_OK) {
    return false;
  }
  const Row row(statement);
  const auto time = [&](int column) {
    return sqlite3_column_type(statement, column) == SQLITE_NULL
               ? std::nullopt
               : std::optional<int64_t>(sqlite3_column_int64(statement, column));
  };
  int code = SQLITE_ROW;
  while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
    cases.push_back({.number = static_cast<uint64_t>(sqlite3_column_int64(statement, 0)),
                     .state = static_cast<CaseState>(sqlite3_column_int64(statement, 1)),
                     .received_micros = sqlite3_column_int64(statement, 2),
                     .due_micros = sqlite3_column_int64(statement, 3),
                     .wake_micros = time(4),
                     .callback_micros = time(5)});
  }
  return code == SQLITE_DONE;
}

}  // namespace

std::optional<TenantGlance> GlanceAtTenant(const std::string& dir, const std::string& vault) {
  TenantGlance glance;
  const Handle handle =
      OpenClosed(absl::StrCat(dir, "/tenant.db"), kTenantIdentity, glance.file_bytes);
  if (handle == nullptr) return std::nullopt;
  const Row tenant =
      FirstRow(handle, "SELECT name, uid, log_origin, create_time, state FROM tenant");
  if (tenant == nullptr || sqlite3_column_int64(tenant.get(), 4) != 0) return std::nullopt;
  glance.record = {.name = Bytes(tenant, 0),
                   .uid = Bytes(tenant, 1),
                   .log_origin = Bytes(tenant, 2),
                   .create_time_micros = sqlite3_column_int64(tenant.get(), 3)};
  if (Number(handle, "SELECT count(*) FROM outbox") != 0) return std::nullopt;
  const int64_t memories = Number(handle, "SELECT count(*) FROM memories");
  const int64_t certificates =
      Number(handle, "SELECT coalesce(max(sequence) + 1, 0) FROM certificates");
  const Row head = FirstRow(handle, "SELECT size, range, checkpoint FROM log_head");
  const Row key =
      FirstRow(handle, "SELECT vkey FROM log_keys ORDER BY first_sequence DESC LIMIT 1");
  if (memories < 0 || head == nullptr || key == nullptr ||
      sqlite3_column_int64(head.get(), 0) != certificates) {
    return std::nullopt;
  }
  const Row last =
      FirstRow(handle, "SELECT leaf_hash FROM certificates ORDER BY sequence DESC LIMIT 1");
  if ((last == nullptr) != (certificates == 0) ||
      !VaultAgrees(vault, glance.record, certificates, last == nullptr ? "" : Bytes(last, 0))) {
    return std::nullopt;
  }
  if (!ReadOpenCases(handle, glance.cases)) return std::nullopt;
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
