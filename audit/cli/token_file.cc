#include "audit/cli/token_file.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"

namespace lethe::audit::cli {
namespace {

using ::lethe::cli::TokenSource;

std::vector<std::string> Names(const std::string& text) {
  return absl::StrSplit(text, ',', absl::SkipEmpty());
}

}  // namespace

CLI::Option* AddTokenFileOptions(CLI::App& command,
                                 TokenFileOptions& options,
                                 const std::string& what) {
  CLI::Option* const tokens = command.add_option("--tokens", options.path, what)->type_name("FILE");
  command.add_option("--format", options.format, "csv or ndjson (default: by the name)")
      ->check(CLI::IsMember({"csv", "ndjson"}).description(""))
      ->type_name("csv|ndjson");
  command.add_option("--key-columns", options.key_columns, "CSV: columns of the key")
      ->type_name("NAMES");
  command.add_option("--value-columns", options.value_columns, "CSV: columns of the value")
      ->type_name("NAMES");
  command.add_option("--id-columns", options.id_columns, "CSV: columns of the id")
      ->type_name("NAMES");
  command.add_option("--subject-column", options.subject_column, "CSV: column of the subject")
      ->type_name("NAME");
  command.add_option("--label-columns", options.label_columns, "CSV: columns of the labels")
      ->type_name("NAMES");
  return tokens;
}

absl::Status ReadTokens(const TokenFileOptions& options,
                        absl::FunctionRef<absl::Status(TokenSource::Item item)> take) {
  std::ifstream file(options.path, std::ios::binary);
  std::error_code error;
  if (!file || std::filesystem::is_directory(options.path, error)) {
    return absl::UnavailableError(absl::StrCat("cannot read ", options.path));
  }
  const bool csv = options.format.empty() ? absl::EndsWith(options.path, ".csv") ||
                                                absl::EndsWith(options.path, ".tsv")
                                          : options.format == "csv";
  std::unique_ptr<TokenSource> source;
  if (csv) {
    ::lethe::cli::CsvMapping mapping;
    mapping.delimiter = absl::EndsWith(options.path, ".tsv") ? '\t' : ',';
    mapping.id_columns = Names(options.id_columns);
    mapping.key_columns = Names(options.key_columns);
    mapping.value_columns = Names(options.value_columns);
    mapping.subject_column = options.subject_column;
    mapping.label_columns = Names(options.label_columns);
    LETHE_ASSIGN_OR_RETURN(source, ::lethe::cli::OpenCsv(file, mapping));
  } else {
    source = ::lethe::cli::OpenNdjson(file);
  }
  while (true) {
    TokenSource::Item item = source->Next();
    if (item.kind == TokenSource::Kind::kEnd) return absl::OkStatus();
    if (item.kind != TokenSource::Kind::kToken) return absl::InvalidArgumentError(item.message);
    LETHE_RETURN_IF_ERROR(take(std::move(item)));
  }
}

}  // namespace lethe::audit::cli
