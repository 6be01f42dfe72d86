#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/check.h"
#include "tests/bench/report.h"

namespace lethe::bench {
namespace {

constexpr double kWidth = 760;
constexpr double kCharacter = 6.6;  // of the 12 px sans-serif text, a generous mean
constexpr double kLegendRow = 20;
constexpr size_t kColours = 7;

// Colours that keep their contrast on white and on near black; classes c0 to c6.
constexpr absl::string_view kStyle = R"(<style>
  text { font: 12px system-ui, "DejaVu Sans", Helvetica, sans-serif; fill: #333; }
  .title { font-size: 14px; font-weight: 600; }
  .note { fill: #666; }
  .page { fill: #fff; }
  .grid { stroke: #ddd; stroke-width: 1; }
  .axis { stroke: #777; stroke-width: 1; }
  .pale { fill-opacity: .4; }
  .line { fill: none !important; stroke-width: 2; }
  .dash { stroke-dasharray: 5 4; }
  .c0 { fill: #2a6fbb; stroke: #2a6fbb; } .c1 { fill: #d1661c; stroke: #d1661c; }
  .c2 { fill: #3a8f4d; stroke: #3a8f4d; } .c3 { fill: #a24fb0; stroke: #a24fb0; }
  .c4 { fill: #b58a00; stroke: #b58a00; } .c5 { fill: #1f9a9a; stroke: #1f9a9a; }
  .c6 { fill: #c03a5b; stroke: #c03a5b; }
  rect { stroke: none !important; }
  @media (prefers-color-scheme: dark) {
    text { fill: #ddd; } .note { fill: #aaa; } .page { fill: #16181c; }
    .grid { stroke: #33363c; } .axis { stroke: #888; }
    .c0 { fill: #6aa8ee; stroke: #6aa8ee; } .c1 { fill: #f09a5a; stroke: #f09a5a; }
    .c2 { fill: #74c487; stroke: #74c487; } .c3 { fill: #cf8fdb; stroke: #cf8fdb; }
    .c4 { fill: #dcb640; stroke: #dcb640; } .c5 { fill: #58caca; stroke: #58caca; }
    .c6 { fill: #ee7d99; stroke: #ee7d99; }
  }
</style>
)";

std::string Escaped(absl::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      out += c;
    }
  }
  return out;
}

// Three digits, without zeros behind the point.
std::string Label(double value) {
  std::string label = Short(value, 3);
  if (label.find('.') == std::string::npos) return label;
  const size_t exponent = std::min(label.find('e'), label.size());
  size_t end = label.find_last_not_of('0', exponent - 1) + 1;
  if (label[end - 1] == '.') --end;
  return label.erase(end, exponent - end);
}

// Positions of values along an axis of pixels [from, to].
class Scale {
 public:
  Scale(const std::vector<double>& values, bool logarithmic, bool from_zero)
      : logarithmic_(logarithmic) {
    double low = std::numeric_limits<double>::infinity();
    double high = -std::numeric_limits<double>::infinity();
    for (const double value : values) {
      zero_ |= value == 0.0;
      if (!std::isfinite(value) || (logarithmic && value <= 0.0)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
    if (!(low <= high)) {
      low = logarithmic ? 1.0 : 0.0;
      high = logarithmic ? 10.0 : 1.0;
    }
    if (logarithmic) {
      low_ = std::floor(std::log10(low));
      high_ = std::max(std::ceil(std::log10(high)), low_ + 1);
      if (from_zero && std::log10(low) - low_ < 0.2) low_ -= 1;  // a bar has a length
      if (zero_) low_ -= std::max(1.0, std::round((high_ - low_) / 8));
      step_ = std::max(1.0, std::ceil((high_ - low_) / 8));
    } else {
      if (from_zero) low = std::min(low, 0.0);
      if (low == high) high = low + 1;
      const double rough = (high - low) / 5;
      const double power = std::pow(10.0, std::floor(std::log10(rough)));
      const double lead = rough / power;
      step_ = power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
      low_ = std::floor(low / step_ + 1e-9) * step_;
      high_ = std::ceil(high / step_ - 1e-9) * step_;
    }
  }

  void Span(double from, double to) {
    from_ = from;
    to_ = to;
  }

  double operator()(double value) const {
    const double at = !logarithmic_ ? value : value <= 0.0 ? low_ : std::log10(value);
    return from_ + (std::max(at, low_) - low_) / (high_ - low_) * (to_ - from_);
  }

  struct Tick {
    double at;
    std::string label;
  };
  std::vector<Tick> Ticks() const {
    std::vector<Tick> ticks;
    for (int i = 0; low_ + i * step_ <= high_ + step_ * 1e-6; ++i) {
      const double at = low_ + i * step_;
      if (!logarithmic_) {
        ticks.push_back({(*this)(at), Label(std::abs(at) < step_ * 1e-9 ? 0.0 : at)});
      } else if (zero_ && i == 0) {
        ticks.push_back({from_, "0"});
      } else {
        const double value = std::pow(10.0, at);
        ticks.push_back({(*this)(value), std::abs(at) <= 3 ? absl::StrFormat("%.10g", value)
                                                           : absl::StrFormat("1e%d", int(at))});
      }
    }
    return ticks;
  }

 private:
  bool logarithmic_;
  bool zero_ = false;
  double low_ = 0.0;  // in decades when logarithmic
  double high_ = 1.0;
  double step_ = 1.0;
  double from_ = 0.0;
  double to_ = 1.0;
};

class Drawing {
 public:
  explicit Drawing(const Plot& plot) : plot_(plot) {}

  std::string Draw() {
    Text(20, 26, plot_.title, "title");
    double top = 36;
    top = Legend(top) + 12;
    const double height = plot_.categories.empty() ? Lines(top) : Bars(top);
    return absl::StrFormat(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" "
        "viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"%s\">\n%s"
        "<rect class=\"page\" width=\"%g\" height=\"%g\"/>\n%s</svg>\n",
        kWidth, height, kWidth, height, Attribute(plot_.title), kStyle, kWidth, height, body_);
  }

 private:
  static std::string Attribute(absl::string_view text) {
    std::string out = Escaped(text);
    for (size_t at = 0; (at = out.find('"', at)) != std::string::npos;) {
      out.replace(at, 1, "&quot;");
    }
    return out;
  }

  static double Length(absl::string_view text) {
    return kCharacter * static_cast<double>(text.size());
  }

  void Text(double x,
            double y,
            absl::string_view text,
            absl::string_view kind = "",
            absl::string_view anchor = "start") {
    absl::StrAppendFormat(&body_, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>%s</text>\n", x,
                          y, anchor, kind.empty() ? "" : absl::StrCat(" class=\"", kind, "\""),
                          Escaped(text));
  }

  void Stroke(double x1, double y1, double x2, double y2, absl::string_view kind) {
    absl::StrAppendFormat(&body_,
                          "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n",
                          x1, y1, x2, y2, kind);
  }

  std::string Colour(size_t series) const { return absl::StrCat("c", series % kColours); }

  double Legend(double top) {
    double x = 20;
    double y = top + 12;
    for (size_t s = 0; s < plot_.series.size(); ++s) {
      const Series& series = plot_.series[s];
      const double width = 26 + Length(series.name) + 14;
      if (x > 20 && x + width > kWidth - 20) {
        x = 20;
        y += kLegendRow;
      }
      if (plot_.categories.empty()) {
        Stroke(x, y - 4, x + 20, y - 4,
               absl::StrCat("line ", Colour(s), series.published ? " dash" : ""));
      } else {
        absl::StrAppendFormat(
            &body_, "<rect x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"12\" class=\"%s%s\"/>\n", x,
            y - 10, Colour(s), series.published ? " pale" : "");
      }
      Text(x + 26, y, series.name);
      x += width;
    }
    return y;
  }

  std::vector<double> Values() const {
    std::vector<double> values;
    for (const Series& series : plot_.series) {
      for (const auto& value : series.y) {
        if (value.has_value()) values.push_back(*value);
      }
    }
    return values;
  }

  double Bars(double top) {
    constexpr double kBar = 15;
    constexpr double kSpace = 12;
    double left = 60;
    for (const std::string& category : plot_.categories) {
      left = std::max(left, Length(category) + 34);
    }
    const double right = kWidth - 76;  // room for the value behind the longest bar
    const double group = kBar * static_cast<double>(plot_.series.size()) + kSpace;
    const double bottom = top + group * static_cast<double>(plot_.categories.size());
    Scale scale(Values(), plot_.log_y, true);
    scale.Span(left, right);
    for (const Scale::Tick& tick : scale.Ticks()) {
      Stroke(tick.at, top, tick.at, bottom, "grid");
      Text(tick.at, bottom + 16, tick.label, "note", "middle");
    }
    for (size_t c = 0; c < plot_.categories.size(); ++c) {
      const double base = top + group * static_cast<double>(c);
      Text(left - 8, base + group / 2 + 4, plot_.categories[c], "", "end");
      for (size_t s = 0; s < plot_.series.size(); ++s) {
        const Series& series = plot_.series[s];
        if (!series.y[c].has_value()) continue;
        const double y = base + kSpace / 2 + kBar * static_cast<double>(s);
        const double x = scale(*series.y[c]);
        absl::StrAppendFormat(
            &body_, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"%s%s\"/>\n",
            left, y + 1, std::max(x - left, 1.0), kBar - 2, Colour(s),
            series.published ? " pale" : "");
        Text(std::max(x, left) + 5, y + 12, Label(*series.y[c]), "note");
      }
    }
    Stroke(left, top, left, bottom, "axis");
    Text((left + right) / 2, bottom + 36, plot_.y_label, "", "middle");
    return bottom + 50;
  }

  double Lines(double top) {
    Scale across(plot_.x, plot_.log_x, false);
    Scale up(Values(), plot_.log_y, !plot_.log_y);
    double left = 40;
    for (const Scale::Tick& tick : up.Ticks()) left = std::max(left, Length(tick.label) + 34);
    const double right = kWidth - 30;
    const double bottom = top + 24 + 300;
    Text(20, top + 8, plot_.y_label);
    top += 24;
    across.Span(left, right);
    up.Span(bottom, top);
    for (const Scale::Tick& tick : up.Ticks()) {
      Stroke(left, tick.at, right, tick.at, "grid");
      Text(left - 8, tick.at + 4, tick.label, "note", "end");
    }
    for (const Scale::Tick& tick : across.Ticks()) {
      Stroke(tick.at, bottom, tick.at, bottom + 4, "axis");
      Text(tick.at, bottom + 18, tick.label, "note", "middle");
    }
    Stroke(left, bottom, right, bottom, "axis");
    Stroke(left, top, left, bottom, "axis");
    for (size_t s = 0; s < plot_.series.size(); ++s) DrawLine(s, across, up);
    Text((left + right) / 2, bottom + 40, plot_.x_label, "", "middle");
    return bottom + 54;
  }

  void DrawLine(size_t s, const Scale& across, const Scale& up) {
    const Series& series = plot_.series[s];
    std::string points;
    std::string marks;
    for (size_t i = 0; i < plot_.x.size(); ++i) {
      if (!series.y[i].has_value()) continue;
      const double x = across(plot_.x[i]);
      const double y = up(*series.y[i]);
      absl::StrAppendFormat(&points, "%.1f,%.1f ", x, y);
      absl::StrAppendFormat(&marks, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" class=\"%s%s\"/>\n",
                            x, y, Colour(s), series.published ? " pale" : "");
    }
    absl::StrAppendFormat(&body_, "<polyline points=\"%s\" class=\"%s line%s\"/>\n%s", points,
                          Colour(s), series.published ? " dash" : "", marks);
  }

  const Plot& plot_;
  std::string body_;
};

}  // namespace

std::string AsSvg(const Report& report) {
  LETHE_CHECK(report.result.plot.has_value());
  const Plot& plot = *report.result.plot;
  LETHE_CHECK(plot.x.empty() != plot.categories.empty());
  for (const Series& series : plot.series) {
    LETHE_CHECK(series.y.size() == plot.x.size() + plot.categories.size());
  }
  return Drawing(plot).Draw();
}

}  // namespace lethe::bench
