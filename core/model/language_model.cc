#include "core/model/language_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/model/embedding.h"
#include "core/model/limits.h"
#include "core/model/linear.h"

namespace lethe::model {
namespace {

constexpr size_t kMostParameters = size_t{1} << 28;

// to = from + term
template <typename T>
void Sum(Team* team, In<T> from, In<T> term, Matrix<T> to) {
  constexpr size_t kRows = 128;
  team->Run(to.rows, kRows, [&](size_t, size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      for (size_t j = 0; j < to.columns; ++j) to.row(i)[j] = from.row(i)[j] + term.row(i)[j];
    }
  });
}

// A norm's part in the table: the gain, and for LayerNorm the bias as its second row.
template <typename T>
std::span<T> GainOf(const Parameter& part, std::span<T> array) {
  return array.subspan(part.first, part.columns);
}
template <typename T>
std::span<T> BiasOf(const Parameter& part, std::span<T> array) {
  return array.subspan(part.first + part.columns, (part.rows - 1) * part.columns);
}

}  // namespace

absl::Status Validate(const LanguageModelOptions& options) {
  const MixerOptions& mixer = options.mixer;
  absl::Status status = InRange("model.layers", options.layers, 1, 64);
  status.Update(InRange("model.width", mixer.width, 1, 4096));
  status.Update(InRange("model.heads", mixer.heads, 1, 256));
  status.Update(InRange("model.block", options.block, 1, 8192));
  status.Update(InRange("model.vocabulary", options.vocabulary, 2, 65536));
  status.Update(InRange("model.mlp_width", options.mlp_inner(), 1, 16384));
  status.Update(InRange("model.attention", static_cast<size_t>(mixer.kind), 1, 6));
  status.Update(InRange("model.mlp", static_cast<size_t>(options.mlp), 1, 2));
  status.Update(InRange("model.norm", static_cast<size_t>(options.norm), 1, 2));
  if (status.ok() && mixer.width % mixer.heads != 0) {
    status = absl::InvalidArgumentError(absl::StrCat("model.heads: must divide model.width (",
                                                     mixer.width, "), got ", mixer.heads));
  }
  if (status.ok() && mixer.kind == AttentionKind::kWindow) {
    status = InRange("model.window", mixer.window, 1, 8192);
  }
  if (status.ok() && mixer.kind == AttentionKind::kHybrid) {
    status = Validate(mixer.gate, options.block, mixer.chunk);
  }
  if (status.ok() && !(options.deviation > 0 && options.deviation <= 10)) {
    status = absl::InvalidArgumentError("model.deviation: must be in (0, 10]");
  }
  const size_t layer = 4 * mixer.width * mixer.width + 3 * mixer.width * options.mlp_inner();
  const size_t embeddings = (options.vocabulary + options.block) * mixer.width;
  if (status.ok() && options.layers * layer + embeddings > kMostParameters) {
    status = absl::InvalidArgumentError(
        absl::StrCat("model.width: more than ", kMostParameters, " parameters"));
  }
  return status;
}

uint64_t WorkspaceNumbers(const LanguageModelOptions& options, size_t sequences) {
  const uint64_t width = options.mixer.width;
  const uint64_t inner = (options.mlp == MlpKind::kGelu ? 2 : 3) * options.mlp_inner();
  const MixerNumbers mixer = NumbersOf(options.mixer, sequences, options.block);
  const uint64_t tokens = sequences * options.block;
  // What each layer keeps, then what one serves all of them or belongs to the loss.
  const uint64_t layer = tokens * (4 * width + inner) + mixer.workspace;
  const uint64_t others = tokens * (6 * width + inner + options.vocabulary + 8) + mixer.scratch;
  return options.layers * layer + others;
}

LanguageModel::LanguageModel(const LanguageModelOptions& options) : options_(options) {
  const size_t width = options.mixer.width;
  const size_t gain_rows = options.norm == NormKind::kLayer ? 2 : 1;
  embedding_ = table_.Add("embedding", options.vocabulary, width, Decays::kYes);
  positions_ = table_.Add("positions", options.block, width, Decays::kYes);
  const size_t inner = options.mlp_inner();
  for (size_t i = 0; i < options.layers; ++i) {
    const std::string name = absl::StrCat("layer.", i);
    Layer layer;
    layer.mixer_gain = table_.Add(name + ".mixer_norm", gain_rows, width, Decays::kNo);
    layer.mixer = AddMixer(options.mixer, name + ".mixer", &table_);
    layer.mlp_gain = table_.Add(name + ".mlp_norm", gain_rows, width, Decays::kNo);
    layer.up = table_.Add(name + ".mlp_up", width,
                          options.mlp == MlpKind::kGelu ? inner : 2 * inner, Decays::kYes);
    layer.down = table_.Add(name + ".mlp_down", inner, width, Decays::kYes);
    layers_.push_back(layer);
  }
  last_gain_ = table_.Add("last_norm", gain_rows, width, Decays::kNo);
}

