#include "audit/trace_forms.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "audit/encoding.h"
#include "audit/trace_decimal.h"
#include "audit/utf8.h"
#include "core/base/check.h"

namespace lethe::audit {
namespace {

constexpr char kLowerDigits[] = "0123456789abcdef";
constexpr char kUpperDigits[] = "0123456789ABCDEF";

std::string Upper(std::string text) {
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return text;
}

std::string UrlAlphabet(absl::string_view base64) {
  return absl::StrReplaceAll(base64, {{"+", "-"}, {"/", "_"}});
}

// The characters of the base64 of `bytes`, placed `offset` bytes into a group of three, that depend
// on nothing else.
std::string InnerBase64(absl::string_view bytes, size_t offset) {
  const std::string all = Base64(absl::StrCat(std::string(offset, '\0'), bytes));
  const size_t begin = (8 * offset + 5) / 6;
  return all.substr(begin, 8 * (offset + bytes.size()) / 6 - begin);
}

bool IsAlphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

// Every byte but letters, digits and those of `kept` as %XX.
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

// Calls `unit` with each UTF-16 code unit.
template <typename Function>
void ForEachUtf16(uint32_t point, const Function& unit) {
  if (point < 0x10000) return unit(point);
  unit(0xD800 + ((point - 0x10000) >> 10));
  unit(0xDC00 + ((point - 0x10000) & 0x3FF));
}

std::string Utf16(const std::vector<uint32_t>& points, bool big) {
  std::string out;
  for (const uint32_t point : points) {
    ForEachUtf16(point, [&](uint32_t unit) {
      const char high = static_cast<char>(unit >> 8);
      const char low = static_cast<char>(unit & 0xFF);
      out += big ? high : low;
      out += big ? low : high;
    });
  }
  return out;
}

struct JsonStyle {
  bool ascii;     // what is no ASCII as \uXXXX
  bool html;      // < > & as \uXXXX, as libraries do whose text may go into a page
  bool slash;     // "/" as "\/"
  bool no_short;  // \u000a in place of \n
  const char* digits;
};

std::string JsonEscaped(const std::vector<uint32_t>& points, const JsonStyle& style) {
  constexpr absl::string_view kShort = "\b\t\n\f\r";
  constexpr absl::string_view kLetters = "btnfr";
  std::string out;
  for (const uint32_t point : points) {
    const char c = static_cast<char>(point & 0x7F);
    const size_t letter = point < 0x20 ? kShort.find(c) : absl::string_view::npos;
    const bool unsafe = point == '<' || point == '>' || point == '&' || point == '\'';
    if (point == '"' || point == '\\' || (point == '/' && style.slash)) {
      out += {'\\', c};
    } else if (letter != absl::string_view::npos && !style.no_short) {
      out += {'\\', kLetters[letter]};
    } else if (point < 0x20 || (unsafe && style.html) || (point >= 0x7F && style.ascii)) {
      ForEachUtf16(point, [&](uint32_t unit) {
        out += {'\\', 'u'};
        for (const unsigned shift : {12u, 8u, 4u, 0u}) out += style.digits[unit >> shift & 15];
      });
    } else {
      AppendUtf8(out, point);
    }
  }
  return out;
}

// Collects forms, without those whose least part would be met by chance and without copies.
class Forms {
 public:
  explicit Forms(const TraceRules& rules) : least_(rules.allow_short ? 1 : kLeastTraceBytes) {}

  void Add(TraceForm form) {
    if (form.bytes().empty() || form.run() == 0) return;
    size_t shortest = 0;  // of the runs that count
    for (size_t i = 0; i + form.run() <= form.units(); ++i) {
      if (!form.Counts(i)) continue;
      if (shortest == 0) shortest = form.bytes().size();
      shortest = std::min(shortest, form.End(i + form.run() - 1) - form.Begin(i));
    }
    if (shortest < least_ || !seen_.insert(form.bytes()).second) return;
    forms_.push_back(std::move(form));
  }
  std::vector<TraceForm> Take() { return std::move(forms_); }

