// The data keys used last, unwrapped: at most `limit` of them, each in a SecretBytes. What is
// evicted is wiped before the call returns; no key is handed out that could outlive its eviction.
//
// Cost: O(1). Errors: none. Threads: compatible, not safe.
#ifndef LETHE_STORE_VAULT_DEK_CACHE_H_
#define LETHE_STORE_VAULT_DEK_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>

#include "store/vault/sealing.h"

namespace lethe::store {

class DekCache {
 public:
  // Requires limit >= 1.
  explicit DekCache(size_t limit);
  DekCache(const DekCache&) = delete;
  DekCache& operator=(const DekCache&) = delete;

  // Null when it is not there. Valid until the next call; counts as a use.
  SealingKey* Find(uint64_t slot);
  bool Contains(uint64_t slot) const { return places_.count(slot) != 0; }
  // Takes the place of the one used longest ago when the cache is full, and of an earlier key of
  // this slot. Valid until the next call.
  SealingKey* Put(uint64_t slot, SealingKey key);
  void Evict(uint64_t slot);
  void Clear();

  size_t size() const { return entries_.size(); }
  size_t limit() const { return limit_; }

 private:
  struct Entry {
    uint64_t slot;
    SealingKey key;
  };
  size_t limit_;
  std::list<Entry> entries_;  // the last used first
  std::unordered_map<uint64_t, std::list<Entry>::iterator> places_;
};

}  // namespace lethe::store

#endif  // LETHE_STORE_VAULT_DEK_CACHE_H_
