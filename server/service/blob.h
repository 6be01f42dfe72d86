// The parts of the blobs that the store keeps for the service (records.h, erasure_records.h):
// integers and doubles big-endian, strings with a u32 length, a version byte first. Threads:
// compatible.
#ifndef LETHE_SERVER_SERVICE_BLOB_H_
#define LETHE_SERVER_SERVICE_BLOB_H_

#include <bit>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "audit/encoding.h"

namespace lethe::service {

inline void AppendByte(std::string& out, uint8_t value) { out.push_back(static_cast<char>(value)); }

inline void AppendText(std::string& out, absl::string_view text) {
  audit::AppendU32(out, static_cast<uint32_t>(text.size()));
  out.append(text.data(), text.size());
}

// After the first read beyond the end `ok` stays false and every value is empty.
class BlobReader {
 public:
  explicit BlobReader(absl::string_view bytes) : rest_(bytes) { version_ = Byte(); }

  uint8_t Byte() { return static_cast<uint8_t>(Number(1)); }
  uint32_t U32() { return static_cast<uint32_t>(Number(4)); }
  uint64_t U64() { return Number(8); }
  double Double() { return std::bit_cast<double>(Number(8)); }
  std::string Text() {
    const size_t size = U32();
    if (rest_.size() < size) {
      ok_ = false;
      return {};
    }
    std::string text(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return text;
  }

  bool ok() const { return ok_; }
  uint8_t version() const { return version_; }
  bool AtEnd(uint8_t version) const { return ok_ && version_ == version && rest_.empty(); }

 private:
  uint64_t Number(size_t bytes) {
    if (rest_.size() < bytes) {
      ok_ = false;
      return 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) {
      value = (value << 8) | static_cast<uint8_t>(rest_[i]);
    }
    rest_.remove_prefix(bytes);
    return value;
  }

  absl::string_view rest_;
  bool ok_ = true;
  uint8_t version_ = 0;
};

inline absl::Status DamagedBlob(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("a stored ", what, " is not what was written"));
}

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_BLOB_H_
