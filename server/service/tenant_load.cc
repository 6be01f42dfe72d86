// Tenant: what a loaded tenant takes, and its facts without its memories.
#include <algorithm>

#include "core/base/status_macros.h"
#include "server/service/tenant.h"

namespace lethe::service {
namespace {

// Estimates, on the safe side of what was measured (docs/adr/0034).
constexpr uint64_t kMemoryBytes = uint64_t{64} << 10;
// Of a token, beside its numbers: the core's 270 (core/svdd/memory.h) and what it grows by, its
// place in the token tree, its id, the maps by id and subject.
constexpr uint64_t kTokenBytes = 1200;
// Pages that SQLite keeps and what a small memory holds more densely, up to kMostCachedBytes.
constexpr uint64_t kCachedTokenBytes = 1000;
constexpr uint64_t kMostCachedBytes = uint64_t{4} << 20;
// Keys are held twice and values once in double; row caches and landmarks hold keys again.
constexpr uint64_t kKeyNumberBytes = 24;
constexpr uint64_t kValueNumberBytes = 16;
// Of a pair of tokens with weight: the factor and the kernel among them.
constexpr uint64_t kPairBytes = 24;
// Kernel rows that a memory keeps: at most (core/svdd/row_cache.h).
constexpr uint64_t kMostRowBytes = uint64_t{80} << 20;

}  // namespace

Tenant::Size Tenant::EstimateSize() const {
  Size size;
  size.bytes = Size::kEmptyBytes;
  MutexLock lock(map_mutex_);
  for (const auto& [name, memory] : memories_) {
    const std::shared_ptr<const Published> state = memory->published.Get();
    if (state == nullptr) continue;
    const uint64_t tokens = state->tokens;
    const uint64_t with_weight = state->snapshot->supports.size();
    const auto key = static_cast<uint64_t>(memory->options.key_dimension);
    const auto value = static_cast<uint64_t>(memory->options.value_dimension);
    size.tokens += tokens;
    ++size.memories;
    size.partition.margin += state->snapshot->counts.margin;
    size.partition.error += state->snapshot->counts.error;
    size.partition.reserve += state->snapshot->counts.reserve;
    size.bytes += kMemoryBytes;
    size.bytes += tokens * (kTokenBytes + kKeyNumberBytes * key + kValueNumberBytes * value);
    size.bytes += std::min(kMostCachedBytes, kCachedTokenBytes * tokens);
    if (memory->encoder != nullptr) size.bytes += sizeof(double) * memory->encoder->numbers();
    size.bytes += kPairBytes * with_weight * with_weight;
    size.bytes += std::min(kMostRowBytes, sizeof(float) * tokens * with_weight);
  }
  return size;
}

absl::StatusOr<TenantInfo> Tenant::InfoFromStore() {
  TenantInfo info = Info();
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  const absl::StatusOr<uint64_t> count = store_->CountMemories();
  if (!count.ok()) return StoreFailed(nullptr, count.status());
  info.memory_count = *count;
  return info;
}

}  // namespace lethe::service
