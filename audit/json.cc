#include "audit/json.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "audit/encoding.h"
#include "audit/utf8.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace lethe::audit {
namespace {

constexpr absl::string_view kDoubleKey = "f64";

bool IsKeyCharacter(char c) { return c >= 0x20 && c <= 0x7E && c != '"' && c != '\\'; }

bool IsKey(absl::string_view key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), IsKeyCharacter);
}

// The letter of a two-character escape, or 0.
char ShortEscape(char c) {
  switch (c) {
    case '"':
      return '"';
    case '\\':
      return '\\';
    case '\b':
      return 'b';
    case '\f':
      return 'f';
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    default:
      return 0;
  }
}

bool NeedsEscape(char c) { return static_cast<uint8_t>(c) < 0x20 || c == '"' || c == '\\'; }

void AppendString(std::string& out, absl::string_view value) {
  out.push_back('"');
  while (!value.empty()) {
    // Most text stands for itself: it is copied a run at a time.
    const size_t run =
        static_cast<size_t>(std::find_if(value.begin(), value.end(), NeedsEscape) - value.begin());
    out.append(value.data(), run);
    value.remove_prefix(run);
    if (value.empty()) break;
    const char c = value[0];
    value.remove_prefix(1);
    if (const char letter = ShortEscape(c); letter != 0) {
      out.push_back('\\');
      out.push_back(letter);
    } else {
      absl::StrAppend(&out, "\\u00", Hex(absl::string_view(&c, 1)));
    }
  }
  out.push_back('"');
}

class Writer {
 public:
  absl::Status Write(const Json& value, int depth) {
    if (depth > JsonLimits().max_depth) return TooDeep();
    if (const bool* flag = value.as_bool()) {
      out_ += *flag ? "true" : "false";
    } else if (const uint64_t* integer = value.as_integer()) {
      if (*integer > kMaxJsonInteger) {
        return absl::InvalidArgumentError("json: an integer above 2^53 - 1");
      }
      absl::StrAppend(&out_, *integer);
    } else if (const double* number = value.as_double()) {
      if (std::isnan(*number)) return absl::InvalidArgumentError("json: a NaN");
      // A double is written as an object with a string in it.
      if (depth == JsonLimits().max_depth) return TooDeep();
      std::string bytes;
      AppendDouble(bytes, *number);
      absl::StrAppend(&out_, "{\"", kDoubleKey, "\":\"", Hex(bytes), "\"}");
    } else if (const std::string* text = value.as_string()) {
      if (!IsValidUtf8(*text))
        return absl::InvalidArgumentError("json: a string that is not UTF-8");
      AppendString(out_, *text);
    } else if (const Json::Array* array = value.as_array()) {
      return WriteArray(*array, depth);
    } else {
      return WriteObject(*value.as_object(), depth);
    }
    return absl::OkStatus();
  }

  std::string Take() { return std::move(out_); }

 private:
  static absl::Status TooDeep() { return absl::InvalidArgumentError("json: nested too deeply"); }

  absl::Status WriteArray(const Json::Array& array, int depth) {
    out_.push_back('[');
    for (size_t i = 0; i < array.size(); ++i) {
      if (i > 0) out_.push_back(',');
      LETHE_RETURN_IF_ERROR(Write(array[i], depth + 1));
    }
    out_.push_back(']');
    return absl::OkStatus();
  }

  absl::Status WriteObject(const Json::Object& object, int depth) {
    out_.push_back('{');
    for (size_t i = 0; i < object.size(); ++i) {
      if (i > 0) out_.push_back(',');
      if (!IsKey(object[i].key)) {
        return absl::InvalidArgumentError("json: a key that is empty or not plain printable ASCII");
      }
      // Such an object would read back as a double, or not at all.
      if (object[i].key == kDoubleKey) {
        return absl::InvalidArgumentError("json: the key \"f64\" is reserved for doubles");
      }
      absl::StrAppend(&out_, "\"", object[i].key, "\":");
      LETHE_RETURN_IF_ERROR(Write(object[i].value, depth + 1));
    }
    out_.push_back('}');
    return absl::OkStatus();
  }

