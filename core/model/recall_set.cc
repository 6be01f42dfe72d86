#include "core/model/recall_set.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/model/random.h"

namespace lethe::model {
namespace {

constexpr size_t kMostDimension = 4096;

template <typename T>
absl::StatusOr<size_t> RowsOf(absl::string_view name,
                              const std::vector<T>& numbers,
                              size_t columns) {
  if (columns < 1 || columns > kMostDimension) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": a dimension must be in [1, ", kMostDimension, "], got ", columns));
  }
  if (numbers.empty() || numbers.size() % columns != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": has ", numbers.size(), " entries, wanted rows of ", columns));
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (!std::isfinite(numbers[i])) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, "[", i / columns, "][", i % columns, "]: not finite"));
    }
  }
  const size_t rows = numbers.size() / columns;
  if (rows > UINT32_MAX - 1) return absl::InvalidArgumentError(absl::StrCat(name, ": too many"));
  return rows;
}

}  // namespace

template <typename T>
absl::StatusOr<RecallSet<T>> RecallSet<T>::Create(std::vector<T> keys,
                                                  size_t key_dimension,
                                                  std::vector<T> values,
                                                  size_t value_dimension,
                                                  std::vector<T> queries,
                                                  std::vector<uint32_t> targets) {
  LETHE_ASSIGN_OR_RETURN(const size_t tokens, RowsOf("keys", keys, key_dimension));
  LETHE_ASSIGN_OR_RETURN(const size_t value_rows, RowsOf("values", values, value_dimension));
  LETHE_ASSIGN_OR_RETURN(const size_t query_rows, RowsOf("queries", queries, key_dimension));
  if (value_rows != tokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("values: has ", value_rows, " rows, wanted one a key, ", tokens));
  }
  if (targets.size() != query_rows) {
    return absl::InvalidArgumentError(absl::StrCat("targets: has ", targets.size(),
                                                   " entries, wanted one a query, ", query_rows));
  }
  for (size_t j = 0; j < targets.size(); ++j) {
    if (targets[j] >= tokens) {
      return absl::InvalidArgumentError(absl::StrCat("targets[", j, "]: no such token"));
    }
  }
  RecallSet set;
  set.key_dimension_ = key_dimension;
  set.value_dimension_ = value_dimension;
  set.keys_ = std::move(keys);
  set.values_ = std::move(values);
  set.queries_ = std::move(queries);
  set.targets_ = std::move(targets);

  // By the numbers and not by their bytes: -0 is 0.
  const auto before = [value_dimension](const T* x, const T* y) {
    return std::lexicographical_compare(x, x + value_dimension, y, y + value_dimension);
  };
  std::map<const T*, uint32_t, decltype(before)> seen(before);
  for (size_t i = 0; i < tokens; ++i) {
    const T* value = set.values_.data() + i * value_dimension;
    set.groups_.push_back(seen.emplace(value, static_cast<uint32_t>(i)).first->second);
  }
  set.first_query_.assign(tokens + 1, 0);
  for (const uint32_t token : set.targets_) ++set.first_query_[token + 1];
  for (size_t i = 0; i < tokens; ++i) set.first_query_[i + 1] += set.first_query_[i];
  set.by_token_.resize(set.targets_.size());
  std::vector<size_t> next(set.first_query_.begin(), set.first_query_.end() - 1);
  for (size_t j = 0; j < set.targets_.size(); ++j) {
    set.by_token_[next[set.targets_[j]]++] = static_cast<uint32_t>(j);
  }
  return set;
}

template <typename T>
Episode DrawEpisode(const RecallSet<T>& set,
                    uint64_t seed,
                    uint64_t stream,
                    uint64_t number,
                    size_t tokens,
                    size_t queries) {
  LETHE_CHECK(tokens >= 1 && tokens <= set.tokens());
  const CounterRandom random(seed, stream);
  uint64_t draw = number << 20;  // room for 2^20 draws an episode
  Episode episode;
  // Floyd's sample without replacement, then shuffled: cost does not grow with the set.
  std::set<uint32_t> chosen;
  for (size_t j = set.tokens() - tokens; j < set.tokens(); ++j) {
    auto token = static_cast<uint32_t>(random.Below(draw++, j + 1));
    if (!chosen.insert(token).second) {
      token = static_cast<uint32_t>(j);
      chosen.insert(token);
    }
    episode.tokens.push_back(token);
  }
  for (size_t i = tokens; i-- > 1;) {
    std::swap(episode.tokens[i], episode.tokens[random.Below(draw++, i + 1)]);
  }
  std::vector<uint32_t> asked;
  for (const uint32_t token : episode.tokens) {
    if (!set.QueriesOf(token).empty()) asked.push_back(token);
  }
  for (size_t j = 0; j < queries && !asked.empty(); ++j) {
    const std::span<const uint32_t> of = set.QueriesOf(asked[random.Below(draw++, asked.size())]);
    episode.queries.push_back(of[random.Below(draw++, of.size())]);
  }
  return episode;
}

template class RecallSet<float>;
template class RecallSet<double>;
template Episode DrawEpisode(const RecallSet<float>&, uint64_t, uint64_t, uint64_t, size_t, size_t);
template Episode DrawEpisode(const RecallSet<double>&,
                             uint64_t,
                             uint64_t,
                             uint64_t,
                             size_t,
                             size_t);

}  // namespace lethe::model
