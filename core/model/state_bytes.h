// Numbers to bytes and back, for checkpoints and artefacts: little-endian, nothing between them.
//
// A reader that was asked for more than there is, or for another number of entries than an array
// has, is not ok() from then on and gives zeros; so a caller reads everything and asks once.
#ifndef LETHE_CORE_MODEL_STATE_BYTES_H_
#define LETHE_CORE_MODEL_STATE_BYTES_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace lethe::model {

static_assert(std::endian::native == std::endian::little);

class ByteWriter {
 public:
  template <typename Number>
  void Write(Number number) {
    static_assert(std::is_arithmetic_v<Number> || std::is_enum_v<Number>);
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  void WriteRaw(std::string_view text) { bytes_.append(text); }
  // Count, then entries.
  template <typename Number>
  void WriteArray(std::span<const Number> numbers) {
    static_assert(std::is_arithmetic_v<Number>);
    Write<uint64_t>(numbers.size());
    bytes_.append(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes());
  }
  template <typename Number>
  void WriteArray(const std::vector<Number>& numbers) {
    WriteArray(std::span<const Number>(numbers));
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  template <typename Number>
  Number Read() {
    static_assert(std::is_arithmetic_v<Number> || std::is_enum_v<Number>);
    Number number{};
    if (const char* from = Take(sizeof(number)); from != nullptr) {
      std::memcpy(&number, from, sizeof(number));
    }
    return number;
  }
  bool ReadRaw(std::string_view text) {
    const char* from = Take(text.size());
    ok_ = ok_ && std::string_view(from, text.size()) == text;
    return ok_;
  }
  // Requires exactly `count` entries in the bytes.
  template <typename Number>
  std::vector<Number> ReadArray(size_t count) {
    static_assert(std::is_arithmetic_v<Number>);
    std::vector<Number> numbers;
    if (Read<uint64_t>() != count || count > rest_.size() / sizeof(Number)) ok_ = false;
    if (!ok_) return numbers;
    numbers.resize(count);
    if (count > 0)
      std::memcpy(numbers.data(), Take(count * sizeof(Number)), count * sizeof(Number));
    return numbers;
  }
  bool ok() const { return ok_; }
  bool AtEnd() const { return ok_ && rest_.empty(); }
  size_t left() const { return rest_.size(); }

 private:
  const char* Take(size_t size) {
    if (!ok_ || size > rest_.size()) {
      ok_ = false;
      return nullptr;
    }
    const char* from = rest_.data();
    rest_.remove_prefix(size);
    return from;
  }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_STATE_BYTES_H_
