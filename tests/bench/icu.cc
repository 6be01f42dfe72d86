#include "tests/bench/icu.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace lethe::bench {
namespace {

constexpr std::array<const char*, kVitals> kColumns = {"HR",       "SysABP", "DiasABP",
                                                       "RespRate", "SaO2",   "Temp"};
using Reading = std::array<std::optional<double>, kVitals>;

struct Readings {
  std::string id;
  std::vector<Reading> hours;
};

absl::StatusOr<std::vector<Readings>> ReadFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("--icu: cannot read ", path));
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> header = absl::StrSplit(absl::StripAsciiWhitespace(line), ',');
  const auto column = [&](absl::string_view name) {
    return static_cast<size_t>(std::find(header.begin(), header.end(), name) - header.begin());
  };
  size_t stay_column = header.size();
  for (const char* const name : {"record_id", "icustay_id", "stay_id"}) {
    stay_column = std::min(stay_column, column(name));
  }
  if (stay_column == header.size()) {
    return absl::InvalidArgumentError("--icu: no column record_id, icustay_id or stay_id");
  }
  const size_t hour_column = column("hour");
  if (hour_column == header.size()) return absl::InvalidArgumentError("--icu: no column hour");
  std::array<size_t, kVitals> columns{};
  for (size_t v = 0; v < kVitals; ++v) {
    columns[v] = column(kColumns[v]);
    if (columns[v] == header.size()) {
      return absl::InvalidArgumentError(absl::StrCat("--icu: no column ", kColumns[v]));
    }
  }
  std::vector<Readings> stays;
  for (size_t number = 2; std::getline(file, line); ++number) {
    const std::vector<absl::string_view> fields =
        absl::StrSplit(absl::StripAsciiWhitespace(line), ',');
    int hour = 0;
    if (fields.size() != header.size() || !absl::SimpleAtoi(fields[hour_column], &hour) ||
        hour < 0 || hour >= 100000) {
      return absl::InvalidArgumentError(absl::StrCat("--icu: line ", number, " is not a row"));
    }
    if (stays.empty() || stays.back().id != fields[stay_column]) {
      stays.push_back({std::string(fields[stay_column]), {}});
    }
    std::vector<Reading>& hours = stays.back().hours;
    if (static_cast<size_t>(hour) < hours.size()) {
      return absl::InvalidArgumentError(absl::StrCat("--icu: line ", number, " goes back in time"));
    }
    hours.resize(static_cast<size_t>(hour) + 1);
    for (size_t v = 0; v < kVitals; ++v) {
      const absl::string_view field = fields[columns[v]];
      double value = 0.0;
      if (field.empty()) continue;
      if (!absl::SimpleAtod(field, &value) || !std::isfinite(value)) {
        return absl::InvalidArgumentError(
            absl::StrCat("--icu: line ", number, ", ", kColumns[v], ": not a number"));
      }
      hours.back()[v] = value;
    }
  }
  return stays;
}

// Fills, z-scores and labels.
std::vector<Stay> Finish(const std::vector<Readings>& readings) {
  Vector mean(kVitals, 0.0);
  Vector count(kVitals, 0.0);
  for (const Readings& stay : readings) {
    for (const Reading& hour : stay.hours) {
      for (size_t v = 0; v < kVitals; ++v) {
        if (!hour[v].has_value()) continue;
        mean[v] += *hour[v];
        count[v] += 1;
      }
    }
  }
  for (size_t v = 0; v < kVitals; ++v) mean[v] /= std::max(count[v], 1.0);

  std::vector<Stay> stays;
  Vector centre(kVitals, 0.0);
  Vector squares(kVitals, 0.0);
  double hours = 0;
  for (const Readings& from : readings) {
    Stay& stay = stays.emplace_back();
    stay.id = from.id;
    Vector last = mean;
    for (const Reading& hour : from.hours) {
      for (size_t v = 0; v < kVitals; ++v) {
        last[v] = hour[v].value_or(last[v]);
        centre[v] += last[v];
        squares[v] += last[v] * last[v];
      }
      hours += 1;
      stay.raw.push_back(last);
      stay.event.push_back(IsEvent(last));
    }
  }
  Vector deviation(kVitals, 1.0);
  for (size_t v = 0; v < kVitals; ++v) {
    centre[v] /= std::max(hours, 1.0);
    const double variance = squares[v] / std::max(hours, 1.0) - centre[v] * centre[v];
    if (variance > 0) deviation[v] = std::sqrt(variance);
  }
  for (Stay& stay : stays) {
    for (const Vector& hour : stay.raw) {
      Vector& key = stay.keys.emplace_back(kVitals);
      for (size_t v = 0; v < kVitals; ++v) key[v] = (hour[v] - centre[v]) / deviation[v];
    }
  }
  return stays;
}

}  // namespace

bool IsEvent(const Vector& vitals) {
  const double hr = vitals[0];
  const double systolic = vitals[1];
  const double breaths = vitals[3];
  const double spo2 = vitals[4];
  const double temperature = vitals[5];
  return hr > 130 || hr < 40 || systolic < 90 || systolic > 200 || breaths > 30 || breaths < 6 ||
         spo2 < 90 || temperature > 38.5 || temperature < 35;
}

absl::StatusOr<std::vector<Stay>> ReadStays(const std::string& path, size_t min_hours) {
  auto readings = ReadFile(path);
  if (!readings.ok()) return readings.status();
  std::erase_if(*readings, [&](const Readings& stay) { return stay.hours.size() < min_hours; });
  for (Readings& stay : *readings) stay.hours.resize(min_hours);
  return Finish(*readings);
}

std::vector<Stay> SyntheticStays(size_t stays, size_t hours, Random& random) {
  constexpr std::array<double, kVitals> kLevel = {86, 119, 60, 19, 97, 37.1};
  constexpr std::array<double, kVitals> kBetween = {14, 18, 11, 3.5, 1.5, 0.5};  // stays
  constexpr std::array<double, kVitals> kWithin = {4, 7, 4, 2, 0.6, 0.1};        // hours
  constexpr std::array<double, kVitals> kExcursion = {140, 80, 40, 34, 86, 39.2};
  constexpr std::array<size_t, kVitals> kEvery = {1, 1, 1, 1, 4, 3};  // hours between readings
  std::vector<Readings> readings;
  for (size_t s = 0; s < stays; ++s) {
    Readings& stay = readings.emplace_back();
    stay.id = absl::StrCat("synthetic-", s);
    std::array<double, kVitals> base{};
    for (size_t v = 0; v < kVitals; ++v) base[v] = kLevel[v] + kBetween[v] * random.Normal();
    std::array<double, kVitals> drift{};
    size_t excursion = 0;  // hours left
    size_t vital = 0;
    for (size_t h = 0; h < hours; ++h) {
      if (excursion > 0) {
        --excursion;
      } else if (random.Uniform() < 0.03) {
        excursion = 2 + random.Below(3);
        vital = random.Below(kVitals);
      }
      Reading& hour = stay.hours.emplace_back();
      for (size_t v = 0; v < kVitals; ++v) {
        drift[v] = 0.8 * drift[v] + 0.6 * kWithin[v] * random.Normal();
        double value = base[v] + drift[v];
        if (excursion > 0 && v == vital) value = kExcursion[v] + 0.5 * drift[v];
        if (v == 4) value = std::min(value, 100.0);
        if (h % kEvery[v] == 0 || (excursion > 0 && v == vital)) hour[v] = value;
      }
    }
  }
  return Finish(readings);
}

}  // namespace lethe::bench
