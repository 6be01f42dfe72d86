#include "store/vault/secret_bytes.h"

#include <openssl/crypto.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/mutex.h"
#include "store/vault/random.h"

namespace lethe::store {
namespace {

size_t PageBytes() {
  static const auto bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

struct Page {
  uint8_t* bytes = nullptr;
  bool locked = false;
};

// A page of zeros as secrets need it.
Page MapPage() {
  void* const page =
      ::mmap(nullptr, PageBytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  LETHE_CHECK(page != MAP_FAILED);
  const bool locked = ::mlock(page, PageBytes()) == 0;
  // Unknown to some kernels, where core dumps are then the operator's to switch off.
  ::madvise(page, PageBytes(), MADV_DONTDUMP);
  ::madvise(page, PageBytes(), MADV_WIPEONFORK);
  return {static_cast<uint8_t*>(page), locked};
}

// Random bytes of several keys on their way into their places: a draw costs as much for a page as
// for a key. Wiped and unmapped in the end.
class Drawing {
 public:
  explicit Drawing(size_t key_bytes)
      : key_bytes_(key_bytes),
        page_(MapPage().bytes),
        usable_(PageBytes() / key_bytes * key_bytes) {}
  Drawing(const Drawing&) = delete;
  Drawing& operator=(const Drawing&) = delete;
  ~Drawing() {
    OPENSSL_cleanse(page_, PageBytes());
    ::munmap(page_, PageBytes());
  }

  // Writes the next key to `out`; `left` with it are still wanted.
  void Next(size_t left, uint8_t* out) {
    if (at_ == drawn_) {
      const bool first = drawn_ == 0;
      at_ = 0;
      drawn_ = std::min(usable_, left * key_bytes_);
      (first ? RandomKey : NextRandomKey)(page_, drawn_);
    }
    std::copy_n(page_ + at_, key_bytes_, out);
    at_ += key_bytes_;
  }

 private:
  const size_t key_bytes_;
  uint8_t* const page_;
  const size_t usable_;
  size_t drawn_ = 0;
  size_t at_ = 0;
};

// Places of kMaxSecretBytes in pages of their own. What is free is noted outside of them, so that a
// place that is given back holds zeros until it is lent again.
class Pool {
 public:
  uint8_t* Take() {
    const MutexLock lock(mutex_);
    if (free_.empty()) AddPage();
    uint8_t* place = free_.back();
    free_.pop_back();
    ++use_.secrets;
    return place;
  }

  void Give(uint8_t* place) {
    OPENSSL_cleanse(place, kMaxSecretBytes);
    const MutexLock lock(mutex_);
    free_.push_back(place);  // never grows: room for every place was made with its page
    --use_.secrets;
  }

  SecretMemoryUse Use() {
    const MutexLock lock(mutex_);
    return use_;
  }

 private:
  void AddPage() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const Page page = MapPage();
    ++use_.pages;
    if (page.locked) ++use_.locked_pages;
    const size_t places = PageBytes() / kMaxSecretBytes;
    free_.reserve(use_.pages * places);
    for (size_t i = 0; i < places; ++i) {
      free_.push_back(page.bytes + i * kMaxSecretBytes);
    }
  }

  Mutex mutex_;
  std::vector<uint8_t*> free_ ABSL_GUARDED_BY(mutex_);
  SecretMemoryUse use_ ABSL_GUARDED_BY(mutex_);
};

// Never destroyed: secrets in static objects may outlive any order of destruction.
Pool& ThePool() {
  static Pool* const pool = new Pool;
  return *pool;
}

}  // namespace

SecretBytes::SecretBytes(size_t size) : size_(size) {
  LETHE_CHECK(size >= 1 && size <= kMaxSecretBytes);
  data_ = ThePool().Take();
}

SecretBytes SecretBytes::Random(size_t size) {
  SecretBytes secret(size);
  RandomKey(secret.data_, size);
  return secret;
}

std::vector<SecretBytes> SecretBytes::RandomSeries(size_t count, size_t size) {
  std::vector<SecretBytes> series;
  series.reserve(count);
  if (count == 0) return series;
  Drawing drawing(size);
  while (series.size() < count) {
    const size_t left = count - series.size();
    drawing.Next(left, series.emplace_back(size).data_);
  }
  return series;
}

SecretBytes::SecretBytes(SecretBytes&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

SecretBytes& SecretBytes::operator=(SecretBytes&& other) noexcept {
  if (this == &other) return *this;
  Wipe();
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

SecretBytes::~SecretBytes() { Wipe(); }

bool SecretBytes::Equals(const SecretBytes& other) const {
  if (size_ != other.size_) return false;
  return size_ == 0 || CRYPTO_memcmp(data_, other.data_, size_) == 0;
}

void SecretBytes::Wipe() {
  if (data_ != nullptr) ThePool().Give(data_);
  data_ = nullptr;
  size_ = 0;
}

SecretMemoryUse GetSecretMemoryUse() { return ThePool().Use(); }

}  // namespace lethe::store
