#include "server/service/published.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "audit/encoding.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/svdd/gated.h"

namespace lethe::service {
namespace {

// How many queries are answered between two looks at the caller.
constexpr size_t kQueriesPerLook = 64;

QueryPosition PositionOf(const svdd::Snapshot& snapshot, const svdd::Readout& readout) {
  if (snapshot.phase != svdd::Phase::kActive) return QueryPosition::kUndefined;
  if (readout.decision.has_value()) {
    if (*readout.decision > 0.0) return QueryPosition::kInside;
    if (*readout.decision < 0.0) return QueryPosition::kOutside;
    return *readout.decision == 0.0 ? QueryPosition::kBoundary : QueryPosition::kUndefined;
  }
  if (readout.decision_low > 0.0) return QueryPosition::kInside;
  if (readout.decision_high < 0.0) return QueryPosition::kOutside;
  return QueryPosition::kUndefined;
}

std::vector<QueryToken> TopTokens(const Published& state,
                                  const std::vector<double>& shares,
                                  size_t count) {
  const auto& supports = state.snapshot->supports;
  LETHE_CHECK(shares.size() == supports.size());
  std::vector<size_t> order(supports.size());
  std::iota(order.begin(), order.end(), size_t{0});
  count = std::min(count, order.size());
  // Equal shares in insertion order, so that the answer is the same every time.
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&shares](size_t a, size_t b) {
                      if (shares[a] != shares[b]) {
                        return shares[a] > shares[b];
                      }
                      return a < b;
                    });
  std::vector<QueryToken> tokens;
  tokens.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    tokens.push_back({.id = state.support_ids[order[i]],
                      .weight = supports[order[i]].alpha,
                      .share = shares[order[i]]});
  }
  return tokens;
}

constexpr double kLogOfNothing = -std::numeric_limits<double>::infinity();  // ln of an empty sum

// A local chunk in the form of core.
class FlatChunk {
 public:
  FlatChunk(const LocalChunkInput& chunk, const svdd::Snapshot& snapshot)
      : key_dimension_(static_cast<size_t>(snapshot.options.key_dimension)),
        value_dimension_(static_cast<size_t>(snapshot.options.value_dimension)),
        count_(chunk.keys.size()),
        causal_(chunk.causal),
        scale_(chunk.scale.value_or(1 / std::sqrt(static_cast<double>(key_dimension_)))),
        gate_(chunk.gate.value_or(1.0)) {
    for (size_t i = 0; i < count_; ++i) {
      keys_.insert(keys_.end(), chunk.keys[i].begin(), chunk.keys[i].end());
      values_.insert(values_.end(), chunk.values[i].begin(), chunk.values[i].end());
    }
  }
  // What this query sees of it.
  svdd::LocalChunk UpTo(size_t query) const {
    const size_t seen = causal_ ? query + 1 : count_;
    return {.keys = std::span(keys_).first(seen * key_dimension_),
            .values = std::span(values_).first(seen * value_dimension_),
            .scale = scale_,
            .gate = gate_};
  }

 private:
  const size_t key_dimension_;
  const size_t value_dimension_;
  const size_t count_;
  const bool causal_;
  const double scale_;
  const double gate_;
  std::vector<double> keys_;
  std::vector<double> values_;
};

void AnswerWithChunk(const Published& state,
                     const std::vector<double>& query,
                     const svdd::LocalChunk& chunk,
                     size_t top_tokens,
                     QueryItem& item) {
  item.local_share = 0.0;
  if (state.snapshot->phase == svdd::Phase::kEmpty && chunk.keys.empty()) {
    item.log_denominator = kLogOfNothing;
    return;
  }
  svdd::GatedReadout readout = svdd::GatedSoftmax(*state.snapshot, query, chunk);
  item.readout_bound = readout.value_bound;
  item.log_denominator = readout.log_denominator;
  item.local_share = readout.local_share;
  if (top_tokens > 0) item.tokens = TopTokens(state, readout.shares, top_tokens);
  item.readout = std::move(readout.value);
}

}  // namespace

