// The search for copies: what it finds, what it passes over, and that it leaves no copy itself.
#include "store/vault/residue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "store/vault/key_slot.h"
#include "tests/store/vault/vault_testing.h"

namespace {

// Eight bytes that are looked for in every block that is given back to the heap.
uint64_t watched = 0;
size_t seen = 0;

void Look(void* block) {
  if (block == nullptr || watched == 0) return;
  const size_t bytes = ::malloc_usable_size(block);
  for (size_t i = 0; i + sizeof watched <= bytes; i += sizeof watched) {
    uint64_t here = 0;
    std::memcpy(&here, static_cast<const char*>(block) + i, sizeof here);
    if (here == watched) ++seen;
  }
}

}  // namespace

// Not inlined: g++ would take them for a mismatch.
[[gnu::noinline]] void* operator new(size_t bytes) {
  void* block = std::malloc(bytes);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
[[gnu::noinline]] void operator delete(void* block) noexcept {
  Look(block);
  std::free(block);
}
[[gnu::noinline]] void operator delete(void* block, size_t) noexcept { ::operator delete(block); }

namespace lethe::store {
namespace {

class Scanning : public ::testing::Test {
 protected:
  // Hits in a file of these bytes.
  uint64_t HitsIn(ResidueScanner& scanner, const std::string& bytes) {
    WriteFile(path_, bytes);
    const FileDescriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    const auto residue = scanner.Scan(file.get());
    EXPECT_OK(residue);
    EXPECT_EQ(residue->bytes_read, bytes.size());
    return residue->hits;
  }
  std::string RandomBytes(size_t size) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random_());
    return bytes;
  }

  TempFolder temp_;
  std::string path_ = temp_.path() + "/file";
  std::mt19937_64 random_{20};
};

TEST_F(Scanning, AnyFifteenBytesOfAKeyAreFound) {
  const std::string wrapped = RandomBytes(kWrappedKeyBytes);
  ResidueScanner scanner;
  scanner.AddWrappedKey(wrapped);
  const std::string around(5000, '\0');
  EXPECT_EQ(HitsIn(scanner, around), 0u);
  for (size_t at = 0; at + 15 <= kWrappedKeyBytes; ++at) {
    EXPECT_GE(HitsIn(scanner, around + wrapped.substr(at, 15)), 1u) << at;
  }
  EXPECT_EQ(HitsIn(scanner, around + wrapped + around), 8u);
  // Over the border of a block of the reader.
  EXPECT_EQ(HitsIn(scanner, std::string((1 << 20) - 30, '\0') + wrapped), 8u);
}

TEST_F(Scanning, HeadersAreFoundByNumberAndByEpoch) {
  const std::string header = "LtK1" + FromHex("0700000009000000ff000000");
  auto hits = [&](auto add) {
    ResidueScanner scanner;
    add(scanner);
    return HitsIn(scanner, std::string(40, '\0') + header + std::string(40, '\0'));
  };
  EXPECT_EQ(hits([](ResidueScanner& scanner) {
              scanner.AddSlot(0xff00000009);
              scanner.AddSlot(3);
            }),
            1u);
  EXPECT_EQ(hits([](ResidueScanner& scanner) { scanner.AddEpoch(7); }), 1u);
  EXPECT_EQ(hits([](ResidueScanner& scanner) {
              scanner.AddSlot(9);
              scanner.AddEpoch(9);
            }),
            0u);
}

// A damaged slot may hold what free space holds.
TEST_F(Scanning, FewDifferentBytesAreNoPattern) {
  for (const std::string eight : {"0000000000000000", "aaaaaaaaaaaaaaaa", "0000000000000001",
                                  "0102030401020304", "00000000000a0b0c"}) {
    std::string slot;
    while (slot.size() < kWrappedKeyBytes) slot += FromHex(eight);
    slot.resize(kWrappedKeyBytes);
    ResidueScanner scanner;
    scanner.AddWrappedKey(slot);
    EXPECT_EQ(HitsIn(scanner, slot + std::string(4096, '\0')), 0u) << eight;
  }
  // The rest of the slot is looked for all the same.
  std::string slot = RandomBytes(kWrappedKeyBytes);
  slot.replace(8, 40, std::string(40, '\0'));
  ResidueScanner scanner;
  scanner.AddWrappedKey(slot);
  EXPECT_EQ(HitsIn(scanner, std::string(4096, '\0')), 0u);
  EXPECT_EQ(HitsIn(scanner, std::string(4096, '\0') + slot), 3u);
}

// The bound that the header states, counted on random bytes.
TEST_F(Scanning, HardlyAnyPatternOfARandomKeyIsLeftOut) {
  // 100,000 keys have 800,000 patterns; a third of one is left out on average.
  size_t hits = 0;
  constexpr size_t kKeys = 100'000;
  std::string all;
  ResidueScanner scanner;
  for (size_t i = 0; i < kKeys; ++i) {
    const std::string key = RandomBytes(kWrappedKeyBytes);
    scanner.AddWrappedKey(key);
    all += key;
  }
  hits = HitsIn(scanner, all);
  EXPECT_LE(hits, 8 * kKeys);
  EXPECT_GE(hits, 8 * kKeys - 4);
}

TEST_F(Scanning, NoCopyOfAPatternIsLeftOnTheHeap) {
  const std::string wrapped = RandomBytes(kWrappedKeyBytes);
  std::memcpy(&watched, wrapped.data() + 8, sizeof watched);
  // The positive control.
  {
    std::vector<uint64_t> plain;
    for (int i = 0; i < 100; ++i) plain.push_back(watched);
  }
  EXPECT_GT(seen, 100u);
  seen = 0;
  {
    ResidueScanner scanner;
    for (int i = 0; i < 1000; ++i) scanner.AddWrappedKey(wrapped);
  }
  EXPECT_EQ(seen, 0u);
  watched = 0;
}

}  // namespace
}  // namespace lethe::store
