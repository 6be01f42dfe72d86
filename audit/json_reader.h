// Takes the members of a JSON object one by one and insists that nothing is left over. The first
// error sticks: read everything, then look at Finish(). Threads: compatible.
#ifndef LETHE_AUDIT_JSON_READER_H_
#define LETHE_AUDIT_JSON_READER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "audit/hash.h"
#include "audit/json.h"

namespace lethe::audit {

class JsonReader {
 public:
  // `value` must outlive the reader; `path` names it in errors ("predicate.counts").
  JsonReader(const Json& value, std::string path);

  // A missing or wrong member leaves an error and a zero value.
  std::string String(absl::string_view key);
  uint64_t Integer(absl::string_view key);
  double Double(absl::string_view key);
  bool Bool(absl::string_view key);
  Digest HexDigest(absl::string_view key);
  std::string Base64Bytes(absl::string_view key);
  const Json::Array& Array(absl::string_view key);
  JsonReader Child(absl::string_view key);

  bool Has(absl::string_view key) const { return value_->Find(key) != nullptr; }
  std::optional<double> OptionalDouble(absl::string_view key);
  std::optional<Digest> OptionalHexDigest(absl::string_view key);
  // Leaves an error unless the member is this string.
  void Expect(absl::string_view key, absl::string_view value);

  // Takes over the error of a child that has been read, its Finish included.
  void Adopt(JsonReader& child);
  void Fail(absl::string_view key, absl::string_view problem);
  const std::string& path() const { return path_; }

  // INVALID_ARGUMENT for the first error, or for a member nobody asked for.
  absl::Status Finish();

 private:
  const Json* Take(absl::string_view key);

  const Json* value_;
  std::string path_;
  std::vector<std::string> keys_;
  absl::Status status_;
};

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_JSON_READER_H_
