#include "audit/report_html_charts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "audit/utf8.h"
#include "core/base/check.h"

namespace lethe::audit {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";
// What erases, in the order of stacking; the other kinds have a row of marks.
constexpr std::array<CertificateKind, 3> kErasing = {
    CertificateKind::kForget, CertificateKind::kEvict, CertificateKind::kEdit};
constexpr std::array<CertificateKind, 5> kMarked = {
    CertificateKind::kShredded, CertificateKind::kRetrainCheck, CertificateKind::kKeyHandover,
    CertificateKind::kRestored, CertificateKind::kTenantClosed};

// U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069.
bool ChangesDirection(absl::string_view character) {
  if (character == "\xD8\x9C") return true;
  if (character.size() != 3 || character[0] != '\xE2') return false;
  const uint8_t second = static_cast<uint8_t>(character[1]);
  const uint8_t third = static_cast<uint8_t>(character[2]);
  return (second == 0x80 && (third == 0x8E || third == 0x8F || (third >= 0xAA && third <= 0xAE))) ||
         (second == 0x81 && third >= 0xA6 && third <= 0xA9);
}

bool IsControl(absl::string_view character) {
  const uint8_t first = static_cast<uint8_t>(character[0]);
  return first < 0x20 || first == 0x7F ||
         (first == 0xC2 && static_cast<uint8_t>(character[1]) < 0xA0);
}

std::string Percent(double fraction) { return absl::StrFormat("%.3f%%", 100.0 * fraction); }

std::string Tokens(uint64_t count) {
  return absl::StrCat(Grouped(count), count == 1 ? " token" : " tokens");
}

std::string Certificates(uint64_t count) {
  return absl::StrCat(Grouped(count), count == 1 ? " certificate" : " certificates");
}

// The smallest of 1, 2, 5 times a power of ten that is at least `value`.
uint64_t RoundUp(uint64_t value) {
  constexpr uint64_t kLimit = uint64_t{1} << 62;
  for (uint64_t power = 1; power < kLimit / 10; power *= 10) {
    for (const uint64_t factor : {uint64_t{1}, uint64_t{2}, uint64_t{5}}) {
      if (factor * power >= value) return factor * power;
    }
  }
  return value;
}

// "5k", "2M": at the axis, where the width is short.
std::string ShortCount(uint64_t value) {
  constexpr std::array<std::pair<uint64_t, absl::string_view>, 4> kUnits = {
      {{1000000000000, "T"}, {1000000000, "G"}, {1000000, "M"}, {1000, "k"}}};
  for (const auto& [unit, letter] : kUnits) {
    if (value >= 10 * unit || (value >= unit && value % unit == 0)) {
      const double scaled = static_cast<double>(value) / static_cast<double>(unit);
      return absl::StrCat(absl::StrFormat("%.4g", scaled), letter);
    }
  }
  return absl::StrCat(value);
}

void Line(std::string& out,
          absl::string_view css_class,
          absl::string_view x1,
          double y1,
          absl::string_view x2,
          double y2) {
  absl::StrAppendFormat(&out, "<line class=\"%s\" x1=\"%s\" y1=\"%.1f\" x2=\"%s\" y2=\"%.1f\"/>",
                        css_class, x1, y1, x2, y2);
}

void OpenSvg(std::string& out,
             absl::string_view id,
             absl::string_view css_class,
             double height,
             absl::string_view title,
             absl::string_view description) {
  absl::StrAppend(&out, "<div class=\"", css_class, "\"><svg role=\"img\" aria-labelledby=\"", id,
                  "-t ", id, "-d\" height=\"", absl::StrFormat("%.0f", height), "\"><title id=\"",
                  id, "-t\">", Escape(title), "</title><desc id=\"", id, "-d\">",
                  Escape(description), "</desc>");
}

// Labels below bars or columns: the first begins at its place and the last ends there, so that none
// leaves the page; every other one yields where the page is narrow.
struct AxisLabel {
  double fraction;
  std::string text;
};

void AppendXLabels(std::string& out, const std::vector<AxisLabel>& labels, double y) {
  for (size_t i = 0; i < labels.size(); ++i) {
    const double at = labels[i].fraction;
    const absl::string_view anchor = at < 0.06 ? "start" : at > 0.94 ? "end" : "middle";
    Line(out, "tick", Percent(at), y, Percent(at), y + 4.0);
    absl::StrAppendFormat(
        &out, "<text class=\"x%s\" x=\"%s\" y=\"%.1f\" text-anchor=\"%s\">%s</text>",
        i % 2 == 1 ? " w" : "", Percent(at), y + 17.0, anchor, Escape(labels[i].text));
  }
}

std::string BarTitle(const Timeline::Bars& bars, size_t i) {
  const KindCounts& counts = bars.bars[i].second;
  std::vector<std::string> parts;
  for (const CertificateKind kind : kErasing) {
    const size_t index = KindIndex(kind);
    if (counts.certificates[index] == 0) continue;
    parts.push_back(absl::StrCat(Name(kind), " ", Tokens(counts.erased[index]), " in ",
                                 Certificates(counts.certificates[index])));
  }
  return absl::StrCat(TimeLabel(bars.bars[i].first, bars.step), ": ", absl::StrJoin(parts, ", "));
}

void AppendTimelineBars(std::string& out, const Timeline::Bars& bars, uint64_t top, double height) {
  const double count = static_cast<double>(bars.bars.size());
  for (size_t i = 0; i < bars.bars.size(); ++i) {
    const KindCounts& counts = bars.bars[i].second;
    uint64_t certificates = 0;
    for (const CertificateKind kind : kErasing) {
      certificates += counts.certificates[KindIndex(kind)];
    }
    if (certificates == 0) continue;
    absl::StrAppend(&out, "<g><title>", Escape(BarTitle(bars, i)), "</title>");
    const std::string x = Percent((static_cast<double>(i) + 0.1) / count);
    const std::string width = Percent(0.8 / count);
    double y = height;
    for (const CertificateKind kind : kErasing) {
      const uint64_t erased = counts.erased[KindIndex(kind)];
      if (erased == 0) continue;
      // However small, it is seen.
      const double tall =
          std::max(1.5, height * static_cast<double>(erased) / static_cast<double>(top));
      y -= tall;
      absl::StrAppendFormat(
          &out, "<rect class=\"k-%s\" x=\"%s\" y=\"%.1f\" width=\"%s\" height=\"%.1f\"/>",
          Name(kind), x, y, width, tall);
    }
    // Certificates that erased nothing are a stroke at the foot.
    if (y == height) {
      absl::StrAppendFormat(
          &out, "<rect class=\"k-none\" x=\"%s\" y=\"%.1f\" width=\"%s\" height=\"1.5\"/>", x,
          height - 1.5, width);
    }
    absl::StrAppend(&out, "</g>");
  }
}

void AppendTimelineMarks(std::string& out,
                         const Timeline::Bars& bars,
                         CertificateKind kind,
                         double y) {
  absl::StrAppendFormat(&out, "<text class=\"y\" x=\"-10\" y=\"%.1f\">%s</text>", y + 4.0,
                        Name(kind));
  Line(out, "grid", "0", y, "100%", y);
  for (size_t i = 0; i < bars.bars.size(); ++i) {
    const uint64_t certificates = bars.bars[i].second.certificates[KindIndex(kind)];
    if (certificates == 0) continue;
    absl::StrAppendFormat(
        &out,
        "<circle class=\"k-%s\" cx=\"%s\" cy=\"%.1f\" r=\"%.1f\"><title>%s: %s</title></circle>",
        Name(kind), Percent((static_cast<double>(i) + 0.5) / static_cast<double>(bars.bars.size())),
        y, bars.bars.size() > 40 ? 2.5 : 3.5, Escape(TimeLabel(bars.bars[i].first, bars.step)),
        Certificates(certificates));
  }
}

// Decades of an axis: 10^low to 10^high, a label each `step`.
struct Decades {
  int low = 0;
  int high = 1;
  int step = 1;
};

Decades DecadesOf(std::span<const PlotSeries> series) {
  double least = std::numeric_limits<double>::infinity();
  double most = 0.0;
  for (const PlotSeries& one : series) {
    for (const SequencePlot::Column& column : one.plot->columns()) {
      if (column.finite == 0) continue;
      least = std::min(least, column.low);
      most = std::max(most, column.high);
    }
  }
  if (most == 0.0) return {};
  Decades decades;
  decades.low = static_cast<int>(std::floor(std::log10(least)));
  decades.high = static_cast<int>(std::ceil(std::log10(most)));
  // A plot of less than two decades would make a hair look like a mountain.
  while (decades.high - decades.low < 2) {
    --decades.low;
    if (decades.high - decades.low < 2) ++decades.high;
  }
  decades.step = (decades.high - decades.low + 5) / 6;
  return decades;
}

// Where things are in a plot, from the top: infinity, the decades, zero.
struct PlotShape {
  Decades decades;
  bool has_infinite = false;
  bool has_finite = false;
  bool has_not_positive = false;

