#include "store/token_codec.h"

#include <bit>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "audit/hash.h"
#include "core/base/check.h"

namespace lethe::store {
namespace {

constexpr char kVersion = 1;
constexpr size_t kCheckBytes = 16;
constexpr size_t kHashBlockBytes = 64;  // of SHA-256
constexpr size_t kHeaderBytes = 1 + kCheckBytes;
constexpr absl::string_view kTag("lethe-token-row\0\1", 17);

template <typename Unsigned>
void PutInt(std::string& out, Unsigned value) {
  for (size_t i = 0; i < sizeof(Unsigned); ++i) {
    out.push_back(static_cast<char>(static_cast<uint8_t>(value >> (8 * i))));
  }
}

uint32_t Size32(size_t size) {
  LETHE_CHECK(size <= std::numeric_limits<uint32_t>::max());
  return static_cast<uint32_t>(size);
}

void PutBytes(std::string& out, absl::string_view bytes) {
  PutInt(out, Size32(bytes.size()));
  out.append(bytes.data(), bytes.size());
}

void PutDoubles(std::string& out, const std::vector<double>& values) {
  PutInt(out, Size32(values.size()));
  for (double value : values) PutInt(out, std::bit_cast<uint64_t>(value));
}

std::string Check(absl::string_view memory_uid, uint64_t handle, absl::string_view rest) {
  std::string place;
  PutInt(place, handle);
  audit::Sha256Hasher hasher;
  const Bytes32 digest = hasher.Update(kTag).Update(memory_uid).Update(place).Update(rest).Finish();
  return std::string(audit::AsBytes(digest).substr(0, kCheckBytes));
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
    Unsigned value = 0;
    const absl::string_view bytes = Take(sizeof(Unsigned));
    for (size_t i = 0; i < bytes.size(); ++i) {
      value |=
          static_cast<Unsigned>(static_cast<Unsigned>(static_cast<uint8_t>(bytes[i])) << (8 * i));
    }
    return value;
  }

  std::string Bytes() { return std::string(Take(Int<uint32_t>())); }

  std::vector<double> Doubles() {
    const size_t count = Int<uint32_t>();
    Reader bits(Take(count * sizeof(uint64_t)));
    std::vector<double> values;
    if (!ok_) return values;
    values.reserve(count);
    for (size_t i = 0; i < count; ++i)
      values.push_back(std::bit_cast<double>(bits.Int<uint64_t>()));
    return values;
  }

  bool AtEnd() const { return ok_ && data_.empty(); }

 private:
  absl::string_view data_;
  bool ok_ = true;
};

}  // namespace

std::string EncodeToken(absl::string_view memory_uid, const TokenRow& row) {
  LETHE_CHECK(memory_uid.size() == 32);
  std::string rest;
  rest.reserve(6 * sizeof(uint32_t) + row.id.size() + row.subject.size() + row.payload.size() +
               row.labels.size() + sizeof(double) * (row.key.size() + row.value.size()) +
               row.salt.size());
  PutBytes(rest, row.id);
  PutBytes(rest, row.subject);
  PutDoubles(rest, row.key);
  PutDoubles(rest, row.value);
  PutBytes(rest, row.payload);
  PutBytes(rest, row.labels);
  rest.append(audit::AsBytes(row.salt).data(), row.salt.size());
  return absl::StrCat(absl::string_view(&kVersion, 1), Check(memory_uid, row.handle, rest), rest);
}

absl::StatusOr<TokenRow> DecodeToken(absl::string_view memory_uid,
                                     uint64_t handle,
                                     absl::string_view body) {
  if (body.size() < kHeaderBytes) return absl::DataLossError("token row is too short");
  if (body[0] != kVersion) {
    return absl::DataLossError(absl::StrCat("token row has version ",
                                            static_cast<int>(static_cast<uint8_t>(body[0])),
                                            ", expected ", static_cast<int>(kVersion)));
  }
  const absl::string_view rest = body.substr(kHeaderBytes);
  if (body.substr(1, kCheckBytes) != Check(memory_uid, handle, rest)) {
    return absl::DataLossError("token row does not match its check value");
  }
  Reader reader(rest);
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

IndexKeys::IndexKeys(const Bytes32& secret)
    : inner_block_(kHashBlockBytes, '\x36'), outer_block_(kHashBlockBytes, '\x5c') {
  for (size_t i = 0; i < secret.size(); ++i) {
    inner_block_[i] = static_cast<char>(inner_block_[i] ^ static_cast<char>(secret[i]));
    outer_block_[i] = static_cast<char>(outer_block_[i] ^ static_cast<char>(secret[i]));
  }
}

Bytes32 IndexKeys::Hash(absl::string_view tag,
                        absl::string_view memory_uid,
                        absl::string_view text) const {
  const Bytes32 inner = audit::Sha256(absl::StrCat(inner_block_, tag, memory_uid, text));
  return audit::Sha256(absl::StrCat(outer_block_, audit::AsBytes(inner)));
}

Bytes32 IndexKeys::ForId(absl::string_view memory_uid, absl::string_view id) const {
  return Hash(absl::string_view("lethe-id\0", 9), memory_uid, id);
}

Bytes32 IndexKeys::ForSubject(absl::string_view memory_uid, absl::string_view subject) const {
  return Hash(absl::string_view("lethe-subject\0", 14), memory_uid, subject);
}

}  // namespace lethe::store
