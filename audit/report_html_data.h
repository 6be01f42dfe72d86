// What report.html shows, gathered one certificate at a time in bounded memory: counts, the cases
// that need attention, a timeline whose bins grow with the span, plots whose columns are ranges
// once there are more certificates than columns, and the newest certificates.
//
// Cost: O(log of the bins) a certificate; one that destroys keys also O(the rows that it concerns).
// Memory: below 4 MiB whatever comes, and three bits a certificate (key_ledger.h); what is cut is
// counted. Errors: none. Threads: compatible.
#ifndef LETHE_AUDIT_REPORT_HTML_DATA_H_
#define LETHE_AUDIT_REPORT_HTML_DATA_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "audit/certificate.h"
#include "audit/key_ledger.h"
#include "audit/summary.h"

namespace lethe::audit {

inline constexpr size_t kReportRows = 250;        // newest certificates in the table
inline constexpr size_t kReportCases = 100;       // listed for each concern
inline constexpr size_t kReportPending = 1000;    // kept while their keys are pending
inline constexpr size_t kReportTexts = 50;        // distinct exceptions
inline constexpr size_t kReportRanges = 12;       // of sequences, for each exception
inline constexpr size_t kReportStores = 64;       // distinct pairs of store and level
inline constexpr size_t kReportMemories = 10000;  // counted as distinct
inline constexpr size_t kReportChanges = 10;      // partitions before and after
inline constexpr size_t kReportColumns = 120;     // of a plot
inline constexpr size_t kReportBars = 100;        // of the timeline

// In the order of CertificateKind.
inline constexpr size_t kReportKinds = 8;
size_t KindIndex(CertificateKind kind);

// The part of a certificate that the tables show.
struct ReportRow {
  explicit ReportRow(const SummaryEntry& entry);

  uint64_t sequence;
  std::string time;
  CertificateKind kind;
  ErasureCounts counts;
  std::optional<StateChange> change;
  std::vector<Concern> concerns;
  std::string id;

  // The first certificate that says that the keys of this erasure are destroyed.
  struct Destroyed {
    uint64_t sequence;
    std::string time;
  };
  std::optional<Destroyed> destroyed;

  // Whether it took out tokens, whose keys are then pending or destroyed.
  bool erases() const { return IsErasure(kind) && counts.erased > 0; }
};

// Seconds since 1970 of a validated time; the fraction is cut off.
int64_t UnixSeconds(absl::string_view time);

// Calendar steps of the timeline, all in UTC; weeks begin on Monday.
enum class TimeStep : uint8_t {
  kMinute,
  kFiveMinutes,
  kQuarterHour,
  kHour,
  kSixHours,
  kDay,
  kWeek,
  kMonth,
  kQuarter,
  kYear,
  kDecade,
  kCentury,
};
// "a minute", "5 minutes", ..., "a day", ...
absl::string_view Name(TimeStep step);
int64_t FloorTime(int64_t seconds, TimeStep step);
int64_t NextTime(int64_t start, TimeStep step);
// "31 Jan 2026", "31 Jan 06:00", "Jan 2026", "Q1 2026", "2026": short, as the step needs.
std::string TimeLabel(int64_t start, TimeStep step);
// "31 January 2026 12:00 UTC"
std::string LongTime(int64_t seconds);

// Certificates and erased tokens by kind.
struct KindCounts {
  std::array<uint64_t, kReportKinds> certificates{};
  std::array<uint64_t, kReportKinds> erased{};

  void Add(const KindCounts& other);
  uint64_t all_erased() const;
  uint64_t all_certificates() const;
};

class Timeline {
 public:
  void Add(int64_t seconds, CertificateKind kind, uint64_t erased);

  struct Bars {
    TimeStep step = TimeStep::kDay;
    std::vector<std::pair<int64_t, KindCounts>> bars;  // start and content; without gaps
  };
  // At most kReportBars bars of the finest step that allows it. Empty without certificates.
  Bars Draw() const;

 private:
  TimeStep step_ = TimeStep::kMinute;
  std::map<int64_t, KindCounts> bins_;
};

// Values over the sequence for a logarithmic axis.
class SequencePlot {
 public:
  SequencePlot(uint64_t first, uint64_t count);

  void Add(uint64_t sequence, double value);

  struct Column {
    double low = 0.0;  // of the finite positive values
    double high = 0.0;
    uint64_t finite = 0;
    uint64_t not_positive = 0;
    uint64_t infinite = 0;
  };
  const std::vector<Column>& columns() const { return columns_; }
  // Sequences first, ..., last of a column.
  std::pair<uint64_t, uint64_t> RangeOf(size_t column) const;
  bool empty() const { return values_ == 0; }

  struct Extreme {
    double value;
    uint64_t sequence;  // the first that has it
  };
  std::optional<Extreme> smallest() const { return smallest_; }
  std::optional<Extreme> largest() const { return largest_; }

 private:
  uint64_t first_;
  uint64_t count_;
  uint64_t values_ = 0;
  std::vector<Column> columns_;
  std::optional<Extreme> smallest_;
  std::optional<Extreme> largest_;
};

// Ascending sequences as ranges; the first kReportRanges are kept. One added twice counts once.
struct SequenceRanges {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  uint64_t count = 0;
  uint64_t last = 0;  // meaningful when count is not 0
  bool cut = false;

  void Add(uint64_t sequence);
};

struct ReportData {
  // `at_end`: the last certificate is the log's, so that keys that are pending after it are.
  ReportData(uint64_t first, uint64_t count, bool at_end);
  void Add(const SummaryEntry& entry);

  uint64_t certificates = 0;
  KindCounts kinds;
  ErasureCounts counts;                // of requests: without what restorations took out again
  std::array<uint64_t, 4> verdicts{};  // in the order of VerdictClass
  std::array<uint64_t, kConcerns> concerns{};  // without pending keys
  uint64_t concerned = 0;                      // certificates with at least one of these
  std::string first_time;                      // of the first and of the last certificate
  std::string last_time;
  std::string last_build;

  bool to_the_end;
  KeyLedger keys;
  // Of the erasures whose keys are pending, those that were among the first kReportPending when
  // they were added.
  std::map<uint64_t, ReportRow> pending;
  // 0 where a certificate behind these may say otherwise.
  uint64_t pending_keys() const { return to_the_end ? keys.pending() : 0; }

  // By the gravest concern; those with an exception only are in `exceptions`.
  std::array<std::vector<ReportRow>, kConcerns> cases;
  std::array<uint64_t, kConcerns> cases_in_all{};
  std::vector<std::pair<std::string, SequenceRanges>> exceptions;  // in the order of appearance
  SequenceRanges other_exceptions;                                 // beyond kReportTexts

  struct StoreLine {
    std::string store;
    std::string level;
    uint64_t certificates = 0;
    std::string evidence;  // of the newest
  };
  std::vector<StoreLine> stores;
  uint64_t other_stores = 0;

  std::set<std::string> memories;
  bool more_memories = false;

  Timeline timeline;
  std::deque<ReportRow> changes;  // the newest that erased something
  std::deque<ReportRow> newest;
  SequencePlot kkt_residual;
  SequencePlot duality_gap;
  SequencePlot slack;
  SequencePlot weight_bound;
  SequencePlot decision_bound;

 private:
  void AddChange(const SummaryEntry& entry);
  void AddDestruction(const CertificateBody& body);
  void AddExceptions(const CertificateBody& body);
  void AddStores(const CertificateBody& body);
};

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_REPORT_HTML_DATA_H_