  static constexpr double kStrip = 28.0;
  static constexpr double kDecades = 156.0;

  double infinite_y() const { return 8.0; }
  double top() const { return has_infinite ? kStrip : 8.0; }
  double foot() const { return top() + (has_finite ? kDecades : 0.0); }
  double zero_y() const { return foot() + kStrip - 8.0; }
  double bottom() const { return (has_not_positive ? zero_y() : foot()) + 10.0; }
  double At(double value) const {
    const double part = (std::log10(value) - decades.low) / (decades.high - decades.low);
    return foot() - kDecades * part;
  }
};

std::string ColumnTitle(const PlotSeries& one, size_t column) {
  const auto [first, last] = one.plot->RangeOf(column);
  const SequencePlot::Column& values = one.plot->columns()[column];
  std::vector<std::string> parts;
  if (values.finite > 0) {
    parts.push_back(values.low == values.high
                        ? NumberText(values.low)
                        : absl::StrCat(NumberText(values.low), " to ", NumberText(values.high)));
  }
  if (values.not_positive > 0) {
    parts.push_back(first == last ? std::string("not above 0")
                                  : absl::StrCat(Grouped(values.not_positive), " not above 0"));
  }
  if (values.infinite > 0) {
    parts.push_back(first == last ? std::string("not bounded")
                                  : absl::StrCat(Grouped(values.infinite), " not bounded"));
  }
  return absl::StrCat("#", first, first == last ? "" : absl::StrCat(" to #", last), ", ", one.name,
                      ": ", absl::StrJoin(parts, ", "));
}

void AppendSeries(std::string& out, const PlotSeries& one, const PlotShape& shape, double shift) {
  const size_t count = one.plot->columns().size();
  const double radius = count <= 24 ? 4.0 : count <= 80 ? 3.0 : 2.2;
  absl::StrAppend(&out, "<g class=\"", one.css_class, "\">");
  for (size_t i = 0; i < count; ++i) {
    const SequencePlot::Column& column = one.plot->columns()[i];
    if (column.finite + column.not_positive + column.infinite == 0) continue;
    const std::string x = Percent((static_cast<double>(i) + shift) / static_cast<double>(count));
    const auto dot = [&](double y) {
      absl::StrAppendFormat(&out, "<circle cx=\"%s\" cy=\"%.1f\" r=\"%.1f\"/>", x, y, radius);
    };
    absl::StrAppend(&out, "<g><title>", Escape(ColumnTitle(one, i)), "</title>");
    if (column.infinite > 0) dot(shape.infinite_y());
    if (column.not_positive > 0) dot(shape.zero_y());
    if (column.finite > 0) {
      const double high = shape.At(column.high);
      const double low = shape.At(column.low);
      if (low - high < radius) {
        dot(0.5 * (low + high));
      } else {
        Line(out, "span", x, high, x, low);
      }
    }
    absl::StrAppend(&out, "</g>");
  }
  absl::StrAppend(&out, "</g>");
}

void AppendDecades(std::string& out, const PlotShape& shape) {
  for (int decade = shape.decades.low; decade <= shape.decades.high; ++decade) {
    if ((decade - shape.decades.low) % shape.decades.step != 0) continue;
    const double part =
        static_cast<double>(decade - shape.decades.low) / (shape.decades.high - shape.decades.low);
    const double y = shape.foot() - PlotShape::kDecades * part;
    Line(out, "grid", "0", y, "100%", y);
    absl::StrAppendFormat(
        &out,
        "<text class=\"y\" x=\"-10\" y=\"%.1f\">10<tspan class=\"p\" dy=\"-5\">%s%d</tspan></text>",
        y + 4.0, decade < 0 ? "\xE2\x88\x92" : "", std::abs(decade));
  }
}

std::vector<AxisLabel> SequenceLabels(const SequencePlot& plot) {
  const size_t count = plot.columns().size();
  const size_t labels = std::min<size_t>(count, 5);
  std::vector<AxisLabel> out;
  for (size_t i = 0; i < labels; ++i) {
    const size_t column = labels == 1 ? 0 : i * (count - 1) / (labels - 1);
    const auto [first, last] = plot.RangeOf(column);
    out.push_back({(static_cast<double>(column) + 0.5) / static_cast<double>(count),
                   absl::StrCat("#", Grouped(i + 1 == labels ? last : first))});
  }
  return out;
}

}  // namespace

