// What the tests of store/ share: temporary folders, fabricated rows and certificates, and the list
// of engines that the conformance suite runs over.
#ifndef LETHE_TESTS_STORE_STORE_TESTING_H_
#define LETHE_TESTS_STORE_STORE_TESTING_H_

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/sqlite_tenant_store.h"
#include "store/tenant_store.h"

namespace lethe::store {

// A new folder under TMPDIR, removed with everything in it.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Until its end, no file of this process can grow beyond `bytes`: a write past that fails with
// EFBIG, which SQLite takes for an I/O error.
class ScopedFileLimit {
 public:
  explicit ScopedFileLimit(uint64_t bytes);
  ~ScopedFileLimit();
  ScopedFileLimit(const ScopedFileLimit&) = delete;
  ScopedFileLimit& operator=(const ScopedFileLimit&) = delete;

 private:
  rlimit before_;
};

// Makes `<dir>/vault` where it is missing: the tests keep the vault inside the tenant's folder, so
// that one TempFolder holds both.
SqliteTenantOptions TestOptions(const std::string& dir);

struct Engine {
  std::string name;
  std::function<absl::StatusOr<std::unique_ptr<TenantStore>>(const std::string& dir,
                                                             const TenantRecord& tenant)>
      create;
  std::function<absl::StatusOr<std::unique_ptr<TenantStore>>(const std::string& dir)> open;
};
std::vector<Engine> AllEngines();
std::ostream& operator<<(std::ostream& out, const Engine& engine);

// 32 hex digits that depend on the number alone.
std::string Uid(uint64_t number);
TenantRecord TestTenant();
MemoryRecord TestMemory(uint64_t number);

// A row whose every field depends on the arguments; subject may be empty.
TokenRow TestRow(uint64_t handle, const std::string& id, const std::string& subject = "");
TokenRow RandomRow(std::mt19937_64& random, uint64_t handle, const std::string& id);

// Hashes by OpenSSL's one-shot function, not by the code under test.
Bytes32 OpenSslSha256(const std::string& bytes);
std::string Hex(const Bytes32& bytes);

// RFC 6962, not by the code under test.
Bytes32 TreeNodeHash(const Bytes32& left, const Bytes32& right);
Bytes32 TreeRoot(std::span<const Bytes32> leaves);
// A checkpoint of TestTenant()'s log; its signature is nobody's.
std::string TestNote(uint64_t size, const Bytes32& root);
// The head that a log of these certificates has, but for its checkpoint.
LogHead HeadOf(std::span<const CertificateRecord> log);
// What every engine's `create` starts the log with.
LogStart TestStart();

// A certificate that continues the log after `head`; its verifier agrees.
CertificateAppend NextCertificate(const LogHead& head,
                                  const std::string& memory_uid = "",
                                  const std::string& memory_name = "");
// As above, after the store's present head.
CertificateAppend NextCertificate(TenantStore& store, const MemoryRecord& memory);

// Gives it the checkpoint over the log of `head` and its own leaf hash.
void SetCheckpoint(CertificateAppend& append, const LogHead& head);

RequestRecord TestRequest(const std::string& request_id);

// Every token of a memory, in the order in which they were visited.
std::vector<TokenRow> LoadAll(TenantStore& store, const std::string& memory_uid);
// The whole log, page by page.
std::vector<CertificateRecord> WholeLog(TenantStore& store, uint32_t page = 7);
// Sequences from 0, each linked to the one before.
void ExpectLogIsChained(const std::vector<CertificateRecord>& log);

// What a server does after an erasure: destroys what is pending and appends the certificate for
// it. False after a failure, which is reported.
bool FinishErasures(TenantStore& store);
// The three steps of closing.
absl::Status CloseWith(TenantStore& store, const CertificateAppend& certificate);

// Runs statements on a database file past the store, with SQLite alone.
struct RawResult {
  int code = 0;      // of SQLite
  std::string text;  // the first column of the last row
  std::string message;
};
RawResult RunRaw(const std::string& file, const std::string& sql);

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& bytes);

// EXPECT_OK(status or StatusOr), ASSERT_OK, EXPECT_CODE(expression, code).
inline const absl::Status& AsStatus(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& AsStatus(const absl::StatusOr<T>& status_or) {
  return status_or.status();
}
#define EXPECT_OK(expression) EXPECT_EQ(::lethe::store::AsStatus(expression), absl::OkStatus())
#define ASSERT_OK(expression) ASSERT_EQ(::lethe::store::AsStatus(expression), absl::OkStatus())
#define EXPECT_CODE(expression, expected)                                          \
  EXPECT_EQ(absl::StatusCodeToString(::lethe::store::AsStatus(expression).code()), \
            absl::StatusCodeToString(expected))

}  // namespace lethe::store

#endif  // LETHE_TESTS_STORE_STORE_TESTING_H_
