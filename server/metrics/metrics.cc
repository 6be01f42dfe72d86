#include "server/metrics/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <array>
#include <atomic>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "server/metrics/process.h"

namespace lethe::metrics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr size_t kCodes = 17;

// Seconds: from a query of a small memory to an erasure of a large one.
const prometheus::Histogram::BucketBoundaries& Buckets() {
  static const auto* buckets = new prometheus::Histogram::BucketBoundaries{
      0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
      0.1,    0.25,    0.5,    1.0,   2.5,    5.0,   10.0, 30.0,  60.0};
  return *buckets;
}

using Calls = prometheus::Family<prometheus::Counter>;

class Method final : public service::MethodObserver {
 public:
  // `duration` null: not measured.
  Method(std::string name,
         Calls* calls,
         prometheus::Gauge* in_flight,
         prometheus::Histogram* duration)
      : name_(std::move(name)), calls_(calls), in_flight_(in_flight), duration_(duration) {
    CountOf(absl::StatusCode::kOk);  // so that a rate can be taken from the first scrape on
  }

  void Started() override { in_flight_->Increment(); }
  void Ended(absl::StatusCode code, absl::Duration duration) override {
    in_flight_->Decrement();
    CountOf(code).Increment();
    if (duration_ != nullptr) duration_->Observe(absl::ToDoubleSeconds(duration));
  }

 private:
  prometheus::Counter& CountOf(absl::StatusCode code) {
    std::atomic<prometheus::Counter*>& known = counts_[static_cast<size_t>(code) % kCodes];
    prometheus::Counter* count = known.load();
    if (count == nullptr) {
      // Two threads get the same one.
      count = &calls_->Add({{"method", name_}, {"code", absl::StatusCodeToString(code)}});
      known.store(count);
    }
    return *count;
  }

  const std::string name_;
  Calls* const calls_;
  prometheus::Gauge* const in_flight_;
  prometheus::Histogram* const duration_;
  std::array<std::atomic<prometheus::Counter*>, kCodes> counts_ = {};
};

// Families that are made at each scrape.
class Families {
 public:
  struct Sample {
    std::vector<ClientMetric::Label> labels;
    double value = 0.0;
  };

  void Gauge(const char* name, const char* help, double value) {
    Gauges(name, help, {{{}, value}});
  }
  void Gauges(const char* name, const char* help, const std::vector<Sample>& samples) {
    MetricFamily& family = Add(name, help, MetricType::Gauge);
    for (const Sample& sample : samples) {
      ClientMetric& metric = family.metric.emplace_back();
      metric.label = sample.labels;
      metric.gauge.value = sample.value;
    }
  }
  void Counter(const char* name, const char* help, double value) {
    Counters(name, help, {{{}, value}});
  }
  void Counters(const char* name, const char* help, const std::vector<Sample>& samples) {
    MetricFamily& family = Add(name, help, MetricType::Counter);
    for (const Sample& sample : samples) {
      ClientMetric& metric = family.metric.emplace_back();
      metric.label = sample.labels;
      metric.counter.value = sample.value;
    }
  }
  std::vector<MetricFamily> Take() { return std::move(families_); }

 private:
  MetricFamily& Add(const char* name, const char* help, MetricType type) {
    MetricFamily& family = families_.emplace_back();
    family.name = name;
    family.help = help;
    family.type = type;
    return family;
  }
  std::vector<MetricFamily> families_;
};

double Number(uint64_t value) { return static_cast<double>(value); }
double Number(const std::atomic<uint64_t>& value) { return static_cast<double>(value.load()); }
double Micros(int64_t micros) { return static_cast<double>(micros) / 1e6; }

