#include "audit/json_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/encoding.h"

namespace lethe::audit {
namespace {

const Json& EmptyObject() {
  static const Json object = Json::MakeObject();
  return object;
}

}  // namespace

JsonReader::JsonReader(const Json& value, std::string path)
    : value_(&value), path_(std::move(path)) {
  if (value.as_object() == nullptr) {
    status_ = absl::InvalidArgumentError(absl::StrCat(path_, ": not an object"));
    value_ = &EmptyObject();
  }
}

void JsonReader::Fail(absl::string_view key, absl::string_view problem) {
  if (!status_.ok()) return;
  const absl::string_view separator = path_.empty() ? "" : ".";
  status_ = absl::InvalidArgumentError(absl::StrCat(path_, separator, key, ": ", problem));
}

const Json* JsonReader::Take(absl::string_view key) {
  const Json* member = value_->Find(key);
  if (member == nullptr) {
    Fail(key, "missing");
    return nullptr;
  }
  keys_.emplace_back(key);
  return member;
}

std::string JsonReader::String(absl::string_view key) {
  const Json* member = Take(key);
  if (member == nullptr) return "";
  if (const std::string* text = member->as_string()) return *text;
  Fail(key, "not a string");
  return "";
}

uint64_t JsonReader::Integer(absl::string_view key) {
  const Json* member = Take(key);
  if (member == nullptr) return 0;
  if (const uint64_t* integer = member->as_integer()) return *integer;
  Fail(key, "not an integer");
  return 0;
}

double JsonReader::Double(absl::string_view key) {
  const Json* member = Take(key);
  if (member == nullptr) return 0.0;
  if (const double* number = member->as_double()) return *number;
  Fail(key, "not a double {\"f64\":...}");
  return 0.0;
}

bool JsonReader::Bool(absl::string_view key) {
  const Json* member = Take(key);
  if (member == nullptr) return false;
  if (const bool* flag = member->as_bool()) return *flag;
  Fail(key, "not true or false");
  return false;
}

Digest JsonReader::HexDigest(absl::string_view key) {
  const absl::StatusOr<Digest> digest = DecodeDigest(String(key));
  if (digest.ok()) return *digest;
  Fail(key, "not 64 lower-case hex digits");
  return Digest{};
}

std::string JsonReader::Base64Bytes(absl::string_view key) {
  absl::StatusOr<std::string> bytes = DecodeBase64(String(key));
  if (bytes.ok()) return *std::move(bytes);
  Fail(key, "not strict base64");
  return "";
}

const Json::Array& JsonReader::Array(absl::string_view key) {
  static const Json::Array* const empty = new Json::Array();
  const Json* member = Take(key);
  if (member == nullptr) return *empty;
  if (const Json::Array* array = member->as_array()) return *array;
  Fail(key, "not an array");
  return *empty;
}

JsonReader JsonReader::Child(absl::string_view key) {
  const Json* member = Take(key);
  std::string path = absl::StrCat(path_, path_.empty() ? "" : ".", key);
  return JsonReader(member == nullptr ? EmptyObject() : *member, std::move(path));
}

std::optional<double> JsonReader::OptionalDouble(absl::string_view key) {
  if (!Has(key)) return std::nullopt;
  return Double(key);
}

std::optional<Digest> JsonReader::OptionalHexDigest(absl::string_view key) {
  if (!Has(key)) return std::nullopt;
  return HexDigest(key);
}

void JsonReader::Expect(absl::string_view key, absl::string_view value) {
  if (String(key) != value) Fail(key, absl::StrCat("must be \"", value, "\""));
}

void JsonReader::Adopt(JsonReader& child) {
  absl::Status finished = child.Finish();
  if (status_.ok()) status_ = std::move(finished);
}

absl::Status JsonReader::Finish() {
  for (const Json::Member& member : *value_->as_object()) {
    if (std::find(keys_.begin(), keys_.end(), member.key) == keys_.end()) {
      // The key is not repeated in the message: it is input.
      Fail("?", "a member that does not belong here");
      break;
    }
  }
  return status_;
}

}  // namespace lethe::audit
