#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/csv_reader.h"
#include "client/cli/numbers.h"
#include "client/cli/token_source.h"
#include "core/base/status_macros.h"

namespace lethe::cli {
namespace {

class CsvSource : public TokenSource {
 public:
  CsvSource(std::istream& stream, char delimiter) : reader_(stream, delimiter) {}

  absl::Status ReadHeader(const CsvMapping& mapping) {
    switch (reader_.Next(record_)) {
      case CsvReader::Result::kEnd:
        return absl::InvalidArgumentError(reader_.bytes().failed() ? "reading failed"
                                                                   : "there is no header row");
      case CsvReader::Result::kError:
        return absl::InvalidArgumentError(reader_.error());
      case CsvReader::Result::kRecord:
        break;
    }
    header_ = record_.fields;
    for (std::string& name : header_) name = std::string(absl::StripAsciiWhitespace(name));
    LETHE_RETURN_IF_ERROR(Find(mapping.id_columns, ids_));
    LETHE_RETURN_IF_ERROR(Find(mapping.key_columns, keys_));
    LETHE_RETURN_IF_ERROR(Find(mapping.value_columns, values_));
    LETHE_RETURN_IF_ERROR(Find(mapping.label_columns, labels_));
    if (!mapping.subject_column.empty()) {
      LETHE_RETURN_IF_ERROR(Find({mapping.subject_column}, subject_));
    }
    return absl::OkStatus();
  }

  uint64_t consumed() const override { return reader_.bytes().consumed(); }

  Item Next() override {
    Item item;
    switch (reader_.Next(record_)) {
      case CsvReader::Result::kEnd:
        if (reader_.bytes().failed()) return Item{Kind::kFailed, 0, {}, "reading failed"};
        return item;
      case CsvReader::Result::kError:
        item.kind = Kind::kBadLine;
        item.line = reader_.error_line();
        item.message = reader_.error();
        return item;
      case CsvReader::Result::kRecord:
        break;
    }
    item.line = record_.line;
    item.kind = Kind::kToken;
    if (record_.fields.size() != header_.size()) {
      item.kind = Kind::kBadLine;
      item.message = absl::StrCat("line ", item.line, ": ", record_.fields.size(),
                                  " fields, the header has ", header_.size());
      return item;
    }
    for (size_t column : ids_) {
      if (column != ids_.front()) item.token.id += ':';
      item.token.id += record_.fields[column];
    }
    if (!ids_.empty() && item.token.id.size() + 1 == ids_.size())
      Fault(Kind::kBadLine, ids_.front(), "the id is empty", item);
    ReadNumbers(keys_, item.token.key, item);
    ReadNumbers(values_, item.token.value, item);
    if (!subject_.empty()) item.token.subject = record_.fields[subject_.front()];
    for (size_t column : labels_) {
      if (!record_.fields[column].empty()) {
        item.token.labels[header_[column]] = record_.fields[column];
      }
    }
    return item;
  }

 private:
  absl::Status Find(const std::vector<std::string>& names, std::vector<size_t>& columns) const {
    for (const std::string& name : names) {
      const auto place = std::find(header_.begin(), header_.end(), name);
      if (place == header_.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("line 1: no column \"", name, "\" in the header"));
      }
      if (std::find(std::next(place), header_.end(), name) != header_.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("line 1: column \"", name, "\" is there twice"));
      }
      columns.push_back(static_cast<size_t>(place - header_.begin()));
    }
    return absl::OkStatus();
  }

  // The first fault of a line is the one that is told; a bad number outranks a missing one.
  void Fault(Kind kind, size_t column, absl::string_view what, Item& item) const {
    if (item.kind == Kind::kBadLine || item.kind == kind) return;
    item.kind = kind;
    item.message = absl::StrCat("line ", item.line, ", column \"", header_[column], "\": ", what);
  }

  void ReadNumbers(const std::vector<size_t>& columns,
                   std::vector<double>& numbers,
                   Item& item) const {
    for (size_t column : columns) {
      const absl::string_view text = absl::StripAsciiWhitespace(record_.fields[column]);
      if (text.empty() || text == "NA") {
        Fault(Kind::kMissing, column, "the number is missing", item);
        continue;
      }
      const absl::StatusOr<double> number = ParseDecimal(text);
      if (number.ok()) {
        numbers.push_back(*number);
      } else {
        Fault(Kind::kBadLine, column, number.status().message(), item);
      }
    }
  }

  CsvReader reader_;
  CsvRecord record_;
  std::vector<std::string> header_;
  std::vector<size_t> ids_;
  std::vector<size_t> keys_;
  std::vector<size_t> values_;
  std::vector<size_t> subject_;
  std::vector<size_t> labels_;
};

}  // namespace

absl::StatusOr<FileFormat> FormatOf(absl::string_view path) {
  if (absl::EndsWith(path, ".csv") || absl::EndsWith(path, ".tsv")) return FileFormat::kCsv;
  for (const absl::string_view extension : {".ndjson", ".jsonl", ".json"}) {
    if (absl::EndsWith(path, extension)) return FileFormat::kNdjson;
  }
  return absl::InvalidArgumentError(
      "the name does not tell the format; give --format csv or ndjson");
}

absl::StatusOr<std::unique_ptr<TokenSource>> OpenCsv(std::istream& stream,
                                                     const CsvMapping& mapping) {
  auto source = std::make_unique<CsvSource>(stream, mapping.delimiter);
  LETHE_RETURN_IF_ERROR(source->ReadHeader(mapping));
  return std::unique_ptr<TokenSource>(std::move(source));
}

}  // namespace lethe::cli