void AddTenants(const service::ServiceStats& stats, bool by_name, Families& out) {
  const service::TenantRegistry::Stats& tenants = stats.tenants;
  out.Gauges(
      "lethe_tenants", "Tenants, by what state they are in.",
      {{{{"state", "open"}}, Number(tenants.open)},
       {{{"state", "quarantined"}}, Number(tenants.quarantined)},
       {{{"state", "not_open"}}, Number(tenants.tenants - tenants.open - tenants.quarantined)}});
  out.Gauge("lethe_open_tenants_limit", "Tenants that may be open at a time.",
            Number(stats.limits.max_open));
  out.Gauge("lethe_open_tenants_bytes", "Memory that open tenants take, an estimate.",
            Number(tenants.bytes));
  out.Gauge("lethe_open_tenants_bytes_limit", "Memory that open tenants may take.",
            Number(stats.limits.max_bytes));
  out.Gauge("lethe_tenant_openings_waiting", "Calls that open a tenant or wait for one.",
            Number(tenants.waiting));
  out.Gauge("lethe_tenant_openings_limit", "Calls that may do so at a time.",
            Number(stats.limits.max_waiting));
  out.Gauge("lethe_memories", "Memories of open tenants.", Number(tenants.sum.memories));
  out.Gauge("lethe_tokens", "Tokens of open tenants.", Number(tenants.sum.tokens));
  out.Gauges("lethe_partition_tokens", "Tokens of open tenants, by where the solution puts them.",
             {{{{"set", "margin"}}, Number(tenants.sum.partition.margin)},
              {{{"set", "error"}}, Number(tenants.sum.partition.error)},
              {{{"set", "reserve"}}, Number(tenants.sum.partition.reserve)}});
  out.Gauge("lethe_certificates", "Certificates in the logs of all tenants.",
            Number(tenants.certificates));
  if (!by_name) return;
  std::vector<Families::Sample> tokens;
  std::vector<Families::Sample> bytes;
  std::vector<Families::Sample> certificates;
  for (const service::TenantRegistry::Load& load : tenants.largest) {
    tokens.push_back({{{"tenant", load.name}}, Number(load.size.tokens)});
    bytes.push_back({{{"tenant", load.name}}, Number(load.size.bytes)});
    certificates.push_back({{{"tenant", load.name}}, Number(load.certificates)});
  }
  out.Gauges("lethe_tenant_tokens", "Tokens of an open tenant.", tokens);
  out.Gauges("lethe_tenant_bytes", "Memory that an open tenant takes, an estimate.", bytes);
  out.Gauges("lethe_tenant_certificates", "Certificates in the log of an open tenant.",
             certificates);
}

void AddJobs(const service::JobCounts& counts, Families& out) {
  std::vector<Families::Sample> jobs;
  for (size_t i = 0; i < counts.jobs.size(); ++i) {
    const auto state = service::JobStateName(static_cast<service::JobState>(i + 1));
    jobs.push_back({{{"state", std::string(state)}}, Number(counts.jobs[i])});
  }
  out.Gauges("lethe_jobs", "Training jobs that the server keeps.", jobs);
  out.Gauge("lethe_jobs_usable",
            "0 while the file of jobs cannot be used; jobs are refused, erasures go on.",
            counts.usable ? 1 : 0);
  out.Gauge("lethe_jobs_oldest_queued_seconds",
            "How long the job waits that has waited longest for a worker.",
            counts.oldest_queued_seconds);
  out.Gauge("lethe_job_files_bytes", "Content of checkpoints and artefacts.",
            Number(counts.file_bytes));
  out.Counter("lethe_job_attempts_total", "Jobs that were given to a worker, each time anew.",
              Number(counts.leases));
  out.Counter("lethe_job_leases_lost_total",
              "Leases whose time was over before the worker ended them.",
              Number(counts.leases_lost));
  std::vector<Families::Sample> failed;
  for (size_t i = 0; i < counts.failed.size(); ++i) {
    const auto reason = service::JobFailureName(static_cast<service::JobFailure>(i + 1));
    failed.push_back({{{"reason", std::string(reason)}}, Number(counts.failed[i])});
  }
  out.Counters("lethe_jobs_failed_total", "Jobs that were given up.", failed);
  out.Counter("lethe_job_erasures_untold_total",
              "Erasures that the jobs, or some of them, could not be told in time.",
              Number(counts.erasures_untold));
}

void AddDisk(const service::ServiceStats& stats, Families& out) {
  const service::Ballast::State& ballast = stats.ballast;
  out.Gauge("lethe_writes_in_progress", "Changes that run or wait for their tenant.", stats.writes);
  out.Gauge("lethe_writes_limit", "Changes that may do so at a time.", stats.max_writes);
  out.Gauge("lethe_ballast_bytes", "Room on the disk that is to be kept for erasures.",
            Number(ballast.bytes));
  out.Gauge("lethe_ballast_whole", "1 while that room is kept; 0 also where none is to be.",
            ballast.whole ? 1 : 0);
  out.Gauge("lethe_growth_refused", "1 from when an insert was refused for want of room.",
            ballast.refusing ? 1 : 0);
  std::vector<Families::Sample> free;
  if (ballast.data_free.has_value()) {
    free.push_back({{{"folder", "data"}}, Number(*ballast.data_free)});
  }
  if (ballast.vault_free.has_value()) {
    free.push_back({{{"folder", "vault"}}, Number(*ballast.vault_free)});
  }
  out.Gauges("lethe_disk_free_bytes",
             "What may still be written; the vault only where it is on another device.", free);
}

