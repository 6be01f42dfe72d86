#include "tests/integration/log_rules.h"

#include <sqlite3.h>

#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "audit/checkpoint.h"
#include "audit/encoding.h"
#include "audit/hash.h"
#include "audit/merkle.h"
#include "audit/signer.h"

namespace lethe::tests {
namespace {

// The first column of each row, as text.
std::vector<std::string> Query(const std::string& path, const std::string& sql) {
  sqlite3* db = nullptr;
  const auto keep = [](void* out, int, char** columns, char**) {
    static_cast<std::vector<std::string>*>(out)->emplace_back(columns[0] == nullptr ? ""
                                                                                    : columns[0]);
    return 0;
  };
  std::vector<std::string> values;
  const bool good =
      sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READONLY, nullptr) == SQLITE_OK &&
      sqlite3_exec(db, sql.c_str(), keep, &values, nullptr) == SQLITE_OK;
  const std::string error = good ? "" : sqlite3_errmsg(db);
  sqlite3_close(db);
  if (!good) throw std::runtime_error(absl::StrCat(path, ": ", error));
  return values;
}

std::set<uint64_t> Numbers(const std::string& path, const std::string& sql) {
  std::set<uint64_t> numbers;
  for (const std::string& value : Query(path, sql)) numbers.insert(std::stoull(value));
  return numbers;
}

}  // namespace

std::string LogRules::Check(client::Client& client) {
  const absl::StatusOr<client::Checkpoint> checkpoint = client.GetCheckpoint(tenant_);
  if (!checkpoint.ok()) throw std::runtime_error(checkpoint.status().ToString());
  if (checkpoint->keys.empty()) return "the log has no key";
  if (vkey_.empty()) vkey_ = checkpoint->keys.front().vkey;
  const absl::StatusOr<audit::VerificationKey> key = audit::VerificationKey::Parse(vkey_);
  if (!key.ok()) return "the log's key cannot be read";
  const audit::CheckpointResult signed_one = audit::VerifyCheckpoint(checkpoint->note, *key);
  if (!signed_one.ok()) return absl::StrCat("checkpoint: ", signed_one.message);
  handed_out_[signed_one.checkpoint.size] = audit::Hex(signed_one.checkpoint.root);

  audit::CompactRange range;
  std::string previous;
  certificates_ = 0;
  for (const absl::StatusOr<client::Certificate>& certificate : client.ListCertificates(tenant_)) {
    if (!certificate.ok()) throw std::runtime_error(certificate.status().ToString());
    if (certificate->sequence != certificates_) {
      return absl::StrCat("certificate ", certificates_, " is missing");
    }
    const audit::Digest leaf = audit::LeafHash(certificate->leaf);
    if (certificate->leaf_hash != audit::Hex(leaf) || certificate->previous_leaf_hash != previous) {
      return absl::StrCat("certificate ", certificates_, " does not continue the log");
    }
    previous = certificate->leaf_hash;
    range.Append(leaf);
    ++certificates_;
    const auto handed_out = handed_out_.find(certificates_);
    if (handed_out != handed_out_.end() && handed_out->second != audit::Hex(range.Root())) {
      return absl::StrCat("the checkpoint of size ", certificates_, " is over another log");
    }
  }
  if (certificates_ < handed_out_.rbegin()->first) return "the log is shorter than it was";
  if (certificates_ != signed_one.checkpoint.size) return "the checkpoint is of another size";
  return "";
}

std::string CheckKeys(const std::string& data,
                      const std::string& tenant,
                      uint64_t& live,
                      uint64_t& destroyed) {
  const std::string rows = absl::StrCat(data, "/tenants/", tenant, "/tenant.db");
  const std::string keys =
      absl::StrCat(data, "/vault/", Query(rows, "SELECT uid FROM tenant").front(), "/keys.db");
  if (!Query(rows, "SELECT sequence FROM outbox").empty()) return "an erasure is pending";
  std::set<uint64_t> used = Numbers(rows, "SELECT DISTINCT slot FROM tokens");
  used.insert(1);  // the tenant's own
  const uint64_t next = std::stoull(Query(rows, "SELECT next_slot FROM tenant").front());
  const std::set<uint64_t> all = Numbers(keys, "SELECT slot FROM slots");
  const std::set<uint64_t> alive =
      Numbers(keys, "SELECT slot FROM slots WHERE body <> zeroblob(96)");
  for (const uint64_t slot : alive) {
    if (slot < next && !used.contains(slot)) {
      return absl::StrCat("key ", slot, " is alive and no row uses it");
    }
  }
  for (const uint64_t slot : used) {
    if (!alive.contains(slot)) return absl::StrCat("key ", slot, " of a row is not alive");
  }
  live = alive.size();
  destroyed = all.size() - alive.size();
  return "";
}

}  // namespace lethe::tests