absl::StatusOr<LanguageModel> LanguageModel::Create(const LanguageModelOptions& options) {
  LETHE_RETURN_IF_ERROR(Validate(options));
  return LanguageModel(options);
}

template <typename T>
void LanguageModel::Initialise(uint64_t seed, std::span<T> values) const {
  LETHE_CHECK(values.size() == table_.size());
  std::ranges::fill(values, T(0));
  const double deviation = options_.deviation;
  // What adds to the residual stream is smaller, so that its variance does not grow with depth.
  const double depth = 1.0 / std::sqrt(2.0 * static_cast<double>(options_.layers));
  const auto normal = [&](size_t number, double scale) {
    FillNormal(seed, number, deviation * scale, table_[number].Part(values));
  };
  const auto ones = [&](size_t number) { std::ranges::fill(GainOf(table_[number], values), T(1)); };
  normal(embedding_, 1.0);
  normal(positions_, 1.0);
  for (const Layer& layer : layers_) {
    ones(layer.mixer_gain);
    InitialiseMixer(options_.mixer, layer.mixer, table_, seed, deviation, depth, values);
    ones(layer.mlp_gain);
    normal(layer.up, 1.0);
    normal(layer.down, depth);
  }
  ones(last_gain_);
}

template <typename T>
absl::StatusOr<LossReport> LanguageModel::Forward(const Runtime& runtime,
                                                  std::span<const T> values,
                                                  size_t sequences,
                                                  std::span<const uint32_t> tokens,
                                                  std::span<const uint32_t> targets,
                                                  LanguageModelWorkspace<T>* workspace) const {
  LETHE_CHECK(values.size() == table_.size());
  const size_t rows = tokens.size();
  if (sequences == 0 || rows == 0 || rows % sequences != 0 || rows / sequences > options_.block) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tokens: wanted ", sequences, " sequences of 1 to ", options_.block, ", got ", rows));
  }
  if (targets.size() != rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("targets: has ", targets.size(), " entries, wanted ", rows));
  }
  for (size_t i = 0; i < rows; ++i) {
    if (tokens[i] >= options_.vocabulary) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokens[", i, "]: not in the vocabulary of ", options_.vocabulary));
    }
    if (targets[i] >= options_.vocabulary && targets[i] != kNoTarget) {
      return absl::InvalidArgumentError(
          absl::StrCat("targets[", i, "]: not in the vocabulary of ", options_.vocabulary));
    }
  }
  Team* const team = runtime.team;
  const size_t width = options_.mixer.width;
  const size_t length = rows / sequences;
  workspace->sequences = sequences;
  workspace->tokens.assign(tokens.begin(), tokens.end());
  workspace->targets.assign(targets.begin(), targets.end());
  workspace->positions.resize(rows);
  for (size_t i = 0; i < rows; ++i) workspace->positions[i] = static_cast<uint32_t>(i % length);
  workspace->layers.resize(options_.layers);
  const auto matrix = [&](size_t number) { return table_[number].View(values); };
  const auto norm = [&](In<T> x, size_t number, Matrix<T> y) {
    NormForward<T>(team, options_.norm, x, GainOf(table_[number], values),
                   BiasOf(table_[number], values), y);
  };

  LossReport report;
  Matrix<T> x = workspace->layers[0].x.Resize(rows, width);
  EmbeddingForward<T>(team, matrix(embedding_), workspace->tokens, x, Store::kSet);
  EmbeddingForward<T>(team, matrix(positions_), workspace->positions, x, Store::kAdd);
  const Matrix<T> branch = workspace->branch.Resize(rows, width);
  for (size_t i = 0; i < options_.layers; ++i) {
    auto& layer = workspace->layers[i];
    const Matrix<T> mixer_in = layer.mixer_in.Resize(rows, width);
    norm(x, layers_[i].mixer_gain, mixer_in);
    LETHE_RETURN_IF_ERROR(MixerForward<T>(runtime, options_.mixer, sequences,
                                          {table_, layers_[i].mixer, values}, mixer_in,
                                          &layer.mixer, &workspace->mixer, branch, &report.gates));
    const Matrix<T> middle = layer.middle.Resize(rows, width);
    Sum<T>(team, x, branch, middle);
    const Matrix<T> mlp_in = layer.mlp_in.Resize(rows, width);
    norm(middle, layers_[i].mlp_gain, mlp_in);
    MlpForward<T>(team, options_.mlp, mlp_in, matrix(layers_[i].up), matrix(layers_[i].down),
                  &layer.mlp, branch);
    Buffer<T>& next = i + 1 < options_.layers ? workspace->layers[i + 1].x : workspace->last;
    x = next.Resize(rows, width);
    Sum<T>(team, middle, branch, x);
  }
  const Matrix<T> normed = workspace->last_normed.Resize(rows, width);
  norm(x, last_gain_, normed);
  const Matrix<T> logits = workspace->logits.Resize(rows, options_.vocabulary);
  MultiplyTransposed<T>(team, normed, matrix(embedding_), logits, Store::kSet);
  workspace->losses.resize(rows);
  CrossEntropyForward<T>(team, workspace->targets, logits, workspace->losses);
  for (const T loss : workspace->losses) report.loss += static_cast<double>(loss);
  report.targets = rows - static_cast<size_t>(std::ranges::count(workspace->targets, kNoTarget));
  workspace->counted = report.targets;
  report.loss /= static_cast<double>(std::max<size_t>(report.targets, 1));
  return report;
}

