#include "core/model/svdd_gate.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace lethe::model {
namespace {

template <typename T>
batched::Batch<T> BatchOf(const GateShape& shape,
                          const SvddGateOptions& options,
                          const SvddGateWorkspace<T>& workspace,
                          size_t chunk,
                          size_t dimension) {
  const auto& data = workspace.chunks[chunk - 1];
  batched::Batch<T> batch;
  batch.problems = shape.problems();
  batch.n = chunk * shape.chunk;
  batch.points = data.points;
  batch.dimension = dimension;
  batch.kernel = options.kernel;
  batch.parameter = workspace.parameter;
  batch.box = {&workspace.box, 1};
  batch.ridge = {&workspace.ridge, 1};
  batch.start = data.start;
  batch.previous_labels = data.previous_labels;
  return batch;
}

// Row by row, `extra` entries of 0 behind each.
template <typename Entry>
void Extend(const std::vector<Entry>& from, size_t rows, size_t extra, std::vector<Entry>* to) {
  const size_t columns = from.size() / rows;
  to->assign(rows * (columns + extra), Entry{});
  for (size_t i = 0; i < rows; ++i) {
    std::copy_n(from.data() + i * columns, columns, to->data() + i * (columns + extra));
  }
}

}  // namespace

absl::Status Validate(const SvddGateOptions& options, size_t length, size_t chunk) {
  const auto refuse = [](absl::string_view field, absl::string_view wanted, double got) {
    return absl::InvalidArgumentError(absl::StrCat("gate.", field, ": ", wanted, ", got ", got));
  };
  const auto kind = static_cast<unsigned>(options.kernel.kind);
  if (kind < 1 || kind > 4) return refuse("kernel", "must be one of 1 to 4", kind);
  if (chunk < 2 || chunk > kMaxChunk) {
    return refuse("chunk", absl::StrCat("must be in [2, ", kMaxChunk, "]"),
                  static_cast<double>(chunk));
  }
  const size_t longest = length <= chunk ? 0 : (length - 1) / chunk * chunk;
  if (longest > batched::kMaxPoints) {
    return refuse("chunk",
                  absl::StrCat("the last prefix may have ", batched::kMaxPoints, " tokens"),
                  static_cast<double>(longest));
  }
  const double least = 1.0 / static_cast<double>(chunk);
  if (!(options.box > least && options.box <= 1)) {
    return refuse("box", absl::StrCat("must be above 1 / chunk = ", least, " and at most 1"),
                  options.box);
  }
  if (!(options.ridge >= 1e-7 && options.ridge <= 1e3)) {
    return refuse("ridge", "must be in [1e-7, 1e3]", options.ridge);
  }
  if (!(options.width >= 0 && options.width <= 1e6)) {
    return refuse("width", "must be in [0, 1e6]", options.width);
  }
  if (!(options.scale >= 1e-6 && options.scale <= 1e6)) {
    return refuse("scale", "must be in [1e-6, 1e6]", options.scale);
  }
  return absl::OkStatus();
}

void GateCounters::Add(const GateCounters& other) {
  problems += other.problems;
  single_pivots += other.single_pivots;
  unsolved += other.unsolved;
  without_weights += other.without_weights;
  tokens += other.tokens;
  kept += other.kept;
  churn += other.churn;
}

template <typename T>
void Count(const batched::Solution<T>& solution, size_t n, GateCounters* counters) {
  counters->problems += solution.outcome.size();
  for (const batched::Outcome outcome : solution.outcome) {
    if (outcome == batched::Outcome::kSinglePivot) ++counters->single_pivots;
    if (!HasWeights(outcome)) {
      ++counters->without_weights;
    } else if (!IsSolved(outcome)) {
      ++counters->unsolved;
    }
  }
  counters->tokens += solution.outcome.size() * n;
  for (const uint8_t label : solution.labels) {
    if (label != static_cast<uint8_t>(batched::Label::kReserve)) ++counters->kept;
  }
  for (const int32_t churn : solution.churn) counters->churn += static_cast<uint64_t>(churn);
}

