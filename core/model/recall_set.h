// Tokens and queries to train an encoder on, and the episodes drawn from them.
//
// An episode is a small memory: some tokens, a local chunk of further ones, and queries that ask
// for tokens of either. Episode number i is a function of seed and i (random.h).
#ifndef LETHE_CORE_MODEL_RECALL_SET_H_
#define LETHE_CORE_MODEL_RECALL_SET_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/matrix.h"

namespace lethe::model {

template <typename T>
class RecallSet {
 public:
  // Keys N x d, values N x e, queries Q x d, and for each query the token whose value belongs to
  // it. INVALID_ARGUMENT names what does not fit: "keys", "values", "queries", "targets[7]",
  // "values[3][0]" (not finite). Cost O((N + Q) d + N e), once.
  static absl::StatusOr<RecallSet> Create(std::vector<T> keys,
                                          size_t key_dimension,
                                          std::vector<T> values,
                                          size_t value_dimension,
                                          std::vector<T> queries,
                                          std::vector<uint32_t> targets);

  size_t tokens() const { return keys_.size() / key_dimension_; }
  Matrix<const T> keys() const { return View(keys_, key_dimension_); }
  Matrix<const T> values() const { return View(values_, value_dimension_); }
  Matrix<const T> queries() const { return View(queries_, key_dimension_); }
  // Tokens with equal values have equal numbers.
  std::span<const uint32_t> groups() const { return groups_; }
  std::span<const uint32_t> targets() const { return targets_; }
  std::span<const uint32_t> QueriesOf(uint32_t token) const {
    return std::span(by_token_).subspan(first_query_[token],
                                        first_query_[token + 1] - first_query_[token]);
  }

 private:
  RecallSet() = default;
  static Matrix<const T> View(const std::vector<T>& numbers, size_t columns) {
    return Matrix<const T>(std::span<const T>(numbers), numbers.size() / columns, columns);
  }

  size_t key_dimension_ = 0, value_dimension_ = 0;
  std::vector<T> keys_, values_, queries_;
  std::vector<uint32_t> targets_, groups_;
  std::vector<uint32_t> by_token_;   // queries, those of a token together
  std::vector<size_t> first_query_;  // tokens + 1
};

struct Episode {
  std::vector<uint32_t> tokens;   // the memory's, then the local chunk's; no token twice
  std::vector<uint32_t> queries;  // with replacement; empty where no token has one
};
// Requires `tokens` <= set.tokens().
template <typename T>
Episode DrawEpisode(const RecallSet<T>& set,
                    uint64_t seed,
                    uint64_t stream,
                    uint64_t number,
                    size_t tokens,
                    size_t queries);

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_RECALL_SET_H_
