// Hours of intensive care: stays of hourly vital signs, from a CSV or made up.
//
// The CSV has a header and a row for each stay and hour with the columns record_id (or icustay_id,
// stay_id), hour, HR, SysABP, DiasABP, RespRate, SaO2, Temp in any order among others; empty fields
// were not measured; rows of a stay are adjacent and ascend in time.
#ifndef LETHE_TESTS_BENCH_ICU_H_
#define LETHE_TESTS_BENCH_ICU_H_

#include <array>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/bench/data.h"

namespace lethe::bench {

inline constexpr size_t kVitals = 6;  // heart rate, systolic, diastolic, breaths, SpO2, temperature

struct Stay {
  std::string id;
  std::vector<Vector> raw;   // an hour each, filled
  std::vector<Vector> keys;  // the same, z-scored over all hours of all stays
  std::vector<bool> event;   // any vital beyond its threshold in that hour
};

// hr > 130 or < 40, systolic < 90 or > 200, breaths > 30 or < 6, SpO2 < 90, temperature > 38.5 or
// < 35.
bool IsEvent(const Vector& vitals);

// Stays of at least `min_hours`, cut to that many. Hours without a row and fields without a value
// keep the last value of the same stay; before the first value the mean of all measured ones.
// NOT_FOUND without the file, INVALID_ARGUMENT names the column or the line.
absl::StatusOr<std::vector<Stay>> ReadStays(const std::string& path, size_t min_hours);

// A stand-in with the same form: each stay drifts slowly around a level of its own, SpO2 and
// temperature are read every few hours, and about one hour in twelve is part of an excursion of one
// vital beyond its threshold.
std::vector<Stay> SyntheticStays(size_t stays, size_t hours, Random& random);

}  // namespace lethe::bench

#endif  // LETHE_TESTS_BENCH_ICU_H_
