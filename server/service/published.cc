#include "server/service/published.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "audit/encoding.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

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
                                  const svdd::Readout& readout,
                                  size_t count) {
  const auto& supports = state.snapshot->supports;
  LETHE_CHECK(readout.shares.size() == supports.size());
  std::vector<size_t> order(supports.size());
  std::iota(order.begin(), order.end(), size_t{0});
  count = std::min(count, order.size());
  // Equal shares in insertion order, so that the answer is the same every time.
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&readout](size_t a, size_t b) {
                      if (readout.shares[a] != readout.shares[b]) {
                        return readout.shares[a] > readout.shares[b];
                      }
                      return a < b;
                    });
  std::vector<QueryToken> tokens;
  tokens.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    tokens.push_back({.id = state.support_ids[order[i]],
                      .weight = supports[order[i]].alpha,
                      .share = readout.shares[order[i]]});
  }
  return tokens;
}

}  // namespace

audit::Digest ConfigDigestOf(const svdd::MemoryOptions& options) {
  return audit::ConfigDigest({.kernel_kind = static_cast<uint8_t>(options.kernel.kind),
                              .kernel_parameter = options.kernel.parameter,
                              .total = options.capacity.total(),
                              .box = options.capacity.box(),
                              .duplicates = static_cast<uint8_t>(options.duplicates),
                              .key_dimension = static_cast<uint32_t>(options.key_dimension),
                              .value_dimension = static_cast<uint32_t>(options.value_dimension)});
}

audit::Digest StateDigestOf(const svdd::Snapshot& snapshot,
                            std::span<const audit::Digest> support_leaves,
                            uint64_t tokens,
                            const audit::Digest& tree_root) {
  LETHE_CHECK(support_leaves.size() == snapshot.supports.size());
  audit::StateContent content;
  content.config = ConfigDigestOf(snapshot.options);
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
  return audit::Hex(
      StateDigestOf(*state.snapshot, state.support_leaves, state.tokens, state.plain_root));
}

size_t AnswerBytes(size_t value_dimension, size_t top_tokens) {
  // Doubles, an id of 256 bytes, and room for tags and lengths.
  return 64 + value_dimension * 8 + top_tokens * (256 + 32);
}

absl::StatusOr<QueryReply> AnswerQueries(const Published& state,
                                         const std::vector<std::vector<double>>& queries,
                                         size_t top_tokens,
                                         const CallOptions& call) {
  const svdd::Snapshot& snapshot = *state.snapshot;
  QueryReply reply;
  reply.phase = snapshot.phase;
  reply.partition = snapshot.counts;
  reply.results.resize(queries.size());
  for (size_t i = 0; i < queries.size(); ++i) {
    if (i % kQueriesPerLook == 0 && call.still_wanted) {
      LETHE_RETURN_IF_ERROR(call.still_wanted());
    }
    QueryItem& item = reply.results[i];
    if (snapshot.phase == svdd::Phase::kEmpty) {
      item.log_denominator = -std::numeric_limits<double>::infinity();  // ln of an empty sum
      continue;
    }
    svdd::Readout readout = snapshot.Query(queries[i], top_tokens > 0);
    item.position = PositionOf(snapshot, readout);
    if (snapshot.phase == svdd::Phase::kActive && readout.decision.has_value()) {
      item.decision = readout.decision;
      item.decision_bound = readout.decision_bound;
    }
    item.readout_bound = readout.value_bound;
    item.log_denominator = readout.log_denominator;
    if (top_tokens > 0) item.tokens = TopTokens(state, readout, top_tokens);
    item.readout = std::move(readout.value);
  }
  return reply;
}

}  // namespace lethe::service
