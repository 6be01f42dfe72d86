#include "audit/report_html_data.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/check.h"

namespace lethe::audit {
namespace {

constexpr size_t kTimelineBins = 4096;
constexpr int64_t kDaySeconds = 86400;
constexpr std::array<absl::string_view, 12> kMonths = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};

// Days since 1970-01-01 and back. Source: H. Hinnant, "chrono-compatible low-level date
// algorithms".
int64_t DaysFromCivil(int64_t year, int64_t month, int64_t day) {
  year -= month <= 2 ? 1 : 0;
  const int64_t era = (year >= 0 ? year : year - 399) / 400;
  const int64_t year_of_era = year - era * 400;
  const int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146097 + day_of_era - 719468;
}

struct Civil {
  int64_t year;
  int64_t month;  // from 1
  int64_t day;
};

Civil CivilFromDays(int64_t days) {
  days += 719468;
  const int64_t era = (days >= 0 ? days : days - 146096) / 146097;
  const int64_t day_of_era = days - era * 146097;
  const int64_t year_of_era =
      (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  const int64_t day_of_year =
      day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t shifted = (5 * day_of_year + 2) / 153;
  const int64_t month = shifted < 10 ? shifted + 3 : shifted - 9;
  return {year_of_era + era * 400 + (month <= 2 ? 1 : 0), month,
          day_of_year - (153 * shifted + 2) / 5 + 1};
}

int64_t FloorDiv(int64_t value, int64_t step) {
  return value >= 0 ? value / step : -((-value + step - 1) / step);
}

int64_t StepSeconds(TimeStep step) {
  switch (step) {
    case TimeStep::kMinute:
      return 60;
    case TimeStep::kFiveMinutes:
      return 300;
    case TimeStep::kQuarterHour:
      return 900;
    case TimeStep::kHour:
      return 3600;
    case TimeStep::kSixHours:
      return 21600;
    case TimeStep::kDay:
      return kDaySeconds;
    case TimeStep::kWeek:
      return 7 * kDaySeconds;
    default:
      return 0;
  }
}

int64_t StepMonths(TimeStep step) {
  switch (step) {
    case TimeStep::kMonth:
      return 1;
    case TimeStep::kQuarter:
      return 3;
    case TimeStep::kYear:
      return 12;
    case TimeStep::kDecade:
      return 120;
    case TimeStep::kCentury:
      return 1200;
    default:
      return 0;
  }
}

int64_t MonthStart(int64_t months) {
  const int64_t year = FloorDiv(months, 12);
  return DaysFromCivil(year, months - 12 * year + 1, 1) * kDaySeconds;
}

TimeStep NextStep(TimeStep step) { return static_cast<TimeStep>(static_cast<uint8_t>(step) + 1); }

// Weeks do not divide months: bins that are to become months stay days.
TimeStep CoarserBins(TimeStep step) {
  return step == TimeStep::kDay ? TimeStep::kMonth : NextStep(step);
}

}  // namespace

size_t KindIndex(CertificateKind kind) {
  const size_t index = static_cast<size_t>(kind);
  LETHE_CHECK(index < kReportKinds);
  return index;
}

ReportRow::ReportRow(const SummaryEntry& entry)
    : sequence(entry.body.sequence),
      time(entry.body.time),
      kind(entry.body.kind),
      counts(entry.body.counts),
      change(entry.body.change),
      concerns(ConcernsOf(entry.body)),
      id(entry.id) {}

int64_t UnixSeconds(absl::string_view time) {
  LETHE_CHECK(time.size() >= 20);
  const auto number = [&](size_t start, size_t digits) {
    int64_t value = 0;
    for (size_t i = start; i < start + digits; ++i) value = 10 * value + (time[i] - '0');
    return value;
  };
  return DaysFromCivil(number(0, 4), number(5, 2), number(8, 2)) * kDaySeconds +
         number(11, 2) * 3600 + number(14, 2) * 60 + number(17, 2);
}

absl::string_view Name(TimeStep step) {
  constexpr std::array<absl::string_view, 12> kNames = {
      "a minute", "5 minutes", "15 minutes", "an hour", "6 hours",  "a day",
      "a week",   "a month",   "a quarter",  "a year",  "10 years", "100 years"};
  return kNames[static_cast<size_t>(step)];
}

int64_t FloorTime(int64_t seconds, TimeStep step) {
  if (const int64_t length = StepSeconds(step); length > 0) {
    // 1970-01-01 was a Thursday: weeks begin three days before.
    const int64_t offset = step == TimeStep::kWeek ? -3 * kDaySeconds : 0;
    return FloorDiv(seconds - offset, length) * length + offset;
  }
  const Civil civil = CivilFromDays(FloorDiv(seconds, kDaySeconds));
  const int64_t months = civil.year * 12 + civil.month - 1;
  return MonthStart(FloorDiv(months, StepMonths(step)) * StepMonths(step));
}

int64_t NextTime(int64_t start, TimeStep step) {
  if (const int64_t length = StepSeconds(step); length > 0) return start + length;
  const Civil civil = CivilFromDays(FloorDiv(start, kDaySeconds));
  return MonthStart(civil.year * 12 + civil.month - 1 + StepMonths(step));
}

std::string TimeLabel(int64_t start, TimeStep step) {
  const int64_t days = FloorDiv(start, kDaySeconds);
  const Civil civil = CivilFromDays(days);
  const absl::string_view month = kMonths[static_cast<size_t>(civil.month - 1)].substr(0, 3);
  const int64_t minutes = (start - days * kDaySeconds) / 60;
  switch (step) {
    case TimeStep::kMinute:
    case TimeStep::kFiveMinutes:
    case TimeStep::kQuarterHour:
      return absl::StrFormat("%02d:%02d", minutes / 60, minutes % 60);
    case TimeStep::kHour:
    case TimeStep::kSixHours:
      return absl::StrFormat("%d %s %02d:%02d", civil.day, month, minutes / 60, minutes % 60);
    case TimeStep::kDay:
    case TimeStep::kWeek:
      return absl::StrFormat("%d %s %d", civil.day, month, civil.year);
    case TimeStep::kMonth:
      return absl::StrFormat("%s %d", month, civil.year);
    case TimeStep::kQuarter:
      return absl::StrFormat("Q%d %d", (civil.month - 1) / 3 + 1, civil.year);
    case TimeStep::kYear:
    case TimeStep::kDecade:
    case TimeStep::kCentury:
      return absl::StrCat(civil.year);
  }
  LETHE_CHECK(false);
}

std::string LongTime(int64_t seconds) {
  const int64_t days = FloorDiv(seconds, kDaySeconds);
  const Civil civil = CivilFromDays(days);
  const int64_t minutes = (seconds - days * kDaySeconds) / 60;
  return absl::StrFormat("%d %s %d, %02d:%02d UTC", civil.day,
                         kMonths[static_cast<size_t>(civil.month - 1)], civil.year, minutes / 60,
                         minutes % 60);
}

void KindCounts::Add(const KindCounts& other) {
  for (size_t i = 0; i < kReportKinds; ++i) {
    certificates[i] += other.certificates[i];
    erased[i] += other.erased[i];
  }
}

uint64_t KindCounts::all_erased() const {
  uint64_t sum = 0;
  for (const uint64_t count : erased) sum += count;
  return sum;
}

uint64_t KindCounts::all_certificates() const {
  uint64_t sum = 0;
  for (const uint64_t count : certificates) sum += count;
  return sum;
}

void Timeline::Add(int64_t seconds, CertificateKind kind, uint64_t erased) {
  KindCounts one;
  one.certificates[KindIndex(kind)] = 1;
  one.erased[KindIndex(kind)] = erased;
  bins_[FloorTime(seconds, step_)].Add(one);
  while (bins_.size() > kTimelineBins) {
    step_ = CoarserBins(step_);
    std::map<int64_t, KindCounts> coarse;
    for (const auto& [start, counts] : bins_) coarse[FloorTime(start, step_)].Add(counts);
    bins_ = std::move(coarse);
  }
}

Timeline::Bars Timeline::Draw() const {
  constexpr size_t kFewest = 7;
  Bars drawn;
  if (bins_.empty()) return drawn;
  const int64_t first = bins_.begin()->first;
  const int64_t last = bins_.rbegin()->first;
  // One moment is shown as its day among others, not as a minute.
  TimeStep step = first == last ? std::max(step_, TimeStep::kDay) : step_;
  std::vector<int64_t> starts;
  for (;; step = NextStep(step)) {
    if (step == TimeStep::kWeek && step_ > TimeStep::kDay) continue;
    starts.clear();
    const int64_t end = FloorTime(last, step);
    for (int64_t start = FloorTime(first, step); start <= end && starts.size() <= kReportBars;
         start = NextTime(start, step)) {
      starts.push_back(start);
    }
    if (starts.size() <= kReportBars || step == TimeStep::kCentury) break;
  }
  // A few bars alone would be as wide as the page: show the time around them too.
  while (starts.size() < kFewest) {
    starts.push_back(NextTime(starts.back(), step));
    if (starts.size() < kFewest) starts.insert(starts.begin(), FloorTime(starts[0] - 1, step));
  }
  drawn.step = step;
  for (const int64_t start : starts) drawn.bars.emplace_back(start, KindCounts());
  for (const auto& [start, counts] : bins_) {
    const auto after = std::upper_bound(starts.begin(), starts.end(), FloorTime(start, step));
    drawn.bars[static_cast<size_t>(after - starts.begin()) - 1].second.Add(counts);
  }
  return drawn;
}

SequencePlot::SequencePlot(uint64_t first, uint64_t count)
    : first_(first), count_(count), columns_(std::min<uint64_t>(count, kReportColumns)) {}

void SequencePlot::Add(uint64_t sequence, double value) {
  LETHE_CHECK(sequence >= first_ && sequence - first_ < count_);
  // No overflow: below 2^53 * kReportColumns.
  Column& column = columns_[(sequence - first_) * columns_.size() / count_];
  ++values_;
  if (!smallest_.has_value() || value < smallest_->value) smallest_ = Extreme{value, sequence};
  if (!largest_.has_value() || value > largest_->value) largest_ = Extreme{value, sequence};
  if (!(value > 0.0)) {
    ++column.not_positive;
  } else if (std::isinf(value)) {
    ++column.infinite;
  } else {
    column.low = column.finite == 0 ? value : std::min(column.low, value);
    column.high = std::max(column.high, value);
    ++column.finite;
  }
}

std::pair<uint64_t, uint64_t> SequencePlot::RangeOf(size_t column) const {
  // The smallest offset with offset * columns / count == column.
  const auto start = [&](size_t c) { return (c * count_ + columns_.size() - 1) / columns_.size(); };
  return {first_ + start(column), first_ + start(column + 1) - 1};
}

void SequenceRanges::Add(uint64_t sequence) {
  if (count > 0 && sequence == last) return;
  ++count;
  last = sequence;
  if (!ranges.empty() && !cut && ranges.back().second + 1 == sequence) {
    ranges.back().second = sequence;
  } else if (ranges.size() < kReportRanges) {
    ranges.emplace_back(sequence, sequence);
  } else {
    cut = true;
  }
}

ReportData::ReportData(uint64_t first, uint64_t count, bool at_end)
    : to_the_end(at_end),
      keys(first),
      kkt_residual(first, count),
      duality_gap(first, count),
      slack(first, count),
      weight_bound(first, count),
      decision_bound(first, count) {}

void ReportData::Add(const SummaryEntry& entry) {
  const CertificateBody& body = entry.body;
  ReportRow row(entry);
  if (certificates++ == 0) first_time = body.time;
  last_time = body.time;
  last_build = body.build;
  if (body.kind != CertificateKind::kRestored) {
    counts.matched += body.counts.matched;
    counts.erased += body.counts.erased;
    counts.not_found += body.counts.not_found;
    counts.already_erased += body.counts.already_erased;
    counts.held += body.counts.held;
  }
  ++kinds.certificates[KindIndex(body.kind)];
  kinds.erased[KindIndex(body.kind)] += body.counts.erased;
  timeline.Add(UnixSeconds(body.time), body.kind, body.counts.erased);
  if (body.change.has_value()) AddChange(entry);
  AddStores(body);
  AddExceptions(body);
  AddDestruction(body);
  if (row.erases() && pending.size() < kReportPending) pending.emplace(row.sequence, row);
  for (const Concern concern : row.concerns) ++concerns[static_cast<size_t>(concern)];
  if (!row.concerns.empty()) {
    ++concerned;
    const size_t gravest = static_cast<size_t>(row.concerns.front());
    ++cases_in_all[gravest];
    if (row.concerns.front() != Concern::kExcepted && cases[gravest].size() < kReportCases) {
      cases[gravest].push_back(row);
    }
  }
  if (body.change.has_value() && body.counts.erased > 0) {
    if (changes.size() == kReportChanges) changes.pop_front();
    changes.push_back(row);
  }
  if (newest.size() == kReportRows) newest.pop_front();
  newest.push_back(std::move(row));
}

void ReportData::AddChange(const SummaryEntry& entry) {
  const StateChange& change = *entry.body.change;
  const uint64_t sequence = entry.body.sequence;
  ++verdicts[static_cast<size_t>(change.verdict)];
  kkt_residual.Add(sequence, change.residuals.kkt_residual);
  duality_gap.Add(sequence, change.residuals.duality_gap);
  slack.Add(sequence, change.residuals.slack);
  weight_bound.Add(sequence, change.residuals.weight_bound);
  decision_bound.Add(sequence, change.residuals.decision_bound);
  if (memories.size() < kReportMemories) {
    memories.insert(change.memory_uid);
  } else if (!more_memories) {
    more_memories = memories.count(change.memory_uid) == 0;
  }
}

void ReportData::AddDestruction(const CertificateBody& body) {
  keys.Add(body);
  const std::optional<SequenceSpan> span = DestroyedBy(body);
  if (!span.has_value()) return;
  pending.erase(pending.lower_bound(span->first), pending.upper_bound(span->last));
  for (auto row = newest.rbegin(); row != newest.rend() && row->sequence >= span->first; ++row) {
    if (row->sequence > span->last || !row->erases() || row->destroyed.has_value()) continue;
    row->destroyed = ReportRow::Destroyed{.sequence = body.sequence, .time = body.time};
  }
}

void ReportData::AddExceptions(const CertificateBody& body) {
  for (const std::string& text : body.exceptions) {
    const auto known = std::find_if(exceptions.begin(), exceptions.end(),
                                    [&](const auto& line) { return line.first == text; });
    if (known != exceptions.end()) {
      known->second.Add(body.sequence);
    } else if (exceptions.size() < kReportTexts) {
      exceptions.emplace_back(text, SequenceRanges());
      exceptions.back().second.Add(body.sequence);
    } else {
      other_exceptions.Add(body.sequence);
    }
  }
}

void ReportData::AddStores(const CertificateBody& body) {
  for (const StoreErasure& store : body.stores) {
    const auto known = std::find_if(stores.begin(), stores.end(), [&](const StoreLine& line) {
      return line.store == store.store && line.level == store.level;
    });
    if (known != stores.end()) {
      ++known->certificates;
      if (!store.evidence.empty()) known->evidence = store.evidence;
    } else if (stores.size() < kReportStores) {
      stores.push_back({store.store, store.level, 1, store.evidence});
    } else {
      ++other_stores;
    }
  }
}

}  // namespace lethe::audit
