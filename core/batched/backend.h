// What computes batches: one interface, a backend a kind of machine. All backends pass the same
// tests (tests/batched).
//
//     const std::unique_ptr<Backend> backend = MakeCpuBackend(0);
//     Solution<float> solution;
//     LETHE_RETURN_IF_ERROR(backend->Solve(batch, {}, &solution));
//     Gradients<float> gradients;
//     LETHE_RETURN_IF_ERROR(backend->Backward(batch, solution, {weights_bar}, &gradients));
//
// Method: FISTA on (8) with steps of 1/L, L = 2 min(largest row sum of |K|, 1.1 times a power
// iteration) + rho, restarted by the gradient test; labels are read from its projected iterate.
// Then solves on the labels, flipping the points that violate (8), many at a time while that makes
// them fewer, then one worst point at a time from a feasible point (a primal active-set method,
// which lowers the objective with each step). A polish counts only if its weights sum to 1 within
// rounding and its gap is within the tolerance and no larger than FISTA's, or else below a
// sixteenth of the tolerance, which is what rounding leaves. Where none counts, FISTA's weights are
// the answer, solved if their gap is within the tolerance.
//
// Adjoint: at fixed labels, with A = 2 K_SS + rho I, loss gradient g and m = dL/dmu,
//
//     A lambda + nu 1 = g_S,  1'lambda = m;  lambda = 0 outside S                              (9)
//     dL/dK = diag(lambda) - lambda a' - a lambda',    dL/drho = -lambda'a
//     dL/dC = sum_E g - |E| nu - 2 lambda'K_SE 1
//
// Cost a problem: (T + 10) n |S u E| for FISTA and its step, |S|^3 / 3 for the first solve and for
// each that flips many, |S|^2 for a flip of few, n^2 d / 2 and n^2 / 2 exp for K from points;
// Backward |S|^3 / 3 + |S u E|^2 d. Memory: results, and a few n^2 numbers a thread.
//
// Errors: INVALID_ARGUMENT for shapes and options (Validate); then results are untouched.
// RESOURCE_EXHAUSTED: no memory for results. What a problem's numbers do is its Outcome.
//
// Deterministic: the bits of a problem's answer depend on that problem, the options, the backend
// and the build alone; not on the number of threads, nor on its place or company in the batch.
//
// Threads: calls on one backend may come from any thread; they take turns.
//
// Source: Beck and Teboulle 2009 (FISTA), O'Donoghue and Candes 2015 (restart), Judice and Pires
// 1994 (block pivots), Nocedal and Wright, chapter 16 (active sets); the adjoint is that of arXiv
// 2607.12204 with dL/dC (docs/math.md, section 10).
#ifndef LETHE_CORE_BATCHED_BACKEND_H_
#define LETHE_CORE_BATCHED_BACKEND_H_

#include <string>

#include "absl/status/status.h"
#include "core/batched/problem.h"

namespace lethe::batched {

class Backend {
 public:
  Backend() = default;
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  virtual std::string name() const = 0;         // "cpu"
  virtual std::string description() const = 0;  // "cpu, 2 threads, packs of 256 bits"

  virtual absl::Status Solve(const Batch<float>& batch,
                             const Options& options,
                             Solution<float>* solution) = 0;
  virtual absl::Status Solve(const Batch<double>& batch,
                             const Options& options,
                             Solution<double>* solution) = 0;

  // Requires the solution of the same batch.
  virtual absl::Status Backward(const Batch<float>& batch,
                                const Solution<float>& solution,
                                const LossGradient<float>& loss,
                                Gradients<float>* gradients) = 0;
  virtual absl::Status Backward(const Batch<double>& batch,
                                const Solution<double>& solution,
                                const LossGradient<double>& loss,
                                Gradients<double>* gradients) = 0;
};

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_BACKEND_H_
