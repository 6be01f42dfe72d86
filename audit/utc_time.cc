#include "audit/utc_time.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace lethe::audit {

bool IsUtcTime(absl::string_view time) {
  constexpr absl::string_view kShape = "dddd-dd-ddTdd:dd:dd";
  if (time.size() < kShape.size() + 1 || time.back() != 'Z') return false;
  const auto is_digit = [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); };
  for (size_t i = 0; i < kShape.size(); ++i) {
    if (kShape[i] == 'd' ? !is_digit(time[i]) : time[i] != kShape[i]) return false;
  }
  absl::string_view fraction = time.substr(kShape.size(), time.size() - kShape.size() - 1);
  if (!fraction.empty()) {
    if (fraction[0] != '.' || fraction.size() < 2 || fraction.size() > 10) return false;
    fraction.remove_prefix(1);
    if (!std::all_of(fraction.begin(), fraction.end(), is_digit)) return false;
  }
  const auto number = [&](size_t start, size_t digits) {
    int value = 0;
    for (size_t i = start; i < start + digits; ++i) value = 10 * value + (time[i] - '0');
    return value;
  };
  const int year = number(0, 4);
  const int month = number(5, 2);
  const int day = number(8, 2);
  if (month < 1 || month > 12) return false;
  const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  const int short_month = month == 4 || month == 6 || month == 9 || month == 11 ? 1 : 0;
  const int days = month == 2 ? (leap ? 29 : 28) : 31 - short_month;
  return day >= 1 && day <= days && number(11, 2) < 24 && number(14, 2) < 60 && number(17, 2) < 60;
}

}  // namespace lethe::audit
