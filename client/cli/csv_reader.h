// Comma-separated values by RFC 4180, a record at a time in bounded memory.
//
// Fields in double quotes may hold delimiters, line breaks and doubled quotes. Lines end in LF or
// CRLF; the last may lack it; blank lines are skipped; a byte order mark is skipped. After an error
// the reader goes on at the next line break. Cost: linear. Threads: compatible.
#ifndef LETHE_CLIENT_CLI_CSV_READER_H_
#define LETHE_CLIENT_CLI_CSV_READER_H_

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "client/cli/byte_reader.h"

namespace lethe::cli {

struct CsvRecord {
  uint64_t line = 0;  // where it starts
  std::vector<std::string> fields;
};

class CsvReader {
 public:
  static constexpr size_t kMaxFieldBytes = size_t{1} << 20;
  static constexpr size_t kMaxFields = 16384;

  enum class Result { kRecord, kError, kEnd };

  explicit CsvReader(std::istream& stream, char delimiter = ',')
      : bytes_(stream), delimiter_(delimiter) {}

  Result Next(CsvRecord& record);

  // After kError: "line 3, column 14: text after a closing quote". Column in bytes.
  const std::string& error() const { return error_; }
  uint64_t error_line() const { return error_line_; }
  const ByteReader& bytes() const { return bytes_; }

 private:
  enum class FieldEnd { kDelimiter, kRecord, kError };

  FieldEnd ReadQuoted(std::string& field);
  FieldEnd ReadPlain(std::string& field);
  bool AtLineEnd();
  FieldEnd Fail(uint64_t line, uint64_t column, const char* message);

  ByteReader bytes_;
  const char delimiter_;
  std::string error_;
  uint64_t error_line_ = 0;
};

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_CSV_READER_H_
