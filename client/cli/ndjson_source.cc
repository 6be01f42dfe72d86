#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cli/byte_reader.h"
#include "client/cli/numbers.h"
#include "client/cli/token_source.h"
#include "nlohmann/json.hpp"

namespace lethe::cli {
namespace {

using nlohmann::json;

constexpr size_t kMaxLineBytes = size_t{4} << 20;

class NdjsonSource : public TokenSource {
 public:
  explicit NdjsonSource(std::istream& stream) : bytes_(stream) {}

  uint64_t consumed() const override { return bytes_.consumed(); }

  Item Next() override {
    for (;;) {
      Item item;
      item.line = bytes_.line();
      bool too_long = false;
      if (!ReadLine(too_long)) {
        if (bytes_.failed()) return Item{Kind::kFailed, 0, {}, "reading failed"};
        return Item{};
      }
      if (too_long) {
        Fault(Kind::kBadLine, "", "the line is longer than 4 MiB", item);
        return item;
      }
      if (absl::StripAsciiWhitespace(line_).empty()) continue;
      item.kind = Kind::kToken;
      try {
        Read(json::parse(line_), item);
      } catch (const json::parse_error& error) {
        // The library's own words quote the input.
        item.kind = Kind::kBadLine;
        item.message = absl::StrCat("line ", item.line, ", column ", error.byte, ": not JSON");
      } catch (const json::exception&) {
        item.kind = Kind::kBadLine;
        item.message = absl::StrCat("line ", item.line, ": a number is out of range");
      }
      return item;
    }
  }

 private:
  // False at the end of the input.
  bool ReadLine(bool& too_long) {
    line_.clear();
    int byte = bytes_.Get();
    if (byte == ByteReader::kEnd) return false;
    for (; byte != '\n' && byte != ByteReader::kEnd; byte = bytes_.Get()) {
      if (line_.size() < kMaxLineBytes) {
        line_ += static_cast<char>(byte);
      } else {
        too_long = true;
      }
    }
    return true;
  }

  static void Fault(Kind kind, absl::string_view field, absl::string_view what, Item& item) {
    if (item.kind == Kind::kBadLine || item.kind == kind) return;
    item.kind = kind;
    item.message = absl::StrCat("line ", item.line, field.empty() ? "" : ", ", field, ": ", what);
  }

  static void ReadString(const json& value, absl::string_view field, std::string& out, Item& item) {
    if (!value.is_string()) return Fault(Kind::kBadLine, field, "must be a string", item);
    out = value.get<std::string>();
  }

  static void ReadNumbers(const json& value,
                          absl::string_view field,
                          std::vector<double>& numbers,
                          Item& item) {
    if (!value.is_array()) return Fault(Kind::kBadLine, field, "must be an array", item);
    for (size_t i = 0; i < value.size(); ++i) {
      const std::string place = absl::StrCat(field, "[", i, "]");
      if (value[i].is_null()) {
        Fault(Kind::kMissing, place, "the number is missing", item);
      } else if (!value[i].is_number()) {
        Fault(Kind::kBadLine, place, "not a number", item);
      } else {
        numbers.push_back(ToDouble(value[i]));
      }
    }
  }

  static void Read(const json& object, Item& item) {
    if (!object.is_object()) return Fault(Kind::kBadLine, "", "must be a JSON object", item);
    client::Token& token = item.token;
    for (const auto& [name, value] : object.items()) {
      if (name == "id") {
        ReadString(value, "id", token.id, item);
        // An id is left out by leaving out the member; an empty one is a slip of the exporter.
        if (token.id.empty()) Fault(Kind::kBadLine, "id", "is empty", item);
      } else if (name == "key") {
        ReadNumbers(value, "key", token.key, item);
      } else if (name == "value") {
        ReadNumbers(value, "value", token.value, item);
      } else if (name == "subject") {
        ReadString(value, "subject", token.subject, item);
      } else if (name == "payload") {
        ReadString(value, "payload", token.payload, item);
      } else if (name == "labels") {
        if (!value.is_object()) return Fault(Kind::kBadLine, "labels", "must be an object", item);
        for (const auto& [label, text] : value.items()) {
          ReadString(text, "labels", token.labels[label], item);
        }
      } else {
        return Fault(Kind::kBadLine, "",
                     "an unknown member; known are id, key, value, subject, payload, labels", item);
      }
    }
    if (!object.contains("key")) Fault(Kind::kBadLine, "key", "is missing", item);
  }

  ByteReader bytes_;
  std::string line_;
};

}  // namespace

std::unique_ptr<TokenSource> OpenNdjson(std::istream& stream) {
  return std::make_unique<NdjsonSource>(stream);
}

}  // namespace lethe::cli
