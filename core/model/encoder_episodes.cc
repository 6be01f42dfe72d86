#include "core/model/encoder_episodes.h"

#include <algorithm>
#include <cmath>

#include "core/base/status_macros.h"
#include "core/model/linear.h"
#include "core/model/norm.h"

namespace lethe::model {
namespace {

constexpr uint32_t kNothing = UINT32_MAX;  // belongs to no group
enum : size_t { kByParameter = 0, kByScale = 1, kBySharpness = 2, kScalars = 3 };

template <typename T>
void Gather(const RecallSet<T>& set,
            const EpisodeShape& shape,
            std::span<const Episode> episodes,
            EpisodeWorkspace<T>* work) {
  const size_t tokens = shape.tokens();
  const Matrix<T> keys = work->raw_keys.Resize(episodes.size() * tokens, set.keys().columns);
  const Matrix<T> values = work->raw_values.Resize(keys.rows, set.values().columns);
  const Matrix<T> queries =
      work->raw_queries.Resize(episodes.size() * shape.queries, set.keys().columns);
  work->groups.resize(keys.rows);
  work->targets.assign(queries.rows, kNothing);
  std::fill_n(queries.data, queries.rows * queries.columns, T(0));
  for (size_t e = 0; e < episodes.size(); ++e) {
    LETHE_CHECK(episodes[e].tokens.size() == tokens && episodes[e].queries.size() <= shape.queries);
    for (size_t i = 0; i < tokens; ++i) {
      const uint32_t token = episodes[e].tokens[i];
      const size_t row = e * tokens + i;
      std::copy_n(set.keys().row(token), keys.columns, keys.row(row));
      std::copy_n(set.values().row(token), values.columns, values.row(row));
      work->groups[row] = set.groups()[token];
    }
    for (size_t j = 0; j < episodes[e].queries.size(); ++j) {
      const uint32_t query = episodes[e].queries[j];
      const size_t row = e * shape.queries + j;
      std::copy_n(set.queries().row(query), queries.columns, queries.row(row));
      work->targets[row] = set.groups()[set.targets()[query]];
    }
  }
}

template <typename T>
void ToUnitLength(Matrix<T> rows, std::vector<T>* inverse) {
  inverse->resize(rows.rows);
  for (size_t i = 0; i < rows.rows; ++i) {
    (*inverse)[i] = UnitLengthForward(rows.row(i), rows.columns, rows.row(i));
  }
}

// The gradient by a projection's matrix, from that by what it gave.
template <typename T>
void ProjectionBackward(const Runtime& runtime,
                        In<T> raw,
                        In<T> projected,
                        const std::vector<T>* inverse,
                        Matrix<T> projected_bar,
                        Buffer<T>* scratch,
                        Matrix<T> matrix_bar) {
  Matrix<T> bar = projected_bar;
  if (inverse != nullptr) {
    bar = scratch->Resize(projected.rows, projected.columns);
    std::fill_n(bar.data, bar.rows * bar.columns, T(0));
    for (size_t i = 0; i < bar.rows; ++i) {
      UnitLengthBackward(projected.row(i), (*inverse)[i], projected_bar.row(i), bar.columns,
                         bar.row(i));
    }
  }
  TransposedMultiply<T>(runtime.team, raw, bar, matrix_bar, Store::kAdd);
}

template <typename T>
batched::Batch<T> BatchOf(const Encoder& encoder,
                          const EpisodeShape& shape,
                          size_t episodes,
                          const EpisodeWorkspace<T>& work) {
  batched::Batch<T> batch;
  batch.problems = episodes;
  batch.n = shape.memory;
  batch.points = work.points;
  batch.dimension = encoder.options().key_out();
  batch.kernel.kind = encoder.options().kernel;
  batch.parameter = {&work.parameter, 1};
  batch.box = {&work.box, 1};
  batch.ridge = {&work.ridge, 1};
  batch.start = work.start;
  batch.previous_labels = work.previous_labels;
  return batch;
}

}  // namespace

uint64_t WorkspaceNumbers(const EncoderOptions& options,
                          const EpisodeShape& shape,
                          size_t episodes) {
  const uint64_t d = options.key_out();
  const uint64_t e = options.value_out();
  const uint64_t tokens = shape.tokens();
  // Raw rows, projected ones, their gradients, and those of rows before they had length 1.
  const uint64_t token = options.key_dimension + options.value_dimension + 3 * d + 2 * e + 2;
  const uint64_t query = options.key_dimension + 3 * d + 2;
  const uint64_t memory = 2 * d + 5;
  return episodes * (tokens * token + shape.queries * query + shape.memory * memory + 16) +
         6 * tokens + 2 * e;
}

template <typename T>
absl::Status RunEpisodes(const Runtime& runtime,
                         const Encoder& encoder,
                         std::type_identity_t<std::span<const T>> values,
                         const RecallSet<T>& set,
                         const EpisodeShape& shape,
                         std::span<const Episode> episodes,
                         std::type_identity_t<std::span<const T>> last_weights,
                         std::span<const uint8_t> last_labels,
                         EpisodeWorkspace<T>* workspace,
                         std::type_identity_t<std::span<T>> gradient,
                         RecallReport* recall,
                         GateCounters* gates) {
  EpisodeWorkspace<T>& work = *workspace;
  const EncoderOptions& options = encoder.options();
  const size_t count = episodes.size();
  const size_t tokens = shape.tokens();
  const size_t d = options.key_out();
  LETHE_CHECK(set.keys().columns == options.key_dimension);
  LETHE_CHECK(set.values().columns == options.value_dimension);
  Gather(set, shape, episodes, &work);

  const Matrix<T> keys = work.keys.Resize(count * tokens, d);
  const Matrix<T> queries = work.queries.Resize(count * shape.queries, d);
  LinearForward<T>(runtime.team, work.raw_keys.get(), encoder.KeyMatrix(values), {}, keys);
  LinearForward<T>(runtime.team, work.raw_queries.get(), encoder.QueryMatrix(values), {}, queries);
  if (options.unit_length) {
    ToUnitLength(keys, &work.key_lengths);
    ToUnitLength(queries, &work.query_lengths);
  }
  Matrix<T> projected_values = work.raw_values.get();
  if (options.projected_value > 0) {
    projected_values = work.values.Resize(count * tokens, options.projected_value);
    LinearForward<T>(runtime.team, work.raw_values.get(), encoder.ValueMatrix(values), {},
                     projected_values);
  }

  // The memories.
  work.parameter = std::exp(encoder.LogWidth(values));
  work.box = static_cast<T>(options.box);
  work.ridge = static_cast<T>(options.ridge);
  work.points.resize(count * shape.memory * d);
  work.start.assign(last_weights.empty() ? 0 : count * shape.memory, T(0));
  work.previous_labels.assign(work.start.size(), 0);
  for (size_t e = 0; e < count; ++e) {
    for (size_t i = 0; i < shape.memory; ++i) {
      const size_t at = e * shape.memory + i;
      std::copy_n(keys.row(e * tokens + i), d, work.points.data() + at * d);
      if (last_weights.empty()) continue;
      work.start[at] = last_weights[episodes[e].tokens[i]];
      work.previous_labels[at] = last_labels[episodes[e].tokens[i]];
    }
  }
  const batched::Batch<T> batch = BatchOf(encoder, shape, count, work);
  LETHE_RETURN_IF_ERROR(runtime.backend->Solve(batch, runtime.solver, &work.solution));
  Count(work.solution, shape.memory, gates);

  // The readouts, an episode each.
  const bool backward = !gradient.empty();
  work.scratch.resize(std::max(work.scratch.size(), runtime.team->size()));
  for (RecallScratch<T>& scratch : work.scratch) {
    scratch.Reserve(tokens, projected_values.columns);
  }
  work.reports.assign(count, {});
  work.scalars.assign(count * kScalars, T(0));
  work.weights_bar.resize(count * shape.memory);
  if (backward) {
    work.keys_bar.Resize(keys.rows, keys.columns);
    work.queries_bar.Resize(queries.rows, queries.columns);
    work.values_bar.Resize(projected_values.rows, projected_values.columns);
  }
  const T factor = T(1) / static_cast<T>(std::max<size_t>(count * shape.queries, 1));
  runtime.team->Run(count, 1, [&](size_t member, size_t first, size_t last) {
    for (size_t e = first; e < last; ++e) {
      const size_t at = e * shape.memory;
      RecallInput<T> input;
      input.kernel = options.kernel;
      input.queries = queries.Rows(e * shape.queries, shape.queries);
      input.keys = keys.Rows(e * tokens, tokens);
      input.values = projected_values.Rows(e * tokens, tokens);
      input.weights = std::span<const T>(work.solution.weights).subspan(at, shape.memory);
      input.groups = std::span<const uint32_t>(work.groups).subspan(e * tokens, tokens);
      input.targets =
          std::span<const uint32_t>(work.targets).subspan(e * shape.queries, shape.queries);
      input.parameter = work.parameter;
      input.scale = std::exp(encoder.LogScale(values));
      input.sharpness = std::exp(encoder.LogSharpness(values));
      RecallGradient<T> bars;
      if (backward) {
        bars.queries = work.queries_bar.get().Rows(e * shape.queries, shape.queries);
        bars.keys = work.keys_bar.get().Rows(e * tokens, tokens);
        bars.values = work.values_bar.get().Rows(e * tokens, tokens);
        bars.weights = std::span<T>(work.weights_bar).subspan(at, shape.memory);
      }
      work.reports[e] = Recall<T>(input, factor, &work.scratch[member], backward ? &bars : nullptr);
      T* scalars = work.scalars.data() + e * kScalars;
      scalars[kByParameter] = bars.log_parameter;
      scalars[kByScale] = bars.log_scale;
      scalars[kBySharpness] = bars.log_sharpness;
    }
  });
  for (const RecallReport& report : work.reports) {
    recall->loss += report.loss;
    recall->counted += report.counted;
    recall->recalled += report.recalled;
  }
  if (!backward) return absl::OkStatus();

  batched::LossGradient<T> loss;
  loss.weights = work.weights_bar;
  LETHE_RETURN_IF_ERROR(runtime.backend->Backward(batch, work.solution, loss, &work.gradients));
  std::ranges::fill(gradient, T(0));
  for (size_t e = 0; e < count; ++e) {
    const T* scalars = work.scalars.data() + e * kScalars;
    encoder.LogWidth(gradient) +=
        scalars[kByParameter] + work.gradients.parameter[e] * work.parameter;
    encoder.LogScale(gradient) += scalars[kByScale];
    encoder.LogSharpness(gradient) += scalars[kBySharpness];
    for (size_t i = 0; i < shape.memory; ++i) {
      const T* from = work.gradients.points.data() + (e * shape.memory + i) * d;
      T* to = work.keys_bar.get().row(e * tokens + i);
      for (size_t j = 0; j < d; ++j) to[j] += from[j];
    }
  }
  const bool unit = options.unit_length;
  ProjectionBackward<T>(runtime, work.raw_keys.get(), keys, unit ? &work.key_lengths : nullptr,
                        work.keys_bar.get(), &work.rows_bar, encoder.KeyMatrix(gradient));
  ProjectionBackward<T>(runtime, work.raw_queries.get(), queries,
                        unit ? &work.query_lengths : nullptr, work.queries_bar.get(),
                        &work.rows_bar, encoder.QueryMatrix(gradient));
  if (options.projected_value > 0) {
    ProjectionBackward<T>(runtime, work.raw_values.get(), projected_values, nullptr,
                          work.values_bar.get(), &work.rows_bar, encoder.ValueMatrix(gradient));
  }
  return absl::OkStatus();
}

#define LETHE_INSTANTIATE(T)                                                                       \
  template absl::Status RunEpisodes<T>(                                                            \
      const Runtime&, const Encoder&, std::span<const T>, const RecallSet<T>&,                     \
      const EpisodeShape&, std::span<const Episode>, std::span<const T>, std::span<const uint8_t>, \
      EpisodeWorkspace<T>*, std::span<T>, RecallReport*, GateCounters*);
LETHE_INSTANTIATE(float)
LETHE_INSTANTIATE(double)
#undef LETHE_INSTANTIATE

}  // namespace lethe::model
