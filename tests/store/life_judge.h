// The rules about keys, held against the files of a tenant that nobody has open: read by the plain
// sqlite3 library, by SQLite's own file system, and as raw bytes.
#ifndef LETHE_TESTS_STORE_LIFE_JUDGE_H_
#define LETHE_TESTS_STORE_LIFE_JUDGE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/store/life.h"
#include "tests/store/store_testing.h"

namespace lethe::store {

// What somebody has who copied the files from time to time: sealed rows and wrapped keys.
struct Copies {
  struct Row {
    uint64_t slot = 0;
    std::string body;
  };
  std::map<RowName, std::vector<Row>> rows;
  std::map<uint64_t, std::string> wrapped;  // by slot
};

// Adds what the files hold now. Requires that they were closed in order.
void Copy(const std::string& dir, Copies& copies);

// Empty, or what is wrong. Requires that the files were closed in order:
//   * every key that is alive is that of a row, is one of a pending erasure, or was never used; and
//     every row has its key;
//   * no key that is alive opens a copy of a row whose keys were answered to be gone (`thorough`:
//     the free keys are tried as well);
//   * a copy of a row that is there still opens, or the test above shows nothing (`controls` counts
//     them);
//   * a closed tenant has no vault.
std::string JudgeKeys(const std::string& dir,
                      const Model& model,
                      const Copies& copies,
                      bool thorough,
                      uint64_t& controls);

// Empty, or what is wrong, at any time while the files are closed: no piece of a wrapped key that
// was answered to be gone stands in the raw bytes of the file of keys or its log.
std::string JudgeBytes(const std::string& dir, const Model& model, const Copies& copies);

// A chapter, and what there is before it.
struct Start {
  Chapter chapter;
  Model model;
  Copies copies;
  std::string folder;  // a copy of the tenant's
};

// The life, lived once without faults.
class Book {
 public:
  Book();
  const std::vector<Start>& starts() const { return starts_; }
  // Puts the tenant's folder there as it is at the start.
  static void Lay(const Start& start, const std::string& dir);

 private:
  TempFolder temp_;
  std::vector<Start> starts_;
};

}  // namespace lethe::store

#endif  // LETHE_TESTS_STORE_LIFE_JUDGE_H_
