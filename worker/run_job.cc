#include "worker/run_job.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "audit/hash.h"
#include "client/convert_jobs.h"
#include "core/base/status_macros.h"
#include "core/training/job_run.h"
#include "worker/lease_keeper.h"

namespace lethe::worker {
namespace {

using Clock = std::chrono::steady_clock;
using program::LogLevel;
using training::JobRun;
using training::TokenData;

// Of a failure's message; the server takes 1,024 bytes.
constexpr size_t kMostMessage = 1000;
constexpr std::chrono::seconds kLogPeriod(30);
// How long a worker that stops tries to reach the server.
constexpr std::chrono::seconds kStopPatience(10);

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

std::string Hex(const audit::Digest& digest) {
  return absl::BytesToHexString(audit::AsBytes(digest));
}

std::string Printable(absl::string_view message) {
  std::string text(message.substr(0, kMostMessage));
  for (char& c : text) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) c = '?';
  }
  return text.empty() ? "unknown error" : text;
}

absl::StatusOr<training::MemoryShape> ShapeOf(const v1::MemoryConfig& config) {
  training::MemoryShape shape;
  shape.key_dimension = config.key_dimension();
  shape.value_dimension = config.value_dimension();
  switch (config.kernel().kind_case()) {
    case v1::Kernel::kRbf:
      shape.kernel = batched::KernelKind::kRbf;
      shape.parameter = config.kernel().rbf().gamma();
      return shape;
    case v1::Kernel::kLaplacian:
      shape.kernel = batched::KernelKind::kLaplacian;
      shape.parameter = config.kernel().laplacian().gamma();
      return shape;
    case v1::Kernel::kExpDot:
      shape.kernel = batched::KernelKind::kExpDot;
      shape.parameter = config.kernel().exp_dot().scale();
      return shape;
    case v1::Kernel::KIND_NOT_SET:
      break;
  }
  return absl::UnimplementedError(
      "the memory's kernel is not known to this worker; upgrade the worker");
}

class Work {
 public:
  Work(const RunContext& context, const v1::LeaseJobResponse& offer, Clock::time_point sent)
      : context_(context),
        offer_(offer),
        keeper_(context.link,
                offer.lease(),
                absl::Seconds(offer.lease_seconds()),
                sent,
                context.log),
        began_(Clock::now()) {}

  RunEnd Run() {
    absl::Status status;
    try {
      status = Compute();
    } catch (const std::bad_alloc&) {
      status = absl::ResourceExhaustedError("this worker has not the memory for the job");
    }
    if (status.ok()) return RunEnd::kSucceeded;
    return GiveUp(status);
  }
  uint64_t failed_beats() { return keeper_.failed_beats(); }
  const std::string& message() const { return message_; }

 private:
  // Why to stop now, if there is a reason.
  std::optional<RunEnd> Interrupted() {
    switch (keeper_.state()) {
      case LeaseKeeper::State::kLost:
        return RunEnd::kLost;
      case LeaseKeeper::State::kCancelled:
        return RunEnd::kCancelled;
      case LeaseKeeper::State::kHeld:
        break;
    }
    if (context_.stop()) return RunEnd::kStopped;
    return std::nullopt;
  }
  absl::Status CheckGoingOn() {
    return Interrupted().has_value() ? absl::CancelledError("interrupted") : absl::OkStatus();
  }
  // Ends trying again once nobody wants what is made any more.
  std::function<bool()> UntilUnwanted() {
    return [this, stopped_long = PatienceOnStop()] {
      return keeper_.state() == LeaseKeeper::State::kCancelled || stopped_long();
    };
  }
  // Ends trying again once the worker has been asked to stop for a while.
  std::function<bool()> PatienceOnStop() {
    return [this, since = std::optional<Clock::time_point>()]() mutable {
      if (!context_.stop()) return false;
      if (!since.has_value()) since = Clock::now();
      return Clock::now() - *since > kStopPatience;
    };
  }

