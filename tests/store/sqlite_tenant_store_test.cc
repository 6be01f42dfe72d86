// What is special to the SQLite engine: what stands in the columns, quotas, failed commits. Files
// are looked at with the plain sqlite3 library, not with the code under test.
#include "store/sqlite_tenant_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sqlite3.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "store/sqlite.h"
#include "store/vault/file_kms.h"
#include "store/vault/key_store.h"
#include "store/vault/sealing.h"
#include "tests/store/sqlite_tenant_fixture.h"
#include "tests/store/store_testing.h"

namespace lethe::store {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// --- What the file holds.

TEST_F(SqliteTenantStoreTest, IdsAndSubjectsAreIndexedByKeyedHashesOnly) {
  ASSERT_OK(Insert({TestRow(1, "an-id", "a-subject"), TestRow(2, "another-id")}));
  // The secret, with the key of slot 1 and the vault's own code.
  const std::string sealed = absl::HexStringToBytes(Raw("SELECT hex(index_secret) FROM tenant"));
  ASSERT_EQ(sealed.size(), 32u + kSealOverhead);
  std::string secret;
  {
    const std::string vault = Options().vault + "/" + TestTenant().uid;
    auto kms = FileKms::Open(vault + "/kek");
    ASSERT_OK(kms);
    auto keys = KeyStore::Open(vault + "/keys.db", TestTenant().uid, kms->get());
    ASSERT_OK(keys);
    const std::string context = std::string("lethe-index-secret\0\1", 20) + TestTenant().uid +
                                std::string("\1\0\0\0\0\0\0\0", 8);
    ASSERT_OK((*keys)->WithKey(1, 0, [&](SealingKey& key) -> absl::Status {
      auto opened = key.Open(context, sealed);
      if (opened.ok()) secret = *opened;
      return opened.status();
    }));
  }
  ASSERT_EQ(secret.size(), 32u);
  auto hmac = [&](const std::string& message) {
    Bytes32 out;
    unsigned int size = 0;
    HMAC(EVP_sha256(), secret.data(), 32, reinterpret_cast<const unsigned char*>(message.data()),
         message.size(), out.data(), &size);
    return absl::AsciiStrToUpper(Hex(out)).substr(0, 32);  // the first half
  };
  EXPECT_EQ(Raw("SELECT hex(id_key) FROM tokens WHERE handle = 1"),
            hmac(std::string("lethe-id\0", 9) + memory_.uid + "an-id"));
  EXPECT_EQ(Raw("SELECT hex(subject_key) FROM tokens WHERE handle = 1"),
            hmac(std::string("lethe-subject\0", 14) + memory_.uid + "a-subject"));
  EXPECT_EQ(Raw("SELECT subject_key FROM tokens WHERE handle = 2"), "NULL");
}

// Each search by id, by subject, by handle, by request and by certificate must go through an index.
TEST_F(SqliteTenantStoreTest, NoSearchReadsAWholeTable) {
  ASSERT_OK(Insert({TestRow(1, "a", "s")}));
  store_.reset();
  const std::vector<std::pair<std::string, std::string>> searches = {
      {"SELECT handle FROM tokens WHERE memory = ?1 AND id_key = ?2", "tokens_by_id"},
      {"SELECT handle FROM tokens WHERE memory = ?1 AND subject_key = ?2 ORDER BY handle",
       "COVERING INDEX tokens_by_subject"},
      {"SELECT count(DISTINCT subject_key) FROM tokens WHERE memory = ?1 AND"
       " subject_key IS NOT NULL",
       "COVERING INDEX tokens_by_subject"},
      {"SELECT count(*) FROM tokens WHERE memory = ?1", "COVERING INDEX"},
      {"SELECT body FROM tokens WHERE memory = ?1 ORDER BY handle", "tokens_by_handle"},
      {"SELECT slot FROM tokens WHERE memory = ?1 AND subject_key = ?2 LIMIT 1",
       "tokens_by_subject"},
      {"DELETE FROM tokens WHERE memory = ?1 AND handle = ?2 RETURNING slot", "tokens_by_handle"},
      {"SELECT slots FROM outbox WHERE sequence <= ?1 ORDER BY sequence", "PRIMARY KEY"},
      {"SELECT 1 FROM tombstones WHERE memory = ?1 AND id_key = ?2", "PRIMARY KEY"},
      {"SELECT leaf FROM certificates WHERE id = ?1", "INDEX"},
      {"SELECT leaf FROM certificates WHERE memory_name = ?3 AND sequence > ?1 ORDER BY sequence",
       "certificates_by_memory"},
      {"SELECT answer FROM requests WHERE request_id = ?1", "INDEX"},
  };
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(file_.c_str(), &db), SQLITE_OK);
  for (const auto& [sql, wanted] : searches) {
    SCOPED_TRACE(sql);
    std::string plan;
    auto keep = [](void* out, int, char** columns, char**) {
      *static_cast<std::string*>(out) += absl::StrCat(columns[3], ";");
      return 0;
    };
    ASSERT_EQ(sqlite3_exec(db, ("EXPLAIN QUERY PLAN " + sql).c_str(), keep, &plan, nullptr),
              SQLITE_OK);
    EXPECT_THAT(plan, HasSubstr("SEARCH"));
    EXPECT_THAT(plan, HasSubstr(wanted));
    EXPECT_THAT(plan, Not(HasSubstr("SCAN")));
    EXPECT_THAT(plan, Not(HasSubstr("TEMP")));
  }
  sqlite3_close(db);
}