audit::Digest ConfigDigestOf(const svdd::MemoryOptions& options,
                             const std::optional<EncoderInfo>& encoder) {
  std::optional<audit::Digest> artefact;
  if (encoder.has_value()) artefact = audit::DecodeDigest(encoder->sha256).value();
  return audit::ConfigDigest({.kernel_kind = static_cast<uint8_t>(options.kernel.kind),
                              .kernel_parameter = options.kernel.parameter,
                              .total = options.capacity.total(),
                              .box = options.capacity.box(),
                              .duplicates = static_cast<uint8_t>(options.duplicates),
                              .key_dimension = static_cast<uint32_t>(options.key_dimension),
                              .value_dimension = static_cast<uint32_t>(options.value_dimension),
                              .encoder = artefact});
}

audit::Digest StateDigestOf(const audit::Digest& config,
                            const svdd::Snapshot& snapshot,
                            std::span<const audit::Digest> support_leaves,
                            uint64_t tokens,
                            const audit::Digest& tree_root) {
  LETHE_CHECK(support_leaves.size() == snapshot.supports.size());
  audit::StateContent content;
  content.config = config;
  content.phase = static_cast<uint8_t>(snapshot.phase);
  content.tokens = tokens;
  if (snapshot.phase == svdd::Phase::kActive) {
    content.mu = snapshot.mu;
    content.mu_low = snapshot.mu_low;
    content.mu_high = snapshot.mu_high;
  }
  content.supports.reserve(support_leaves.size());
  for (size_t i = 0; i < support_leaves.size(); ++i) {
    content.supports.push_back({.leaf = support_leaves[i],
                                .label = static_cast<uint8_t>(snapshot.supports[i].label),
                                .alpha = snapshot.supports[i].alpha});
  }
  content.tree_root = tree_root;
  return audit::StateDigest(content);
}

std::string StateDigestHex(const Published& state) {
  return audit::Hex(StateDigestOf(state.config, *state.snapshot, state.support_leaves, state.tokens,
                                  state.plain_root));
}

size_t AnswerBytes(size_t value_dimension, size_t top_tokens) {
  // Doubles, an id of 256 bytes, and room for tags and lengths.
  return 64 + value_dimension * 8 + top_tokens * (256 + 32);
}

absl::StatusOr<QueryReply> AnswerQueries(const Published& state,
                                         const QueryInput& input,
                                         size_t top_tokens,
                                         const CallOptions& call) {
  const svdd::Snapshot& snapshot = *state.snapshot;
  std::unique_ptr<const FlatChunk> local;
  if (input.local.has_value()) local = std::make_unique<const FlatChunk>(*input.local, snapshot);
  QueryReply reply;
  reply.phase = snapshot.phase;
  reply.partition = snapshot.counts;
  reply.results.resize(input.queries.size());
  for (size_t i = 0; i < input.queries.size(); ++i) {
    if (i % kQueriesPerLook == 0 && call.still_wanted) {
      LETHE_RETURN_IF_ERROR(call.still_wanted());
    }
    QueryItem& item = reply.results[i];
    const std::vector<double>& query = input.queries[i];
    if (local != nullptr) {
      AnswerWithChunk(state, query, local->UpTo(i), top_tokens, item);
    } else if (snapshot.phase == svdd::Phase::kEmpty) {
      item.log_denominator = kLogOfNothing;
    } else {
      svdd::Readout readout = snapshot.Query(query, top_tokens > 0);
      item.position = PositionOf(snapshot, readout);
      if (snapshot.phase == svdd::Phase::kActive && readout.decision.has_value()) {
        item.decision = readout.decision;
        item.decision_bound = readout.decision_bound;
      }
      item.readout_bound = readout.value_bound;
      item.log_denominator = readout.log_denominator;
      if (top_tokens > 0) item.tokens = TopTokens(state, readout.shares, top_tokens);
      item.readout = std::move(readout.value);
    }
  }
  return reply;
}

}  // namespace lethe::service
