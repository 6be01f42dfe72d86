#include "audit/trace_spelling.h"

#include <algorithm>

#include "audit/utf8.h"

namespace lethe::audit {
namespace {

bool IsAlphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

// Calls `unit` with each UTF-16 code unit.
template <typename Function>
void ForEachUtf16(uint32_t point, const Function& unit) {
  if (point < 0x10000) return unit(point);
  unit(0xD800 + ((point - 0x10000) >> 10));
  unit(0xDC00 + ((point - 0x10000) & 0x3FF));
}

size_t Utf8Length(uint32_t point) {
  return point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
}

}  // namespace

std::string Percent(absl::string_view text,
                    absl::string_view kept,
                    const char* digits,
                    bool plus_for_blank) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (IsAlphanumeric(c) || kept.find(c) != absl::string_view::npos) {
      out += c;
    } else if (c == ' ' && plus_for_blank) {
      out += '+';
    } else {
      out += {'%', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return out;
}

std::vector<uint32_t> CodePoints(absl::string_view text) {
  std::vector<uint32_t> points;
  while (!text.empty()) {
    const size_t length = Utf8SequenceLength(text);
    const auto lead = static_cast<unsigned char>(text[0]);
    uint32_t point = length == 1 ? lead : lead & (0x7Fu >> length);
    for (size_t i = 1; i < length; ++i) {
      point = point << 6 | (static_cast<unsigned char>(text[i]) & 0x3Fu);
    }
    points.push_back(point);
    text.remove_prefix(length);
  }
  return points;
}

void AppendUtf16(std::string& out, uint32_t point, bool big_endian) {
  ForEachUtf16(point, [&](uint32_t unit) {
    const char high = static_cast<char>(unit >> 8);
    const char low = static_cast<char>(unit & 0xFF);
    out += big_endian ? high : low;
    out += big_endian ? low : high;
  });
}

void AppendJson(std::string& out, uint32_t point, const JsonStyle& style) {
  constexpr absl::string_view kShort = "\b\t\n\f\r";
  constexpr absl::string_view kLetters = "btnfr";
  const char c = static_cast<char>(point & 0x7F);
  const bool ascii = point < 0x80;
  const size_t letter = ascii ? kShort.find(c) : absl::string_view::npos;
  const bool unsafe = ascii && style.unsafe.find(c) != absl::string_view::npos;
  if (!unsafe && (point == '"' || point == '\\' || (point == '/' && style.slash))) {
    out += {'\\', c};
  } else if (letter != absl::string_view::npos && !style.no_short) {
    out += {'\\', kLetters[letter]};
  } else if (unsafe || point < 0x20 || (point >= 0x7F && style.ascii)) {
    ForEachUtf16(point, [&](uint32_t unit) {
      out += {'\\', 'u'};
      for (const unsigned shift : {12u, 8u, 4u, 0u}) out += style.digits[unit >> shift & 15];
    });
  } else {
    AppendUtf8(out, point);
  }
}

Spelled Spell(const std::vector<uint32_t>& points,
              size_t run,
              absl::FunctionRef<void(std::string& out, uint32_t point)> append) {
  Spelled spelled;
  std::vector<size_t> text = {0};  // where each character begins, and the end
  std::vector<size_t> form = {0};
  for (const uint32_t point : points) {
    append(spelled.bytes, point);
    text.push_back(text.back() + Utf8Length(point));
    form.push_back(spelled.bytes.size());
  }
  spelled.least = spelled.bytes.size();
  size_t end = 0;
  for (size_t first = 0; first < points.size(); ++first) {
    // The worst place to begin is behind the first byte of the character before.
    const size_t begin = first == 0 ? 0 : text[first - 1] + 1;
    if (begin + run > text.back()) break;
    while (end < points.size() && text[end + 1] <= begin + run) ++end;
    spelled.least = std::min(spelled.least, form[std::max(end, first)] - form[first]);
  }
  return spelled;
}

}  // namespace lethe::audit