std::string Escape(absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t length = Utf8SequenceLength(text);
    const absl::string_view character = text.substr(0, std::max<size_t>(length, 1));
    text.remove_prefix(character.size());
    if (length == 0 || IsControl(character) || ChangesDirection(character)) {
      absl::StrAppend(&out, kReplacement);
    } else if (character == "&") {
      absl::StrAppend(&out, "&amp;");
    } else if (character == "<") {
      absl::StrAppend(&out, "&lt;");
    } else if (character == ">") {
      absl::StrAppend(&out, "&gt;");
    } else if (character == "\"") {
      absl::StrAppend(&out, "&quot;");
    } else if (character == "'") {
      absl::StrAppend(&out, "&#39;");
    } else {
      absl::StrAppend(&out, character);
    }
  }
  return out;
}

std::string Grouped(uint64_t value) {
  std::string digits = absl::StrCat(value);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

std::string NumberText(double value, int digits) {
  if (std::isinf(value)) return value > 0.0 ? "not bounded" : "-infinity";
  return absl::StrFormat("%.*g", digits, value);
}

std::string NumberHtml(double value, int digits) {
  if (std::isinf(value)) return value > 0.0 ? "not bounded" : "\xE2\x88\x92\xE2\x88\x9E";
  std::string text = NumberText(value, digits);
  const bool negative = text[0] == '-';
  if (negative) text.erase(0, 1);
  const std::string sign = negative ? "\xE2\x88\x92" : "";
  const size_t e = text.find('e');
  if (e == std::string::npos) return sign + text;
  const bool small = text[e + 1] == '-';
  std::string power = text.substr(e + 2);
  power.erase(0, std::min(power.find_first_not_of('0'), power.size() - 1));
  return absl::StrCat(sign, text.substr(0, e),
                      "\xE2\x80\xAF\xC3\x97\xE2\x80\xAF"
                      "10<sup>",
                      small ? "\xE2\x88\x92" : "", power, "</sup>");
}

std::string TimelineChart(const Timeline::Bars& bars) {
  LETHE_CHECK(!bars.bars.empty());
  constexpr double kRow = 20.0;
  constexpr double kTop = 8.0;
  KindCounts all;
  uint64_t most = 0;
  for (const auto& [start, counts] : bars.bars) {
    all.Add(counts);
    most = std::max(most, counts.all_erased());
  }
  const uint64_t top = RoundUp(std::max<uint64_t>(most, 1));
  // Where nothing was erased, the marks alone.
  uint64_t erasing = 0;
  for (const CertificateKind kind : kErasing) erasing += all.certificates[KindIndex(kind)];
  const double height = erasing > 0 ? 150.0 : 0.0;
  std::vector<CertificateKind> marked;
  for (const CertificateKind kind : kMarked) {
    if (all.certificates[KindIndex(kind)] > 0) marked.push_back(kind);
  }
  const double foot =
      height + kRow * static_cast<double>(marked.size()) + (marked.empty() ? 0.0 : 6.0);
  std::string out;
  OpenSvg(
      out, "timeline", marked.empty() ? "chart" : "chart wide", kTop + foot + 24.0,
      "Tokens erased over time",
      absl::StrCat(Tokens(all.all_erased()), " erased in ", Certificates(all.all_certificates()),
                   "; a bar is ", Name(bars.step), "; the fullest has ", Tokens(most), "."));
  absl::StrAppendFormat(&out, "<g transform=\"translate(0 %.0f)\">", kTop);
  const uint64_t lines = top % 5 == 0 ? 5 : std::min<uint64_t>(top, 4);
  for (uint64_t i = 0; erasing > 0 && i <= lines; ++i) {
    if (top * i % lines != 0) continue;
    const double y = height - height * static_cast<double>(i) / static_cast<double>(lines);
    Line(out, i == 0 ? "axis" : "grid", "0", y, "100%", y);
    absl::StrAppendFormat(&out, "<text class=\"y\" x=\"-10\" y=\"%.1f\">%s</text>", y + 4.0,
                          ShortCount(top / lines * i));
  }
  AppendTimelineBars(out, bars, top, height);
  for (size_t i = 0; i < marked.size(); ++i) {
    AppendTimelineMarks(out, bars, marked[i], height + kRow * (static_cast<double>(i) + 0.8));
  }
  std::vector<AxisLabel> labels;
  const size_t count = bars.bars.size();
  const size_t every = (count + 3) / 4;
  for (size_t i = every / 2; i < count; i += every) {
    labels.push_back({(static_cast<double>(i) + 0.5) / static_cast<double>(count),
                      TimeLabel(bars.bars[i].first, bars.step)});
  }
  AppendXLabels(out, labels, foot);
  absl::StrAppend(&out, "</g></svg></div>");
  return out;
}

std::string LogPlot(absl::string_view id,
                    absl::string_view title,
                    std::span<const PlotSeries> series,
                    absl::string_view not_positive_label) {
  PlotShape shape;
  shape.decades = DecadesOf(series);
  std::vector<std::string> facts;
  for (const PlotSeries& one : series) {
    for (const SequencePlot::Column& column : one.plot->columns()) {
      shape.has_infinite |= column.infinite > 0;
      shape.has_finite |= column.finite > 0;
      shape.has_not_positive |= column.not_positive > 0;
    }
    if (one.plot->empty()) continue;
    facts.push_back(absl::StrCat(one.name, " from ", NumberText(one.plot->smallest()->value),
                                 " to ", NumberText(one.plot->largest()->value)));
  }
  if (facts.empty()) return "";
  std::string out;
  OpenSvg(out, id, "chart", shape.bottom() + 24.0, title,
          absl::StrCat(absl::StrJoin(facts, "; "), ". Logarithmic, by sequence."));
  if (shape.has_finite) AppendDecades(out, shape);
  const auto strip = [&](double y, absl::string_view label) {
    Line(out, "grid dash", "0", y, "100%", y);
    absl::StrAppendFormat(&out, "<text class=\"y\" x=\"-10\" y=\"%.1f\">%s</text>", y + 4.0, label);
  };
  if (shape.has_infinite) strip(shape.infinite_y(), "\xE2\x88\x9E");
  if (shape.has_not_positive) strip(shape.zero_y(), not_positive_label);
  Line(out, "axis", "0", shape.bottom(), "100%", shape.bottom());
  // Two series of one certificate stand beside each other.
  for (size_t i = 0; i < series.size(); ++i) {
    const double shift = series.size() == 1 ? 0.5 : i == 0 ? 0.35 : 0.65;
    AppendSeries(out, series[i], shape, shift);
  }
  AppendXLabels(out, SequenceLabels(*series[0].plot), shape.bottom());
  absl::StrAppend(&out, "</svg></div>");
  return out;
}

std::string BeforeAfterBars(uint64_t before, uint64_t after, uint64_t most) {
  const auto bar = [&](absl::string_view css_class, double y, uint64_t value) {
    const double part = most == 0 ? 0.0 : static_cast<double>(value) / static_cast<double>(most);
    return absl::StrFormat("<rect class=\"%s\" y=\"%.0f\" width=\"%s\" height=\"5\"/>", css_class,
                           y, Percent(part));
  };
  // The numbers stand beside it as text.
  return absl::StrCat("<svg class=\"ba\" aria-hidden=\"true\" height=\"12\">",
                      bar("b", 0.0, before), bar("a", 6.0, after), "</svg>");
}

}  // namespace lethe::audit
