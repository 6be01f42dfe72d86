#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/bench/report.h"

namespace lethe::bench {
namespace {

constexpr size_t kWidth = 80;
constexpr size_t kGap = 2;

std::string Printed(const Cell& cell, int digits) {
  if (const auto* word = std::get_if<std::string>(&cell)) return *word;
  if (const auto* count = std::get_if<int64_t>(&cell)) return absl::StrCat(*count);
  if (const auto* number = std::get_if<double>(&cell)) {
    return std::isfinite(*number) ? Short(*number, digits) : "-";
  }
  return "-";
}

std::string Padded(absl::string_view text, size_t width, bool left) {
  const std::string space(width > text.size() ? width - text.size() : 0, ' ');
  return left ? absl::StrCat(text, space) : absl::StrCat(space, text);
}

std::string TrimmedRight(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

// Words of a header over at most this many lines.
std::vector<std::string> HeaderLines(const Column& column, size_t width) {
  const std::string wrapped = Wrapped(column.name, width, 0);
  std::vector<std::string> lines = absl::StrSplit(wrapped, '\n');
  if (!column.unit.empty()) lines.push_back(absl::StrCat("[", column.unit, "]"));
  return lines;
}

class TableText {
 public:
  explicit TableText(const Table& table) : table_(table) {
    for (size_t c = 0; c < table.columns.size(); ++c) {
      const Column& column = table.columns[c];
      cells_.emplace_back();
      size_t width = 0;
      bool words = c == 0;
      for (const auto& row : table.rows) {
        cells_[c].push_back(Printed(row[c], column.digits));
        width = std::max(width, cells_[c].back().size());
        words |= std::holds_alternative<std::string>(row[c]);
      }
      headers_.push_back(HeaderLines(column, std::max<size_t>(width, 10)));
      for (const std::string& line : headers_[c]) width = std::max(width, line.size());
      widths_.push_back(width);
      left_.push_back(words);
    }
  }

  std::string Text() const {
    std::string text;
    size_t next = 1;
    do {
      std::vector<size_t> block = {0};
      size_t width = widths_[0];
      while (next < widths_.size() &&
             (block.size() == 1 || width + kGap + widths_[next] <= kWidth)) {
        width += kGap + widths_[next];
        block.push_back(next++);
      }
      absl::StrAppend(&text, text.empty() ? "" : "\n", Block(block));
    } while (next < widths_.size());
    return text;
  }

 private:
  std::string Block(const std::vector<size_t>& block) const {
    size_t height = 0;
    for (const size_t c : block) height = std::max(height, headers_[c].size());
    std::string text;
    const auto line = [&](const auto& cell) {
      std::vector<std::string> parts;
      for (const size_t c : block) parts.push_back(Padded(cell(c), widths_[c], left_[c]));
      absl::StrAppend(&text, TrimmedRight(absl::StrJoin(parts, std::string(kGap, ' '))), "\n");
    };
    for (size_t h = 0; h < height; ++h) {
      line([&](size_t c) {
        const size_t skip = height - headers_[c].size();  // headers stand on the rule
        return h < skip ? std::string() : headers_[c][h - skip];
      });
    }
    line([&](size_t c) { return std::string(widths_[c], '-'); });
    for (size_t r = 0; r < table_.rows.size(); ++r) {
      line([&](size_t c) { return cells_[c][r]; });
    }
    return text;
  }

  const Table& table_;
  std::vector<std::vector<std::string>> cells_;  // by column
  std::vector<std::vector<std::string>> headers_;
  std::vector<size_t> widths_;
  std::vector<bool> left_;
};

// "1 .. 100 205" for 1 to 100 and 205.
std::string Runs(const std::vector<uint64_t>& numbers) {
  if (numbers.empty()) return "none";
  std::vector<std::string> runs;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    runs.push_back(last - i < 2 ? absl::StrCat(numbers[i])
                                : absl::StrCat(numbers[i], " .. ", numbers[last]));
    i = last - i < 2 ? i + 1 : last + 1;
  }
  return absl::StrJoin(runs, " ");
}

}  // namespace

std::string Short(double value, int digits) {
  if (value == 0.0) return "0";
  const double size = std::abs(value);
  const int exponent = static_cast<int>(std::floor(std::log10(size)));
  if (exponent < -3 || exponent >= 7)
    return absl::StrFormat("%.*e", std::max(digits - 1, 0), value);
  return absl::StrFormat("%.*f", std::max(digits - 1 - exponent, 0), value);
}

std::string Wrapped(absl::string_view text, size_t width, size_t indent) {
  std::string out;
  size_t used = 0;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (used != 0 && used + 1 + word.size() > width) {
      absl::StrAppend(&out, "\n", std::string(indent, ' '), word);
      used = indent + word.size();
    } else {
      absl::StrAppend(&out, used == 0 ? "" : " ", word);
      used += (used == 0 ? 0 : 1) + word.size();
    }
  }
  return out;
}

std::string AsLine(const Claim& claim) {
  return absl::StrCat(claim.ok ? "ok " : "short ", claim.text, ": ", claim.figure, " (bar ",
                      claim.bar, ")");
}

std::string AsText(const Report& report) {
  std::string text =
      absl::StrCat(Wrapped(absl::StrCat(report.name, ": ", report.summary), kWidth, 2), "\n");
  for (const Table& table : report.result.tables) {
    absl::StrAppend(&text, "\n", Wrapped(table.title, kWidth, 0), "\n\n", TableText(table).Text());
  }
  if (!report.result.claims.empty()) absl::StrAppend(&text, "\n");
  for (const Claim& claim : report.result.claims) {
    absl::StrAppend(&text, Wrapped(AsLine(claim), kWidth, 6), "\n");
  }
  for (const std::string& note : report.result.notes) {
    absl::StrAppend(&text, "\n", Wrapped(note, kWidth, 0), "\n");
  }
  const Machine& machine = report.machine;
  absl::StrAppend(
      &text, "\n",
      Wrapped(absl::StrFormat("%s, %d CPUs, %s GiB, %s; %s %s; threads %d; seeds %s; %s s%s",
                              machine.cpu, machine.cpus, Short(machine.memory_gib, 3),
                              machine.system, machine.compiler, machine.flags,
                              report.result.threads, Runs(report.result.seeds),
                              Short(report.seconds, 3), report.quick ? "; quick form" : ""),
              kWidth, 2),
      "\n");
  return text;
}

}  // namespace lethe::bench
