// Aligned text for people: tables and sheets of fields, at most 80 columns wide where they can be.
#ifndef LETHE_CLIENT_CLI_TABLE_H_
#define LETHE_CLIENT_CLI_TABLE_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace lethe::cli {

inline constexpr size_t kWidth = 80;

struct Column {
  std::string title;
  bool right = false;     // align right: numbers
  bool flexible = false;  // may be shortened with "..." when the table is too wide
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // As many cells as columns. Control characters are shown as '?'.
  void AddRow(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  // Title line, then the rows; each line ends in a newline, no line ends in a blank.
  std::string Render(size_t width = kWidth) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// "name   value" lines, values aligned, those of indented names by themselves. Empty shows as "-".
using Fields = std::vector<std::pair<std::string, std::string>>;
std::string RenderFields(const Fields& fields, size_t indent = 0);

// Code points of UTF-8 text, which is what we take a character's width for.
size_t DisplayWidth(absl::string_view text);
// At most `width` code points, the last three of which are "..." when something was cut.
std::string Shorten(absl::string_view text, size_t width);
// The shortest text that reads back as the same double; "%.6g" when `digits` is 6, and so on.
std::string FormatNumber(double value, int digits = 17);
// 12,345,678
std::string FormatCount(uint64_t value);

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_TABLE_H_
