// Random bytes that a copy of this process's memory does not tell: a virtual machine that is
// resumed twice from one snapshot, or a forked process, must draw different keys and nonces.
// OpenSSL's generators keep a state in RAM and reseed it now and then, so a copy repeats them until
// then. RandomKey and Nonces ask the kernel in each call, whose own generator is told of such
// copies (vmgenid, Linux 5.18 and later; before it, a guest is as good as its host's help).
//
// NextRandomKey draws without asking: for the further keys of one series, made right after the
// first by the same call. A copy that is taken within this call draws the rest of the series again,
// each copy for its own file of keys; the nonces under them still differ. The generator's state is
// overwritten with each draw, so that it does not tell the keys drawn before.
//
// Errors: none; when the system has no random bytes, the process ends. Cost: a system call; about
// 10 microseconds more for a key, and one for a further one. Threads: safe.
// Source: getrandom(2); SP 800-90A, prediction resistance; EVP_RAND_generate(3).
#ifndef LETHE_STORE_VAULT_RANDOM_H_
#define LETHE_STORE_VAULT_RANDOM_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace lethe::store {

// From OpenSSL's private generator, 256 bits strong, reseeded from the kernel before it answers.
void RandomKey(uint8_t* out, size_t size);
// From the same generator as it stands. Requires a RandomKey before, in this thread.
void NextRandomKey(uint8_t* out, size_t size);

// Nonces for the seals of one call, from the kernel alone. A system call costs as much as sealing a
// short row, so up to 21 are drawn at a time: as many as getrandom answers whole. To be used up
// within the call and for what it holds already; then a copy of memory that is taken meanwhile
// seals the same bytes under the same nonces, which tells nothing. Threads: compatible.
class Nonces {
 public:
  static constexpr size_t kBytes = 12;

  // `count`: how many will be asked for, at most that many are drawn ahead.
  explicit Nonces(size_t count) : wanted_(count) {}
  void Next(uint8_t* out);

 private:
  static constexpr size_t kAhead = 21;

  size_t wanted_;
  size_t left_ = 0;
  std::array<uint8_t, kAhead * kBytes> drawn_;
};

}  // namespace lethe::store

#endif  // LETHE_STORE_VAULT_RANDOM_H_
