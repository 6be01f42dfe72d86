// The part of a layer in which positions of a sequence see each other, with its projections:
//
//     [Q K V] = x W,   o = attention of each head,   y = o P
//
//     kFull, kWindow, kHybrid    attention.h; kHybrid with the gates of svdd_gate.h
//     kDeltaNet                  delta_net.h, beta = x B + b a head
//     kLinear, kLinearDecay      linear_attention.h; g = ln logistic(x B + b) a head
//
// Shapes: x and y (sequences length) x width. Parameters' gradients are added, x_bar is set.
// Deterministic. Threads: heads of sequences are shared among the team.
#ifndef LETHE_CORE_MODEL_MIXER_H_
#define LETHE_CORE_MODEL_MIXER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "core/model/attention.h"
#include "core/model/delta_net.h"
#include "core/model/linear_attention.h"
#include "core/model/parameters.h"
#include "core/model/svdd_gate.h"

namespace lethe::model {

enum class AttentionKind : uint8_t {
  kFull = 1,
  kWindow = 2,
  kHybrid = 3,
  kDeltaNet = 4,
  kLinear = 5,
  kLinearDecay = 6,
};
// "full", "window", "hybrid", "delta-net", "linear", "linear-decay"
std::string_view AttentionKindName(AttentionKind kind);

struct MixerOptions {
  AttentionKind kind = AttentionKind::kHybrid;
  size_t width = 256;
  size_t heads = 4;
  size_t window = 64;  // kWindow
  size_t chunk = 64;   // kHybrid
  SvddGateOptions gate;

  size_t head_width() const { return width / heads; }
  friend bool operator==(const MixerOptions&, const MixerOptions&) = default;
};

// Numbers of its parts in the table.
struct MixerParts {
  size_t projections = 0;                   // W, width x 3 width
  size_t output = 0;                        // P
  size_t rate = 0, rate_bias = 0;           // B and b: kDeltaNet, kLinearDecay
  size_t gate_widths = 0, gate_scales = 0;  // w and s: kHybrid
};
MixerParts AddMixer(const MixerOptions& options, const std::string& name, ParameterTable* table);
// `deviation` of W; that of P is smaller by `depth_scale`.
template <typename T>
void InitialiseMixer(const MixerOptions& options,
                     const MixerParts& parts,
                     const ParameterTable& table,
                     uint64_t seed,
                     double deviation,
                     double depth_scale,
                     std::span<T> values);

template <typename T>
struct MixerWorkspace {
  Buffer<T> qkv;
  Buffer<T> o;
  Buffer<T> log_sums;  // a row a head of a sequence
  Buffer<T> rates;     // x B + b
  Buffer<T> decays;    // ln logistic of them
  SvddGateWorkspace<T> gate;
};
// Of no meaning between calls: one serves all layers.
template <typename T>
struct MixerScratch {
  Buffer<T> qkv_bar, o_bar, rates_bar;
  std::vector<AttentionWorkspace<T>> attention;  // one a member of the team
  std::vector<DeltaNetWorkspace<T>> delta_net;
  std::vector<LinearAttentionWorkspace<T>> linear;
};

// How many numbers they hold at most after a forward and a backward pass, the solver's results
// included; of what is one a member of the team, one.
struct MixerNumbers {
  uint64_t workspace = 0;
  uint64_t scratch = 0;
};
MixerNumbers NumbersOf(const MixerOptions& options, size_t sequences, size_t length);

// Which parameters: the table, where they lie in it, and the array.
template <typename T>
struct MixerArrays {
  const ParameterTable& table;
  const MixerParts& parts;
  std::span<const T> values;
};

template <typename T>
absl::Status MixerForward(const Runtime& runtime,
                          const MixerOptions& options,
                          size_t sequences,
                          const MixerArrays<T>& arrays,
                          In<T> x,
                          MixerWorkspace<T>* workspace,
                          MixerScratch<T>* scratch,
                          Matrix<T> y,
                          GateCounters* counters);

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
                           std::span<T> gradient);

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_MIXER_H_
