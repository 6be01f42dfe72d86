#include "tests/store/store_testing.h"

#include <openssl/sha.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/check.h"

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

namespace {

using StoreOr = absl::StatusOr<std::unique_ptr<TenantStore>>;

// RFC 6962 from the definition, on OpenSSL's own hash.
Bytes32 RootOf(std::span<const Bytes32> leaves) {
  if (leaves.empty()) return OpenSslSha256("");
  if (leaves.size() == 1) return leaves.front();
  const size_t split = std::bit_floor(leaves.size() - 1);
  const Bytes32 left = RootOf(leaves.first(split));
  const Bytes32 right = RootOf(leaves.subspan(split));
  return TreeNodeHash(left, right);
}

}  // namespace

Bytes32 TreeNodeHash(const Bytes32& left, const Bytes32& right) {
  std::string node(1, '\x01');
  node.append(left.begin(), left.end());
  node.append(right.begin(), right.end());
  return OpenSslSha256(node);
}

Bytes32 TreeRoot(std::span<const Bytes32> leaves) { return RootOf(leaves); }

std::string TestNote(uint64_t size, const Bytes32& root) {
  const std::string text = absl::StrCat(
      TestTenant().log_origin, "\n", size, "\n",
      absl::Base64Escape(absl::string_view(reinterpret_cast<const char*>(root.data()), 32)), "\n");
  // A signature of nobody: the store leaves signatures to its caller.
  return absl::StrCat(text, "\n\u2014 ", TestTenant().log_origin, " ",
                      absl::Base64Escape(std::string(68, 'x')), "\n");
}

LogHead HeadOf(std::span<const CertificateRecord> log) {
  LogHead head;
  head.count = log.size();
  if (!log.empty()) head.leaf_hash = log.back().leaf_hash;
  std::vector<Bytes32> leaves;
  for (const CertificateRecord& record : log) leaves.push_back(record.leaf_hash);
  std::span<const Bytes32> rest(leaves);
  while (!rest.empty()) {
    const size_t whole = std::bit_floor(rest.size());
    head.range.push_back(TreeRoot(rest.first(whole)));
    rest = rest.subspan(whole);
  }
  return head;
}

LogStart TestStart() {
  return {.vkey = "a key",
          .checkpoint = TestNote(0, TreeRoot({})),
          .verify = [](absl::string_view) { return absl::OkStatus(); }};
}

std::vector<Engine> AllEngines() {
  return {{"sqlite",
           [](const std::string& dir, const TenantRecord& tenant) -> StoreOr {
             StoreOr store = CreateTenantStore(dir, tenant, TestOptions(dir));
             if (!store.ok()) return store;
             const absl::Status started = (*store)->StartLog(TestStart());
             return started.ok() ? std::move(store) : StoreOr(started);
           },
           [](const std::string& dir) { return OpenTenantStore(dir, TestOptions(dir)); }}};
}

SqliteTenantOptions TestOptions(const std::string& dir) {
  SqliteTenantOptions options;
  options.vault = dir + "/vault";
  ::mkdir(options.vault.c_str(), 0700);
  return options;
}

bool FinishErasures(TenantStore& store) {
  const auto pending = store.PendingErasures();
  EXPECT_OK(pending);
  if (!pending.ok() || pending->empty()) return pending.ok();
  const uint64_t last = pending->back().sequence;
  const auto destroyed = store.DestroyPendingKeys(last);
  EXPECT_OK(destroyed);
  if (!destroyed.ok()) return false;
  EXPECT_OK(destroyed->evidence);
  const auto head = store.GetLogHead();
  EXPECT_OK(head);
  const absl::Status appended = store.AppendShredded(NextCertificate(*head), last);
  EXPECT_OK(appended);
  return destroyed->evidence.ok() && appended.ok();
}

absl::Status CloseWith(TenantStore& store, const CertificateAppend& certificate) {
  if (const absl::Status begun = store.BeginClose().status(); !begun.ok()) return begun;
  if (const absl::Status ended = store.DestroyAllKeys().status(); !ended.ok()) return ended;
  return store.FinishClose(certificate);
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
  SetCheckpoint(append, head);
  append.verify = [](const WrittenCertificate&) { return absl::OkStatus(); };
  return append;
}

void SetCheckpoint(CertificateAppend& append, const LogHead& head) {
  // The range is the roots of the complete subtrees, largest first; folded from the right.
  std::vector<Bytes32> range = head.range;
  range.push_back(append.record.leaf_hash);
  for (uint64_t rest = head.count; (rest & 1) != 0; rest >>= 1) {
    const Bytes32 right = range.back();
    range.pop_back();
    range.back() = TreeNodeHash(range.back(), right);
  }
  Bytes32 root = range.back();
  for (size_t i = range.size() - 1; i-- > 0;) root = TreeNodeHash(range[i], root);
  append.checkpoint = TestNote(head.count + 1, root);
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

RawResult RunRaw(const std::string& file, const std::string& sql) {
  sqlite3* db = nullptr;
  EXPECT_EQ(sqlite3_open(file.c_str(), &db), SQLITE_OK);
  RawResult result;
  const auto keep = [](void* out, int, char** columns, char**) {
    *static_cast<std::string*>(out) = columns[0] == nullptr ? "NULL" : columns[0];
    return 0;
  };
  result.code = sqlite3_exec(db, sql.c_str(), keep, &result.text, nullptr);
  result.message = sqlite3_errmsg(db);
  sqlite3_close(db);
  return result;
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
