#include "store/vault/secret_bytes.h"

#include <openssl/crypto.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/mutex.h"
#include "store/vault/random.h"

namespace lethe::store {
namespace {

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
    const size_t bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    void* page = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    LETHE_CHECK(page != MAP_FAILED);
    ++use_.pages;
    if (::mlock(page, bytes) == 0) ++use_.locked_pages;
    // Unknown to some kernels, where core dumps are then the operator's to switch off.
    ::madvise(page, bytes, MADV_DONTDUMP);
    ::madvise(page, bytes, MADV_WIPEONFORK);
    const size_t places = bytes / kMaxSecretBytes;
    free_.reserve(use_.pages * places);
    for (size_t i = 0; i < places; ++i) {
      free_.push_back(static_cast<uint8_t*>(page) + i * kMaxSecretBytes);
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
  while (series.size() < count) {
    const bool first = series.empty();
    SecretBytes& secret = series.emplace_back(size);
    (first ? RandomKey : NextRandomKey)(secret.data_, size);
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
