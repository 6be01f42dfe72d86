// Files that people write: tokens to insert, settings, who may call.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "client/cli/csv_reader.h"
#include "client/cli/numbers.h"
#include "client/cli/token_source.h"
#include "core/program/toml_file.h"
#include "server/access/access.h"
#include "server/access/issuer_keys.h"
#include "server/command_line.h"
#include "server/options.h"
#include "server/quota_text.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/targets.h"

namespace lethe::fuzz {
namespace {

using cli::CsvReader;
using cli::CsvRecord;
using cli::TokenSource;

constexpr size_t kMostLines = 64;

// A field as any spreadsheet would quote it.
std::string Quoted(const std::string& field) {
  std::string quoted = "\"";
  for (const char c : field) {
    quoted += c;
    if (c == '"') quoted += c;
  }
  return quoted + "\"";
}

// The records of a text, and how many errors were between them.
std::vector<std::vector<std::string>> Records(const std::string& text,
                                              char delimiter,
                                              size_t* errors) {
  std::istringstream stream(text);
  CsvReader reader(stream, delimiter);
  std::vector<std::vector<std::string>> records;
  CsvRecord record;
  uint64_t line = 0;
  *errors = 0;
  while (true) {
    const CsvReader::Result result = reader.Next(record);
    if (result == CsvReader::Result::kEnd) break;
    if (result == CsvReader::Result::kError) {
      ++*errors;
      CheckMessage("CSV", reader.error());
      Require(absl::StartsWith(reader.error(), absl::StrCat("line ", reader.error_line(), ",")),
              "an error names its line", reader.error());
      continue;
    }
    Require(!record.fields.empty(), "a record has a field");
    Require(record.line > line, "records come one after the other");
    line = record.line;
    records.push_back(record.fields);
  }
  Require(reader.bytes().consumed() == text.size(), "all of a file is read");
  return records;
}

void CheckSource(TokenSource& source, size_t bytes) {
  uint64_t line = 0;
  while (true) {
    const TokenSource::Item item = source.Next();
    if (item.kind == TokenSource::Kind::kEnd) break;
    Require(item.kind != TokenSource::Kind::kFailed, "a text can be read");
    Require(item.line > line, "tokens come one after the other");
    line = item.line;
    if (item.kind != TokenSource::Kind::kToken) {
      CheckMessage("a token", item.message);
      Require(absl::StartsWith(item.message, absl::StrCat("line ", item.line)),
              "an error names its line", item.message);
      continue;
    }
    for (const std::vector<double>* numbers : {&item.token.key, &item.token.value}) {
      for (const double number : *numbers) Require(std::isfinite(number), "numbers are finite");
    }
  }
  Require(source.consumed() == bytes, "all of a file is read");
}

void Csv(const std::string& text, char delimiter) {
  size_t errors = 0;
  const std::vector<std::vector<std::string>> records = Records(text, delimiter, &errors);
  // What was read, written with everything quoted, is read again.
  std::string written;
  for (const std::vector<std::string>& record : records) {
    for (size_t i = 0; i < record.size(); ++i) {
      absl::StrAppend(&written, i == 0 ? "" : std::string(1, delimiter), Quoted(record[i]));
    }
    written += "\n";
  }
  Require(Records(written, delimiter, &errors) == records && errors == 0,
          "records that were written are read again");

  cli::CsvMapping mapping;
  mapping.delimiter = delimiter;
  mapping.id_columns = {"id"};
  mapping.key_columns = {"x", "y"};
  mapping.value_columns = {"v"};
  mapping.subject_column = "who";
  mapping.label_columns = {"ward"};
  for (const bool all : {true, false}) {
    if (!all) {
      mapping = {};
      mapping.delimiter = delimiter;
      mapping.key_columns = {"x"};
    }
    std::istringstream stream(text);
    const auto source = cli::OpenCsv(stream, mapping);
    if (source.ok()) {
      CheckSource(**source, text.size());
    } else {
      Require(absl::IsInvalidArgument(source.status()), "a bad header is INVALID_ARGUMENT");
    }
  }
}

void CommaCsv(const std::string& text) { Csv(text, ','); }
void TabCsv(const std::string& text) { Csv(text, '\t'); }

void Ndjson(const std::string& text) {
  std::istringstream stream(text);
  CheckSource(*cli::OpenNdjson(stream), text.size());
}

void SameNumber(absl::StatusOr<double> again, double number, absl::string_view what) {
  RequireOk(again.status(), what);
  const double read = *again;
  Require(std::memcmp(&read, &number, sizeof number) == 0, what);
}

// A line each.
void Numbers(const std::string& text) {
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (size_t i = 0; i < lines.size() && i < kMostLines; ++i) {
    for (const auto& read : {cli::ParseDecimal(lines[i]), cli::ParseHexOrDecimal(lines[i])}) {
      if (!read.ok()) {
        CheckMessage("a number", std::string(read.status().message()));
        continue;
      }
      Require(std::isfinite(*read), "a number is finite");
      SameNumber(cli::ParseDecimal(absl::StrFormat("%.17g", *read)), *read, "17 digits tell it");
      SameNumber(cli::ParseHexOrDecimal(cli::FormatHex(*read)), *read, "hex digits tell it");
    }
    if (const auto vector = cli::ParseVector(lines[i]); !vector.ok()) {
      CheckMessage("a vector", std::string(vector.status().message()));
    }
    (void)cli::CheckDigits(lines[i]);
  }
}

void Quotas(const std::string& text) {
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  const auto quotas = server::ParseQuotas("--quota", lines);
  if (!quotas.ok()) {
    Require(absl::StartsWith(quotas.status().message(), "--quota: "), "an error names its option");
    return CheckMessage("quotas", std::string(quotas.status().message()));
  }
  const auto again = server::ParseQuotas("--quota", server::FormatQuotas(*quotas));
  RequireOk(again.status(), "quotas that were written are read again");
  Require(*again == *quotas, "and are the same");
}

void Toml(const std::string& text) {
  const auto file = program::TomlFile::Parse("file.toml", text);
  if (!file.ok()) {
    Require(absl::IsInvalidArgument(file.status()) &&
                absl::StartsWith(file.status().message(), "file.toml:"),
            "bad TOML is told with its line", file.status().ToString());
    return;
  }
  const std::vector<std::string> known = {"name", "role"};
  (void)file->OnlyKeys(file->root(), known);
  for (const auto& [key, node] : file->root()) {
    Require(!program::TypeName(node).empty(), "a node has a type");
    Require(absl::StartsWith(file->Where(node), "file.toml:"), "a node has a place");
  }
}

// Of lethed: what is printed of them is a file that says the same.
void Settings(const std::string& text) {
  const std::string path = ScratchFile("lethed.toml", text);
  const auto settings = server::ParseCommandLine({"--config", path});
  if (!settings.ok()) {
    Require(absl::IsInvalidArgument(settings.status()), "bad settings are INVALID_ARGUMENT",
            settings.status().ToString());
    return;
  }
  const auto again = server::ParseCommandLine(
      {"--config", ScratchFile("again.toml", server::PrintConfig(*settings))});
  RequireOk(again.status(), "settings that are printed can be read");
  for (const server::Option& option : server::Options()) {
    Require(option.show(again->config) == option.show(settings->config), "and say the same",
            option.name);
  }
}

bool NamesHold(const toml::node& node, absl::string_view what) {
  if (const toml::table* table = node.as_table(); table != nullptr) {
    return std::any_of(table->begin(), table->end(), [&](const auto& entry) {
      return absl::StrContains(std::string(entry.first.str()), what) ||
             NamesHold(entry.second, what);
    });
  }
  const toml::array* array = node.as_array();
  return array != nullptr &&
         std::any_of(array->begin(), array->end(),
                     [&](const toml::node& element) { return NamesHold(element, what); });
}

// Who may call.
void Access(const std::string& text) {
  const auto policy = access::LoadAccess(ScratchFile("access.toml", text));
  if (policy.ok()) {
    const auto caller = (*policy)->Authenticate({.authorization = {"Bearer lethe_"}}, absl::Now());
    return Require(absl::IsUnauthenticated(caller.status()), "nobody is let in by nothing");
  }
  const std::string message(policy.status().message());
  Require(absl::StrContains(message, "access.toml"), "an error names the file", message);
  if (!absl::StrContains(message, kCanary)) return;
  // Names of settings are told.
  const auto file = program::TomlFile::Parse("access.toml", text);
  Require(file.ok() && NamesHold(file->root(), kCanary), "and no value", message);
}

// The keys of an issuer.
void Jwks(const std::string& text) {
  for (const bool pem : {true, false}) {
    access::IssuerKeys keys;
    const absl::Status added = pem ? keys.AddPem(text) : keys.AddJwks(text);
    if (added.ok()) {
      (void)keys.Verify("e30.e30.AAAA", access::Algorithm::kEs256, "");
    } else {
      Require(absl::IsInvalidArgument(added), "what is no key is INVALID_ARGUMENT",
              added.ToString());
      CheckMessage("keys", std::string(added.message()));
    }
  }
}

struct Reader {
  std::string name;
  void (*read)(const std::string& text);
};

}  // namespace

void FuzzCsv(absl::string_view input) {
  static const auto* const readers =
      new std::vector<Reader>{{"access", Access},     {"csv", CommaCsv},    {"jwks", Jwks},
                              {"ndjson", Ndjson},     {"numbers", Numbers}, {"quotas", Quotas},
                              {"settings", Settings}, {"toml", Toml},       {"tsv", TabCsv}};
  static const auto* const names = [] {
    auto* const list = new std::vector<std::string>;
    for (const Reader& reader : *readers) list->push_back(reader.name);
    return list;
  }();
  const std::optional<Choice> choice = Choose(input, *names);
  if (choice.has_value()) (*readers)[choice->index].read(std::string(choice->rest));
}

}  // namespace lethe::fuzz
