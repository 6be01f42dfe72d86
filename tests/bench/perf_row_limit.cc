// A kernel row against what this machine can do at most: its rate of fused operations and the rate
// at which it reads memory, both measured in the same run.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/kernel/kernel.h"
#include "core/kernel/row.h"
#include "tests/bench/bench.h"
#include "tests/bench/data.h"
#include "tests/bench/perf_timing.h"
#include "tests/bench/report.h"

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define LETHE_BENCH_AVX2 1
#else
#define LETHE_BENCH_AVX2 0
#endif

namespace lethe::bench {
namespace {

// Operations of the fused units that one exp needs at least, to 4 ulp: 2 for the nearest multiple
// of ln 2, 2 for what is left, 13 terms of its series, 1 product by the power of two.
constexpr double kExpOperations = 18.0;
constexpr double kBar = 0.5;
constexpr size_t kInL2 = 256 * 1024;  // bytes of keys
constexpr size_t kInL1 = 16 * 1024;
constexpr size_t kInMemory = 100000;  // keys
constexpr size_t kLargest = 64;       // their dimension at most
constexpr double kGamma = 0.05;

#if LETHE_BENCH_AVX2

constexpr int kLanes = 4;
constexpr size_t kChains = 12;  // more than latency x units of any processor of today

// Time of `steps` fused operations of four doubles in each of kChains registers.
double SecondsOfFma(size_t steps, double& sink) {
  __m256d chain[kChains];
  for (size_t i = 0; i < kChains; ++i) chain[i] = _mm256_set1_pd(static_cast<double>(i));
  const __m256d factor = _mm256_set1_pd(0.999);
  const __m256d term = _mm256_set1_pd(0.001);
  const double begin = ThreadSeconds();
  for (size_t step = 0; step < steps; ++step) {
    for (__m256d& value : chain) value = _mm256_fmadd_pd(value, factor, term);
  }
  const double end = ThreadSeconds();
  for (const __m256d& value : chain) sink += _mm256_cvtsd_f64(value);
  return end - begin;
}

// Time of reading all numbers `times` times over. Requires a multiple of 32 numbers.
double SecondsOfReading(std::span<const double> numbers, size_t times, double& sink) {
  __m256d sum[8] = {};
  const double begin = ThreadSeconds();
  for (size_t turn = 0; turn < times; ++turn) {
    const double* at = numbers.data();
    const double* const last = at + numbers.size();
    for (; at != last; at += 32) {
      for (size_t k = 0; k < 8; ++k) sum[k] = _mm256_add_pd(sum[k], _mm256_loadu_pd(at + 4 * k));
    }
  }
  const double end = ThreadSeconds();
  for (const __m256d& value : sum) sink += _mm256_cvtsd_f64(value);
  return end - begin;
}

// One row of the table.
struct Case {
  size_t dimension;
  size_t keys;
  bool in_l2;
  kernel::PointBlocks points;
  std::vector<double> query;
  std::vector<double> row;
  std::span<const double> same_size;  // numbers to read, as many as the keys have
  size_t turns = 1;
  double key_seconds = 1e300;   // least time a key
  double byte_seconds = 1e300;  // least time a byte read, of as many bytes
};

Case MakeCase(size_t dimension, bool in_l2, std::span<const double> numbers) {
  const size_t keys = in_l2 ? kInL2 / (dimension * sizeof(double)) / 32 * 32 : kInMemory / 32 * 32;
  Case result{dimension, keys, in_l2, kernel::PointBlocks(dimension), {}, {}, {}};
  std::vector<double> point(dimension);
  // From the last key down, so that the blocks grow once.
  for (size_t i = keys; i-- > 0;) {
    const auto from = numbers.subspan(i * dimension, dimension);
    std::copy(from.begin(), from.end(), point.begin());
    result.points.Set(i, point);
  }
  result.query.assign(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(dimension));
  result.row.resize(result.points.size());
  result.same_size = numbers.subspan(0, keys * dimension);
  result.turns = std::max<size_t>(1, 4000000 / (keys * dimension));
  return result;
}

double SecondsOfRows(Case& each, double& sink) {
  const kernel::Kernel kernel{kernel::KernelKind::kRbf, kGamma};
  return SecondsOf([&] {
    for (size_t turn = 0; turn < each.turns; ++turn) {
      each.query[0] += 1e-9;
      kernel::Row(kernel, each.query, each.points, each.row.data());
      sink += each.row[turn % each.row.size()];
    }
  });
}

double KeyOperations(size_t dimension) {
  return 2 * static_cast<double>(dimension) + 1 + kExpOperations;
}

absl::StatusOr<Result> Run(const Settings& settings) {
  const int64_t rounds = settings.Count("--rounds", 60, 15);
  Random random(settings.seed);
  // From a cache line's begin on: a read across two lines counts twice.
  constexpr size_t kLine = 64;
  std::vector<double> storage(kInMemory * kLargest + kLine / sizeof(double));
  for (double& number : storage) number = random.Normal();
  const size_t past = reinterpret_cast<uintptr_t>(storage.data()) % kLine;
  const std::span<const double> numbers(storage.data() + (kLine - past) % kLine / sizeof(double),
                                        kInMemory * kLargest);

  std::vector<Case> cases;
  for (const bool in_l2 : {true, false}) {
    for (const size_t dimension : {size_t{7}, size_t{16}, size_t{64}}) {
      cases.push_back(MakeCase(dimension, in_l2, numbers));
    }
  }
  // Every figure is the least over the rounds: what the machine does when nobody disturbs.
  constexpr size_t kSteps = 1000000;
  double sink = 0.0;
  double fma_seconds = 1e300;  // a step of all chains
  double l1_seconds = 1e300;   // a byte
  const auto l1 = numbers.subspan(0, kInL1 / sizeof(double));
  const size_t l1_turns = 4000000 / l1.size();
  for (int64_t round = 0; round < rounds; ++round) {
    fma_seconds = std::min(fma_seconds, SecondsOfFma(kSteps, sink) / kSteps);
    l1_seconds = std::min(
        l1_seconds, SecondsOfReading(l1, l1_turns, sink) / static_cast<double>(l1_turns * kInL1));
    for (Case& each : cases) {
      const double turns = static_cast<double>(each.turns);
      each.byte_seconds =
          std::min(each.byte_seconds, SecondsOfReading(each.same_size, each.turns, sink) / turns /
                                          static_cast<double>(each.same_size.size_bytes()));
      each.key_seconds = std::min(
          each.key_seconds, SecondsOfRows(each, sink) / turns / static_cast<double>(each.keys));
    }
  }
  LETHE_CHECK(std::isfinite(sink));
  const double operations_per_second = kChains * kLanes / fma_seconds;

  Result result;
  result.seeds = {settings.seed};
  Table& rows = result.tables.emplace_back();
  rows.title = absl::StrCat(
      "Time of a kernel value (rbf, fp64, one thread) and the least it can take: (2 d + ",
      kExpOperations + 1,
      ") fused operations (one subtraction and one fused a coordinate, one "
      "scaling, ",
      kExpOperations,
      " for exp) at the fused peak, or (8 d + 8) bytes at the rate at "
      "which as many bytes are read; share = the larger of both / measured. Best of ",
      rounds, " rounds.");
  rows.columns = {{"keys", ""},         {"d", ""},
                  {"count", ""},        {"block", "KiB"},
                  {"measured", "ns"},   {"fused limit", "ns"},
                  {"read limit", "ns"}, {"read rate", "GB/s"},
                  {"share", ""}};
  Plot& plot = result.plot.emplace();
  plot.title = "A kernel row's share of the nearer limit of the machine";
  plot.y_label = "share";
  plot.series = {{"share", {}}};
  for (const Case& each : cases) {
    const double d = static_cast<double>(each.dimension);
    const double fused = KeyOperations(each.dimension) / operations_per_second;
    const double read = (8 * d + 8) * each.byte_seconds;
    const double share = std::max(fused, read) / each.key_seconds;
    const std::string where = each.in_l2 ? "in L2" : "1e5 keys";
    rows.rows.push_back(
        {where, static_cast<int64_t>(each.dimension), static_cast<int64_t>(each.keys),
         static_cast<int64_t>(each.same_size.size_bytes() / 1024), 1e9 * each.key_seconds,
         1e9 * fused, 1e9 * read, 1e-9 / each.byte_seconds, share});
    plot.categories.push_back(absl::StrCat(where, ", d = ", each.dimension));
    plot.series[0].y.emplace_back(share);
    if (each.dimension == (each.in_l2 ? 16 : 64)) {
      result.claims.push_back({absl::StrCat("the row with d = ", each.dimension, ", ",
                                            each.in_l2 ? "keys in L2" : "1e5 keys in memory",
                                            ", as a share of the nearer limit"),
                               Short(share, 3), absl::StrCat("at least ", kBar), share >= kBar});
    }
  }
  Table& machine = result.tables.emplace_back();
  machine.title = "The machine's limits, one thread, measured between the rows above.";
  machine.columns = {{"limit", ""}, {"value", ""}};
  machine.rows = {
      {std::string("fused operations [1e9 doubles/s]"), 1e-9 * operations_per_second},
      {std::string("reading 16 KiB, in L1 [GB/s]"), 1e-9 / l1_seconds},
      {std::string("reading 256 KiB, in L2 [GB/s]"), 1e-9 / cases[1].byte_seconds},
      {std::string("reading 51 MB, in memory [GB/s]"), 1e-9 / cases.back().byte_seconds}};
  return result;
}

#else

absl::StatusOr<Result> Run(const Settings& /*settings*/) {
  return absl::FailedPreconditionError(
      "the limits are measured with AVX2 and FMA; build with them");
}

#endif

const Registration kRegistration(
    {"row-limit",
     "a kernel row against the machine's arithmetic and memory",
     {{"--rounds", "N", "repetitions of every measurement (60, quick 15)", Flag::Kind::kCount}},
     Run});

}  // namespace
}  // namespace lethe::bench
