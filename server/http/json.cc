#include "server/http/json.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace lethe::http {
namespace {

// A few bytes of JSON stand for a message, or a text, of hundreds in memory. Room for 10,000 tokens
// with all their labels.
constexpr size_t kMaxElements = 300000;
constexpr size_t kMaxNames = 10000;  // in one object

// Told of each piece of a text as the parser comes to it; false ends it.
class Checker final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override {
    // Protocol Buffers would pass over it, in a list too, so that what follows moves up.
    return Refuse("has a null; leave the field out instead");
  }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return Element(); }
  bool binary(binary_t&) override { return Refuse("is no JSON"); }
  bool start_object(std::size_t) override {
    names_.emplace_back();
    return Deeper() && Element();
  }
  bool end_object() override {
    names_.pop_back();
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override { return Deeper(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool key(string_t& name) override {
    if (names_.back().size() == kMaxNames) {
      return Refuse(absl::StrCat("has an object with more than ", kMaxNames, " names"));
    }
    return names_.back().insert(name).second || Refuse("has a name twice in one object");
  }
  bool parse_error(std::size_t position,
                   const std::string&,
                   const nlohmann::detail::exception&) override {
    return Refuse(absl::StrCat("is no JSON at byte ", position));
  }

  absl::Status status() const {
    if (problem_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("body: ", problem_));
  }

 private:
  bool Deeper() {
    return ++depth_ <= kMaxJsonDepth ||
           Refuse(absl::StrCat("is nested more than ", kMaxJsonDepth, " deep"));
  }
  bool Element() {
    return ++elements_ <= kMaxElements ||
           Refuse(absl::StrCat("has more than ", kMaxElements, " objects and texts"));
  }
  bool Refuse(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  int depth_ = 0;
  size_t elements_ = 0;
  std::vector<std::set<std::string>> names_;  // of the objects that it is in
  std::string problem_;
};

bool IsPath(absl::string_view text) {
  return !text.empty() && text.size() <= 200 && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '[' ||
           c == ']';
  });
}

// The library's message has the path in front, in brackets, and behind it may repeat the value.
absl::Status FieldError(absl::string_view message) {
  absl::string_view path;
  if (absl::ConsumePrefix(&message, "(")) {
    path = message.substr(0, message.find("): "));
    if (path.size() == message.size()) path = message.substr(0, message.find(") "));
    message.remove_prefix(std::min(message.size(), path.size() + 1));
  }
  constexpr absl::string_view kUnknown = ": Cannot find field.";
  if (absl::ConsumeSuffix(&message, kUnknown)) {
    const absl::string_view name = absl::StripLeadingAsciiWhitespace(message);
    const std::string whole = absl::StrCat(path, path.empty() ? "" : ".", name);
    return absl::InvalidArgumentError(IsPath(whole)
                                          ? absl::StrCat(whole, ": there is no such field")
                                          : "body: has a field that there is not");
  }
  if (!IsPath(path)) return absl::InvalidArgumentError("body: does not have the form of this call");
  return absl::InvalidArgumentError(absl::StrCat(path, ": is of another type than this field"));
}

// The library takes "-0" for a whole number, which has no sign, and writes the double so: others
// read it as it does. Requires JSON.
std::string WithSignedZeros(absl::string_view json) {
  std::string signed_zeros;
  size_t copied = 0;
  bool in_text = false;
  for (size_t at = 0; at < json.size(); ++at) {
    const char c = json[at];
    if (in_text && c == '\\') {
      ++at;
    } else if (c == '"') {
      in_text = !in_text;
    } else if (!in_text && c == '0' && at > 0 && json[at - 1] == '-') {
      const char before = at > 1 ? json[at - 2] : ' ';
      const char after = at + 1 < json.size() ? json[at + 1] : ' ';
      if (before == 'e' || before == 'E' || after == '.' || after == 'e' || after == 'E') continue;
      absl::StrAppend(&signed_zeros, json.substr(copied, at + 1 - copied), ".0");
      copied = at + 1;
    }
  }
  absl::StrAppend(&signed_zeros, json.substr(copied));
  return signed_zeros;
}

}  // namespace

absl::Status CheckJson(absl::string_view text) {
  Checker checker;
  nlohmann::json::sax_parse(text.begin(), text.end(), &checker);
  return checker.status();
}

absl::Status FromJson(absl::string_view text, google::protobuf::Message* message) {
  if (text.empty()) return absl::OkStatus();
  if (absl::Status checked = CheckJson(text); !checked.ok()) return checked;
  const google::protobuf::util::Status parsed =
      google::protobuf::util::JsonStringToMessage(WithSignedZeros(text), message);
  if (parsed.ok()) return absl::OkStatus();
  const google::protobuf::StringPiece problem = parsed.message();
  return FieldError(absl::string_view(problem.data(), problem.size()));
}

absl::StatusOr<std::string> ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(message, &text, options).ok()) {
    return absl::InternalError("the answer cannot be written as JSON");
  }
  return WithSignedZeros(text) + "\n";
}

}  // namespace lethe::http
