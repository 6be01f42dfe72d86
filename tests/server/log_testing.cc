#include "tests/server/log_testing.h"

#include <sqlite3.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "audit/encoding.h"
#include "audit/merkle.h"

namespace lethe::service {

std::vector<audit::Digest> LeavesOf(Harness& service, const std::string& tenant) {
  std::vector<audit::Digest> leaves;
  PageRequest page{.size = 100, .token = ""};
  do {
    const auto certificates = service->ListCertificates(tenant, "", page);
    EXPECT_THAT(certificates, IsOk());
    if (!certificates.ok()) break;
    for (const CertificateInfo& info : certificates->items) {
      leaves.push_back(audit::LeafHash(info.leaf));
    }
    page.token = certificates->next_page_token;
  } while (!page.token.empty());
  return leaves;
}

audit::VerificationKey FirstKey(Harness& service, const std::string& tenant) {
  const auto checkpoint = service->GetCheckpoint(tenant);
  EXPECT_THAT(checkpoint, IsOk());
  return *audit::VerificationKey::Parse(checkpoint->keys.front().vkey);
}

audit::Checkpoint VerifiedCheckpoint(const CheckpointInfo& info) {
  // The last key that has begun by this size.
  std::string vkey;
  for (const LogKeyInfo& key : info.keys) {
    if (key.first_sequence <= info.size) vkey = key.vkey;
  }
  const audit::CheckpointResult result =
      audit::VerifyCheckpoint(info.note, *audit::VerificationKey::Parse(vkey));
  EXPECT_TRUE(result.ok()) << result.message;
  EXPECT_EQ(result.checkpoint.origin, info.origin);
  EXPECT_EQ(result.checkpoint.size, info.size);
  EXPECT_EQ(audit::Hex(result.checkpoint.root), info.root);
  return result.checkpoint;
}

std::vector<audit::Digest> ToDigests(const std::vector<std::string>& hashes) {
  std::vector<audit::Digest> digests;
  for (const std::string& hash : hashes) {
    EXPECT_EQ(hash.size(), 32u);
    std::copy_n(hash.begin(), 32, digests.emplace_back().begin());
  }
  return digests;
}

void Raw(const Harness& service, const std::string& sql, const std::string& tenant) {
  sqlite3* db = nullptr;
  const std::string path = absl::StrCat(service.data(), "/tenants/", tenant, "/tenant.db");
  EXPECT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(db);
  sqlite3_close(db);
}

std::string RawText(const Harness& service, const std::string& sql, const std::string& tenant) {
  sqlite3* db = nullptr;
  const std::string path = absl::StrCat(service.data(), "/tenants/", tenant, "/tenant.db");
  EXPECT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  std::string text;
  const auto keep = [](void* out, int, char** values, char**) {
    *static_cast<std::string*>(out) = values[0];
    return 0;
  };
  EXPECT_EQ(sqlite3_exec(db, sql.c_str(), keep, &text, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
  sqlite3_close(db);
  return text;
}

}  // namespace lethe::service
