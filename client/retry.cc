#include "client/retry.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/mutex.h"

namespace lethe::client {
namespace {

constexpr char kRetryDelay[] = "lethe/retry-delay-milliseconds";

class UniformSource {
 public:
  double operator()() {
    MutexLock lock(mutex_);
    return std::uniform_real_distribution<double>(0.0, 1.0)(generator_);
  }

 private:
  Mutex mutex_;
  std::mt19937_64 generator_ ABSL_GUARDED_BY(mutex_){std::random_device{}()};
};

template <typename Request>
Idempotency OfErasure(const Request& request) {
  return request.dry_run || !request.request_id.empty() ? Idempotency::kSafeToRepeat
                                                        : Idempotency::kNotSafe;
}

}  // namespace

Idempotency IdempotencyOf(const std::vector<Token>& insert) {
  const bool all_named = std::all_of(insert.begin(), insert.end(),
                                     [](const Token& token) { return !token.id.empty(); });
  return all_named ? Idempotency::kSafeToRepeat : Idempotency::kNotSafe;
}

Idempotency IdempotencyOf(const ForgetRequest& forget) { return OfErasure(forget); }
Idempotency IdempotencyOf(const EvictRequest& evict) { return OfErasure(evict); }
Idempotency IdempotencyOf(const EditRequest& edit) { return OfErasure(edit); }

std::optional<absl::Duration> RetryDelayOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kRetryDelay);
  int64_t milliseconds = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &milliseconds)) {
    return std::nullopt;
  }
  return absl::Milliseconds(milliseconds);
}

absl::Status WithRetryDelay(absl::Status status, absl::Duration delay) {
  const int64_t milliseconds = absl::ToInt64Milliseconds(absl::Ceil(delay, absl::Milliseconds(1)));
  status.SetPayload(kRetryDelay, absl::Cord(absl::StrCat(std::max<int64_t>(0, milliseconds))));
  return status;
}

bool IsTransient(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsCancelled(status) || IsRefusedForNow(status);
}

bool IsRefusedForNow(const absl::Status& status) {
  return absl::IsResourceExhausted(status) && RetryDelayOf(status).has_value();
}

Environment Environment::Real() {
  auto source = std::make_shared<UniformSource>();
  return {.now = [] { return absl::Now(); },
          .sleep = [](absl::Duration duration) { absl::SleepFor(duration); },
          .uniform = [source] { return (*source)(); }};
}

absl::Duration Backoff::Next(double uniform) {
  const absl::Duration base = std::min(base_, max_);
  base_ = std::min(base * 2, max_);
  return base * (0.5 + 0.5 * uniform);
}

absl::Duration WaitBefore(Backoff& backoff, double uniform, const absl::Status& status) {
  const absl::Duration wait = backoff.Next(uniform);
  const absl::Duration delay = RetryDelayOf(status).value_or(absl::ZeroDuration());
  return delay > wait ? delay * (1.0 + 0.25 * uniform) : wait;
}

absl::Status RetryLoop(const Options& options,
                       const Environment& environment,
                       Idempotency idempotency,
                       const std::function<absl::Status(absl::Time deadline)>& attempt) {
  const absl::Time deadline = environment.now() + options.deadline;
  Backoff backoff(options.initial_backoff, options.max_backoff);
  for (int failed = 0;;) {
    absl::Status status = attempt(deadline);
    if (status.ok() || !IsTransient(status)) return status;
    if (!IsRefusedForNow(status)) {
      if (idempotency == Idempotency::kNotSafe || ++failed >= options.max_attempts) return status;
    } else if (options.max_attempts == 1) {
      return status;
    }
    const absl::Duration wait = WaitBefore(backoff, environment.uniform(), status);
    if (environment.now() + wait >= deadline) return status;
    environment.sleep(wait);
  }
}

}  // namespace lethe::client
