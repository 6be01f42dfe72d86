// Gates of gated attention (attention.h): for each chunk of a sequence the tokens before it are a
// support vector data description, and its weights say which of them stay readable.
//
//     a = the solution of (8) over the keys before the chunk        (core/batched/problem.h)
//     gates(c, j) = e^s a_j,      kernel parameter p = e^w
//
// with s and w learned, one of each a head. Tokens in reserve have gate 0: what a reader must keep
// is the tokens with weight and the local chunk. The first chunk has no prefix and no problem.
//
// Problems of one chunk are one batch over all sequences and heads; each starts from the weights of
// the chunk before. A problem that was not solved keeps its feasible weights and gives no gradient;
// one that has no weights (a key that is not finite) closes its prefix. Both are counted.
//
// Shapes: keys (sequences length) x (heads d); `problem` below is sequence heads + head. Gradients
// are added. Requires Validate's conditions. Cost: that of the solver, backend.h.
// Deterministic: sums over sequences are in their order.
#ifndef LETHE_CORE_MODEL_SVDD_GATE_H_
#define LETHE_CORE_MODEL_SVDD_GATE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "core/base/team.h"
#include "core/batched/backend.h"
#include "core/model/matrix.h"

namespace lethe::model {

// What computes; both are the caller's and outlive the call.
struct Runtime {
  Team* team = nullptr;
  batched::Backend* backend = nullptr;  // where there are problems to solve
  batched::Options solver;
};

struct SvddGateOptions {
  batched::KernelForm kernel;
  double box = 0.25;    // C
  double ridge = 1e-3;  // rho
  double width = 0.0;   // p before training; 0: 1 / d
  double scale = 1.0;   // e^s before training

  friend bool operator==(const SvddGateOptions&, const SvddGateOptions&) = default;
};

// As the largest block of a model.
inline constexpr size_t kMaxChunk = 8192;

struct GateShape {
  size_t sequences = 0;
  size_t heads = 0;
  size_t length = 0;
  size_t chunk = 0;

  size_t problems() const { return sequences * heads; }
  // Requires a length.
  size_t chunks() const { return (length - 1) / chunk + 1; }
};
// INVALID_ARGUMENT: "gate.box: ...", "gate.chunk: ..."; the smallest prefix is a chunk, the largest
// all but the last. A chunk may be longer than the sequence: then there is no prefix.
absl::Status Validate(const SvddGateOptions& options, size_t length, size_t chunk);

// What happened in the solver, summed over problems.
struct GateCounters {
  uint64_t problems = 0;
  uint64_t single_pivots = 0;
  uint64_t unsolved = 0;         // with weights that are not the solution
  uint64_t without_weights = 0;  // HasWeights is false
  uint64_t tokens = 0;           // of all prefixes
  uint64_t kept = 0;             // of those, with weight
  uint64_t churn = 0;            // labels unlike those of the problem started from

  void Add(const GateCounters& other);
};
// Adds what `solution` says of its problems.
template <typename T>
void Count(const batched::Solution<T>& solution, size_t n, GateCounters* counters);

template <typename T>
struct SvddGateWorkspace {
  struct Chunk {
    std::vector<T> points;  // problems x n x d
    std::vector<T> start;
    std::vector<uint8_t> previous_labels;
    batched::Solution<T> solution;
  };
  std::vector<Chunk> chunks;  // without the first
  std::vector<T> parameter;   // p a problem
  std::vector<T> scale;       // e^s a head
  T box = 0, ridge = 0;
  Buffer<T> gates, gates_bar;  // (problems chunks) x length
  batched::Gradients<T> gradients;
  std::vector<T> weights_bar;
};

// The rows of `gates` or `gates_bar` of a problem.
template <typename T>
Matrix<T> GatesOf(const Buffer<T>& gates, const GateShape& shape, size_t problem) {
  return gates.get().Rows(problem * shape.chunks(), shape.chunks());
}

template <typename T>
absl::Status SvddGateForward(const Runtime& runtime,
                             const GateShape& shape,
                             const SvddGateOptions& options,
                             In<T> keys,
                             InVector<T> log_widths,
                             InVector<T> log_scales,
                             SvddGateWorkspace<T>* workspace,
                             GateCounters* counters);

// Reads gates_bar, as AttentionBackward leaves it; of the same shape and workspace as Forward.
template <typename T>
absl::Status SvddGateBackward(const Runtime& runtime,
                              const GateShape& shape,
                              const SvddGateOptions& options,
                              SvddGateWorkspace<T>* workspace,
                              Matrix<T> keys_bar,
                              std::span<T> log_widths_bar,
                              std::span<T> log_scales_bar);

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_SVDD_GATE_H_
