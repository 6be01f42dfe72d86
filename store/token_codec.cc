#include "store/token_codec.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "audit/hash.h"
#include "core/base/check.h"
#include "store/vault/bytes.h"

namespace lethe::store {
namespace {

constexpr char kVersion = 2;
constexpr size_t kHashBlockBytes = 64;  // of SHA-256
static_assert(kHashBlockBytes <= kMaxSecretBytes);

uint32_t Size32(size_t size) {
  LETHE_CHECK(size <= std::numeric_limits<uint32_t>::max());
  return static_cast<uint32_t>(size);
}

void PutBytes(std::string& out, absl::string_view bytes) {
  PutLittleEndian(out, Size32(bytes.size()));
  out.append(bytes.data(), bytes.size());
}

void PutDoubles(std::string& out, const std::vector<double>& values) {
  PutLittleEndian(out, Size32(values.size()));
  static_assert(std::endian::native == std::endian::little);
  out.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
}

absl::string_view Bytes(const SecretBytes& secret) {
  return {reinterpret_cast<const char*>(secret.data()), secret.size()};
}

// Reads what the writers above wrote; after the first read past the end everything is empty and
// ok() is false.
class Reader {
 public:
  explicit Reader(absl::string_view data) : data_(data) {}

  absl::string_view Take(size_t size) {
    if (!ok_ || size > data_.size()) {
      ok_ = false;
      return {};
    }
    const absl::string_view taken = data_.substr(0, size);
    data_.remove_prefix(size);
    return taken;
  }

  template <typename Unsigned>
  Unsigned Int() {
    const absl::string_view bytes = Take(sizeof(Unsigned));
    return bytes.empty() ? Unsigned{0} : GetLittleEndian<Unsigned>(bytes, 0);
  }

  std::string Bytes() { return std::string(Take(Int<uint32_t>())); }

  std::vector<double> Doubles() {
    const absl::string_view bits = Take(size_t{Int<uint32_t>()} * sizeof(double));
    std::vector<double> values(bits.size() / sizeof(double));
    if (!values.empty()) std::memcpy(values.data(), bits.data(), bits.size());
    return values;
  }

  bool AtEnd() const { return ok_ && data_.empty(); }

 private:
  absl::string_view data_;
  bool ok_ = true;
};

}  // namespace

std::string EncodeToken(const TokenRow& row) {
  std::string out(1, kVersion);
  out.reserve(1 + 6 * sizeof(uint32_t) + row.id.size() + row.subject.size() + row.payload.size() +
              row.labels.size() + sizeof(double) * (row.key.size() + row.value.size()) +
              row.salt.size());
  PutBytes(out, row.id);
  PutBytes(out, row.subject);
  PutDoubles(out, row.key);
  PutDoubles(out, row.value);
  PutBytes(out, row.payload);
  PutBytes(out, row.labels);
  out.append(audit::AsBytes(row.salt).data(), row.salt.size());
  return out;
}

absl::StatusOr<TokenRow> DecodeToken(uint64_t handle, absl::string_view body) {
  if (body.empty()) return absl::DataLossError("token row is empty");
  if (body[0] != kVersion) {
    return absl::DataLossError(absl::StrCat("token row has version ",
                                            static_cast<int>(static_cast<uint8_t>(body[0])),
                                            ", expected ", static_cast<int>(kVersion)));
  }
  Reader reader(body.substr(1));
  TokenRow row;
  row.handle = handle;
  row.id = reader.Bytes();
  row.subject = reader.Bytes();
  row.key = reader.Doubles();
  row.value = reader.Doubles();
  row.payload = reader.Bytes();
  row.labels = reader.Bytes();
  const absl::string_view salt = reader.Take(row.salt.size());
  if (!reader.AtEnd()) return absl::DataLossError("token row has fields of the wrong length");
  for (size_t i = 0; i < salt.size(); ++i) row.salt[i] = static_cast<uint8_t>(salt[i]);
  return row;
}

IndexKeys::IndexKeys(const SecretBytes& secret)
    : inner_block_(kHashBlockBytes), outer_block_(kHashBlockBytes) {
  LETHE_CHECK(secret.size() == kIndexSecretBytes);
  for (size_t i = 0; i < kHashBlockBytes; ++i) {
    const unsigned key = i < secret.size() ? secret.data()[i] : 0u;
    inner_block_.data()[i] = static_cast<uint8_t>(key ^ 0x36u);
    outer_block_.data()[i] = static_cast<uint8_t>(key ^ 0x5cu);
  }
}

IndexHash IndexKeys::Hash(absl::string_view tag,
                          absl::string_view memory_uid,
                          absl::string_view text) const {
  std::string message = absl::StrCat(Bytes(inner_block_), tag, memory_uid, text);
  const Bytes32 inner = audit::Sha256(message);
  OPENSSL_cleanse(message.data(), message.size());
  message.assign(Bytes(outer_block_).data(), kHashBlockBytes);
  message.append(audit::AsBytes(inner).data(), inner.size());
  const Bytes32 outer = audit::Sha256(message);
  OPENSSL_cleanse(message.data(), message.size());
  IndexHash hash;
  std::copy_n(outer.begin(), hash.size(), hash.begin());
  return hash;
}

IndexHash IndexKeys::ForId(absl::string_view memory_uid, absl::string_view id) const {
  return Hash(absl::string_view("lethe-id\0", 9), memory_uid, id);
}

IndexHash IndexKeys::ForSubject(absl::string_view memory_uid, absl::string_view subject) const {
  return Hash(absl::string_view("lethe-subject\0", 14), memory_uid, subject);
}

IndexHash IndexKeys::ForHold(absl::string_view tenant_uid, absl::string_view subject) const {
  return Hash(absl::string_view("lethe-hold\0", 11), tenant_uid, subject);
}

}  // namespace lethe::store
