#include "worker/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/jobs/job_config.h"
#include "worker/run_job.h"

namespace lethe::worker {
namespace {

constexpr size_t kThreads = 2;

prometheus::Counter& CounterOf(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
}
prometheus::Gauge& GaugeOf(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
}

}  // namespace

struct Metrics::Impl {
  std::shared_ptr<prometheus::Registry> registry = std::make_shared<prometheus::Registry>();
  prometheus::Family<prometheus::Counter>& ended =
      prometheus::BuildCounter()
          .Name("lethe_worker_jobs_total")
          .Help("Jobs that this worker had, by kind and how they ended here.")
          .Register(*registry);
  prometheus::Gauge& busy =
      GaugeOf(*registry, "lethe_worker_busy", "Whether the worker has a job.");
  prometheus::Gauge& step = GaugeOf(*registry, "lethe_worker_job_step", "Step of the job at hand.");
  prometheus::Gauge& steps =
      GaugeOf(*registry, "lethe_worker_job_steps", "Steps that the job at hand has.");
  prometheus::Gauge& loss = GaugeOf(*registry, "lethe_worker_job_loss", "Loss of the last step.");
  prometheus::Gauge& churn = GaugeOf(*registry,
                                     "lethe_worker_job_mask_churn",
                                     "Share of labels that changed in the last step.");
  prometheus::Counter& step_count =
      CounterOf(*registry, "lethe_worker_steps_total", "Steps computed.");
  prometheus::Counter& step_seconds =
      CounterOf(*registry, "lethe_worker_step_seconds_total", "Time that they took.");
  prometheus::Counter& tokens =
      CounterOf(*registry, "lethe_worker_tokens_total", "Tokens computed with.");
  prometheus::Counter& checkpoints =
      CounterOf(*registry, "lethe_worker_checkpoints_total", "Checkpoints saved.");
  prometheus::Counter& checkpoint_bytes =
      CounterOf(*registry, "lethe_worker_checkpoint_bytes_total", "Bytes of them.");
  prometheus::Counter& checkpoint_seconds =
      CounterOf(*registry, "lethe_worker_checkpoint_seconds_total", "Time that saving them took.");
  prometheus::Counter& heartbeats_failed =
      CounterOf(*registry, "lethe_worker_heartbeats_failed_total", "Heartbeats that failed.");
  std::unique_ptr<prometheus::Exposer> exposer;
};

Metrics::Metrics(absl::string_view version, absl::string_view backend)
    : impl_(std::make_unique<Impl>()) {
  prometheus::BuildGauge()
      .Name("lethe_worker_info")
      .Help("Version and backend; always 1.")
      .Register(*impl_->registry)
      .Add({{"version", std::string(version)}, {"backend", std::string(backend)}})
      .Set(1);
  // Series from the first one on: an increase is seen from 0.
  using jobs::JobKind;
  for (const JobKind kind : {JobKind::kCalibrate, JobKind::kTrainEncoder, JobKind::kTrainLm}) {
    for (const RunEnd end : {RunEnd::kSucceeded, RunEnd::kFailed, RunEnd::kRetry,
                             RunEnd::kCancelled, RunEnd::kStopped, RunEnd::kLost}) {
      impl_->ended.Add(
          {{"kind", std::string(jobs::JobKindName(kind))}, {"end", std::string(RunEndName(end))}});
    }
  }
}
Metrics::~Metrics() = default;

absl::StatusOr<int> Metrics::Serve(const std::string& address) {
  // The library reports by exceptions.
  try {
    impl_->exposer = std::make_unique<prometheus::Exposer>(address, kThreads);
    impl_->exposer->RegisterCollectable(impl_->registry, "/metrics");
    return impl_->exposer->GetListeningPorts().at(0);
  } catch (const std::exception&) {
    return absl::InvalidArgumentError(absl::StrCat("--metrics-listen: cannot listen at ", address));
  }
}

void Metrics::Began() { impl_->busy.Set(1); }

void Metrics::Ended(absl::string_view kind, absl::string_view how) {
  impl_->busy.Set(0);
  for (prometheus::Gauge* gauge : {&impl_->step, &impl_->steps, &impl_->loss, &impl_->churn}) {
    gauge->Set(0);
  }
  impl_->ended.Add({{"kind", std::string(kind)}, {"end", std::string(how)}}).Increment();
}

void Metrics::Stepped(uint64_t tokens, double seconds, const v1::JobProgress& progress) {
  impl_->step.Set(static_cast<double>(progress.step()));
  impl_->steps.Set(static_cast<double>(progress.steps()));
  impl_->loss.Set(progress.loss());
  impl_->churn.Set(progress.mask_churn());
  impl_->step_count.Increment();
  impl_->step_seconds.Increment(seconds);
  impl_->tokens.Increment(static_cast<double>(tokens));
}

void Metrics::Checkpointed(uint64_t bytes, double seconds) {
  impl_->checkpoints.Increment();
  impl_->checkpoint_bytes.Increment(static_cast<double>(bytes));
  impl_->checkpoint_seconds.Increment(seconds);
}

void Metrics::HeartbeatsFailed(uint64_t count) {
  impl_->heartbeats_failed.Increment(static_cast<double>(count));
}

std::string Metrics::Text() const {
  return prometheus::TextSerializer().Serialize(impl_->registry->Collect());
}

}  // namespace lethe::worker
