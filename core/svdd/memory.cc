#include "core/svdd/memory.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/svdd/eviction.h"
#include "core/svdd/ladder.h"
#include "core/svdd/solver.h"

namespace lethe::svdd {
namespace {

absl::Status CheckVector(absl::string_view field, std::span<const double> vector, int dimension) {
  if (vector.size() != static_cast<size_t>(dimension)) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": has ", vector.size(), " numbers, this memory's have ", dimension));
  }
  for (size_t k = 0; k < vector.size(); ++k) {
    if (!std::isfinite(vector[k])) {
      return absl::InvalidArgumentError(absl::StrCat(
          field, "[", k, "]: must be finite, got ", std::isnan(vector[k]) ? "NaN" : "an infinity"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

class ExactMemory::Impl {
 public:
  explicit Impl(const MemoryOptions& memory_options)
      : options(memory_options), solver(memory_options) {
    state = std::make_shared<const Snapshot>(solver.Publish().value());
  }

  absl::StatusOr<UpdateReport> Finish(const PartitionCounts& before) {
    std::optional<Snapshot> published = solver.Publish();
    if (!published.has_value()) {
      // A state that could not be certified is not served: once more from the tokens alone.
      ++counters.refits;
      Solver fresh = FromTokens(solver.tokens());
      published = fresh.Publish();
      if (!published.has_value()) {
        spent = true;
        return Spent();
      }
      solver = std::move(fresh);
    }
    state = std::make_shared<const Snapshot>(*std::move(published));
    ++counters.updates;
    if (solver.proved_anew()) ++counters.proofs;
    if (solver.proved_anew() && state->proof.precision_bits > kDoubleDoubleBits) ++counters.climbs;
    if (solver.method() == Method::kFallback) ++counters.fallbacks;
    return UpdateReport{.before = before,
                        .after = state->counts,
                        .method = solver.method(),
                        .events = solver.events(),
                        .precision_bits = state->proof.precision_bits};
  }

  Solver FromTokens(const TokenTable& tokens) const {
    std::vector<NewToken> all;
    for (const TokenHandle handle : tokens.Handles()) {
      all.push_back({handle, tokens.Key(tokens.GroupOf(handle)), tokens.Value(handle)});
    }
    Solver fresh(options);
    fresh.Insert(all);
    return fresh;
  }

  // Handles above all so far, contents fit; the largest handle afterwards.
  absl::StatusOr<std::optional<TokenHandle>> CheckTokens(const ExactMemory& memory,
                                                         std::span<const NewToken> tokens) const {
    if (spent) return Spent();
    std::optional<TokenHandle> last = last_handle;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (last.has_value() && tokens[i].handle <= *last) {
        return absl::InvalidArgumentError(
            absl::StrCat("tokens[", i, "].handle: must be above ", *last));
      }
      last = tokens[i].handle;
      if (absl::Status status = memory.Validate(tokens[i].key, tokens[i].value); !status.ok()) {
        return absl::Status(status.code(), absl::StrCat("tokens[", i, "].", status.message()));
      }
    }
    return last;
  }

  static absl::Status Spent() {
    return absl::InternalError("the state of these tokens cannot be decided at any precision");
  }

  absl::Status CheckHandles(std::span<const TokenHandle> handles) const {
    if (spent) return Spent();
    std::vector<TokenHandle> sorted(handles.begin(), handles.end());
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < sorted.size(); ++i) {
      if (!solver.tokens().Contains(sorted[i])) {
        return absl::NotFoundError(absl::StrCat("handles: no token ", sorted[i]));
      }
      if (i > 0 && sorted[i] == sorted[i - 1]) {
        return absl::InvalidArgumentError(absl::StrCat("handles: token ", sorted[i], " twice"));
      }
    }
    return absl::OkStatus();
  }

  const MemoryOptions options;
  Solver solver;
  std::shared_ptr<const Snapshot> state;
  SolverCounters counters;
  bool spent = false;  // the solver gave up: nothing but the last state is good
  std::optional<TokenHandle> last_handle;
};

absl::StatusOr<std::unique_ptr<ExactMemory>> ExactMemory::Create(const MemoryOptions& options) {
  LETHE_RETURN_IF_ERROR(svdd::Validate(options));
  return absl::WrapUnique(new ExactMemory(std::make_unique<Impl>(options)));
}

ExactMemory::ExactMemory(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ExactMemory::~ExactMemory() = default;

absl::Status ExactMemory::Validate(std::span<const double> key,
                                   std::span<const double> value) const {
  LETHE_RETURN_IF_ERROR(CheckVector("key", key, impl_->options.key_dimension));
  LETHE_RETURN_IF_ERROR(kernel::ValidateKey(impl_->options.kernel, key));
  LETHE_RETURN_IF_ERROR(CheckVector("value", value, impl_->options.value_dimension));
  for (size_t k = 0; k < value.size(); ++k) {
    if (std::abs(value[k]) > kMaxValue) {
      return absl::InvalidArgumentError(
          absl::StrCat("value[", k, "]: is above ", kMaxValue, " in magnitude"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<UpdateReport> ExactMemory::Insert(std::span<const NewToken> tokens) {
  LETHE_ASSIGN_OR_RETURN(impl_->last_handle, impl_->CheckTokens(*this, tokens));
  const PartitionCounts before = impl_->state->counts;
  impl_->solver.Insert(tokens);
  return impl_->Finish(before);
}

absl::StatusOr<UpdateReport> ExactMemory::Forget(std::span<const TokenHandle> handles) {
  LETHE_RETURN_IF_ERROR(impl_->CheckHandles(handles));
  const PartitionCounts before = impl_->state->counts;
  impl_->solver.Forget(handles);
  return impl_->Finish(before);
}

absl::StatusOr<UpdateReport> ExactMemory::Replace(std::span<const TokenHandle> handles,
                                                  std::span<const NewToken> tokens) {
  LETHE_RETURN_IF_ERROR(impl_->CheckHandles(handles));
  LETHE_ASSIGN_OR_RETURN(impl_->last_handle, impl_->CheckTokens(*this, tokens));
  const PartitionCounts before = impl_->state->counts;
  impl_->solver.Replace(handles, tokens);
  return impl_->Finish(before);
}

EvictionPlan ExactMemory::PlanEviction(size_t budget) const {
  if (impl_->spent) return {};
  return svdd::PlanEviction(impl_->solver.tokens(), *impl_->state, budget);
}

std::vector<TokenHandle> ExactMemory::MarginHandles() const {
  if (impl_->spent || impl_->state->phase != Phase::kActive) return {};
  return impl_->solver.MarginHandles();
}

std::optional<MarginSolution> ExactMemory::SolveMarginSystem(std::span<const double> b,
                                                             double mass) const {
  if (impl_->spent) return std::nullopt;
  return impl_->solver.SolveMarginSystem(b, mass);
}

std::shared_ptr<const Snapshot> ExactMemory::snapshot() const { return impl_->state; }

std::shared_ptr<const Snapshot> ExactMemory::Refit() const {
  Solver solver = impl_->FromTokens(impl_->solver.tokens());
  return std::make_shared<const Snapshot>(solver.Publish().value_or(Snapshot(impl_->options)));
}

absl::StatusOr<std::shared_ptr<const Snapshot>> ExactMemory::Preview(
    std::span<const TokenHandle> handles) const {
  LETHE_RETURN_IF_ERROR(impl_->CheckHandles(handles));
  Solver solver = impl_->solver;
  solver.Forget(handles);
  std::optional<Snapshot> foreseen = solver.Publish();
  if (!foreseen.has_value()) foreseen = impl_->FromTokens(solver.tokens()).Publish();
  if (!foreseen.has_value()) return Impl::Spent();
  return std::make_shared<const Snapshot>(*std::move(foreseen));
}

size_t ExactMemory::size() const { return impl_->solver.tokens().size(); }
const SolverCounters& ExactMemory::counters() const { return impl_->counters; }

bool SameBits(const Snapshot& a, const Snapshot& b) {
  const auto same = [](const std::optional<double>& x, const std::optional<double>& y) {
    return x.has_value() == y.has_value() &&
           (!x.has_value() || std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(*y));
  };
  return a.phase == b.phase && a.counts == b.counts && same(a.mu, b.mu) &&
         same(a.mu_low, b.mu_low) && same(a.mu_high, b.mu_high) &&
         std::ranges::equal(
             a.supports, b.supports, [](const SupportToken& x, const SupportToken& y) {
               return x.handle == y.handle && x.label == y.label &&
                      std::bit_cast<uint64_t>(x.alpha) == std::bit_cast<uint64_t>(y.alpha);
             });
}

}  // namespace lethe::svdd