template <typename T>
absl::Status SvddGateForward(const Runtime& runtime,
                             const GateShape& shape,
                             const SvddGateOptions& options,
                             In<T> keys,
                             InVector<T> log_widths,
                             InVector<T> log_scales,
                             SvddGateWorkspace<T>* workspace,
                             GateCounters* counters) {
  const size_t heads = shape.heads;
  const size_t problems = shape.problems();
  const size_t d = keys.columns / heads;
  LETHE_CHECK(keys.Is(shape.sequences * shape.length, heads * d));
  LETHE_CHECK(log_widths.size() == heads && log_scales.size() == heads);
  workspace->box = static_cast<T>(options.box);
  workspace->ridge = static_cast<T>(options.ridge);
  workspace->parameter.resize(problems);
  workspace->scale.resize(heads);
  for (size_t h = 0; h < heads; ++h) workspace->scale[h] = std::exp(log_scales[h]);
  for (size_t b = 0; b < problems; ++b) {
    workspace->parameter[b] = std::exp(log_widths[b % heads]);
  }
  workspace->chunks.resize(shape.chunks() - 1);
  const Matrix<T> gates = workspace->gates.Resize(problems * shape.chunks(), shape.length);

  for (size_t c = 1; c < shape.chunks(); ++c) {
    auto& chunk = workspace->chunks[c - 1];
    const size_t n = c * shape.chunk;
    chunk.points.resize(problems * n * d);
    runtime.team->Run(problems, 1, [&](size_t, size_t first, size_t last) {
      for (size_t b = first; b < last; ++b) {
        const In<T> from = keys.Rows(b / heads * shape.length, n).Columns(b % heads * d, d);
        for (size_t i = 0; i < n; ++i) {
          std::copy_n(from.row(i), d, chunk.points.data() + (b * n + i) * d);
        }
      }
    });
    chunk.start.clear();
    chunk.previous_labels.clear();
    if (c > 1) {
      const batched::Solution<T>& before = workspace->chunks[c - 2].solution;
      Extend(before.weights, problems, shape.chunk, &chunk.start);
      Extend(before.labels, problems, shape.chunk, &chunk.previous_labels);
    }
    LETHE_RETURN_IF_ERROR(runtime.backend->Solve(BatchOf(shape, options, *workspace, c, d),
                                                 runtime.solver, &chunk.solution));
    Count(chunk.solution, n, counters);
    for (size_t b = 0; b < problems; ++b) {
      T* row = gates.row(b * shape.chunks() + c);
      const T* weights = chunk.solution.weights.data() + b * n;
      for (size_t j = 0; j < n; ++j) row[j] = workspace->scale[b % heads] * weights[j];
    }
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status SvddGateBackward(const Runtime& runtime,
                              const GateShape& shape,
                              const SvddGateOptions& options,
                              SvddGateWorkspace<T>* workspace,
                              Matrix<T> keys_bar,
                              std::span<T> log_widths_bar,
                              std::span<T> log_scales_bar) {
  const size_t heads = shape.heads;
  const size_t problems = shape.problems();
  const size_t d = keys_bar.columns / heads;
  const Matrix<T> gates = workspace->gates.get();
  const Matrix<T> gates_bar = workspace->gates_bar.get();
  LETHE_CHECK(gates_bar.Is(gates.rows, gates.columns));
  for (size_t c = 1; c < shape.chunks(); ++c) {
    const size_t n = c * shape.chunk;
    workspace->weights_bar.resize(problems * n);
    for (size_t b = 0; b < problems; ++b) {
      const T* bar = gates_bar.row(b * shape.chunks() + c);
      const T* gate = gates.row(b * shape.chunks() + c);
      T sum = 0;
      for (size_t j = 0; j < n; ++j) {
        sum += bar[j] * gate[j];
        workspace->weights_bar[b * n + j] = workspace->scale[b % heads] * bar[j];
      }
      log_scales_bar[b % heads] += sum;
    }
    batched::LossGradient<T> loss;
    loss.weights = workspace->weights_bar;
    const batched::Batch<T> batch = BatchOf(shape, options, *workspace, c, d);
    LETHE_RETURN_IF_ERROR(runtime.backend->Backward(batch, workspace->chunks[c - 1].solution, loss,
                                                    &workspace->gradients));
    const batched::Gradients<T>& gradients = workspace->gradients;
    runtime.team->Run(problems, 1, [&](size_t, size_t first, size_t last) {
      for (size_t b = first; b < last; ++b) {
        const Matrix<T> to = keys_bar.Rows(b / heads * shape.length, n).Columns(b % heads * d, d);
        for (size_t i = 0; i < n; ++i) {
          const T* from = gradients.points.data() + (b * n + i) * d;
          for (size_t j = 0; j < d; ++j) to.row(i)[j] += from[j];
        }
      }
    });
    for (size_t b = 0; b < problems; ++b) {
      log_widths_bar[b % heads] += gradients.parameter[b] * workspace->parameter[b];
    }
  }
  return absl::OkStatus();
}

#define LETHE_INSTANTIATE(T)                                                                       \
  template void Count(const batched::Solution<T>&, size_t, GateCounters*);                         \
  template absl::Status SvddGateForward(const Runtime&, const GateShape&, const SvddGateOptions&,  \
                                        In<T>, InVector<T>, InVector<T>, SvddGateWorkspace<T>*,    \
                                        GateCounters*);                                            \
  template absl::Status SvddGateBackward(const Runtime&, const GateShape&, const SvddGateOptions&, \
                                         SvddGateWorkspace<T>*, Matrix<T>, std::span<T>,           \
                                         std::span<T>);
LETHE_INSTANTIATE(float)
LETHE_INSTANTIATE(double)
#undef LETHE_INSTANTIATE

}  // namespace lethe::model