 private:
  size_t least_;
  std::set<std::string> seen_;
  std::vector<TraceForm> forms_;
};

// Numbers that stand in many files.
bool IsWhole(double number) { return std::abs(number) <= 65536.0 && std::trunc(number) == number; }

// Whether the numbers tell one vector from others.
bool IsDistinctive(std::span<const double> run) {
  std::set<double> different;
  for (const double number : run) {
    if (!IsWhole(number)) return true;
    if (std::abs(number) > 1.0) different.insert(number);
  }
  return different.size() >= 4;
}

// By the first number of each run.
std::vector<bool> DistinctiveRuns(std::span<const double> numbers, size_t run) {
  std::vector<bool> distinctive;
  for (size_t i = 0; i + run <= numbers.size(); ++i) {
    distinctive.push_back(IsDistinctive(numbers.subspan(i, run)));
  }
  return distinctive;
}

template <typename Unsigned>
std::string Bits(const std::vector<Unsigned>& numbers, bool big) {
  std::string out;
  for (const Unsigned number : numbers) {
    for (size_t i = 0; i < sizeof number; ++i) {
      const size_t shift = 8 * (big ? sizeof number - 1 - i : i);
      out += static_cast<char>(number >> shift & 0xFF);
    }
  }
  return out;
}

}  // namespace

TraceForm TraceForm::Fixed(std::string name, std::string bytes, size_t width, size_t run) {
  TraceForm form;
  form.units_ = bytes.size() / width;
  form.name_ = std::move(name);
  form.bytes_ = std::move(bytes);
  form.width_ = width;
  form.run_ = std::min(run, form.units_);
  return form;
}

TraceForm TraceForm::InBase64(std::string name,
                              std::string bytes,
                              size_t width,
                              size_t offset,
                              size_t units,
                              size_t run) {
  TraceForm form;
  form.name_ = std::move(name);
  form.bytes_ = std::move(bytes);
  form.layout_ = Layout::kBase64;
  form.width_ = width;
  form.offset_ = offset;
  form.units_ = units;
  form.run_ = std::min(run, units);
  return form;
}

TraceForm TraceForm::Listed(std::string name,
                            std::string bytes,
                            std::vector<uint32_t> begins,
                            std::vector<uint32_t> ends,
                            size_t run) {
  LETHE_CHECK(begins.size() == ends.size());
  TraceForm form;
  form.name_ = std::move(name);
  form.bytes_ = std::move(bytes);
  form.layout_ = Layout::kListed;
  form.units_ = begins.size();
  form.begins_ = std::move(begins);
  form.ends_ = std::move(ends);
  form.run_ = std::min(run, form.units_);
  return form;
}

size_t TraceForm::Begin(size_t unit) const {
  switch (layout_) {
    case Layout::kFixed:
      return unit * width_;
    case Layout::kBase64:
      return (8 * (offset_ + unit * width_) + 5) / 6 - (8 * offset_ + 5) / 6;
    case Layout::kListed:
      return begins_[unit];
  }
  return 0;
}

size_t TraceForm::End(size_t unit) const {
  switch (layout_) {
    case Layout::kFixed:
      return (unit + 1) * width_;
    case Layout::kBase64:
      return 8 * (offset_ + (unit + 1) * width_) / 6 - (8 * offset_ + 5) / 6;
    case Layout::kListed:
      return ends_[unit];
  }
  return 0;
}

void TraceForm::Wipe() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

absl::StatusOr<std::vector<TraceForm>> TextForms(absl::string_view text, const TraceRules& rules) {
  if (text.empty()) return absl::InvalidArgumentError("is empty");
  if (text.size() < kLeastTraceBytes && !rules.allow_short) {
    return absl::InvalidArgumentError(
        absl::StrCat("is shorter than ", kLeastTraceBytes, " bytes: it would be met by chance"));
  }
  Forms forms(rules);
  const size_t run = std::max(rules.text_run, kLeastTraceBytes);
  // `per_byte`: how many bytes of the form stand for one of the text, in thirds. The form's units
  // are bytes: a run need not begin with a character.
  const auto add = [&](absl::string_view name, std::string bytes, size_t thirds = 3) {
    const size_t least = text.size() <= run ? bytes.size() : run * thirds / 3;
    forms.Add(TraceForm::Fixed(std::string(name), std::move(bytes), 1, least));
  };
  add("utf-8", std::string(text));
  add("hex", Hex(text), 6);
  add("hex upper", Upper(Hex(text)), 6);
  for (size_t offset = 0; offset < 3; ++offset) {
    std::string inner = InnerBase64(text, offset);
    std::string url = UrlAlphabet(inner);
    add("base64", std::move(inner), 4);
    add("base64url", std::move(url), 4);
  }
  // Unreserved characters; those that encodeURIComponent keeps, encodeURI, and forms.
  for (const char* digits : {kUpperDigits, kLowerDigits}) {
    add("percent", Percent(text, "-._~", digits, false));
    add("percent", Percent(text, "-._~!'()*", digits, false));
    add("percent", Percent(text, "-._~!'()*;/?:@&=+$,#", digits, false));
    add("percent", Percent(text, "-._~/", digits, false));
    add("percent", Percent(text, "-._*", digits, true));
  }
  if (IsValidUtf8(text)) {
    const std::vector<uint32_t> points = CodePoints(text);
    add("utf-16le", Utf16(points, false), 6);
    add("utf-16be", Utf16(points, true), 6);
    for (int style = 0; style < 32; ++style) {
      add("json", JsonEscaped(points, {.ascii = (style & 1) != 0,
                                       .html = (style & 2) != 0,
                                       .slash = (style & 4) != 0,
                                       .no_short = (style & 8) != 0,
                                       .digits = (style & 16) != 0 ? kUpperDigits : kLowerDigits}));
    }
  }
  add("c escapes", absl::CEscape(text));
  add("c escapes", absl::CHexEscape(text));
  add("c escapes", absl::Utf8SafeCEscape(text));
  return forms.Take();
}

absl::StatusOr<std::vector<TraceForm>> VectorForms(std::span<const double> numbers,
                                                   const TraceRules& rules) {
  LETHE_CHECK(rules.vector_run > 0);
  if (numbers.empty()) return absl::InvalidArgumentError("has no numbers");
  std::vector<uint64_t> wide;
  std::vector<uint32_t> narrow;
  std::vector<double> rounded;  // what `narrow` stands for
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (!std::isfinite(numbers[i])) {
      return absl::InvalidArgumentError(absl::StrCat("[", i, "]: not finite"));
    }
    const double number = numbers[i] == 0.0 ? 0.0 : numbers[i];  // one zero, as Lethe keeps it
    wide.push_back(std::bit_cast<uint64_t>(number));
    constexpr double kLargest = std::numeric_limits<float>::max();
    if (std::abs(number) > kLargest) continue;
    narrow.push_back(std::bit_cast<uint32_t>(static_cast<float>(number)));
    rounded.push_back(std::bit_cast<float>(narrow.back()));
  }
  const size_t run = std::min(rules.vector_run, numbers.size());
  const std::vector<bool> counts = DistinctiveRuns(numbers, run);
  if (std::find(counts.begin(), counts.end(), true) == counts.end()) {
    return absl::InvalidArgumentError(
        "holds common numbers only (0, 1, small whole numbers): they would be met by chance");
  }
  Forms forms(rules);
  const auto add_bytes = [&](const std::string& name, const std::string& bytes, size_t width,
                             const std::vector<bool>& counting) {
    const auto add = [&](TraceForm form) {
      form.set_counts(counting);
      forms.Add(std::move(form));
    };
    add(TraceForm::Fixed(name, bytes, width, run));
    add(TraceForm::Fixed(name + " hex", Hex(bytes), 2 * width, run));
    add(TraceForm::Fixed(name + " hex upper", Upper(Hex(bytes)), 2 * width, run));
    for (size_t offset = 0; offset < 3; ++offset) {
      const std::string inner = InnerBase64(bytes, offset);
      add(TraceForm::InBase64(name + " base64", inner, width, offset, numbers.size(), run));
      add(TraceForm::InBase64(name + " base64url", UrlAlphabet(inner), width, offset,
                              numbers.size(), run));
    }
  };
  add_bytes("f64le", Bits(wide, false), sizeof(double), counts);
  add_bytes("f64be", Bits(wide, true), sizeof(double), counts);
  // Rounded to 32 bits a number may have become a common one, or too large to be one.
  if (narrow.size() == wide.size()) {
    const std::vector<bool> narrow_counts = DistinctiveRuns(rounded, run);
    add_bytes("f32le", Bits(narrow, false), sizeof(float), narrow_counts);
    add_bytes("f32be", Bits(narrow, true), sizeof(float), narrow_counts);
  }
  for (const DecimalStyle style : kDecimalStyles) {
    for (const absl::string_view separator : {",", ", ", " ", "\t", "\n"}) {
      std::string text;
      std::vector<uint32_t> begins;
      std::vector<uint32_t> ends;
      for (const uint64_t bits : wide) {
        if (!text.empty()) absl::StrAppend(&text, separator);
        begins.push_back(static_cast<uint32_t>(text.size()));
        text += DecimalText(std::bit_cast<double>(bits), style);
        ends.push_back(static_cast<uint32_t>(text.size()));
      }
      TraceForm form =
          TraceForm::Listed("decimal", std::move(text), std::move(begins), std::move(ends), run);
      form.set_counts(counts);
      forms.Add(std::move(form));
    }
  }
  return forms.Take();
}

}  // namespace lethe::audit
