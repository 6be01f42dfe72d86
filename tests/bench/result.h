// What a bench reports: tables, a plot and claims. Written as text, JSON and SVG by report.h.
#ifndef LETHE_TESTS_BENCH_RESULT_H_
#define LETHE_TESTS_BENCH_RESULT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace lethe::bench {

// Nothing, a word, a count or a measured number (infinite and NaN count as nothing).
using Cell = std::variant<std::monostate, std::string, int64_t, double>;
Cell MaybeCell(const std::optional<double>& value);

struct Column {
  std::string name;  // unique in its table: the key in the JSON
  std::string unit;  // empty where there is none
  int digits = 3;    // significant, in the printed table; the JSON has all of them
};

struct Table {
  std::string title;
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;  // columns.size() cells each; the first names the row
};

// Points of one line, or one bar for each category; nothing where there is no value.
struct Series {
  std::string name;
  std::vector<std::optional<double>> y;
  bool published = false;  // a figure of others, drawn paler
};

// Lines over `x`, or horizontal bars over `categories`; exactly one of the two is not empty and has
// as many entries as every series. A logarithmic axis draws zero at its foot and labels it "0".
struct Plot {
  std::string title;
  std::string x_label;  // of the lines' abscissa; unused for bars
  std::string y_label;  // of the values
  std::vector<double> x;
  std::vector<std::string> categories;
  std::vector<Series> series;
  bool log_x = false;
  bool log_y = false;
};

// One thing that the bench shows, or fails to.
struct Claim {
  std::string text;
  std::string figure;  // what was measured
  std::string bar;     // what had to be reached
  bool ok = false;
};

struct Result {
  std::vector<Table> tables;
  std::vector<Claim> claims;
  std::vector<std::string> notes;  // a paragraph each
  std::optional<Plot> plot;
  std::vector<uint64_t> seeds;  // every seed that went into a random generator
  int threads = 1;              // that the measured code ran on
};

}  // namespace lethe::bench

#endif  // LETHE_TESTS_BENCH_RESULT_H_
