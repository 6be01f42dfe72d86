#include "audit/encoding.h"

#include <algorithm>
#include <array>
#include <bit>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace lethe::audit {
namespace {

constexpr absl::string_view kHexDigits = "0123456789abcdef";
constexpr absl::string_view kBase64Digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr uint8_t kNoDigit = 0xFF;

constexpr std::array<uint8_t, 256> Inverse(absl::string_view digits) {
  std::array<uint8_t, 256> inverse{};
  for (uint8_t& entry : inverse) entry = kNoDigit;
  for (size_t i = 0; i < digits.size(); ++i) {
    inverse[static_cast<uint8_t>(digits[i])] = static_cast<uint8_t>(i);
  }
  return inverse;
}

constexpr std::array<uint8_t, 256> kHexValue = Inverse(kHexDigits);
constexpr std::array<uint8_t, 256> kBase64Value = Inverse(kBase64Digits);

uint8_t Byte(absl::string_view text, size_t i) { return static_cast<uint8_t>(text[i]); }

absl::Status Refuse(absl::string_view format, size_t offset, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(format, ": offset ", offset, ": ", problem));
}

}  // namespace

std::string Hex(absl::string_view bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i) {
    text.push_back(kHexDigits[Byte(bytes, i) >> 4]);
    text.push_back(kHexDigits[Byte(bytes, i) & 15]);
  }
  return text;
}

std::string Hex(const Digest& digest) { return Hex(AsBytes(digest)); }

absl::StatusOr<std::string> DecodeHex(absl::string_view text) {
  if (text.size() % 2 != 0) return Refuse("hex", text.size(), "odd number of digits");
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (size_t i = 0; i < text.size(); i += 2) {
    const unsigned high = kHexValue[Byte(text, i)];
    const unsigned low = kHexValue[Byte(text, i + 1)];
    if (high == kNoDigit) return Refuse("hex", i, "not a lower-case hex digit");
    if (low == kNoDigit) return Refuse("hex", i + 1, "not a lower-case hex digit");
    bytes.push_back(static_cast<char>(high << 4 | low));
  }
  return bytes;
}

absl::StatusOr<Digest> DecodeDigest(absl::string_view text) {
  Digest digest{};
  if (text.size() != 2 * digest.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("hex: a digest has 64 digits, this has ", text.size()));
  }
  LETHE_ASSIGN_OR_RETURN(const std::string bytes, DecodeHex(text));
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

std::string Base64(absl::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4, '=');
  size_t size = 0;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (k < count ? Byte(bytes, i + k) : 0u);
    for (size_t k = 0; k <= count; ++k) {
      text[size + k] = kBase64Digits[group >> (18 - 6 * k) & 63];
    }
    size += 4;
  }
  return text;
}

std::string Base64(const Digest& digest) { return Base64(AsBytes(digest)); }

absl::StatusOr<std::string> DecodeBase64(absl::string_view text) {
  if (text.size() % 4 != 0) return Refuse("base64", text.size(), "length is no multiple of four");
  std::string bytes(text.size() / 4 * 3, '\0');
  size_t size = 0;
  for (size_t i = 0; i < text.size(); i += 4) {
    size_t digits = 4;
    if (i + 4 == text.size() && text[i + 3] == '=') digits = text[i + 2] == '=' ? 2 : 3;
    uint32_t group = 0;
    for (size_t k = 0; k < digits; ++k) {
      const uint8_t value = kBase64Value[Byte(text, i + k)];
      if (value == kNoDigit) return Refuse("base64", i + k, "not a base64 digit");
      group |= static_cast<uint32_t>(value) << (18 - 6 * k);
    }
    for (size_t k = 0; k + 1 < digits; ++k) {
      bytes[size++] = static_cast<char>(group >> (16 - 8 * k) & 0xFF);
    }
    const uint32_t unused = group & ((1u << (8 * (4 - digits))) - 1);
    if (digits < 4 && unused != 0) return Refuse("base64", i + digits - 1, "padding bits are set");
  }
  bytes.resize(size);
  return bytes;
}

absl::StatusOr<Digest> DecodeBase64Digest(absl::string_view text) {
  LETHE_ASSIGN_OR_RETURN(const std::string bytes, DecodeBase64(text));
  Digest digest{};
  if (bytes.size() != digest.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("base64: a digest has 32 bytes, this has ", bytes.size()));
  }
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

void AppendU32(std::string& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}

void AppendU64(std::string& out, uint64_t value) {
  for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}

void AppendDouble(std::string& out, double value) {
  AppendU64(out, std::bit_cast<uint64_t>(value));
}

}  // namespace lethe::audit