  absl::Status Compute() {
    LETHE_RETURN_IF_ERROR(Begin());
    const Clock::time_point start = Clock::now();
    Clock::time_point saved = start;
    Clock::time_point logged = start;
    uint64_t saved_step = run_->step();
    const uint64_t first_step = run_->step();
    uint64_t tokens = 0;
    while (!run_->done()) {
      if (Interrupted().has_value()) return absl::CancelledError("interrupted");
      const Clock::time_point before = Clock::now();
      LETHE_ASSIGN_OR_RETURN(const training::StepFacts facts, run_->Step(context_.runtime));
      const Clock::time_point now = Clock::now();
      tokens += facts.tokens;
      const double seconds = std::max(Seconds(now - start), 1e-9);
      v1::JobProgress progress = keeper_.progress();
      progress.set_step(run_->step());
      progress.set_steps(run_->steps());
      // One that is not finite is counted by the run; the last one that was stands.
      if (std::isfinite(facts.loss)) progress.set_loss(facts.loss);
      progress.set_mask_churn(facts.churn);
      progress.set_tokens_per_second(static_cast<double>(tokens) / seconds);
      progress.set_seconds_left(static_cast<double>(run_->steps() - run_->step()) * seconds /
                                static_cast<double>(run_->step() - first_step));
      keeper_.SetProgress(progress);
      context_.metrics->Stepped(facts.tokens, Seconds(now - before), progress);
      if (now - logged >= kLogPeriod) {
        logged = now;
        context_.log->Write(LogLevel::kInfo, "job_progress",
                            {{"job", offer_.job().id()},
                             {"step", static_cast<int64_t>(progress.step())},
                             {"steps", static_cast<int64_t>(progress.steps())},
                             {"loss", progress.loss()},
                             {"tokens_per_second", progress.tokens_per_second()},
                             {"seconds_left", progress.seconds_left()}});
      }
      const bool due =
          now - saved >= absl::ToChronoNanoseconds(context_.checkpoint_time) ||
          (context_.checkpoint_steps > 0 && run_->step() - saved_step >= context_.checkpoint_steps);
      // One of the last step too: measuring and sending may take long.
      if (due || run_->done()) {
        LETHE_RETURN_IF_ERROR(SaveCheckpoint());
        saved = Clock::now();
        saved_step = run_->step();
      }
    }
    return Finish();
  }

  absl::Status Begin() {
    const v1::Job& job = offer_.job();
    const std::optional<jobs::JobConfig> config = client::convert::ConfigOf(job);
    if (!config.has_value()) {
      return absl::UnimplementedError(
          "the server is newer than this worker, which does not know all of the job's "
          "configuration; upgrade the worker");
    }
    LETHE_ASSIGN_OR_RETURN(const training::MemoryShape shape, ShapeOf(offer_.memory_config()));
    // The server has accepted it, with its own limit of files.
    if (const absl::Status fits =
            training::CheckConfig(*config, shape, std::numeric_limits<uint64_t>::max());
        !fits.ok()) {
      return absl::UnimplementedError(
          absl::StrCat("this worker refuses what the server has accepted, which is of another "
                       "release; upgrade it: ",
                       fits.message()));
    }
    config_text_ = training::ConfigText(*config);
    LETHE_RETURN_IF_ERROR(ReadTokens(KindOf(*config), shape));
    std::string checkpoint;
    if (offer_.checkpoint_bytes() > 0) {
      const absl::Status loaded = keeper_.Retry(
          [&]() -> absl::Status {
            absl::StatusOr<std::string> bytes = context_.link->LoadCheckpoint(keeper_.lease());
            if (!bytes.ok()) return bytes.status();
            checkpoint = *std::move(bytes);
            return absl::OkStatus();
          },
          [this] { return Interrupted().has_value(); });
      // None that is whole: from the beginning.
      if (!loaded.ok() && !absl::IsNotFound(loaded)) return loaded;
    }
    LETHE_RETURN_IF_ERROR(CheckGoingOn());
    LETHE_ASSIGN_OR_RETURN(
        run_, training::BeginRun(*config, shape, std::move(data_),
                                 {.data_sha256 = data_sha256_,
                                  .build = absl::StrCat(context_.build, ", ", context_.backend)},
                                 checkpoint));
    v1::JobProgress progress = job.progress();
    progress.set_step(run_->step());
    progress.set_steps(run_->steps());
    progress.set_seconds_left(0);
    keeper_.SetProgress(progress);
    context_.log->Write(LogLevel::kInfo, "job_began",
                        {{"job", job.id()},
                         {"tenant", job.tenant()},
                         {"memory", job.memory()},
                         {"kind", std::string(jobs::JobKindName(KindOf(*config)))},
                         {"tokens", static_cast<int64_t>(tokens_)},
                         {"attempt", static_cast<int64_t>(job.attempts())},
                         {"step", static_cast<int64_t>(run_->step())},
                         {"steps", static_cast<int64_t>(run_->steps())},
                         {"seconds", Seconds(Clock::now() - began_)}});
    return absl::OkStatus();
  }

