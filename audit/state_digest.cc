#include "audit/state_digest.h"

#include <algorithm>
#include <limits>

#include "audit/encoding.h"
#include "core/base/check.h"

namespace lethe::audit {
namespace {

constexpr uint8_t kActivePhase = 3;

uint32_t FieldSize(size_t size) {
  LETHE_CHECK(size <= std::numeric_limits<uint32_t>::max());
  return static_cast<uint32_t>(size);
}

void AppendField(std::string& out, absl::string_view field) {
  AppendU32(out, FieldSize(field.size()));
  out.append(field.data(), field.size());
}

void AppendField(std::string& out, std::span<const double> field) {
  AppendU32(out, FieldSize(8 * field.size()));
  for (const double number : field) AppendDouble(out, number);
}

void HashEnd(Sha256Hasher& hasher, const std::optional<double>& end) {
  hasher.UpdateByte(end.has_value() ? 1 : 0);
  if (end.has_value()) hasher.UpdateDouble(*end);
}

}  // namespace

std::string EncodeToken(const TokenContent& token) {
  std::vector<const std::pair<std::string, std::string>*> labels;
  for (const auto& label : token.labels) labels.push_back(&label);
  std::sort(labels.begin(), labels.end(),
            [](const auto* a, const auto* b) { return a->first < b->first; });

  std::string out;
  AppendField(out, token.id);
  AppendField(out, token.key);
  AppendField(out, token.value);
  AppendField(out, token.subject);
  AppendField(out, token.payload);
  AppendU32(out, FieldSize(labels.size()));
  for (size_t i = 0; i < labels.size(); ++i) {
    LETHE_CHECK(i == 0 || labels[i - 1]->first != labels[i]->first);
    AppendField(out, absl::string_view(labels[i]->first));
    AppendField(out, absl::string_view(labels[i]->second));
  }
  return out;
}

Digest PlainLeaf(absl::string_view token_bytes) {
  Sha256Hasher hasher;
  return hasher.Update("lethe/token/v1").UpdateByte(0).Update(token_bytes).Finish();
}

Digest BlindedLeaf(const Salt& salt, absl::string_view token_bytes) {
  Sha256Hasher hasher;
  return hasher.Update("lethe/token-commitment/v1")
      .UpdateByte(0)
      .Update(AsBytes(salt))
      .Update(token_bytes)
      .Finish();
}

Digest ConfigDigest(const ConfigContent& config) {
  Sha256Hasher hasher;
  hasher.Update(config.encoder.has_value() ? "lethe/config/v2" : "lethe/config/v1")
      .UpdateByte(0)
      .UpdateByte(config.kernel_kind)
      .UpdateDouble(config.kernel_parameter)
      .UpdateDouble(config.total)
      .UpdateDouble(config.box)
      .UpdateByte(config.duplicates)
      .UpdateU32(config.key_dimension)
      .UpdateU32(config.value_dimension);
  if (config.encoder.has_value()) hasher.Update(*config.encoder);
  return hasher.Finish();
}

Digest StateDigest(const StateContent& state) {
  const bool has_ends = state.mu_low.has_value() || state.mu_high.has_value();
  LETHE_CHECK(!(state.mu.has_value() && has_ends));
  LETHE_CHECK(state.phase == kActivePhase || (!state.mu.has_value() && !has_ends));

  Sha256Hasher hasher;
  hasher.Update("lethe/state/v1").UpdateByte(0).Update(state.config).UpdateByte(state.phase);
  hasher.UpdateU64(state.tokens);
  if (state.mu.has_value()) {
    hasher.UpdateByte(1).UpdateDouble(*state.mu);
  } else if (state.phase == kActivePhase) {
    hasher.UpdateByte(2);
    HashEnd(hasher, state.mu_low);
    HashEnd(hasher, state.mu_high);
  } else {
    hasher.UpdateByte(0);
  }
  hasher.UpdateU64(state.supports.size());
  for (const SupportContent& support : state.supports) {
    hasher.Update(support.leaf).UpdateByte(support.label).UpdateDouble(support.alpha);
  }
  return hasher.Update(state.tree_root).Finish();
}

}  // namespace lethe::audit
