#include "audit/random.h"

#include <openssl/rand.h>

#include "audit/encoding.h"
#include "audit/hash.h"
#include "core/base/check.h"

namespace lethe::audit {

std::string RandomBytes(size_t count) {
  LETHE_CHECK(count <= size_t{1} << 20);
  std::string bytes(count, '\0');
  LETHE_CHECK(RAND_priv_bytes(reinterpret_cast<unsigned char*>(bytes.data()),
                              static_cast<int>(count)) == 1);
  return bytes;
}

Salt RandomSalt() {
  Salt salt{};
  LETHE_CHECK(RAND_priv_bytes(salt.data(), static_cast<int>(salt.size())) == 1);
  return salt;
}

std::string RandomUid() { return Hex(RandomBytes(16)); }

}  // namespace lethe::audit
