// The encoders of memories: kept sealed, ended with their memories, in no copy that comes back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sqlite3.h>

#include <filesystem>
#include <string>

#include "store/schema.h"
#include "tests/store/restore_fixture.h"

namespace lethe::store {
namespace {

class EncoderTest : public RestoreFixture {
 protected:
  const MemoryRecord other_ = TestMemory(2);
  const std::string encoder_ =
      "an encoder, of which no byte may be found: " + std::string(5000, 'e');

  int64_t Format() {
    store_.reset();
    auto database = Database::Open(dir_ + "/tenant.db", Database::Mode::kOpen, kTenantIdentity);
    EXPECT_OK(database);
    const auto version = (*database)->QueryInt("PRAGMA user_version");
    EXPECT_OK(version);
    database->reset();
    EXPECT_OK(Open());
    return *version;
  }
  absl::Status Delete(const MemoryRecord& memory, bool certificate) {
    DeleteMemoryRequest request{.memory_uid = memory.uid, .certificate = {}, .request = {}};
    if (certificate) request.certificate = NextCertificate(*store_, memory);
    return store_->DeleteMemory(request).status();
  }
  bool FilesHold(const std::string& bytes) const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
      if (entry.is_regular_file() &&
          ReadFile(entry.path().string()).find(bytes) != std::string::npos) {
        return true;
      }
    }
    return false;
  }
};

TEST_F(EncoderTest, IsKeptSealed) {
  EXPECT_CODE(store_->GetEncoder(memory_.uid), absl::StatusCode::kNotFound);
  ASSERT_OK(store_->CreateMemory(other_, encoder_));
  ASSERT_OK(Open());
  EXPECT_EQ(store_->GetEncoder(other_.uid).value(), encoder_);
  EXPECT_CODE(store_->GetEncoder(memory_.uid), absl::StatusCode::kNotFound);
  EXPECT_CODE(store_->GetEncoder(TestMemory(9).uid), absl::StatusCode::kNotFound);
  EXPECT_FALSE(FilesHold("eeeeeeeeeeeeeeee"));
  EXPECT_CODE(store_->CreateMemory(TestMemory(3), std::string(kMaxEncoderBytes + 1, 'e')),
              absl::StatusCode::kInvalidArgument);
  ASSERT_OK(store_->CreateMemory(TestMemory(3), std::string(kMaxEncoderBytes, 'e')));
  EXPECT_EQ(store_->GetEncoder(TestMemory(3).uid)->size(), kMaxEncoderBytes);
}

// An older release can go on with a file that has none.
TEST_F(EncoderTest, MakesTheFileOneOfTheNewerFormat) {
  EXPECT_EQ(Format(), 4);
  ASSERT_OK(store_->CreateMemory(other_, ""));
  EXPECT_EQ(Format(), 4);
  // A change that fails behind it is undone with it.
  options_.max_bytes = 600'000;
  ASSERT_OK(Open());
  EXPECT_CODE(store_->CreateMemory(TestMemory(3), std::string(2'000'000, 'e')),
              absl::StatusCode::kResourceExhausted);
  EXPECT_CODE(store_->GetMemory(TestMemory(3).uid), absl::StatusCode::kNotFound);
  options_.max_bytes = 0;
  EXPECT_EQ(Format(), 4);
  ASSERT_OK(store_->CreateMemory(TestMemory(3), encoder_));
  EXPECT_EQ(Format(), 5);
  ASSERT_OK(store_->CreateMemory(TestMemory(4), encoder_));
  EXPECT_EQ(Format(), 5);
  EXPECT_EQ(store_->GetEncoder(TestMemory(3).uid).value(), encoder_);
}

