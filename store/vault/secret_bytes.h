// Key material in RAM: a few bytes that cannot be copied, that are wiped when their owner goes, and
// that lie in pages which are locked against swapping where the system allows it, left out of core
// dumps and empty in a forked process (Linux 4.14): a child finds zeros in the place of every
// secret, and makes its own. A SealingKey refuses to work with them.
//
// The pages come from mmap, are shared by all secrets of the process and are never given back, so
// their number follows the largest number of secrets that lived at once (64 bytes each). Locking
// needs RLIMIT_MEMLOCK; a secret beyond that limit is kept all the same, and GetSecretMemoryUse
// says so.
//
// Outside this promise: registers, stacks and heaps of the crypto library while it computes, a
// hibernated machine, a debugger. Copies made with data() are the caller's to wipe.
//
// Errors: none; when the system has no memory or the random generator fails, the process ends.
// Cost: O(1) and one lock. Threads: a SecretBytes is compatible; the pool behind it is safe.
// Source: mlock(2), madvise(2) MADV_DONTDUMP and MADV_WIPEONFORK, OPENSSL_cleanse(3).
#ifndef LETHE_STORE_VAULT_SECRET_BYTES_H_
#define LETHE_STORE_VAULT_SECRET_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lethe::store {

inline constexpr size_t kMaxSecretBytes = 64;

class SecretBytes {
 public:
  // Holds nothing.
  SecretBytes() = default;
  // `size` zeros. Requires 1 <= size <= kMaxSecretBytes.
  explicit SecretBytes(size_t size);
  // RandomKey of random.h.
  static SecretBytes Random(size_t size);
  // `count` of them, drawn a page at a time: the first page by RandomKey, the others by
  // NextRandomKey.
  static std::vector<SecretBytes> RandomSeries(size_t count, size_t size);

  // The source holds nothing afterwards.
  SecretBytes(SecretBytes&& other) noexcept;
  SecretBytes& operator=(SecretBytes&& other) noexcept;
  SecretBytes(const SecretBytes&) = delete;
  SecretBytes& operator=(const SecretBytes&) = delete;
  ~SecretBytes();

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }

  // Whether both hold the same bytes; the time depends on the sizes only.
  bool Equals(const SecretBytes& other) const;
  // Overwrites the bytes and holds nothing afterwards.
  void Wipe();

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

struct SecretMemoryUse {
  size_t secrets = 0;  // alive
  size_t pages = 0;
  size_t locked_pages = 0;  // fewer than `pages`: RLIMIT_MEMLOCK is too low
};
SecretMemoryUse GetSecretMemoryUse();

}  // namespace lethe::store

#endif  // LETHE_STORE_VAULT_SECRET_BYTES_H_
