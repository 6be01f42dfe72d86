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
#include "audit/trace_spelling.h"
#include "audit/utf8.h"
#include "core/base/check.h"

namespace lethe::audit {
namespace {

std::string Upper(std::string text) {
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return text;
}

std::string UrlAlphabet(absl::string_view base64) {
  return absl::StrReplaceAll(base64, {{"+", "-"}, {"/", "_"}});
}

// Where bytes stand in base64: behind the last character that holds something of the bytes before
// `offset`, and in front of the first one that holds something of byte `offset` or later ones.
size_t Base64Begin(size_t offset) { return (8 * offset + 5) / 6; }
size_t Base64End(size_t offset) { return 8 * offset / 6; }

// The characters of the base64 of `bytes`, placed `offset` bytes into a group of three, that depend
// on nothing else.
std::string InnerBase64(absl::string_view bytes, size_t offset) {
  const std::string all = Base64(absl::StrCat(std::string(offset, '\0'), bytes));
  const size_t begin = Base64Begin(offset);
  return all.substr(begin, Base64End(offset + bytes.size()) - begin);
}

// How many characters hold nothing but something of `size` bytes, at the worst place in a group.
size_t LeastBase64(size_t size) {
  size_t least = Base64End(size);
  for (const size_t offset : {size_t{1}, size_t{2}}) {
    least = std::min(least, Base64End(offset + size) - Base64Begin(offset));
  }
  return least;
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
      return Base64Begin(offset_ + unit * width_) - Base64Begin(offset_);
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
      return Base64End(offset_ + (unit + 1) * width_) - Base64Begin(offset_);
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
  // `least`: how many bytes of the form stand for `run` bytes of the text at least. The form's
  // units are bytes: a run need not begin with a character.
  const auto add = [&](absl::string_view name, std::string bytes, size_t least) {
    const size_t units = text.size() <= run ? bytes.size() : std::max(least, kLeastTraceBytes);
    forms.Add(TraceForm::Fixed(std::string(name), std::move(bytes), 1, units));
  };
  add("utf-8", std::string(text), run);
  add("hex", Hex(text), 2 * run);
  add("hex upper", Upper(Hex(text)), 2 * run);
  for (size_t offset = 0; offset < 3; ++offset) {
    std::string inner = InnerBase64(text, offset);
    std::string url = UrlAlphabet(inner);
    add("base64", std::move(inner), LeastBase64(run));
    add("base64url", std::move(url), LeastBase64(run));
  }
  // Unreserved characters; those that encodeURIComponent keeps, encodeURI, and forms.
  for (const char* digits : {kUpperDigits, kLowerDigits}) {
    add("percent", Percent(text, "-._~", digits, false), run);
    add("percent", Percent(text, "-._~!'()*", digits, false), run);
    add("percent", Percent(text, "-._~!'()*;/?:@&=+$,#", digits, false), run);
    add("percent", Percent(text, "-._~/", digits, false), run);
    add("percent", Percent(text, "-._*", digits, true), run);
  }
  if (IsValidUtf8(text)) {
    const std::vector<uint32_t> points = CodePoints(text);
    const auto spell = [&](absl::string_view name, const auto& append) {
      Spelled spelled = Spell(points, run, append);
      add(name, std::move(spelled.bytes), spelled.least);
    };
    for (const bool big : {false, true}) {
      spell(big ? "utf-16be" : "utf-16le",
            [&](std::string& out, uint32_t point) { AppendUtf16(out, point, big); });
    }
    absl::string_view before;
    for (const absl::string_view unsafe : kJsonUnsafe) {
      const absl::string_view added = unsafe.substr(std::exchange(before, unsafe).size());
      if (!added.empty() && text.find_first_of(added) == absl::string_view::npos) continue;
      for (int bits = 0; bits < 16; ++bits) {
        const JsonStyle style{.unsafe = unsafe,
                              .ascii = (bits & 1) != 0,
                              .slash = (bits & 2) != 0,
                              .no_short = (bits & 4) != 0,
                              .digits = (bits & 8) != 0 ? kUpperDigits : kLowerDigits};
        spell("json", [&](std::string& out, uint32_t point) { AppendJson(out, point, style); });
      }
    }
  }
  add("c escapes", absl::CEscape(text), run);
  add("c escapes", absl::CHexEscape(text), run);
  add("c escapes", absl::Utf8SafeCEscape(text), run);
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
