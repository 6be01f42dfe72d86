// Secrets in RAM and the cache of data keys: wiped, bounded, locked where the system allows it.
#include "store/vault/secret_bytes.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <iostream>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "store/vault/dek_cache.h"
#include "tests/store/vault/vault_testing.h"

namespace lethe::store {
namespace {

static_assert(!std::is_copy_constructible_v<SecretBytes>);
static_assert(!std::is_copy_assignable_v<SecretBytes>);
static_assert(std::is_nothrow_move_constructible_v<SecretBytes>);
static_assert(!std::is_copy_constructible_v<SealingKey>);

// The pool never gives its pages back, so what stood at a place can be looked at later.
std::string At(const uint8_t* place) {
  return std::string(reinterpret_cast<const char*>(place), 32);
}
const std::string kZeros(32, '\0');

TEST(Secret, IsWipedHoweverItGoes) {
  const uint8_t* gone = nullptr;
  {
    const SecretBytes secret = SecretBytes::Random(32);
    gone = secret.data();
    EXPECT_NE(At(gone), kZeros);
  }
  EXPECT_EQ(At(gone), kZeros);

  SecretBytes wiped = SecretBytes::Random(32);
  gone = wiped.data();
  wiped.Wipe();
  EXPECT_TRUE(wiped.empty());
  EXPECT_EQ(At(gone), kZeros);
  wiped.Wipe();  // once more is no harm

  SecretBytes overwritten = SecretBytes::Random(32);
  gone = overwritten.data();
  SecretBytes source = SecretOf(std::string(32, 's'));
  const uint8_t* kept = source.data();
  overwritten = std::move(source);
  EXPECT_EQ(At(gone), kZeros);
  EXPECT_EQ(overwritten.data(), kept);  // moved, not copied
  EXPECT_EQ(BytesOf(overwritten), std::string(32, 's'));
  EXPECT_TRUE(source.empty());  // NOLINT(bugprone-use-after-move): that is the promise
  const SecretBytes moved(std::move(overwritten));
  EXPECT_EQ(moved.data(), kept);
  EXPECT_EQ(overwritten.data(), nullptr);  // NOLINT(bugprone-use-after-move)
}

TEST(Secret, ComparesAllBytes) {
  const SecretBytes a = SecretOf("0123456789");
  EXPECT_TRUE(a.Equals(SecretOf("0123456789")));
  EXPECT_FALSE(a.Equals(SecretOf("0123456788")));
  EXPECT_FALSE(a.Equals(SecretOf("012345678")));
  EXPECT_FALSE(a.Equals(SecretBytes()));
  EXPECT_TRUE(SecretBytes().Equals(SecretBytes()));
  EXPECT_EQ(BytesOf(SecretBytes(64)), std::string(64, '\0'));
  EXPECT_FALSE(SecretBytes::Random(32).Equals(SecretBytes::Random(32)));
}

TEST(Secret, ThePoolIsReusedAndCounted) {
  const SecretMemoryUse before = GetSecretMemoryUse();
  size_t pages = 0;
  for (int round = 0; round < 5; ++round) {
    std::vector<SecretBytes> secrets;
    for (int i = 0; i < 1000; ++i) secrets.push_back(SecretBytes(32));
    for (const SecretBytes& secret : secrets) EXPECT_EQ(BytesOf(secret), kZeros);
    EXPECT_EQ(GetSecretMemoryUse().secrets, before.secrets + 1000);
    if (round == 0) pages = GetSecretMemoryUse().pages;
    EXPECT_EQ(GetSecretMemoryUse().pages, pages);
    for (SecretBytes& secret : secrets) std::fill_n(secret.data(), 32, uint8_t{0xaa});
  }
  EXPECT_EQ(GetSecretMemoryUse().secrets, before.secrets);
}

// Kilobytes of a field of the mapping that holds `place`, or of flags as text.
std::string MappingField(const uint8_t* place, const std::string& field) {
  std::ifstream maps("/proc/self/smaps");
  const auto address = reinterpret_cast<uintptr_t>(place);
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long from = 0;
    unsigned long to = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) {
      inside = from <= address && address < to;
    }
    if (inside && line.rfind(field, 0) == 0) return line;
  }
  return "";
}

// The sanitizers' mlock does nothing and says that it worked.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMlockWorks = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kMlockWorks = false;
#else
constexpr bool kMlockWorks = true;
#endif
#else
constexpr bool kMlockWorks = true;
#endif

