#include "store/vault/random.h"

#include <openssl/evp.h>
#include <openssl/rand.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "core/base/check.h"

namespace lethe::store {

namespace {

void Draw(uint8_t* out, size_t size, int prediction_resistance) {
  constexpr unsigned int kStrength = 256;
  EVP_RAND_CTX* generator = RAND_get0_private(nullptr);
  LETHE_CHECK(generator != nullptr);
  LETHE_CHECK(
      EVP_RAND_generate(generator, out, size, kStrength, prediction_resistance, nullptr, 0) == 1);
}

}  // namespace

void RandomKey(uint8_t* out, size_t size) { Draw(out, size, 1); }

void NextRandomKey(uint8_t* out, size_t size) { Draw(out, size, 0); }

void Nonces::Next(uint8_t* out) {
  if (left_ == 0) {
    left_ = std::clamp(wanted_, size_t{1}, kAhead);
    wanted_ -= std::min(wanted_, left_);
    ssize_t count = 0;
    do {
      count = ::getrandom(drawn_.data(), left_ * kBytes, 0);
    } while (count < 0 && errno == EINTR);
    LETHE_CHECK(count >= 0 && static_cast<size_t>(count) == left_ * kBytes);
  }
  --left_;
  std::copy_n(drawn_.begin() + static_cast<std::ptrdiff_t>(left_ * kBytes), kBytes, out);
}

}  // namespace lethe::store
