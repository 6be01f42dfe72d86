// The loss of an encoder over some episodes, and its gradient.
//
// Projects what the episodes hold, solves the problem of each memory, all as one batch, and reads
// it (recall.h). The loss is factor times the sum over queries with factor = 1 / (episodes
// queries), so that episodes without queries weigh what others do.
//
// Problems that were not solved or have no weights are counted and give no gradient through the
// weights. Deterministic: sums over episodes are in their order. Threads: the runtime's team.
#ifndef LETHE_CORE_MODEL_ENCODER_EPISODES_H_
#define LETHE_CORE_MODEL_ENCODER_EPISODES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "core/model/encoder.h"
#include "core/model/recall.h"
#include "core/model/recall_set.h"
#include "core/model/svdd_gate.h"

namespace lethe::model {

// All episodes have as many tokens and, but for those with none, as many queries.
struct EpisodeShape {
  size_t memory = 0;  // the first tokens of each
  size_t local = 0;   // the rest
  size_t queries = 0;

  size_t tokens() const { return memory + local; }
};

template <typename T>
struct EpisodeWorkspace {
  // Rows of all episodes, one after the other.
  Buffer<T> raw_keys, raw_queries, raw_values, keys, queries, values;
  Buffer<T> keys_bar, queries_bar, values_bar, rows_bar;
  std::vector<T> key_lengths, query_lengths;  // inverse, where they are brought to 1
  std::vector<uint32_t> groups, targets;

  std::vector<T> points, start, weights_bar;
  std::vector<uint8_t> previous_labels;
  T parameter = 0, box = 0, ridge = 0;
  batched::Solution<T> solution;  // of the last call, a problem an episode
  batched::Gradients<T> gradients;
  std::vector<RecallScratch<T>> scratch;  // a member of the team
  std::vector<RecallReport> reports;      // an episode
  std::vector<T> scalars;                 // gradients by parameter, scale, sharpness an episode
};

// How many numbers a workspace holds at most after `episodes` episodes with gradient, the solver's
// results included; of what each thread has for itself, that of one thread. Requires Validate's
// conditions (encoder_trainer.h).
uint64_t WorkspaceNumbers(const EncoderOptions& options,
                          const EpisodeShape& shape,
                          size_t episodes);

// `last_weights` and `last_labels`: of every token of the set, from which problems start; or both
// empty. `gradient`: of the encoder's table, set; or empty. Adds to `recall` and `gates`.
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
                         GateCounters* gates);

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_ENCODER_EPISODES_H_