TEST_F(SqliteTenantStoreTest, TwoTenantsHaveTwoSecrets) {
  TempFolder other;
  ASSERT_OK(CreateTenantStore(other.path(), TestTenant(), TestOptions(other.path())));
  const std::string mine = Raw("SELECT hex(index_secret) FROM tenant");
  std::filesystem::copy_file(other.path() + "/tenant.db", file_,
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_NE(Raw("SELECT hex(index_secret) FROM tenant"), mine);
}

TEST_F(SqliteTenantStoreTest, AClosedTenantHoldsNoSecretAndNoRows) {
  ASSERT_OK(Insert({TestRow(1, "an-id", "a-subject")}));
  ASSERT_OK(CloseWith(*store_, NextCertificate(*store_->GetLogHead())));
  EXPECT_EQ(Raw("SELECT hex(index_secret) FROM tenant"), "");
  EXPECT_EQ(Raw("SELECT (SELECT count(*) FROM tokens) + (SELECT count(*) FROM tombstones) +"
                " (SELECT count(*) FROM memories)"),
            "0");
  EXPECT_EQ(Raw("PRAGMA freelist_count"), "0");
}

TEST_F(SqliteTenantStoreTest, TheFileStaysSound) {
  std::vector<TokenRow> rows;
  for (uint64_t i = 1; i <= 500; ++i) rows.push_back(TestRow(i, absl::StrCat(i), "s"));
  ASSERT_OK(Insert(rows));
  ASSERT_OK(Erase({3, 77, 500}));
  EXPECT_EQ(Raw("PRAGMA integrity_check"), "ok");
  EXPECT_EQ(Raw("PRAGMA foreign_key_check"), "");
}

// --- The write-ahead log, quotas, failures.

TEST_F(SqliteTenantStoreTest, AnEraseEmptiesTheWriteAheadLog) {
  const std::string wal = file_ + "-wal";
  ASSERT_OK(Insert({TestRow(1, "a")}));
  ASSERT_GT(std::filesystem::file_size(wal), 0u);
  auto result = Erase({1});
  ASSERT_OK(result);
  EXPECT_OK(result->checkpoint);
  EXPECT_EQ(std::filesystem::file_size(wal), 0u);
}

TEST_F(SqliteTenantStoreTest, TheWriteAheadLogIsBounded) {
  SqliteTenantOptions options = Options();
  options.wal_checkpoint_bytes = 100'000;
  Open(options);
  for (uint64_t i = 1; i <= 40; ++i) {
    TokenRow row = TestRow(i, absl::StrCat(i));
    row.payload.resize(20'000);
    ASSERT_OK(Insert({row}));
    EXPECT_LT(std::filesystem::file_size(file_ + "-wal"), 300'000u);
  }
  EXPECT_EQ(LoadAll(*store_, memory_.uid).size(), 40u);
}

TEST_F(SqliteTenantStoreTest, AFullQuotaStopsInsertsAndNotErasures) {
  SqliteTenantOptions options = Options();
  options.max_bytes = 400'000;
  Open(options);
  uint64_t next = 1;
  auto batch = [&] {
    std::vector<TokenRow> rows;
    for (uint64_t i = 0; i < 3; ++i) {
      rows.push_back(TestRow(next + i, absl::StrCat(next + i)));
      rows.back().payload.resize(10'000);
    }
    return rows;
  };
  absl::Status status;
  while ((status = Insert(batch())).ok()) {
    next += 3;
    ASSERT_LT(next, 1000u);
  }
  EXPECT_CODE(status, absl::StatusCode::kResourceExhausted);
  EXPECT_OK(store_->Health());
  EXPECT_EQ(LoadAll(*store_, memory_.uid).size(), next - 1);  // of the refused batch nothing
  EXPECT_EQ(store_->GetMemory(memory_.uid)->next_handle, next);
  EXPECT_LE(std::filesystem::file_size(file_), options.max_bytes);
  // Small rows fill what is left, so that the next erasure finds no free page.
  while (Insert({TestRow(next, absl::StrCat(next))}).ok()) ++next;
  // A certificate of five pages against a row of a fraction of one: the file must outgrow the
  // quota.
  EraseRequest request{memory_.uid, {next - 1}, NextCertificate(*store_, memory_), std::nullopt};
  request.certificate.record.envelope.resize(20'000, 'e');
  auto erased = store_->EraseTokens(request);
  ASSERT_OK(erased);
  EXPECT_OK(erased->checkpoint);
  EXPECT_EQ(store_->GetLogHead()->count, 1u);
  EXPECT_GT(std::filesystem::file_size(file_), options.max_bytes);
  EXPECT_CODE(Insert(batch()), absl::StatusCode::kResourceExhausted);
  ASSERT_OK(Erase({1, 2, 3, 4, 5, 6}));
  EXPECT_OK(Insert(batch()));
  Open(options);
  EXPECT_EQ(store_->GetLogHead()->count, 2u);
}

// The commit fails at every possible size of the write-ahead log; what the reopened store says of
// the request is then the truth, and the other contents agree with it.
TEST_F(SqliteTenantStoreTest, AfterAFailedCommitTheRequestTellsWhatHappened) {
  int failed = 0;
  uint64_t handle = 1;
  for (uint64_t limit_bytes = 0; limit_bytes < 60'000; limit_bytes += 3'000) {
    SCOPED_TRACE(limit_bytes);
    const std::string id = absl::StrCat("id-", handle);
    ASSERT_OK(Insert({TestRow(handle, id)}));
    ASSERT_OK(store_->Checkpoint());
    const uint64_t before = store_->GetLogHead()->count;
    EraseRequest request{memory_.uid,
                         {handle},
                         NextCertificate(*store_, memory_),
                         TestRequest(absl::StrCat("r-", handle))};
    absl::StatusOr<EraseResult> result = absl::UnknownError("");
    {
      const ScopedFileLimit limit(limit_bytes);
      result = store_->EraseTokens(request);
    }
    if (!result.ok()) {
      ++failed;
      EXPECT_TRUE(IsIndeterminate(result.status())) << result.status();
      EXPECT_CODE(store_->Health(), absl::StatusCode::kUnavailable);
      EXPECT_CODE(store_->GetLogHead(), absl::StatusCode::kUnavailable);
      EXPECT_CODE(Insert({TestRow(handle + 1, "x")}), absl::StatusCode::kUnavailable);
    } else if (!result->checkpoint.ok()) {
      EXPECT_CODE(store_->Health(), absl::StatusCode::kUnavailable);
    }
    Open();
    const bool done = store_->FindRequest(request.request->request_id)->has_value();
    EXPECT_TRUE(done || !result.ok());
    EXPECT_EQ(store_->GetLogHead()->count, before + (done ? 1 : 0));
    EXPECT_EQ(store_->FindByIds(memory_.uid, std::vector<std::string>{id})->at(0).state,
              done ? IdState::kErased : IdState::kLive);
    if (!done) {
      ASSERT_OK(store_->EraseTokens(request));  // the very same request passes now
    }
    ++handle;
  }
  EXPECT_GE(failed, 3);
  ExpectLogIsChained(WholeLog(*store_));
}

// Whatever became of it, this connection is not gone on with.
TEST_F(SqliteTenantStoreTest, AClosingWhoseFileCannotBeWrittenAnewIsTakenUpByOpeningIt) {
  ASSERT_OK(Insert({TestRow(1, "a"), TestRow(2, "b")}));
  ASSERT_OK(store_->BeginClose());
  ASSERT_OK(store_->DestroyAllKeys());
  const CertificateAppend closing = NextCertificate(*store_->GetLogHead());
  int failed = 0;
  for (uint64_t limit_bytes = 0; limit_bytes < 200'000; limit_bytes += 10'000) {
    SCOPED_TRACE(limit_bytes);
    absl::Status status;
    {
      const ScopedFileLimit limit(limit_bytes);
      status = store_->FinishClose(closing);
    }
    if (status.ok()) break;
    ++failed;
    EXPECT_CODE(store_->Health(), absl::StatusCode::kUnavailable);
    Open();
  }
  EXPECT_GE(failed, 2);
  EXPECT_EQ(store_->GetTenant()->state, TenantState::kClosed);
}

TEST_F(SqliteTenantStoreTest, AnEraseStandsWhenItsCheckpointFails) {
  std::vector<TokenRow> rows;
  for (uint64_t i = 1; i <= 40; ++i) {
    rows.push_back(TestRow(i, absl::StrCat(i)));
    rows.back().payload.resize(20'000);
  }
  ASSERT_OK(Insert(rows));
  ASSERT_OK(store_->Checkpoint());
  ASSERT_GT(std::filesystem::file_size(file_), 600'000u);
  absl::StatusOr<EraseResult> result = absl::UnknownError("");
  {
    const ScopedFileLimit limit(300'000);  // room for the log, none at the end of the database
    result = Erase({40});
  }
  ASSERT_OK(result);
  EXPECT_FALSE(result->checkpoint.ok());
  EXPECT_CODE(store_->Health(), absl::StatusCode::kUnavailable);
  Open();
  EXPECT_EQ(store_->CountMemory(memory_.uid)->tokens, 39u);
  EXPECT_OK(store_->Checkpoint());
}

}  // namespace
}  // namespace lethe::store
