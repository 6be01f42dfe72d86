#include "client/cli/certificate_view.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "audit/dsse.h"

namespace lethe::cli {
namespace {

constexpr int kMaxDepth = 16;
constexpr size_t kIndent = 2;

// The bits of {"f64":"16 hex digits"}, or nothing.
std::optional<double> F64(const Json& value) {
  if (!value.is_object() || value.size() != 1 || !value.contains("f64")) return std::nullopt;
  const Json& digits = value["f64"];
  if (!digits.is_string()) return std::nullopt;
  const std::string text = digits.get<std::string>();
  uint64_t bits = 0;
  if (text.size() != 16 || !absl::SimpleHexAtoi(text, &bits)) return std::nullopt;
  return std::bit_cast<double>(bits);
}

// "kktResidual" -> "kkt residual"
std::string Words(const std::string& name) {
  std::string words;
  for (const char c : name) {
    if (absl::ascii_isupper(static_cast<unsigned char>(c))) words += ' ';
    words += c == '_' ? ' ' : absl::ascii_tolower(static_cast<unsigned char>(c));
  }
  return words;
}

// What a reader looks for first; the rest follows in the order of the statement.
size_t Rank(const std::string& name) {
  static constexpr absl::string_view kFirst[] = {
      "kind",      "time",      "origin",    "sequence",
      "build",     "request",   "subject",   "previousLeafHash",
      "before",    "after",     "now",       "later",
      "verdict",   "memory",    "budget",    "retained",
      "config",    "matched",   "erased",    "notFound",
      "store",     "level",     "evidence",  "margin",
      "error",     "reserve",   "counts",    "change",
      "partition", "selection", "refit",     "residuals",
      "root",      "stores",    "exceptions"};
  return static_cast<size_t>(std::find(std::begin(kFirst), std::end(kFirst), name) -
                             std::begin(kFirst));
}

// Numbers, strings, booleans, and what reads better on one line.
std::optional<std::string> OneLine(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (const std::optional<double> number = F64(value); number.has_value()) {
    return FormatNumber(*number, 6);
  }
  if (value.is_object() && value.size() == 3 && value.contains("margin") &&
      value.contains("error") && value.contains("reserve")) {
    return absl::StrCat(Dump(value["margin"]), " margin, ", Dump(value["error"]), " error, ",
                        Dump(value["reserve"]), " reserve");
  }
  if (value.is_number_float()) return FormatNumber(value.get<double>());
  if (value.is_number_unsigned()) return FormatCount(value.get<uint64_t>());
  if (value.is_primitive())
    return value.is_boolean() ? (value.get<bool>() ? "yes" : "no") : Dump(value);
  if (value.empty()) return "none";
  return std::nullopt;
}

void AppendWrapped(const std::string& name,
                   size_t names,
                   const std::string& value,
                   size_t indent,
                   std::string& out) {
  std::string line(indent, ' ');
  line += name + std::string(names - std::min(names, DisplayWidth(name)), ' ') + "  ";
  const size_t start = DisplayWidth(line);
  const size_t room = kWidth > start + 8 ? kWidth - start : 8;
  std::string rest = value;
  for (;;) {
    size_t take = rest.size();
    if (DisplayWidth(rest) > room) {
      const size_t blank = rest.rfind(' ', room);
      take = blank != std::string::npos && blank > 0 ? blank : room;
      // Never through the middle of a character.
      while (take > 1 && (static_cast<unsigned char>(rest[take]) & 0xC0u) == 0x80u) --take;
    }
    out += line + rest.substr(0, take) + "\n";
    if (take == rest.size()) return;
    rest.erase(0, rest[take] == ' ' ? take + 1 : take);
    line.assign(start, ' ');
  }
}

void Append(const Json& object, size_t indent, int depth, std::string& out) {
  if (depth == kMaxDepth) {
    out += std::string(indent, ' ') + "...\n";
    return;
  }
  std::vector<std::pair<std::string, const Json*>> members;
  if (object.is_object()) {
    for (const auto& [name, value] : object.items()) members.emplace_back(name, &value);
    // Groups after single lines, so that no line seems to belong to the group above it.
    std::stable_sort(members.begin(), members.end(), [](const auto& a, const auto& b) {
      const bool a_group = !OneLine(*a.second).has_value();
      const bool b_group = !OneLine(*b.second).has_value();
      return std::pair(a_group, Rank(a.first)) < std::pair(b_group, Rank(b.first));
    });
    for (auto& [name, value] : members) name = Words(name);
  } else {
    for (size_t i = 0; i < object.size(); ++i)
      members.emplace_back(absl::StrCat(i + 1), &object[i]);
  }
  size_t names = 0;
  for (const auto& [name, value] : members) {
    if (OneLine(*value).has_value()) names = std::max(names, DisplayWidth(name));
  }
  for (const auto& [name, value] : members) {
    if (const std::optional<std::string> text = OneLine(*value); text.has_value()) {
      AppendWrapped(name, names, text->empty() ? "-" : *text, indent, out);
    } else {
      out += std::string(indent, ' ') + name + "\n";
      Append(*value, indent + kIndent, depth + 1, out);
    }
  }
}

}  // namespace

absl::StatusOr<Json> DecodeStatement(absl::string_view envelope) {
  const absl::StatusOr<audit::Envelope> parsed = audit::ParseEnvelope(envelope);
  if (!parsed.ok()) return parsed.status();
  Json statement = Json::parse(parsed->payload, nullptr, /*allow_exceptions=*/false);
  if (!statement.is_object()) {
    return absl::InvalidArgumentError("the payload of the envelope is no JSON object");
  }
  return statement;
}

Json ReadableNumbers(const Json& value) {
  if (const std::optional<double> number = F64(value); number.has_value()) {
    if (std::isinf(*number)) return *number > 0 ? "inf" : "-inf";
    return *number;
  }
  Json out = value;
  for (Json& member : out) {
    if (value.is_structured()) member = ReadableNumbers(member);
  }
  return out;
}

std::string RenderStatement(const Json& statement) {
  std::string out;
  Append(statement.contains("predicate") && statement["predicate"].is_object()
             ? statement["predicate"]
             : statement,
         0, 0, out);
  return out;
}

}  // namespace lethe::cli
