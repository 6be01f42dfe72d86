// Secrets in RAM and the cache of data keys: wiped, bounded, locked where the system allows it.
#include "store/vault/secret_bytes.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <iostream>
#include <random>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "store/vault/dek_cache.h"
#include "tests/store/vault/vault_testing.h"

namespace {

// What the system was asked about memory. Never destroyed: pages may be made at any time.
struct MemoryCalls {
  std::set<std::pair<uintptr_t, size_t>> locked;
  std::set<std::pair<uintptr_t, size_t>> not_dumped;
  bool refuse_lock = false;
  size_t entropy = 0;  // times that OpenSSL asked the kernel for random bytes
  size_t random = 0;   // times that we did
};
MemoryCalls& Calls() {
  static auto* const calls = new MemoryCalls;
  return *calls;
}

}  // namespace

// In the place of the library's, for all of this program.
extern "C" int mlock(const void* address, size_t bytes) {
  if (Calls().refuse_lock) {
    errno = ENOMEM;
    return -1;
  }
  Calls().locked.emplace(reinterpret_cast<uintptr_t>(address), bytes);
  return 0;
}
extern "C" int madvise(void* address, size_t bytes, int advice) {
  if (advice == MADV_DONTDUMP) {
    Calls().not_dumped.emplace(reinterpret_cast<uintptr_t>(address), bytes);
  }
  return static_cast<int>(::syscall(SYS_madvise, address, bytes, advice));
}

extern "C" int getentropy(void* bytes, size_t size) {
  ++Calls().entropy;
  return ::syscall(SYS_getrandom, bytes, size, 0) == static_cast<long>(size) ? 0 : -1;
}
extern "C" ssize_t getrandom(void* bytes, size_t size, unsigned int flags) {
  ++Calls().random;
  return ::syscall(SYS_getrandom, bytes, size, flags);
}

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

// The bytes of the page of `place` for which the system was asked something.
bool Covers(const std::set<std::pair<uintptr_t, size_t>>& ranges, const uint8_t* place) {
  const auto address = reinterpret_cast<uintptr_t>(place);
  return std::any_of(ranges.begin(), ranges.end(), [&](const auto& range) {
    return range.first <= address && address + kMaxSecretBytes <= range.first + range.second;
  });
}

TEST(Secret, LiesInPagesThatAreLockedAndNotDumped) {
  const SecretBytes secret = SecretBytes::Random(32);
  EXPECT_TRUE(Covers(Calls().locked, secret.data()));
  EXPECT_TRUE(Covers(Calls().not_dumped, secret.data()));
}

TEST(Secret, PagesThatCannotBeLockedAreCountedAndUsedAllTheSame) {
  const SecretMemoryUse before = GetSecretMemoryUse();
  Calls().refuse_lock = true;
  std::deque<SecretBytes> secrets;
  while (GetSecretMemoryUse().pages == before.pages) secrets.push_back(SecretBytes::Random(32));
  Calls().refuse_lock = false;
  const SecretMemoryUse after = GetSecretMemoryUse();
  EXPECT_EQ(after.pages, before.pages + 1);
  EXPECT_EQ(after.locked_pages, before.locked_pages);
  EXPECT_NE(BytesOf(secrets.back()), kZeros);
}

TEST(Secret, IsNotInAForkedProcess) {
  SecretBytes secret = SecretBytes::Random(32);
  SealingKey key(SecretOf(std::string(32, 'k')));
  const std::string sealed = *key.Seal("", "text");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (BytesOf(secret) != kZeros) ::_exit(1);
    // Nothing is sealed under a key of zeros.
    if (!absl::IsFailedPrecondition(key.Seal("", "text").status())) ::_exit(2);
    if (!absl::IsFailedPrecondition(key.Open("", sealed).status())) ::_exit(3);
    // New secrets can be made.
    if (BytesOf(SecretBytes::Random(32)) == kZeros) ::_exit(4);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_NE(BytesOf(secret), kZeros);
  EXPECT_EQ(*key.Open("", sealed), "text");
}

// A copy of the process's memory, as of a virtual machine, must not tell what is drawn next.
TEST(Secret, EverySeriesOfKeysAndEveryNonceAsksTheKernel) {
  SealingKey key(SecretBytes::Random(32));
  size_t before = Calls().entropy;
  for (int i = 0; i < 100; ++i) SecretBytes::Random(32);
  EXPECT_GE(Calls().entropy, before + 100);
  // A series asks once for all, and again for the next one.
  for (int i = 0; i < 3; ++i) {
    before = Calls().entropy;
    const std::vector<SecretBytes> series = SecretBytes::RandomSeries(100, 32);
    EXPECT_GE(Calls().entropy, before + 1);
    ASSERT_EQ(series.size(), 100u);
    std::set<std::string> distinct = {kZeros};
    for (const SecretBytes& secret : series) distinct.insert(BytesOf(secret));
    EXPECT_EQ(distinct.size(), 101u);
  }
  EXPECT_TRUE(SecretBytes::RandomSeries(0, 32).empty());
  before = Calls().random;
  for (int i = 0; i < 100; ++i) ASSERT_OK(key.Seal("", "text"));
  EXPECT_GE(Calls().random, before + 100);
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