  std::string out_;
};

class Parser {
 public:
  Parser(absl::string_view text, JsonForm form, const JsonLimits& limits)
      : text_(text), canonical_(form == JsonForm::kCanonical), limits_(limits) {}

  absl::StatusOr<Json> Parse() {
    if (text_.size() > limits_.max_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("offset ", limits_.max_bytes, ": text longer than allowed"));
    }
    SkipSpace();
    LETHE_ASSIGN_OR_RETURN(Json value, Value(0));
    SkipSpace();
    if (position_ != text_.size()) return Refuse("bytes after the value");
    return value;
  }

 private:
  absl::Status Refuse(absl::string_view problem) const { return RefuseAt(position_, problem); }
  static absl::Status RefuseAt(size_t offset, absl::string_view problem) {
    return absl::InvalidArgumentError(absl::StrCat("offset ", offset, ": ", problem));
  }

  bool Done() const { return position_ == text_.size(); }
  bool At(char c) const { return !Done() && text_[position_] == c; }
  bool Accept(char c) {
    if (!At(c)) return false;
    ++position_;
    return true;
  }
  void SkipSpace() {
    if (canonical_) return;
    while (At(' ') || At('\t') || At('\n') || At('\r')) ++position_;
  }

  absl::StatusOr<Json> Value(int depth) {
    if (depth > limits_.max_depth) return Refuse("nested too deeply");
    if (Done()) return Refuse("the text ends where a value must be");
    switch (text_[position_]) {
      case '{':
        return Object(depth);
      case '[':
        return Array(depth);
      case '"': {
        LETHE_ASSIGN_OR_RETURN(const std::string text, String());
        return Json::String(text);
      }
      case 't':
      case 'f':
        return Literal();
      case 'n':
        return Refuse("null is not allowed");
      case '-':
        return Refuse("negative numbers are not allowed");
      default:
        break;
    }
    if (text_[position_] >= '0' && text_[position_] <= '9') return Integer();
    return Refuse("no value starts like this");
  }

  absl::StatusOr<Json> Literal() {
    for (const bool flag : {true, false}) {
      const absl::string_view word = flag ? "true" : "false";
      if (text_.substr(position_, word.size()) == word) {
        position_ += word.size();
        return Json::Bool(flag);
      }
    }
    return Refuse("no value starts like this");
  }

  absl::StatusOr<Json> Integer() {
    const size_t start = position_;
    uint64_t value = 0;
    while (!Done() && text_[position_] >= '0' && text_[position_] <= '9') {
      value = 10 * value + static_cast<uint64_t>(text_[position_] - '0');
      if (value > kMaxJsonInteger) return RefuseAt(start, "an integer above 2^53 - 1");
      ++position_;
    }
    if (position_ - start > 1 && text_[start] == '0') return RefuseAt(start, "a leading zero");
    if (At('.') || At('e') || At('E')) return Refuse("fractions and exponents are not allowed");
    return Json::Integer(value);
  }

  absl::StatusOr<uint32_t> FourHexDigits() {
    uint32_t code = 0;
    for (int i = 0; i < 4; ++i, ++position_) {
      if (Done()) return Refuse("the text ends inside an escape");
      const char c = text_[position_];
      const char lower = c >= 'A' && c <= 'F' ? static_cast<char>(c + ('a' - 'A')) : c;
      const bool digit = lower >= '0' && lower <= '9';
      if (!digit && (lower < 'a' || lower > 'f')) return Refuse("not a hex digit");
      code = code << 4 | static_cast<uint32_t>(digit ? lower - '0' : lower - 'a' + 10);
    }
    return code;
  }

  // After "\u".
  absl::Status UnicodeEscape(std::string& out) {
    const size_t start = position_ - 2;
    LETHE_ASSIGN_OR_RETURN(uint32_t code, FourHexDigits());
    if (code >= 0xDC00 && code <= 0xDFFF) return RefuseAt(start, "a lone surrogate");
    if (code >= 0xD800 && code <= 0xDBFF) {
      if (!Accept('\\') || !Accept('u')) return RefuseAt(start, "a lone surrogate");
      LETHE_ASSIGN_OR_RETURN(const uint32_t second, FourHexDigits());
      if (second < 0xDC00 || second > 0xDFFF) return RefuseAt(start, "a lone surrogate");
      code = 0x10000 + ((code - 0xD800) << 10) + (second - 0xDC00);
    }
    AppendUtf8(out, code);
    return absl::OkStatus();
  }

  // After the backslash.
  absl::Status Escape(std::string& out) {
    if (Done()) return Refuse("the text ends inside an escape");
    const char c = text_[position_++];
    switch (c) {
      case '"':
      case '\\':
      case '/':
        out.push_back(c);
        return absl::OkStatus();
      case 'b':
        out.push_back('\b');
        return absl::OkStatus();
      case 'f':
        out.push_back('\f');
        return absl::OkStatus();
      case 'n':
        out.push_back('\n');
        return absl::OkStatus();
      case 'r':
        out.push_back('\r');
        return absl::OkStatus();
      case 't':
        out.push_back('\t');
        return absl::OkStatus();
      case 'u':
        return UnicodeEscape(out);
      default:
        return RefuseAt(position_ - 1, "an unknown escape");
    }
  }

  absl::StatusOr<std::string> String() {
    ++position_;
    std::string out;
    while (true) {
      // Most text is ASCII that stands for itself: it is taken a run at a time.
      const size_t start_of_run = position_;
      while (!Done() && IsKeyCharacter(text_[position_])) ++position_;
      out.append(text_.data() + start_of_run, position_ - start_of_run);
      if (Done()) return Refuse("the text ends inside a string");
      const char c = text_[position_];
      if (c == '"') break;
      if (static_cast<uint8_t>(c) < 0x20) return Refuse("a raw control character");
      if (c == '\\') {
        const size_t start = position_++;
        const size_t size = out.size();
        LETHE_RETURN_IF_ERROR(Escape(out));
        // Canonical means: written as Serialize would write what was read.
        std::string expected;
        AppendString(expected, absl::string_view(out).substr(size));
        const absl::string_view inner = absl::string_view(expected).substr(1, expected.size() - 2);
        if (canonical_ && text_.substr(start, position_ - start) != inner) {
          return RefuseAt(start, "not the canonical escape");
        }
        continue;
      }
      const size_t length = Utf8SequenceLength(text_.substr(position_));
      if (length == 0) return Refuse("not UTF-8");
      out.append(text_.data() + position_, length);
      position_ += length;
    }
    ++position_;
    return out;
  }

  absl::StatusOr<Json> Array(int depth) {
    ++position_;
    Json::Array elements;
    SkipSpace();
    if (Accept(']')) return Json::MakeArray();
    while (true) {
      SkipSpace();
      LETHE_ASSIGN_OR_RETURN(Json element, Value(depth + 1));
      elements.push_back(std::move(element));
      SkipSpace();
      if (Accept(']')) return Json::MakeArray(std::move(elements));
      if (!Accept(',')) return Refuse("expected ',' or ']'");
    }
  }

  absl::StatusOr<Json> Object(int depth) {
    const size_t start = position_++;
    Json::Object members;
    SkipSpace();
    bool more = !Accept('}');
    while (more) {
      SkipSpace();
      LETHE_RETURN_IF_ERROR(Member(depth, members));
      SkipSpace();
      if (Accept('}')) break;
      if (!Accept(',')) return Refuse("expected ',' or '}'");
    }
    const auto by_key = [](const Json::Member& a, const Json::Member& b) { return a.key < b.key; };
    // Canonical text arrives sorted; Member has refused everything else.
    if (!canonical_) std::sort(members.begin(), members.end(), by_key);
    for (size_t i = 0; i < members.size(); ++i) {
      if (i > 0 && members[i].key == members[i - 1].key) {
        return RefuseAt(start, "a key occurs twice in the object that starts here");
      }
      if (members[i].key == kDoubleKey) return Double(start, members);
    }
    Json object = Json::MakeObject();
    for (Json::Member& member : members) object.Set(member.key, std::move(member.value));
    return object;
  }

  absl::Status Member(int depth, Json::Object& members) {
    const size_t start = position_;
    if (!At('"')) return Refuse("expected a key");
    LETHE_ASSIGN_OR_RETURN(std::string key, String());
    if (!IsKey(key)) return RefuseAt(start, "a key must be printable ASCII without '\"' and '\\'");
    if (canonical_ && !members.empty()) {
      if (key == members.back().key) return RefuseAt(start, "a key occurs twice");
      if (key < members.back().key) return RefuseAt(start, "keys are not sorted");
    }
    SkipSpace();
    if (!Accept(':')) return Refuse("expected ':'");
    SkipSpace();
    LETHE_ASSIGN_OR_RETURN(Json value, Value(depth + 1));
    members.push_back({std::move(key), std::move(value)});
    return absl::OkStatus();
  }

  static absl::StatusOr<Json> Double(size_t start, const Json::Object& members) {
    const std::string* text = members.front().value.as_string();
    if (members.size() != 1 || text == nullptr || text->size() != 16) {
      return RefuseAt(start, "a double is {\"f64\":\"16 hex digits\"}");
    }
    const absl::StatusOr<std::string> bytes = DecodeHex(*text);
    if (!bytes.ok()) return RefuseAt(start, "a double has 16 lower-case hex digits");
    uint64_t bits = 0;
    for (const char c : *bytes) bits = bits << 8 | static_cast<uint8_t>(c);
    const double value = std::bit_cast<double>(bits);
    if (std::isnan(value)) return RefuseAt(start, "NaN is not allowed");
    return Json::Double(value);
  }

  absl::string_view text_;
  bool canonical_;
  JsonLimits limits_;
  size_t position_ = 0;
};

}  // namespace

