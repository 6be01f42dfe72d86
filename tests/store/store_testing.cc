#include "tests/store/store_testing.h"

#include <openssl/sha.h>
#include <signal.h>
#include <stdlib.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/check.h"
#include "store/sqlite_tenant_store.h"

namespace lethe::store {

TempFolder::TempFolder() {
  const char* base = ::getenv("TMPDIR");
  path_ = absl::StrCat(base == nullptr ? "/tmp" : base, "/lethe-store-test-XXXXXX");
  LETHE_CHECK(::mkdtemp(path_.data()) != nullptr);
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

ScopedFileLimit::ScopedFileLimit(uint64_t bytes) {
  ::signal(SIGXFSZ, SIG_IGN);
  LETHE_CHECK(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
  rlimit limit = before_;
  limit.rlim_cur = bytes;
  LETHE_CHECK(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

ScopedFileLimit::~ScopedFileLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

std::vector<Engine> AllEngines() {
  return {{"sqlite",
           [](const std::string& dir, const TenantRecord& tenant) {
             return CreateTenantStore(dir, tenant);
           },
           [](const std::string& dir) { return OpenTenantStore(dir); }}};
}

std::ostream& operator<<(std::ostream& out, const Engine& engine) { return out << engine.name; }

std::string Uid(uint64_t number) { return absl::StrFormat("%032x", number); }

TenantRecord TestTenant() {
  return {"acme", Uid(0x7e4a47), "lethe.example/log/acme", 1'700'000'000'000'001};
}

MemoryRecord TestMemory(uint64_t number) {
  return {Uid(number), absl::StrCat("memory-", number), std::string("config\0with zero", 16),
          1'700'000'000'000'000 + static_cast<int64_t>(number)};
}

TokenRow TestRow(uint64_t handle, const std::string& id, const std::string& subject) {
  TokenRow row;
  row.handle = handle;
  row.id = id;
  row.key = {0.1 * static_cast<double>(handle), -0.0, 1e-310};
  row.value = {static_cast<double>(handle)};
  row.subject = subject;
  row.payload = absl::StrCat("payload of ", id);
  row.labels = std::string("a\0b", 3);
  row.salt.fill(static_cast<uint8_t>(handle));
  return row;
}

TokenRow RandomRow(std::mt19937_64& random, uint64_t handle, const std::string& id) {
  TokenRow row;
  row.handle = handle;
  row.id = id;
  auto fill = [&](std::vector<double>& values, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const double value = std::bit_cast<double>(random());
      values.push_back(value == value ? value : 1.0);
    }
  };
  fill(row.key, random() % 20);
  fill(row.value, random() % 5);
  if (random() % 3 != 0) row.subject = absl::StrCat("subject-", random() % 5);
  // Now and then long enough for a chain of overflow pages.
  row.payload.resize(random() % 20 == 0 ? random() % 30'000 : random() % 60);
  for (char& c : row.payload) c = static_cast<char>(random());
  row.labels = absl::StrCat(random() % 100);
  for (uint8_t& byte : row.salt) byte = static_cast<uint8_t>(random());
  return row;
}

Bytes32 OpenSslSha256(const std::string& bytes) {
  Bytes32 digest;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return digest;
}

std::string Hex(const Bytes32& bytes) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

CertificateAppend NextCertificate(const LogHead& head,
                                  const std::string& memory_uid,
                                  const std::string& memory_name) {
  CertificateAppend append;
  CertificateRecord& record = append.record;
  record.sequence = head.count;
  record.kind = "forget";
  record.memory_uid = memory_uid;
  record.memory_name = memory_name;
  record.create_time_micros = 1'700'000'000'000'000 + static_cast<int64_t>(head.count);
  record.previous_leaf_hash = head.leaf_hash;
  record.envelope = absl::StrCat("{\"sequence\":", head.count, ",\"memory\":\"", memory_uid, "\"}");
  record.id = Hex(OpenSslSha256(record.envelope));
  record.leaf = absl::StrCat("leaf of ", record.id);
  record.leaf_hash = OpenSslSha256(std::string(1, '\0') + record.leaf);
  append.verify = [](const CertificateRecord&) { return absl::OkStatus(); };
  return append;
}

CertificateAppend NextCertificate(TenantStore& store, const MemoryRecord& memory) {
  const absl::StatusOr<LogHead> head = store.GetLogHead();
  EXPECT_OK(head);
  return NextCertificate(head.ok() ? *head : LogHead{}, memory.uid, memory.name);
}

RequestRecord TestRequest(const std::string& request_id) {
  return {request_id, OpenSslSha256(request_id), absl::StrCat("answer to ", request_id), 17};
}

std::vector<TokenRow> LoadAll(TenantStore& store, const std::string& memory_uid) {
  std::vector<TokenRow> rows;
  EXPECT_OK(store.LoadTokens(memory_uid, [&](TokenRow& row) {
    rows.push_back(std::move(row));
    return absl::OkStatus();
  }));
  return rows;
}

std::vector<CertificateRecord> WholeLog(TenantStore& store, uint32_t page) {
  std::vector<CertificateRecord> log;
  CertificateQuery query;
  query.limit = page;
  while (true) {
    absl::StatusOr<std::vector<CertificateRecord>> records = store.ListCertificates(query);
    EXPECT_OK(records);
    if (!records.ok() || records->empty()) return log;
    EXPECT_LE(records->size(), page);
    query.after_sequence = records->back().sequence;
    for (CertificateRecord& record : *records) log.push_back(std::move(record));
  }
}

void ExpectLogIsChained(const std::vector<CertificateRecord>& log) {
  for (size_t i = 0; i < log.size(); ++i) {
    EXPECT_EQ(log[i].sequence, i);
    EXPECT_EQ(log[i].leaf_hash, OpenSslSha256(std::string(1, '\0') + log[i].leaf));
    if (i == 0) {
      EXPECT_FALSE(log[i].previous_leaf_hash.has_value());
    } else {
      EXPECT_EQ(log[i].previous_leaf_hash, log[i - 1].leaf_hash);
    }
  }
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  LETHE_CHECK(out.good());
}

}  // namespace lethe::store
