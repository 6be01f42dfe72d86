#include "store/vault/dek_cache.h"

#include <utility>

#include "core/base/check.h"

namespace lethe::store {

DekCache::DekCache(size_t limit) : limit_(limit) { LETHE_CHECK(limit >= 1); }

SealingKey* DekCache::Find(uint64_t slot) {
  const auto found = places_.find(slot);
  if (found == places_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return &found->second->key;
}

SealingKey* DekCache::Put(uint64_t slot, SealingKey key) {
  Evict(slot);
  if (entries_.size() == limit_) Evict(entries_.back().slot);
  entries_.push_front({slot, std::move(key)});
  places_.emplace(slot, entries_.begin());
  return &entries_.front().key;
}

void DekCache::Evict(uint64_t slot) {
  const auto found = places_.find(slot);
  if (found == places_.end()) return;
  entries_.erase(found->second);  // ~SecretBytes wipes
  places_.erase(found);
}

void DekCache::Clear() {
  entries_.clear();
  places_.clear();
}

}  // namespace lethe::store