template <typename T>
absl::Status LanguageModel::Backward(const Runtime& runtime,
                                     std::span<const T> values,
                                     LanguageModelWorkspace<T>* workspace,
                                     std::span<T> gradient) const {
  LETHE_CHECK(values.size() == table_.size() && gradient.size() == table_.size());
  Team* const team = runtime.team;
  const size_t width = options_.mixer.width;
  const size_t rows = workspace->tokens.size();
  LETHE_CHECK(rows > 0 && workspace->layers.size() == options_.layers);
  std::ranges::fill(gradient, T(0));
  const auto matrix = [&](size_t number) { return table_[number].View(values); };
  const auto matrix_bar = [&](size_t number) { return table_[number].View(gradient); };
  const auto norm = [&](In<T> x, size_t number, In<T> y_bar, Matrix<T> x_bar, Store store) {
    NormBackward<T>(team, options_.norm, x, GainOf(table_[number], values), y_bar, x_bar, store,
                    GainOf(table_[number], gradient), BiasOf(table_[number], gradient));
  };

  const Matrix<T> logits_bar = workspace->logits.get();
  const T scale = T(1) / static_cast<T>(std::max<size_t>(workspace->counted, 1));
  CrossEntropyBackward<T>(team, workspace->targets, scale, logits_bar);
  const Matrix<T> x_bar = workspace->x_bar.Resize(rows, width);
  const Matrix<T> branch_bar = workspace->branch_bar.Resize(rows, width);
  const Matrix<T> normed = workspace->last_normed.get();
  Multiply<T>(team, logits_bar, matrix(embedding_), branch_bar, Store::kSet);
  TransposedMultiply<T>(team, logits_bar, normed, matrix_bar(embedding_), Store::kAdd);
  norm(workspace->last.get(), last_gain_, branch_bar, x_bar, Store::kSet);
  for (size_t i = options_.layers; i-- > 0;) {
    auto& layer = workspace->layers[i];
    MlpBackward<T>(team, options_.mlp, layer.mlp_in.get(), matrix(layers_[i].up),
                   matrix(layers_[i].down), x_bar, layer.mlp, &workspace->mlp, branch_bar,
                   matrix_bar(layers_[i].up), matrix_bar(layers_[i].down));
    norm(layer.middle.get(), layers_[i].mlp_gain, branch_bar, x_bar, Store::kAdd);
    LETHE_RETURN_IF_ERROR(MixerBackward<T>(
        runtime, options_.mixer, workspace->sequences, {table_, layers_[i].mixer, values},
        layer.mixer_in.get(), x_bar, &layer.mixer, &workspace->mixer, branch_bar, gradient));
    norm(layer.x.get(), layers_[i].mixer_gain, branch_bar, x_bar, Store::kAdd);
  }
  EmbeddingBackward<T>(team, workspace->tokens, x_bar, matrix_bar(embedding_));
  EmbeddingBackward<T>(team, workspace->positions, x_bar, matrix_bar(positions_));
  return absl::OkStatus();
}

#define LETHE_INSTANTIATE(T)                                                        \
  template void LanguageModel::Initialise(uint64_t, std::span<T>) const;            \
  template absl::StatusOr<LossReport> LanguageModel::Forward(                       \
      const Runtime&, std::span<const T>, size_t, std::span<const uint32_t>,        \
      std::span<const uint32_t>, LanguageModelWorkspace<T>*) const;                 \
  template absl::Status LanguageModel::Backward(const Runtime&, std::span<const T>, \
                                                LanguageModelWorkspace<T>*, std::span<T>) const;
LETHE_INSTANTIATE(float)
LETHE_INSTANTIATE(double)
#undef LETHE_INSTANTIATE

}  // namespace lethe::model