TEST(Secret, LiesInPagesThatAreLockedAndNotDumped) {
  const SecretBytes secret = SecretBytes::Random(32);
  const std::string flags = MappingField(secret.data(), "VmFlags:");
  if (flags.empty()) GTEST_SKIP() << "the kernel shows no flags of mappings";
  EXPECT_NE(flags.find(" dd"), std::string::npos) << flags;
  const SecretMemoryUse use = GetSecretMemoryUse();
  if (kMlockWorks && use.locked_pages == use.pages) {
    EXPECT_NE(flags.find(" lo"), std::string::npos) << flags;
  }
}

[[noreturn]] void LiveWithoutLockedMemory() {
  const rlimit none = {0, 0};
  ::setrlimit(RLIMIT_MEMLOCK, &none);
  std::deque<SecretBytes> secrets;
  for (int i = 0; i < 1000; ++i) secrets.push_back(SecretBytes::Random(32));
  const SecretMemoryUse use = GetSecretMemoryUse();
  const bool fine =
      use.secrets >= 1000 && use.locked_pages <= use.pages && BytesOf(secrets.front()) != kZeros;
  ::_exit(fine ? 7 : 1);
}

TEST(Secret, BeyondTheLimitOfLockedMemoryItLivesAndIsCounted) {
  // In a child, whose limit can go down for good; a process with CAP_IPC_LOCK has no limit.
  EXPECT_EXIT(LiveWithoutLockedMemory(), ::testing::ExitedWithCode(7), "");
}

SealingKey NumberedKey(uint64_t number) {
  return SealingKey(SecretOf(std::string(24, 'k') + absl::StrCat(10'000'000 + number)));
}

TEST(Cache, HoldsTheLastUsedAndNoMore) {
  const size_t secrets = GetSecretMemoryUse().secrets;
  {
    DekCache cache(3);
    for (uint64_t slot = 1; slot <= 3; ++slot) cache.Put(slot, NumberedKey(slot));
    EXPECT_NE(cache.Find(1), nullptr);  // now 2 is the oldest
    cache.Put(4, NumberedKey(4));
    EXPECT_EQ(cache.size(), 3u);
    EXPECT_EQ(GetSecretMemoryUse().secrets, secrets + 3);
    EXPECT_EQ(cache.Find(2), nullptr);
    for (uint64_t slot : {1u, 3u, 4u}) EXPECT_NE(cache.Find(slot), nullptr);
    cache.Put(3, NumberedKey(5));  // takes the place of its own
    EXPECT_EQ(cache.size(), 3u);
    cache.Evict(3);
    cache.Evict(99);
    EXPECT_EQ(cache.size(), 2u);
    EXPECT_EQ(GetSecretMemoryUse().secrets, secrets + 2);
    EXPECT_EQ(cache.Find(3), nullptr);
    cache.Clear();
    EXPECT_EQ(cache.size(), 0u);
    EXPECT_EQ(GetSecretMemoryUse().secrets, secrets);
    EXPECT_EQ(cache.Find(1), nullptr);
    cache.Put(1, NumberedKey(1));
  }
  EXPECT_EQ(GetSecretMemoryUse().secrets, secrets);
}

TEST(Cache, WipesWhatItEvicts) {
  SecretBytes key = SecretBytes::Random(32);
  const uint8_t* place = key.data();
  DekCache cache(1);
  cache.Put(1, SealingKey(std::move(key)));
  EXPECT_NE(At(place), kZeros);
  cache.Evict(1);
  EXPECT_EQ(At(place), kZeros);

  key = SecretBytes::Random(32);
  place = key.data();
  cache.Put(1, SealingKey(std::move(key)));
  SecretBytes next = SecretBytes::Random(32);
  cache.Put(2, SealingKey(std::move(next)));  // pushes slot 1 out
  EXPECT_EQ(At(place), kZeros);
}

TEST(Cache, DoesWhatAListWouldDo) {
  const uint64_t seed = std::random_device{}();
  std::cout << "seed " << seed << std::endl;
  std::mt19937_64 random(seed);
  DekCache cache(5);
  std::deque<uint64_t> model;  // the last used first
  for (int step = 0; step < 20'000; ++step) {
    const uint64_t slot = random() % 12;
    const auto at = std::find(model.begin(), model.end(), slot);
    switch (random() % 4) {
      case 0:
        ASSERT_EQ(cache.Find(slot) != nullptr, at != model.end());
        if (at != model.end()) {
          model.erase(at);
          model.push_front(slot);
        }
        break;
      case 1:
        cache.Evict(slot);
        if (at != model.end()) model.erase(at);
        break;
      default:
        cache.Put(slot, NumberedKey(slot));
        if (at != model.end()) model.erase(at);
        model.push_front(slot);
        if (model.size() > 5) model.pop_back();
    }
    ASSERT_EQ(cache.size(), model.size());
  }
}

}  // namespace
}  // namespace lethe::store
