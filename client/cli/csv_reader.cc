#include "client/cli/csv_reader.h"

#include "absl/strings/str_cat.h"

namespace lethe::cli {

CsvReader::Result CsvReader::Next(CsvRecord& record) {
  record.fields.clear();
  while (bytes_.Peek() == '\n' || bytes_.Peek() == '\r') {
    const uint64_t line = bytes_.line();
    const uint64_t column = bytes_.column();
    if (bytes_.Get() == '\r' && bytes_.Peek() != '\n' && bytes_.Peek() != ByteReader::kEnd) {
      Fail(line, column, "a carriage return without a line feed");
      return Result::kError;
    }
  }
  if (bytes_.Peek() == ByteReader::kEnd) return Result::kEnd;
  record.line = bytes_.line();
  for (;;) {
    std::string field;
    const FieldEnd end = bytes_.Peek() == '"' ? ReadQuoted(field) : ReadPlain(field);
    if (end == FieldEnd::kError) return Result::kError;
    if (record.fields.size() == kMaxFields) {
      Fail(record.line, bytes_.column(), "too many fields");
      return Result::kError;
    }
    record.fields.push_back(std::move(field));
    if (end == FieldEnd::kRecord) return Result::kRecord;
  }
}

CsvReader::FieldEnd CsvReader::ReadQuoted(std::string& field) {
  const uint64_t line = bytes_.line();
  const uint64_t column = bytes_.column();
  bytes_.Get();
  for (;;) {
    const int byte = bytes_.Get();
    if (byte == ByteReader::kEnd) return Fail(line, column, "a quote that is never closed");
    if (byte == '"') {
      if (bytes_.Peek() != '"') break;
      bytes_.Get();
    }
    if (field.size() == kMaxFieldBytes) return Fail(line, column, "a field that is too long");
    field += static_cast<char>(byte);
  }
  if (bytes_.Peek() == static_cast<unsigned char>(delimiter_)) {
    bytes_.Get();
    return FieldEnd::kDelimiter;
  }
  const uint64_t after_line = bytes_.line();
  const uint64_t after_column = bytes_.column();
  if (AtLineEnd()) return FieldEnd::kRecord;
  return Fail(after_line, after_column, "text after a closing quote");
}

CsvReader::FieldEnd CsvReader::ReadPlain(std::string& field) {
  const uint64_t column = bytes_.column();
  for (;;) {
    const int byte = bytes_.Peek();
    if (byte == static_cast<unsigned char>(delimiter_)) {
      bytes_.Get();
      return FieldEnd::kDelimiter;
    }
    const uint64_t here = bytes_.column();
    if (byte == '\n' || byte == '\r' || byte == ByteReader::kEnd) {
      if (AtLineEnd()) return FieldEnd::kRecord;
      return Fail(bytes_.line(), here, "a carriage return without a line feed");
    }
    if (byte == '"') return Fail(bytes_.line(), here, "a quote inside an unquoted field");
    if (field.size() == kMaxFieldBytes) {
      return Fail(bytes_.line(), column, "a field that is too long");
    }
    field += static_cast<char>(bytes_.Get());
  }
}

// Consumes LF, CRLF, a CR before the end of the input, or nothing at the end of the input.
bool CsvReader::AtLineEnd() {
  if (bytes_.Peek() == '\r') {
    bytes_.Get();
    if (bytes_.Peek() == ByteReader::kEnd) return true;
    if (bytes_.Peek() != '\n') return false;
  }
  if (bytes_.Peek() == ByteReader::kEnd) return true;
  if (bytes_.Peek() != '\n') return false;
  bytes_.Get();
  return true;
}

CsvReader::FieldEnd CsvReader::Fail(uint64_t line, uint64_t column, const char* message) {
  error_ = absl::StrCat("line ", line, ", column ", column, ": ", message);
  error_line_ = line;
  for (int byte = bytes_.Get(); byte != '\n' && byte != ByteReader::kEnd;) byte = bytes_.Get();
  return FieldEnd::kError;
}

}  // namespace lethe::cli