void AddErasures(const service::OpenErasureCounts& counts, Families& out) {
  out.Gauges("lethe_erasure_requests", "Erasure requests of all tenants that are not finished.",
             {{{{"state", "pending"}}, Number(counts.pending)},
              {{{"state", "in_progress"}}, Number(counts.in_progress)}});
  out.Gauge("lethe_erasure_requests_due_soon",
            "Of them, those of whose time less than a quarter is left.", Number(counts.due_soon));
  out.Gauge("lethe_erasure_requests_overdue", "Of them, those whose time is over.",
            Number(counts.overdue));
  out.Gauge("lethe_erasure_callbacks_owed", "Erasure requests that owe somebody a callback.",
            Number(counts.callbacks));
  out.Gauge("lethe_erasure_tenants_unknown",
            "Tenants that could not be read at the start; their requests are in none of these.",
            Number(counts.unknown_tenants));
}

void AddCounters(const service::ServiceCounters& counters, Families& out) {
  out.Counter("lethe_solver_updates_total",
              "Changes that the solver followed, a batch being one; those of openings included.",
              Number(counters.updates));
  out.Counter("lethe_solver_proofs_total", "Of them, those that moved a weight and were proven.",
              Number(counters.proofs));
  out.Counter("lethe_solver_climbs_total",
              "Proofs that needed more than the first rung of the ladder of precisions.",
              Number(counters.climbs));
  out.Counter("lethe_solver_fallbacks_total", "Changes that the cold solver finished.",
              Number(counters.fallbacks));
  out.Counter("lethe_solver_refits_total",
              "States that no rung could decide, solved anew from the tokens.",
              Number(counters.refits));
  std::vector<Families::Sample> verdicts;
  const std::array<const char*, service::kVerdicts> words = {"bit_identical", "proven", "bounded",
                                                             "uncertified"};
  for (size_t i = 0; i < words.size(); ++i) {
    verdicts.push_back({{{"verdict", words[i]}}, Number(counters.verdicts[i])});
  }
  out.Counters("lethe_verdicts_total",
               "Verdicts on states after an erasure, an edit or an eviction, and of Verify.",
               verdicts);
  out.Counter("lethe_failed_checks_total",
              "States that the independent check or a refit refused; they are not served.",
              Number(counters.failed_checks));
  std::vector<Families::Sample> ends;
  const std::array<const char*, service::kErasureEnds> states = {"completed", "denied", "cancelled",
                                                                 "failed"};
  for (size_t i = 0; i < states.size(); ++i) {
    ends.push_back({{{"state", states[i]}}, Number(counters.erasures_ended[i])});
  }
  out.Counters("lethe_erasure_requests_ended_total", "Erasure requests that came to their end.",
               ends);
  out.Counter("lethe_tokens_inserted_total", "Tokens that were inserted.",
              Number(counters.inserted));
  out.Counter("lethe_tokens_erased_total", "Tokens that were erased, evicted or replaced.",
              Number(counters.erased));
  out.Counter("lethe_queries_answered_total", "Queries that were answered; a call may have many.",
              Number(counters.queries));
  out.Counter("lethe_certificates_appended_total", "Certificates that were added to logs.",
              Number(counters.certificates));
  out.Gauge("lethe_last_certificate_timestamp_seconds",
            "When the last certificate was durable; 0 when none was since the start.",
            Micros(counters.last_append_micros.load()));
  std::vector<Families::Sample> refusals;
  for (size_t i = 0; i < service::kQuotas; ++i) {
    const auto name = service::QuotaName(static_cast<service::Quota>(i));
    refusals.push_back({{{"quota", std::string(name)}}, Number(counters.quota_refusals[i])});
  }
  out.Counters("lethe_quota_refusals_total", "Calls that a tenant's quota refused.", refusals);
}

void AddProcess(Families& out) {
  const ProcessStats process = ReadProcessStats();
  out.Gauge("process_resident_memory_bytes", "Memory of the process that is in RAM.",
            Number(process.resident_bytes));
  out.Gauge("process_virtual_memory_bytes", "Address space of the process.",
            Number(process.virtual_bytes));
  out.Gauge("process_threads", "Threads of the process.", Number(process.threads));
  out.Gauge("process_open_fds", "Open file descriptors.", Number(process.open_files));
  out.Gauge("process_max_fds", "Descriptors that may be open.", Number(process.max_files));
  out.Counter("process_cpu_seconds_total", "Processor time that was used.", process.cpu_seconds);
  out.Gauge("process_start_time_seconds", "When the process started.", process.start_seconds);
}

}  // namespace