TEST_F(EncoderTest, EndsWithItsMemory) {
  for (const bool with_tokens : {false, true}) {
    ASSERT_OK(store_->CreateMemory(other_, encoder_));
    if (with_tokens) {
      ASSERT_OK(Insert({TestRow(1, "a", "x")}, other_));
    }
    ASSERT_OK(Delete(other_, with_tokens));
    EXPECT_CODE(store_->GetEncoder(other_.uid), absl::StatusCode::kNotFound);
    if (with_tokens) {  // it is not forgotten in between
      ASSERT_OK(Open());
    }
    const auto destroyed = store_->DestroyEndedKeys();
    ASSERT_OK(destroyed);
    EXPECT_EQ(destroyed->destroyed, 1u);
    EXPECT_OK(destroyed->evidence);
    ASSERT_OK(store_->FinishEndedKeys());
    EXPECT_EQ(store_->DestroyEndedKeys()->destroyed + store_->DestroyEndedKeys()->already_destroyed,
              0u);
    ASSERT_OK(Open());
  }
}

TEST_F(EncoderTest, EndsWithItsTenant) {
  ASSERT_OK(store_->CreateMemory(other_, encoder_));
  ASSERT_OK(store_->BeginClose());
  EXPECT_CODE(store_->GetEncoder(other_.uid), absl::StatusCode::kNotFound);
  ASSERT_OK(store_->DestroyAllKeys());
  ASSERT_OK(store_->FinishClose(NextCertificate(*store_->GetLogHead())));
}

TEST_F(EncoderTest, ComesBackWithARestoreWhileItsMemoryIsThere) {
  ASSERT_OK(store_->CreateMemory(other_, encoder_));
  ASSERT_OK(Insert({TestRow(1, "a")}, other_));
  const std::string copy = Copy();
  ASSERT_OK(Insert({TestRow(2, "b")}, other_));
  MustRestore(copy);
  EXPECT_EQ(store_->GetEncoder(other_.uid).value(), encoder_);
}

TEST_F(EncoderTest, DoesNotComeBackWithARestoreAfterItsMemoryWasDeleted) {
  for (const bool with_tokens : {false, true}) {
    for (const bool destroyed : {false, true}) {
      const MemoryRecord memory =
          TestMemory(uint64_t{10} + (with_tokens ? 2 : 0) + (destroyed ? 1 : 0));
      ASSERT_OK(store_->CreateMemory(memory, encoder_));
      if (with_tokens) {
        ASSERT_OK(Insert({TestRow(1, "a")}, memory));
      }
      const std::string copy = Copy();
      ASSERT_OK(Delete(memory, with_tokens));
      if (destroyed) {
        ASSERT_OK(store_->DestroyEndedKeys());
        ASSERT_OK(store_->FinishEndedKeys());
      }
      // A certificate, without which there is nothing to restore.
      const uint64_t handle = store_->GetMemory(memory_.uid)->next_handle;
      ASSERT_OK(Insert({TestRow(handle, "z")}));
      ASSERT_OK(Erase({handle}));
      const RestoreReport report = MustRestore(copy);
      // Of a memory without tokens nothing but its encoder's key says that it was deleted.
      const bool known = with_tokens || destroyed;
      EXPECT_EQ(report.memories_removed, known ? 1u : 0u);
      EXPECT_EQ(store_->GetMemory(memory.uid).ok(), !known);
      ASSERT_OK(store_->DestroyEndedKeys());
      ASSERT_OK(store_->FinishEndedKeys());
      EXPECT_EQ(store_->GetEncoder(memory.uid).ok(), !known);
      ASSERT_OK(Open());
    }
  }
}

TEST_F(EncoderTest, DamageIsNamed) {
  ASSERT_OK(store_->CreateMemory(other_, encoder_));
  store_.reset();
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open((dir_ + "/tenant.db").c_str(), &raw), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(raw, "UPDATE encoders SET body = zeroblob(length(body))", nullptr, nullptr,
                         nullptr),
            SQLITE_OK);
  sqlite3_close(raw);
  ASSERT_OK(Open());
  const absl::Status damaged = store_->GetEncoder(other_.uid).status();
  EXPECT_EQ(damaged.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(damaged.message()), testing::HasSubstr("encoder"));
  EXPECT_THAT(std::string(damaged.message()), testing::HasSubstr(other_.name));
}

}  // namespace
}  // namespace lethe::store
