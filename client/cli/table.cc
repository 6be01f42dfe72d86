#include "client/cli/table.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>

#include "core/base/check.h"

namespace lethe::cli {
namespace {

constexpr absl::string_view kGap = "  ";
constexpr size_t kNarrowest = 8;  // a flexible column is not shortened below

std::string Printable(absl::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return out;
}

void AppendCell(const std::string& cell, size_t width, bool right, std::string& line) {
  const size_t used = DisplayWidth(cell);
  const size_t padding = width > used ? width - used : 0;
  if (right) line.append(padding, ' ');
  line += cell;
  if (!right) line.append(padding, ' ');
}

void FinishLine(std::string& line, std::string& out) {
  line.erase(line.find_last_not_of(' ') + 1);
  out += line;
  out += '\n';
  line.clear();
}

}  // namespace

size_t DisplayWidth(absl::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u;
  }));
}

std::string Shorten(absl::string_view text, size_t width) {
  if (DisplayWidth(text) <= width) return std::string(text);
  const absl::string_view dots = absl::string_view("...").substr(0, width);
  const size_t keep = width - dots.size();
  size_t bytes = 0;
  for (size_t points = 0; bytes < text.size(); ++bytes) {
    const bool starts = (static_cast<unsigned char>(text[bytes]) & 0xC0u) != 0x80u;
    if (starts && points++ == keep) break;
  }
  std::string out(text.substr(0, bytes));
  out.append(dots.data(), dots.size());
  return out;
}

std::string FormatNumber(double value, int digits) {
  char buffer[40];
  if (digits >= 17) {
    const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
    return std::string(buffer, end);
  }
  std::snprintf(buffer, sizeof(buffer), "%.*g", digits, value);
  return buffer;
}

std::string FormatCount(uint64_t value) {
  std::string digits = std::to_string(value);
  for (size_t place = digits.size(); place > 3; place -= 3) digits.insert(place - 3, 1, ',');
  return digits;
}

void Table::AddRow(std::vector<std::string> cells) {
  LETHE_CHECK(cells.size() == columns_.size());
  for (std::string& cell : cells) cell = cell.empty() ? "-" : Printable(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::Render(size_t width) const {
  std::vector<size_t> widths;
  size_t total = 0;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t widest = DisplayWidth(columns_[c].title);
    for (const auto& row : rows_) widest = std::max(widest, DisplayWidth(row[c]));
    widths.push_back(widest);
    total += widest + (c > 0 ? kGap.size() : 0);
  }
  // Take from the widest flexible column until it fits or none can give more.
  while (total > width) {
    size_t best = columns_.size();
    for (size_t c = 0; c < columns_.size(); ++c) {
      const size_t least = std::max(kNarrowest, DisplayWidth(columns_[c].title));
      if (!columns_[c].flexible || widths[c] <= least) continue;
      if (best == columns_.size() || widths[c] > widths[best]) best = c;
    }
    if (best == columns_.size()) break;
    --widths[best];
    --total;
  }
  std::string out;
  std::string line;
  for (size_t c = 0; c < columns_.size(); ++c) {
    if (c > 0) line.append(kGap.data(), kGap.size());
    AppendCell(columns_[c].title, widths[c], columns_[c].right, line);
  }
  FinishLine(line, out);
  for (const auto& row : rows_) {
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0) line.append(kGap.data(), kGap.size());
      AppendCell(Shorten(row[c], widths[c]), widths[c], columns_[c].right, line);
    }
    FinishLine(line, out);
  }
  return out;
}

std::string RenderFields(const Fields& fields, size_t indent) {
  size_t widest[2] = {};  // of plain names, and of indented ones
  const auto widest_of = [&widest](const std::string& name) -> size_t& {
    return widest[name.rfind(' ', 0) == 0 ? 1 : 0];
  };
  for (const auto& [name, value] : fields) {
    widest_of(name) = std::max(widest_of(name), DisplayWidth(name));
  }
  std::string out;
  std::string line;
  for (const auto& [name, value] : fields) {
    line.assign(indent, ' ');
    AppendCell(name, widest_of(name), /*right=*/false, line);
    line.append(kGap.data(), kGap.size());
    line += value.empty() ? "-" : Printable(value);
    FinishLine(line, out);
  }
  return out;
}

}  // namespace lethe::cli