struct Metrics::Impl {
  service::Service* service;
  const program::EventLog* log;
  MetricsOptions options;
  prometheus::Registry registry{prometheus::Registry::InsertBehavior::Merge};
  Calls* calls = nullptr;
  prometheus::Family<prometheus::Gauge>* in_flight = nullptr;
  prometheus::Family<prometheus::Histogram>* duration = nullptr;
  Mutex mutex;
  std::vector<std::unique_ptr<Method>> methods ABSL_GUARDED_BY(mutex);
  std::atomic<bool> serving{true};
  std::atomic<bool> folders_writable{true};
  std::atomic<bool> reload_succeeded{true};
  std::atomic<int64_t> reload_micros{absl::ToUnixMicros(absl::Now())};
};

Metrics::Metrics(service::Service* service,
                 const program::EventLog* log,
                 const MetricsOptions& options)
    : impl_(new Impl{.service = service, .log = log, .options = options}) {
  impl_->calls = &prometheus::BuildCounter()
                      .Name("lethe_rpc_calls_total")
                      .Help("Calls that ended, by method and code.")
                      .Register(impl_->registry);
  impl_->in_flight = &prometheus::BuildGauge()
                          .Name("lethe_rpc_in_flight")
                          .Help("Calls that run or wait; for a stream, those that are open.")
                          .Register(impl_->registry);
  impl_->duration = &prometheus::BuildHistogram()
                         .Name("lethe_rpc_duration_seconds")
                         .Help("From the arrival of a call to its answer; not of streams.")
                         .Register(impl_->registry);
}

Metrics::~Metrics() = default;

service::MethodObserver* Metrics::ForMethod(absl::string_view service,
                                            absl::string_view method,
                                            bool stream) {
  const std::string name = absl::StrCat(service, "/", method);
  MutexLock lock(impl_->mutex);
  impl_->methods.push_back(std::make_unique<Method>(
      name, impl_->calls, &impl_->in_flight->Add({{"method", name}}),
      stream ? nullptr : &impl_->duration->Add({{"method", name}}, Buckets())));
  return impl_->methods.back().get();
}

void Metrics::SetServing(bool serving) { impl_->serving = serving; }
void Metrics::SetFoldersWritable(bool writable) { impl_->folders_writable = writable; }
void Metrics::Reloaded(bool succeeded) {
  impl_->reload_succeeded = succeeded;
  if (succeeded) impl_->reload_micros = absl::ToUnixMicros(absl::Now());
}

std::string Metrics::Text() const {
  Families out;
  out.Gauges("lethe_build_info", "1; the version is a label.",
             {{{{"version", LETHE_VERSION}}, 1.0}});
  out.Gauge("lethe_serving", "1 while health says SERVING.", impl_->serving ? 1 : 0);
  out.Gauge("lethe_folders_writable", "1 while files can be written in the data folder and vault.",
            impl_->folders_writable ? 1 : 0);
  out.Gauge("lethe_reload_succeeded", "0 when the last reload of the settings was refused.",
            impl_->reload_succeeded ? 1 : 0);
  out.Gauge("lethe_reload_timestamp_seconds", "Since when the present settings hold.",
            Micros(impl_->reload_micros.load()));
  const service::ServiceStats stats = impl_->service->Stats(impl_->options.tenants);
  AddTenants(stats, impl_->options.tenants > 0, out);
  AddJobs(stats.jobs, out);
  AddDisk(stats, out);
  AddErasures(impl_->service->ErasureCounts(), out);
  AddCounters(impl_->service->counters(), out);
  std::vector<Families::Sample> lines;
  for (const program::LogLevel level :
       {program::LogLevel::kInfo, program::LogLevel::kWarning, program::LogLevel::kError}) {
    lines.push_back(
        {{{"level", std::string(program::LogLevelName(level))}}, Number(impl_->log->lines(level))});
  }
  out.Counters("lethe_log_lines_total", "Lines for the log, whether or not its level lets them in.",
               lines);
  AddProcess(out);
  std::ostringstream text;
  const prometheus::TextSerializer serializer;
  serializer.Serialize(text, impl_->registry.Collect());
  serializer.Serialize(text, out.Take());
  return text.str();
}

}  // namespace lethe::metrics
