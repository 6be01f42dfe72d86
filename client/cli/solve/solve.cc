#include "client/cli/solve/solve.h"

#include <memory>
#include <optional>
#include <span>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/svdd/memory.h"

namespace lethe::cli {
namespace {

using svdd::ExactMemory;
using svdd::Snapshot;
using svdd::TokenHandle;

constexpr size_t kNone = static_cast<size_t>(-1);

// The handle of a token is its index plus one, in every memory made here.
TokenHandle HandleOf(size_t token) { return token + 1; }

// A memory that was fed with every token but `without`.
absl::StatusOr<std::unique_ptr<ExactMemory>> MakeMemory(const VectorCase& problem, size_t without) {
  LETHE_ASSIGN_OR_RETURN(std::unique_ptr<ExactMemory> memory,
                         ExactMemory::Create(*problem.options));
  const auto d = static_cast<size_t>(problem.options->key_dimension);
  const auto m = static_cast<size_t>(problem.options->value_dimension);
  std::vector<svdd::NewToken> tokens;
  for (size_t i = 0; i < problem.tokens; ++i) {
    if (i == without) continue;
    const svdd::NewToken token{.handle = HandleOf(i),
                               .key = std::span(problem.keys).subspan(i * d, d),
                               .value = std::span(problem.values).subspan(i * m, m)};
    if (const absl::Status status = memory->Validate(token.key, token.value); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("token ", i, ": ", status.message()));
    }
    tokens.push_back(token);
  }
  if (!tokens.empty()) LETHE_RETURN_IF_ERROR(memory->Insert(tokens).status());
  return memory;
}

char Letter(svdd::Label label) {
  switch (label) {
    case svdd::Label::kReserve:
      return 'R';
    case svdd::Label::kMargin:
      return 'S';
    case svdd::Label::kError:
      return 'E';
  }
  return '?';
}

SolvedState Read(const VectorCase& problem, size_t without, const Snapshot& snapshot) {
  SolvedState state;
  state.precision_bits = snapshot.proof.precision_bits;
  size_t next = 0;
  for (size_t i = 0; i < problem.tokens; ++i) {
    if (i == without) continue;
    char letter = 'R';
    double alpha = 0.0;
    if (next < snapshot.supports.size() && snapshot.supports[next].handle == HandleOf(i)) {
      letter = Letter(snapshot.supports[next].label);
      alpha = snapshot.supports[next].alpha;
      ++next;
    }
    state.partition += letter;
    state.alpha.push_back(alpha);
  }
  LETHE_CHECK(next == snapshot.supports.size());
  if (snapshot.phase == svdd::Phase::kEmpty) return state;
  for (const std::vector<double>& query : problem.queries) {
    svdd::Readout readout = snapshot.Query(query, /*want_shares=*/false);
    if (problem.has_values) state.readout.push_back(std::move(readout.value));
    state.decision.push_back(readout.kernel_sum);
  }
  return state;
}

}  // namespace

absl::StatusOr<SolvedCase> SolveCase(const VectorCase& problem) {
  SolvedCase solved;
  {
    LETHE_ASSIGN_OR_RETURN(const auto memory, MakeMemory(problem, kNone));
    const std::shared_ptr<const Snapshot> cold = memory->Refit();
    solved.full = Read(problem, kNone, *cold);
    solved.insert_equals_refit = svdd::SameBits(*memory->snapshot(), *cold);
  }
  for (size_t token = 0; token < problem.tokens; ++token) {
    LETHE_ASSIGN_OR_RETURN(const auto memory, MakeMemory(problem, kNone));
    const TokenHandle handle = HandleOf(token);
    LETHE_ASSIGN_OR_RETURN(const svdd::UpdateReport report, memory->Forget({&handle, 1}));
    // A memory of its own, so that nothing of the forgetting one takes part in its own judgement.
    LETHE_ASSIGN_OR_RETURN(const auto never_saw_it, MakeMemory(problem, token));
    const std::shared_ptr<const Snapshot> after = memory->snapshot();
    solved.deletions.push_back(
        {.deleted = token,
         .state = Read(problem, token, *after),
         .equal_bits_to_refit = svdd::SameBits(*after, *never_saw_it->Refit()),
         .fallback =
             report.method == svdd::Method::kFallback || report.method == svdd::Method::kCold});
  }
  return solved;
}

}  // namespace lethe::cli
