#include "core/model/mixer.h"

#include <algorithm>
#include <cmath>

#include "core/base/status_macros.h"
#include "core/model/linear.h"

namespace lethe::model {
namespace {

struct KindName {
  AttentionKind kind;
  std::string_view name;
};
constexpr KindName kNames[] = {
    {AttentionKind::kFull, "full"},     {AttentionKind::kWindow, "window"},
    {AttentionKind::kHybrid, "hybrid"}, {AttentionKind::kDeltaNet, "delta-net"},
    {AttentionKind::kLinear, "linear"}, {AttentionKind::kLinearDecay, "linear-decay"},
};

bool IsSoftmax(AttentionKind kind) { return kind <= AttentionKind::kHybrid; }
bool HasRates(AttentionKind kind) {
  return kind == AttentionKind::kDeltaNet || kind == AttentionKind::kLinearDecay;
}

// A rate near 1 at first: delta rule and decay begin as a memory that keeps.
constexpr double kDecayBias = 4.0;

// One head of one sequence of the rows of all.
struct Place {
  size_t sequence, head, length, width;

  template <typename T>
  Matrix<T> Of(Matrix<T> m, size_t column_group) const {
    const size_t columns = m.columns / width;  // heads, or three times that
    LETHE_CHECK(column_group + head < columns);
    return m.Rows(sequence * length, length).Columns((column_group + head) * width, width);
  }
  template <typename T>
  Matrix<T> Column(Matrix<T> m) const {
    return m.data == nullptr ? m : m.Rows(sequence * length, length).Columns(head, 1);
  }
};

AttentionMask MaskOf(const MixerOptions& options) {
  return {options.kind == AttentionKind::kWindow ? options.window : 0,
          options.kind == AttentionKind::kHybrid ? options.chunk : 0};
}

GateShape ShapeOf(const MixerOptions& options, size_t sequences, size_t length) {
  return {sequences, options.heads, length, options.chunk};
}

// All memory of the team's members, because work must not throw.
template <typename T>
void Prepare(const Runtime& runtime,
             const MixerOptions& options,
             size_t length,
             Pass pass,
             MixerScratch<T>* scratch) {
  const auto reserve = [&](auto* workspaces, const auto&... sizes) {
    workspaces->resize(std::max(workspaces->size(), runtime.team->size()));
    for (auto& workspace : *workspaces) workspace.Reserve(sizes..., pass);
  };
  const size_t d = options.head_width();
  if (IsSoftmax(options.kind)) {
    reserve(&scratch->attention, length);
  } else if (options.kind == AttentionKind::kDeltaNet) {
    reserve(&scratch->delta_net, length, d, d);
  } else {
    reserve(&scratch->linear, length, d, d);
  }
}

// work(member, place, number) for every head of every sequence.
template <typename Work>
void ForHeads(const Runtime& runtime,
              const MixerOptions& options,
              size_t sequences,
              size_t length,
              const Work& work) {
  runtime.team->Run(sequences * options.heads, 1, [&](size_t member, size_t first, size_t last) {
    for (size_t b = first; b < last; ++b) {
      work(member, Place{b / options.heads, b % options.heads, length, options.head_width()}, b);
    }
  });
}

template <typename T>
T LogLogistic(T x) {
  return x < 0 ? x - std::log1p(std::exp(x)) : -std::log1p(std::exp(-x));
}

}  // namespace

std::string_view AttentionKindName(AttentionKind kind) {
  for (const KindName& entry : kNames) {
    if (entry.kind == kind) return entry.name;
  }
  return "unknown";
}

MixerParts AddMixer(const MixerOptions& options, const std::string& name, ParameterTable* table) {
  MixerParts parts;
  const size_t width = options.width;
  parts.projections = table->Add(name + ".projections", width, 3 * width, Decays::kYes);
  parts.output = table->Add(name + ".output", width, width, Decays::kYes);
  if (HasRates(options.kind)) {
    parts.rate = table->Add(name + ".rate", width, options.heads, Decays::kYes);
    parts.rate_bias = table->Add(name + ".rate_bias", 1, options.heads, Decays::kNo);
  }
  if (options.kind == AttentionKind::kHybrid) {
    parts.gate_widths = table->Add(name + ".gate_widths", 1, options.heads, Decays::kNo);
    parts.gate_scales = table->Add(name + ".gate_scales", 1, options.heads, Decays::kNo);
  }
  return parts;
}

MixerNumbers NumbersOf(const MixerOptions& options, size_t sequences, size_t length) {
  const uint64_t width = options.width;
  const uint64_t heads = options.heads;
  const uint64_t d = options.head_width();
  const uint64_t n = length;
  const uint64_t tokens = sequences * length;
  MixerNumbers numbers;
  numbers.workspace = tokens * (4 * width + 3 * heads);
  numbers.scratch = tokens * (4 * width + heads);
  if (IsSoftmax(options.kind)) {
    numbers.scratch += 2 * kAttentionTileRows * n;
  } else if (options.kind == AttentionKind::kDeltaNet) {
    numbers.scratch +=
        n * (3 * d + 3) + (n / kDeltaNetSegment + kDeltaNetSegment + 3) * d * d + 2 * d;
  } else {
    numbers.scratch += n * (4 * d + 2) + (d + 1) * (d + 1);
  }
  if (options.kind == AttentionKind::kHybrid) {
    const GateShape shape = ShapeOf(options, sequences, length);
    const uint64_t chunks = shape.chunks();
    const uint64_t prefixes = chunks * (chunks - 1) / 2 * options.chunk;  // tokens of all
    const uint64_t longest = (chunks - 1) * options.chunk;
    // Gates and their gradients; points, starts, weights and two labels; gradients of the longest.
    numbers.workspace += shape.problems() *
                         (2 * chunks * n + prefixes * (d + 4) + longest * (d + 1) + 8 * chunks + 8);
  }
  return numbers;
}

template <typename T>
void InitialiseMixer(const MixerOptions& options,
                     const MixerParts& parts,
                     const ParameterTable& table,
                     uint64_t seed,
                     double deviation,
                     double depth_scale,
                     std::span<T> values) {
  const auto part = [&](size_t number) { return table[number].Part(values); };
  FillNormal(seed, parts.projections, deviation, part(parts.projections));
  FillNormal(seed, parts.output, deviation * depth_scale, part(parts.output));
  if (HasRates(options.kind)) {
    FillNormal(seed, parts.rate, deviation, part(parts.rate));
    const bool decay = options.kind == AttentionKind::kLinearDecay;
    std::ranges::fill(part(parts.rate_bias), static_cast<T>(decay ? kDecayBias : 0.0));
  }
  if (options.kind == AttentionKind::kHybrid) {
    const double width = options.gate.width > 0 ? options.gate.width
                                                : 1.0 / static_cast<double>(options.head_width());
    std::ranges::fill(part(parts.gate_widths), static_cast<T>(std::log(width)));
    std::ranges::fill(part(parts.gate_scales), static_cast<T>(std::log(options.gate.scale)));
  }
}

template <typename T>
absl::Status MixerForward(const Runtime& runtime,
                          const MixerOptions& options,
                          size_t sequences,
                          const MixerArrays<T>& arrays,
                          In<T> x,
                          MixerWorkspace<T>* workspace,
                          MixerScratch<T>* scratch,
                          Matrix<T> y,
                          GateCounters* counters) {
  const size_t width = options.width;
  const size_t heads = options.heads;
  const size_t length = x.rows / sequences;
  LETHE_CHECK(x.Is(sequences * length, width) && y.Is(x.rows, width));
  Prepare(runtime, options, length, Pass::kForward, scratch);
  const auto matrix = [&](size_t number) { return arrays.table[number].View(arrays.values); };
  const auto vector = [&](size_t number) { return arrays.table[number].Part(arrays.values); };

  const Matrix<T> qkv = workspace->qkv.Resize(x.rows, 3 * width);
  const Matrix<T> o = workspace->o.Resize(x.rows, width);
  LinearForward<T>(runtime.team, x, matrix(arrays.parts.projections), {}, qkv);
  Matrix<T> log_sums;
  if (IsSoftmax(options.kind)) log_sums = workspace->log_sums.Resize(sequences * heads, length);
  Matrix<T> rates;
  Matrix<T> decays;
  if (HasRates(options.kind)) {
    rates = workspace->rates.Resize(x.rows, heads);
    LinearForward<T>(runtime.team, x, matrix(arrays.parts.rate), vector(arrays.parts.rate_bias),
                     rates);
  }
  if (options.kind == AttentionKind::kLinearDecay) {
    decays = workspace->decays.Resize(x.rows, heads);
    for (size_t i = 0; i < x.rows * heads; ++i) decays.data[i] = LogLogistic(rates.data[i]);
  }
  const GateShape shape = ShapeOf(options, sequences, length);
  if (options.kind == AttentionKind::kHybrid) {
    LETHE_RETURN_IF_ERROR(SvddGateForward<T>(
        runtime, shape, options.gate, qkv.Columns(width, width), vector(arrays.parts.gate_widths),
        vector(arrays.parts.gate_scales), &workspace->gate, counters));
  }
  ForHeads(runtime, options, sequences, length, [&](size_t member, const Place& place, size_t b) {
    const Matrix<T> q = place.Of(qkv, 0);
    const Matrix<T> k = place.Of(qkv, heads);
    const Matrix<T> v = place.Of(qkv, 2 * heads);
    const Matrix<T> out = place.Of(o, 0);
    if (IsSoftmax(options.kind)) {
      const Matrix<T> gates = options.kind == AttentionKind::kHybrid
                                  ? GatesOf(workspace->gate.gates, shape, b)
                                  : Matrix<T>();
      AttentionForward<T>(MaskOf(options), q, k, v, gates, &scratch->attention[member], out,
                          {log_sums.row(b), length});
    } else if (options.kind == AttentionKind::kDeltaNet) {
      DeltaNetForward<T>(q, k, v, place.Column(rates), &scratch->delta_net[member], out);
    } else {
      LinearAttentionForward<T>(q, k, v, place.Column(decays), &scratch->linear[member], out);
    }
  });
  LinearForward<T>(runtime.team, o, matrix(arrays.parts.output), {}, y);
  return absl::OkStatus();
}

template <typename T>
absl::Status MixerBackward(const Runtime& runtime,
                           const MixerOptions& options,
                           size_t sequences,
                           const MixerArrays<T>& arrays,
                           In<T> x,
                           In<T> y_bar,
                           MixerWorkspace<T>* workspace,
                           MixerScratch<T>* scratch,
                           Matrix<T> x_bar,
                           std::span<T> gradient) {
  const size_t width = options.width;
  const size_t heads = options.heads;
  const size_t length = x.rows / sequences;
  Prepare(runtime, options, length, Pass::kBackward, scratch);
  const auto matrix = [&](size_t number) { return arrays.table[number].View(arrays.values); };
  const auto matrix_bar = [&](size_t number) { return arrays.table[number].View(gradient); };
  const auto vector_bar = [&](size_t number) { return arrays.table[number].Part(gradient); };

  const Matrix<T> qkv = workspace->qkv.get();
  const Matrix<T> o = workspace->o.get();
  const Matrix<T> log_sums = workspace->log_sums.get();
  const Matrix<T> rates = HasRates(options.kind) ? workspace->rates.get() : Matrix<T>();
  const Matrix<T> decays =
      options.kind == AttentionKind::kLinearDecay ? workspace->decays.get() : Matrix<T>();
  const Matrix<T> qkv_bar = scratch->qkv_bar.Resize(x.rows, 3 * width);
  const Matrix<T> o_bar = scratch->o_bar.Resize(x.rows, width);
  const Matrix<T> rates_bar =
      HasRates(options.kind) ? scratch->rates_bar.Resize(x.rows, heads) : Matrix<T>();
  LinearBackward<T>(runtime.team, o, matrix(arrays.parts.output), y_bar, o_bar, Store::kSet,
                    matrix_bar(arrays.parts.output), {});
  const GateShape shape = ShapeOf(options, sequences, length);
  if (options.kind == AttentionKind::kHybrid) {
    workspace->gate.gates_bar.Resize(shape.problems() * shape.chunks(), length);
  }
  ForHeads(runtime, options, sequences, length, [&](size_t member, const Place& place, size_t b) {
    const Matrix<T> q = place.Of(qkv, 0);
    const Matrix<T> k = place.Of(qkv, heads);
    const Matrix<T> v = place.Of(qkv, 2 * heads);
    const Matrix<T> out_bar = place.Of(o_bar, 0);
    const Matrix<T> q_bar = place.Of(qkv_bar, 0);
    const Matrix<T> k_bar = place.Of(qkv_bar, heads);
    const Matrix<T> v_bar = place.Of(qkv_bar, 2 * heads);
    if (IsSoftmax(options.kind)) {
      const bool hybrid = options.kind == AttentionKind::kHybrid;
      AttentionBackward<T>(
          MaskOf(options), q, k, v, hybrid ? GatesOf(workspace->gate.gates, shape, b) : Matrix<T>(),
          place.Of(o, 0), {log_sums.row(b), length}, out_bar, &scratch->attention[member], q_bar,
          k_bar, v_bar, hybrid ? GatesOf(workspace->gate.gates_bar, shape, b) : Matrix<T>());
    } else if (options.kind == AttentionKind::kDeltaNet) {
      DeltaNetBackward<T>(q, k, v, place.Column(rates), out_bar, &scratch->delta_net[member], q_bar,
                          k_bar, v_bar, place.Column(rates_bar));
    } else {
      LinearAttentionBackward<T>(q, k, v, place.Column(decays), out_bar, &scratch->linear[member],
                                 q_bar, k_bar, v_bar, place.Column(rates_bar));
    }
  });
  if (options.kind == AttentionKind::kHybrid) {
    LETHE_RETURN_IF_ERROR(SvddGateBackward<T>(
        runtime, shape, options.gate, &workspace->gate, qkv_bar.Columns(width, width),
        vector_bar(arrays.parts.gate_widths), vector_bar(arrays.parts.gate_scales)));
  }
  LinearBackward<T>(runtime.team, x, matrix(arrays.parts.projections), qkv_bar, x_bar, Store::kSet,
                    matrix_bar(arrays.parts.projections), {});
  if (options.kind == AttentionKind::kLinearDecay) {
    // ln logistic(z) has slope 1 - logistic(z).
    for (size_t i = 0; i < x.rows * heads; ++i) {
      rates_bar.data[i] *= T(1) - std::exp(decays.data[i]);
    }
  }
  if (HasRates(options.kind)) {
    LinearBackward<T>(runtime.team, x, matrix(arrays.parts.rate), rates_bar, x_bar, Store::kAdd,
                      matrix_bar(arrays.parts.rate), vector_bar(arrays.parts.rate_bias));
  }
  return absl::OkStatus();
}

#define LETHE_INSTANTIATE(T)                                                                   \
  template void InitialiseMixer(const MixerOptions&, const MixerParts&, const ParameterTable&, \
                                uint64_t, double, double, std::span<T>);                       \
  template absl::Status MixerForward(const Runtime&, const MixerOptions&, size_t,              \
                                     const MixerArrays<T>&, In<T>, MixerWorkspace<T>*,         \
                                     MixerScratch<T>*, Matrix<T>, GateCounters*);              \
  template absl::Status MixerBackward(const Runtime&, const MixerOptions&, size_t,             \
                                      const MixerArrays<T>&, In<T>, In<T>, MixerWorkspace<T>*, \
                                      MixerScratch<T>*, Matrix<T>, std::span<T>);
LETHE_INSTANTIATE(float)
LETHE_INSTANTIATE(double)
#undef LETHE_INSTANTIATE

}  // namespace lethe::model
