#include "client/cli/input_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/commands.h"
#include "core/base/status_macros.h"

namespace lethe::cli {
namespace {

std::vector<std::string> SplitNames(const std::string& text) {
  std::vector<std::string> names;
  for (absl::string_view name : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    names.emplace_back(absl::StripAsciiWhitespace(name));
  }
  return names;
}

absl::StatusOr<char> Delimiter(const InputFileOptions& options) {
  if (options.delimiter.empty()) return absl::EndsWith(options.path, ".tsv") ? '\t' : ',';
  if (options.delimiter == "tab" || options.delimiter == "\\t") return '\t';
  const char c = options.delimiter.front();
  if (options.delimiter.size() != 1 || c == '"' || c == '\n' || c == '\r') {
    return absl::InvalidArgumentError("--delimiter: one character, or the word tab");
  }
  return c;
}

}  // namespace

CLI::Option* AddInputFileOptions(CLI::App& verb, InputFileOptions& options, bool for_tokens) {
  CLI::Option* path = verb.add_option("-f,--file", options.path, "Input, or - for standard input")
                          ->type_name("PATH");
  TakesWords(verb.add_option("--format", options.format, "Of the file (default: by its name)"),
             {"csv", "ndjson"});
  verb.add_option("--key-columns", options.key_columns, "CSV: columns of the key, in order")
      ->type_name("A,B,...");
  if (for_tokens) {
    verb.add_option("--value-columns", options.value_columns, "CSV: columns of the value")
        ->type_name("A,B,...");
    verb.add_option("--id-column,--id-columns", options.id_columns,
                    "CSV: columns of the id, joined by ':'")
        ->type_name("A,B,...");
    verb.add_option("--subject-column", options.subject_column, "CSV: column of the data subject")
        ->type_name("A");
    verb.add_option("--label-columns", options.label_columns, "CSV: columns kept as labels")
        ->type_name("A,B,...");
  }
  verb.add_option("--delimiter", options.delimiter,
                  "CSV: between fields (default ',', in .tsv files tab)")
      ->type_name("CHAR");
  return path;
}

absl::StatusOr<std::unique_ptr<InputFile>> InputFile::Open(Context& context,
                                                           const InputFileOptions& options) {
  auto input = std::unique_ptr<InputFile>(new InputFile());
  const bool standard = options.path == "-";
  input->name_ = standard ? "standard input" : options.path;
  FileFormat format = options.format == "ndjson" ? FileFormat::kNdjson : FileFormat::kCsv;
  if (options.format.empty()) {
    const absl::StatusOr<FileFormat> by_name = FormatOf(options.path);
    if (!by_name.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(input->name_, ": ", by_name.status().message()));
    }
    format = *by_name;
  }
  CsvMapping mapping;
  if (format == FileFormat::kCsv) {
    LETHE_ASSIGN_OR_RETURN(mapping.delimiter, Delimiter(options));
    mapping.id_columns = SplitNames(options.id_columns);
    mapping.key_columns = SplitNames(options.key_columns);
    mapping.value_columns = SplitNames(options.value_columns);
    mapping.subject_column = options.subject_column;
    mapping.label_columns = SplitNames(options.label_columns);
    if (mapping.key_columns.empty()) {
      return absl::InvalidArgumentError("--key-columns is needed with CSV");
    }
  }
  if (!standard) {
    std::error_code error;
    if (std::filesystem::is_directory(options.path, error)) {
      return absl::NotFoundError(absl::StrCat(options.path, ": is a directory"));
    }
    input->file_.open(options.path, std::ios::binary);
    if (!input->file_) {
      return absl::NotFoundError(absl::StrCat(options.path, ": ", std::strerror(errno)));
    }
    const auto size = std::filesystem::file_size(options.path, error);
    if (!error) input->size_ = size;
  }
  std::istream& stream = standard ? context.io().in : input->file_;
  if (format == FileFormat::kNdjson) {
    input->source_ = OpenNdjson(stream);
    return input;
  }
  absl::StatusOr<std::unique_ptr<TokenSource>> source = OpenCsv(stream, mapping);
  if (!source.ok()) {
    return absl::DataLossError(absl::StrCat(input->name_, ": ", source.status().message()));
  }
  input->source_ = *std::move(source);
  return input;
}

int ReportOpenError(Context& context, const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? context.UsageError(status.message())
                                         : context.FileError(status.message());
}

}  // namespace lethe::cli
