#include "tests/bench/perf_data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace lethe::bench {
namespace {

constexpr std::array<absl::string_view, 7> kSigns = {"HR",       "MAP",  "SysABP", "DiasABP",
                                                     "RespRate", "Temp", "GCS"};
constexpr size_t kHeartRate = 0;
constexpr size_t kMeanPressure = 1;
constexpr int kLeastMeasured = 4;
using Hour = std::array<double, kSigns.size()>;  // NaN where nothing is known

Tokens AsTokens(std::vector<Hour> hours) {
  Hour mean{};
  Hour deviation{};
  for (size_t k = 0; k < kSigns.size(); ++k) {
    double sum = 0.0;
    double squares = 0.0;
    double count = 0.0;
    for (const Hour& hour : hours) {
      if (std::isnan(hour[k])) continue;
      sum += hour[k];
      squares += hour[k] * hour[k];
      count += 1.0;
    }
    mean[k] = count > 0.0 ? sum / count : 0.0;
    const double variance = count > 0.0 ? squares / count - mean[k] * mean[k] : 0.0;
    deviation[k] = variance > 0.0 ? std::sqrt(variance) : 1.0;
  }
  Tokens tokens{.key_dimension = kSigns.size(), .value_dimension = 2};
  for (const Hour& hour : hours) {
    for (size_t k = 0; k < kSigns.size(); ++k) {
      tokens.keys.push_back(std::isnan(hour[k]) ? 0.0 : (hour[k] - mean[k]) / deviation[k]);
    }
    for (const size_t k : {kMeanPressure, kHeartRate}) {
      tokens.values.push_back(std::isnan(hour[k]) ? mean[k] : hour[k]);
    }
  }
  return tokens;
}

}  // namespace

absl::StatusOr<Tokens> IcuHours(const std::string& path, size_t count) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) {
    return absl::NotFoundError(absl::StrCat("--icu: cannot read ", path));
  }
  const std::vector<std::string> header = absl::StrSplit(line, ',');
  const auto column = [&header](absl::string_view name) {
    return static_cast<size_t>(std::find(header.begin(), header.end(), name) - header.begin());
  };
  const size_t record = column("record_id");
  std::array<size_t, kSigns.size()> sign_column{};
  for (size_t k = 0; k < kSigns.size(); ++k) sign_column[k] = column(kSigns[k]);
  if (record == header.size() || std::ranges::count(sign_column, header.size()) > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--icu: ", path,
                     " lacks one of the columns record_id, HR, MAP, SysABP, "
                     "DiasABP, RespRate, Temp, GCS"));
  }
  std::vector<Hour> hours;
  Hour last{};
  std::string stay;
  for (size_t number = 2; hours.size() < count && std::getline(file, line); ++number) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ',');
    if (fields.size() != header.size()) {
      return absl::InvalidArgumentError(absl::StrCat("--icu: ", path, " line ", number, " has ",
                                                     fields.size(),
                                                     " fields, the "
                                                     "header has ",
                                                     header.size()));
    }
    if (hours.empty() || fields[record] != stay) {
      stay = std::string(fields[record]);
      last.fill(std::numeric_limits<double>::quiet_NaN());
    }
    int measured = 0;
    for (size_t k = 0; k < kSigns.size(); ++k) {
      const absl::string_view field = fields[sign_column[k]];
      if (field.empty()) continue;
      if (!absl::SimpleAtod(field, &last[k]) || !std::isfinite(last[k])) {
        return absl::InvalidArgumentError(
            absl::StrCat("--icu: ", path, " line ", number, ": ", kSigns[k], " is not a number"));
      }
      ++measured;
    }
    if (measured >= kLeastMeasured) hours.push_back(last);
  }
  if (hours.size() < count) {
    return absl::InvalidArgumentError(absl::StrCat("--icu: ", path, " has ", hours.size(),
                                                   " hours with four signs measured, ", count,
                                                   " are needed"));
  }
  return AsTokens(std::move(hours));
}

Tokens SyntheticHours(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<Hour> hours;
  Hour level{};
  Hour now{};
  size_t left = 0;
  while (hours.size() < count) {
    if (left == 0) {
      left = 1 + random.Below(48);
      // One stay in eight is of another kind of patient.
      const double spread = random.Below(8) == 0 ? 1.6 : 0.7;
      for (double& value : level) value = spread * random.Normal();
      now = level;
    }
    --left;
    for (size_t k = 0; k < now.size(); ++k) {
      now[k] += 0.3 * (level[k] - now[k]) + 0.12 * random.Normal();
    }
    // Pressures go together, as do consciousness and breathing; most read with few digits.
    const auto [heart, pressure, upper, lower, breathing, heat, mind] = now;
    const double systolic = pressure + 0.4 * upper;
    const double diastolic = pressure + 0.3 * lower;
    const double mean_pressure = (systolic + 2 * diastolic) / 3;
    hours.push_back({std::round(10 * heart) / 10, mean_pressure, systolic, diastolic,
                     std::round(5 * breathing) / 5, std::round(5 * heat) / 5,
                     std::min(0.0, std::round(2 * mind) / 2)});
  }
  return AsTokens(std::move(hours));
}

RedundantStream::RedundantStream(size_t key_dimension, size_t value_dimension, uint64_t seed)
    : key_dimension_(key_dimension),
      value_dimension_(value_dimension),
      random_(seed),
      centres_(kCentres * key_dimension) {
  for (double& coordinate : centres_) coordinate = random_.Normal();
}

Tokens RedundantStream::Next(size_t count) {
  Tokens tokens{.key_dimension = key_dimension_, .value_dimension = value_dimension_};
  tokens.keys.reserve(count * key_dimension_);
  tokens.values.reserve(count * value_dimension_);
  for (size_t i = 0; i < count; ++i) {
    double* centre = centres_.data() + random_.Below(kCentres) * key_dimension_;
    for (size_t k = 0; k < key_dimension_; ++k) {
      centre[k] += kDrift * random_.Normal();
      tokens.keys.push_back(centre[k] + kNoise * random_.Normal());
    }
    for (size_t k = 0; k < value_dimension_; ++k) tokens.values.push_back(random_.Normal());
  }
  return tokens;
}

std::vector<svdd::NewToken> AsNewTokens(const Tokens& tokens,
                                        size_t first,
                                        size_t count,
                                        svdd::TokenHandle handle) {
  std::vector<svdd::NewToken> result;
  result.reserve(count);
  for (size_t i = first; i < first + count; ++i) {
    result.push_back({handle++, tokens.Key(i), tokens.Value(i)});
  }
  return result;
}

}  // namespace lethe::bench
