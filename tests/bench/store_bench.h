// What the benches of the store share: a folder, made-up tokens, a tenant behind TenantStore, and
// the plain SQLite that it is compared with.
#ifndef LETHE_TESTS_BENCH_STORE_BENCH_H_
#define LETHE_TESTS_BENCH_STORE_BENCH_H_

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "store/tenant_store.h"
#include "tests/bench/perf_timing.h"

namespace lethe::bench {

double WallSeconds();

// Time on the clock and of the processor, taken together.
struct Spent {
  double wall = 0.0;
  double cpu = 0.0;
  void Add(const Spent& more) {
    wall += more.wall;
    cpu += more.cpu;
  }
};
template <typename Work>
Spent Time(Work&& work) {
  const double wall = WallSeconds();
  const double cpu = SecondsOf(std::forward<Work>(work));
  return {WallSeconds() - wall, cpu};
}

// A new folder under TMPDIR, or /tmp; removed with what is in it.
class BenchFolder {
 public:
  BenchFolder();
  ~BenchFolder();
  BenchFolder(const BenchFolder&) = delete;
  BenchFolder& operator=(const BenchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Rows with random ids of 32 hex digits, 16 + 16 coordinates, a payload of 100 bytes and labels of
// 20; `subjects` of them in turns of random choice, or none.
class Rows {
 public:
  Rows(uint64_t seed, uint64_t subjects) : random_(seed), subjects_(subjects) {}
  std::vector<store::TokenRow> Next(size_t count);

 private:
  std::mt19937_64 random_;
  uint64_t subjects_;
  uint64_t handle_ = 0;
};

// A tenant with one memory. A failure of the store ends the process.
class OurStore {
 public:
  explicit OurStore(const std::string& folder);
  void Insert(std::span<const store::TokenRow> rows);
  // The whole erasure: rows, keys, both certificates. Signing is not in it.
  void Forget(std::vector<uint64_t> handles);
  void Close() { store_.reset(); }
  void Open();
  // Every token, in order; how many.
  uint64_t Load();
  std::vector<uint64_t> OfSubject(const std::string& subject);

 private:
  store::CertificateAppend NextCertificate(const std::string& kind);

  std::string folder_;
  std::unique_ptr<store::TenantStore> store_;
};

// A table with an id that is unique, a subject with an index, and the rest as one blob of the same
// bytes; write-ahead log, synchronous=FULL, locking_mode=EXCLUSIVE, the log moved into the file
// where the store does so. A failure of SQLite ends the process.
class PlainStore {
 public:
  PlainStore(const std::string& folder, bool secure_delete);
  ~PlainStore();
  PlainStore(const PlainStore&) = delete;
  PlainStore& operator=(const PlainStore&) = delete;
  void Insert(std::span<const store::TokenRow> rows);
  // In one transaction; the log is emptied after it.
  void Delete(std::span<const std::string> ids);
  void Close();
  void Open();
  uint64_t Load();

 private:
  void Run(const std::string& sql);

  std::string path_;
  bool secure_delete_;
  sqlite3* db_ = nullptr;
  sqlite3_stmt* insert_ = nullptr;
  sqlite3_stmt* delete_ = nullptr;
};

}  // namespace lethe::bench

#endif  // LETHE_TESTS_BENCH_STORE_BENCH_H_
