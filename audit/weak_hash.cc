#include "audit/weak_hash.h"

#include <openssl/evp.h>

#include <array>

#include "audit/encoding.h"
#include "core/base/check.h"

namespace lethe::audit {
namespace {

std::string HexOf(const EVP_MD* algorithm, absl::string_view bytes) {
  std::array<char, EVP_MAX_MD_SIZE> out;
  unsigned size = 0;
  LETHE_CHECK(EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(out.data()),
                         &size, algorithm, nullptr) == 1);
  return Hex(absl::string_view(out.data(), size));
}

}  // namespace

std::string Sha1Hex(absl::string_view bytes) { return HexOf(EVP_sha1(), bytes); }
std::string Md5Hex(absl::string_view bytes) { return HexOf(EVP_md5(), bytes); }

}  // namespace lethe::audit
