// The JSON profile of docs/certificate_format.md, section 2: one value, one text.
//
// Values: true/false, integers 0 to 2^53 - 1, doubles as {"f64":"16 hex digits"}, strings of valid
// UTF-8, arrays, objects with printable ASCII keys. No null, no other numbers, no NaN. Canonical
// text: keys sorted by bytes, no white space, only the escapes \" \\ \b \f \n \r \t and \u00xx
// (lower-case) for the other control characters; everything else stands for itself.
//
// Threads: a Json is a value. Source: RFC 8785, made stricter.
#ifndef LETHE_AUDIT_JSON_H_
#define LETHE_AUDIT_JSON_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lethe::audit {

inline constexpr uint64_t kMaxJsonInteger = (uint64_t{1} << 53) - 1;

class Json {
 public:
  struct Member;
  using Array = std::vector<Json>;
  using Object = std::vector<Member>;  // sorted by key, keys distinct

  Json();  // false
  Json(const Json&);
  Json(Json&&) noexcept;
  Json& operator=(const Json&);
  Json& operator=(Json&&) noexcept;
  ~Json();

  // Values made here need not be serialisable: Serialize checks what a constructor cannot refuse.
  static Json Bool(bool value);
  static Json Integer(uint64_t value);
  static Json Double(double value);
  static Json String(absl::string_view value);
  static Json MakeArray(Array elements = {});
  static Json MakeObject();

  // Adds a member to an object. Requires an object without this key.
  Json& Set(absl::string_view key, Json value);
  // Adds an element to an array. Requires an array.
  Json& Append(Json value);

  // The content, or null when the value is of another kind.
  const bool* as_bool() const { return std::get_if<bool>(&value_); }
  const uint64_t* as_integer() const { return std::get_if<uint64_t>(&value_); }
  const double* as_double() const { return std::get_if<double>(&value_); }
  const std::string* as_string() const { return std::get_if<std::string>(&value_); }
  const Array* as_array() const { return std::get_if<Array>(&value_); }
  const Object* as_object() const { return std::get_if<Object>(&value_); }
  // The member of an object, or null when it is absent or this is no object.
  const Json* Find(absl::string_view key) const;

 private:
  std::variant<bool, uint64_t, double, std::string, Array, Object> value_;
};

struct Json::Member {
  std::string key;
  Json value;
};

struct JsonLimits {
  size_t max_bytes = size_t{1} << 20;
  int max_depth = 32;
};

// kCanonical refuses any text that Serialize would not have written. kAnyForm also accepts white
// space, any order of keys and any escape; all other rules stand (no duplicate keys, no null, no
// fractions, no lone surrogates, ...).
enum class JsonForm : uint8_t { kCanonical, kAnyForm };

// The canonical text. INVALID_ARGUMENT for a NaN, an integer above 2^53 - 1, bad UTF-8, a bad key,
// an object whose only key is "f64" or a value deeper than JsonLimits::max_depth.
absl::StatusOr<std::string> SerializeJson(const Json& value);

// INVALID_ARGUMENT "offset N: what is wrong".
absl::StatusOr<Json> ParseJson(absl::string_view text,
                               JsonForm form,
                               const JsonLimits& limits = {});

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_JSON_H_