  absl::Status ReadTokens(jobs::JobKind kind, const training::MemoryShape& shape) {
    return keeper_.Retry([&] { return ReadTokensOnce(kind, shape); },
                         [this] { return Interrupted().has_value(); });
  }
  // Only what the kind reads is kept, and only that is in the digest.
  absl::Status ReadTokensOnce(jobs::JobKind kind, const training::MemoryShape& shape) {
    const bool text = training::ReadsText(kind);
    data_ = TokenData();
    data_.key_dimension = shape.key_dimension;
    data_.value_dimension = shape.value_dimension;
    audit::Sha256Hasher hasher;
    hasher.Update(text ? "lethe job data 1: text\n" : "lethe job data 1: keys and values\n");
    const absl::Status read = context_.link->ReadTokens(
        keeper_.lease(),
        [&](uint64_t count) {
          hasher.UpdateU64(count);
          return absl::OkStatus();
        },
        [&](const v1::TrainingTokens::Token& token) -> absl::Status {
          LETHE_RETURN_IF_ERROR(CheckGoingOn());
          ++data_.tokens;
          if (text) {
            hasher.UpdateU64(token.payload().size()).Update(token.payload());
            data_.text += token.payload();
            return absl::OkStatus();
          }
          if (static_cast<size_t>(token.key_size()) != shape.key_dimension ||
              static_cast<size_t>(token.value_size()) != shape.value_dimension) {
            return absl::InternalError("the server sent a token of other dimensions");
          }
          for (const double number : token.key()) hasher.UpdateDouble(number);
          for (const double number : token.value()) hasher.UpdateDouble(number);
          data_.keys.insert(data_.keys.end(), token.key().begin(), token.key().end());
          data_.values.insert(data_.values.end(), token.value().begin(), token.value().end());
          return absl::OkStatus();
        });
    if (!read.ok()) return read;
    tokens_ = data_.tokens;
    data_sha256_ = Hex(hasher.Finish());
    return absl::OkStatus();
  }

  absl::Status SaveCheckpoint() {
    const Clock::time_point before = Clock::now();
    const std::string bytes = run_->Checkpoint();
    const absl::Status status = keeper_.Retry(
        [&] {
          return context_.link->SaveCheckpoint(keeper_.lease(), keeper_.progress(), bytes).status();
        },
        UntilUnwanted());
    if (absl::IsResourceExhausted(status)) {
      // A full disk or quota: it may still end well, and costs more only if this worker is lost.
      context_.log->Write(LogLevel::kWarning, "checkpoint_refused",
                          {{"job", offer_.job().id()}, {"message", std::string(status.message())}});
      return absl::OkStatus();
    }
    LETHE_RETURN_IF_ERROR(status);
    const double seconds = Seconds(Clock::now() - before);
    context_.metrics->Checkpointed(bytes.size(), seconds);
    context_.log->Write(LogLevel::kInfo, "checkpoint_saved",
                        {{"job", offer_.job().id()},
                         {"step", static_cast<int64_t>(run_->step())},
                         {"bytes", static_cast<int64_t>(bytes.size())},
                         {"seconds", seconds}});
    return absl::OkStatus();
  }