Json::Json() : value_(false) {}
Json::Json(const Json&) = default;
Json::Json(Json&&) noexcept = default;
Json& Json::operator=(const Json&) = default;
Json& Json::operator=(Json&&) noexcept = default;
Json::~Json() = default;

Json Json::Bool(bool value) {
  Json json;
  json.value_ = value;
  return json;
}

Json Json::Integer(uint64_t value) {
  Json json;
  json.value_ = value;
  return json;
}

Json Json::Double(double value) {
  Json json;
  json.value_ = value;
  return json;
}

Json Json::String(absl::string_view value) {
  Json json;
  json.value_ = std::string(value);
  return json;
}

Json Json::MakeArray(Array elements) {
  Json json;
  json.value_ = std::move(elements);
  return json;
}

Json Json::MakeObject() {
  Json json;
  json.value_ = Object();
  return json;
}

Json& Json::Set(absl::string_view key, Json value) {
  Object* object = std::get_if<Object>(&value_);
  LETHE_CHECK(object != nullptr);
  const auto place = std::lower_bound(
      object->begin(), object->end(), key,
      [](const Member& member, absl::string_view name) { return member.key < name; });
  LETHE_CHECK(place == object->end() || place->key != key);
  object->insert(place, Member{std::string(key), std::move(value)});
  return *this;
}

Json& Json::Append(Json value) {
  Array* array = std::get_if<Array>(&value_);
  LETHE_CHECK(array != nullptr);
  array->push_back(std::move(value));
  return *this;
}

const Json* Json::Find(absl::string_view key) const {
  const Object* object = as_object();
  if (object == nullptr) return nullptr;
  const auto place = std::lower_bound(
      object->begin(), object->end(), key,
      [](const Member& member, absl::string_view name) { return member.key < name; });
  return place != object->end() && place->key == key ? &place->value : nullptr;
}

absl::StatusOr<std::string> SerializeJson(const Json& value) {
  Writer writer;
  LETHE_RETURN_IF_ERROR(writer.Write(value, 0));
  return writer.Take();
}

absl::StatusOr<Json> ParseJson(absl::string_view text, JsonForm form, const JsonLimits& limits) {
  return Parser(text, form, limits).Parse();
}

}  // namespace lethe::audit
