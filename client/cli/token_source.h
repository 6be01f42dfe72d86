// Tokens from a file or a pipe, one at a time, in bounded memory: CSV with a header row, or NDJSON.
//
// Messages name the line and the column and never repeat the data.
#ifndef LETHE_CLIENT_CLI_TOKEN_SOURCE_H_
#define LETHE_CLIENT_CLI_TOKEN_SOURCE_H_

#include <cstdint>
#include <istream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/types.h"

namespace lethe::cli {

enum class FileFormat { kCsv, kNdjson };

// By the extension: .csv, .tsv, .ndjson, .jsonl, .json. INVALID_ARGUMENT for others.
absl::StatusOr<FileFormat> FormatOf(absl::string_view path);

struct CsvMapping {
  char delimiter = ',';
  std::vector<std::string> id_columns;  // joined by ':'; none: tokens without ids
  std::vector<std::string> key_columns;
  std::vector<std::string> value_columns;
  std::string subject_column;  // empty: no subjects
  std::vector<std::string> label_columns;
};

class TokenSource {
 public:
  enum class Kind {
    kToken,
    kBadLine,  // this item is lost, the next may be good
    kMissing,  // a number is missing; nothing else is wrong with the line
    kEnd,
    kFailed,  // reading failed; nothing more will come
  };
  struct Item {
    Kind kind = Kind::kEnd;
    uint64_t line = 0;
    client::Token token;  // kToken
    std::string message;  // kBadLine, kMissing, kFailed: starts with the place
  };

  virtual ~TokenSource() = default;
  virtual Item Next() = 0;
  // Bytes of input used so far.
  virtual uint64_t consumed() const = 0;
};

// Reads the header at once. INVALID_ARGUMENT when it cannot be read or lacks a column of the
// mapping. `stream` must outlive the source. An empty field, and NA, is a missing number.
absl::StatusOr<std::unique_ptr<TokenSource>> OpenCsv(std::istream& stream,
                                                     const CsvMapping& mapping);

// A JSON object a line: {"id","key":[...],"value":[...],"subject","labels":{...},"payload"}; only
// key must be there, an id that is there must not be empty, other members are refused. null in key
// or value is a missing number.
std::unique_ptr<TokenSource> OpenNdjson(std::istream& stream);

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_TOKEN_SOURCE_H_