  absl::Status Finish() {
    LETHE_ASSIGN_OR_RETURN(const training::RunResult result, run_->Finish(context_.runtime, [this] {
      return Interrupted().has_value();
    }));
    LETHE_RETURN_IF_ERROR(CheckGoingOn());
    training::Json manifest = {
        {"build", context_.build},     {"backend", context_.backend},
        {"device", context_.device},   {"config_sha256", Hex(audit::Sha256(config_text_))},
        {"data_sha256", data_sha256_}, {"seconds_of_last_run", Seconds(Clock::now() - began_)},
    };
    manifest.update(result.facts);
    const std::string text = manifest.dump(-1, ' ', true, training::Json::error_handler_t::replace);
    return keeper_.Retry(
        [&] {
          return context_.link->Complete(keeper_.lease(), keeper_.progress(), text, result.artefact)
              .status();
        },
        UntilUnwanted());
  }

  // A checkpoint may be as large as what the run holds.
  absl::Status SaveLast() {
    try {
      return SaveCheckpoint();
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError("this worker has not the memory for a checkpoint");
    }
  }

  RunEnd GiveUp(const absl::Status& status) {
    const std::optional<RunEnd> interrupted = Interrupted();
    if (interrupted == RunEnd::kLost) return RunEnd::kLost;
    v1::WorkerEnd end = v1::WORKER_END_RETRY;
    RunEnd result = RunEnd::kRetry;
    if (interrupted == RunEnd::kCancelled) {
      end = v1::WORKER_END_CANCELLED;
      result = RunEnd::kCancelled;
    } else if (interrupted == RunEnd::kStopped) {
      end = v1::WORKER_END_STOPPING;
      result = RunEnd::kStopped;
      // What it has computed until here is not lost. Where that fails the last one counts.
      if (run_ != nullptr) {
        const absl::Status saved = SaveLast();
        if (keeper_.state() == LeaseKeeper::State::kLost) return RunEnd::kLost;
        if (!saved.ok()) LogFailure("checkpoint_failed", saved);
      }
    } else {
      message_ = Printable(status.message());
      if (absl::IsInvalidArgument(status)) {
        end = v1::WORKER_END_FINAL;
        result = RunEnd::kFailed;
      }
    }
    const absl::Status told = keeper_.Retry(
        [&] { return context_.link->Fail(keeper_.lease(), end, message_, keeper_.progress()); },
        PatienceOnStop());
    if (keeper_.state() == LeaseKeeper::State::kLost) return RunEnd::kLost;
    if (!told.ok()) LogFailure("giving_back_failed", told);
    return result;
  }

  void LogFailure(absl::string_view event, const absl::Status& status) {
    context_.log->Write(LogLevel::kWarning, event,
                        {{"job", offer_.job().id()},
                         {"code", static_cast<int64_t>(status.code())},
                         {"message", std::string(status.message())}});
  }

  const RunContext& context_;
  const v1::LeaseJobResponse& offer_;
  LeaseKeeper keeper_;
  const Clock::time_point began_;
  std::string config_text_;
  TokenData data_;  // until the run has it
  uint64_t tokens_ = 0;
  std::string data_sha256_;
  std::unique_ptr<JobRun> run_;
  std::string message_;
};

}  // namespace

absl::string_view RunEndName(RunEnd end) {
  switch (end) {
    case RunEnd::kSucceeded:
      return "succeeded";
    case RunEnd::kFailed:
      return "failed";
    case RunEnd::kRetry:
      return "retry";
    case RunEnd::kCancelled:
      return "cancelled";
    case RunEnd::kStopped:
      return "stopped";
    case RunEnd::kLost:
      return "lost";
  }
  return "";
}

RunEnd RunJob(const RunContext& context,
              const v1::LeaseJobResponse& offer,
              Clock::time_point sent) {
  context.metrics->Began();
  const Clock::time_point began = Clock::now();
  Work work(context, offer, sent);
  const RunEnd end = work.Run();
  context.metrics->HeartbeatsFailed(work.failed_beats());
  context.metrics->Ended(jobs::JobKindName(static_cast<jobs::JobKind>(offer.job().kind())),
                         RunEndName(end));
  const bool well =
      end == RunEnd::kSucceeded || end == RunEnd::kCancelled || end == RunEnd::kStopped;
  context.log->Write(well ? LogLevel::kInfo : LogLevel::kWarning, "job_ended",
                     {{"job", offer.job().id()},
                      {"end", std::string(RunEndName(end))},
                      {"seconds", Seconds(Clock::now() - began)},
                      {"message", work.message()}});
  return end;
}

}  // namespace lethe::worker
