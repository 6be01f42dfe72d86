#include "store/vault/random.h"

#include <openssl/evp.h>
#include <openssl/rand.h>
#include <sys/random.h>

#include <cerrno>

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

void RandomNonce(uint8_t* out, size_t size) {
  ssize_t count = 0;
  do {
    count = ::getrandom(out, size, 0);
  } while (count < 0 && errno == EINTR);
  LETHE_CHECK(count >= 0 && static_cast<size_t>(count) == size);
}

}  // namespace lethe::store
