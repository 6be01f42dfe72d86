#include "core/svdd/token_table.h"

#include <algorithm>
#include <bit>

#include "absl/hash/hash.h"
#include "core/base/check.h"

namespace lethe::svdd {
namespace {

uint64_t HashKey(std::span<const double> key) {
  uint64_t hash = 0;
  for (const double coordinate : key) {
    hash = absl::Hash<std::pair<uint64_t, uint64_t>>()({hash, std::bit_cast<uint64_t>(coordinate)});
  }
  return hash;
}

}  // namespace

uint32_t RowStore::Add(std::span<const double> row) {
  LETHE_CHECK(row.size() == width_);
  uint32_t index = used_;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else {
    if (used_ % kRowsPerBlock == 0) blocks_.emplace_back(kRowsPerBlock * width_);
    ++used_;
  }
  std::copy(row.begin(), row.end(),
            blocks_[index / kRowsPerBlock].begin() +
                static_cast<std::ptrdiff_t>((index % kRowsPerBlock) * width_));
  return index;
}

void RowStore::Free(uint32_t row) {
  std::ranges::fill(
      std::span(blocks_[row / kRowsPerBlock]).subspan((row % kRowsPerBlock) * width_, width_), 0.0);
  free_.push_back(row);
}

GroupIndex TokenTable::Add(TokenHandle handle,
                           std::span<const double> key,
                           std::span<const double> value) {
  std::vector<double> normal(key.begin(), key.end());
  for (double& coordinate : normal) coordinate += 0.0;  // -0.0 -> 0.0
  auto& candidates = by_hash_[HashKey(normal)];
  GroupIndex group = 0;
  const auto same = std::find_if(candidates.begin(), candidates.end(), [&](GroupIndex candidate) {
    return std::ranges::equal(Key(candidate), normal);
  });
  if (same != candidates.end()) {
    group = *same;
  } else {
    if (free_groups_.empty()) {
      group = static_cast<GroupIndex>(groups_.size());
      groups_.emplace_back();
    } else {
      group = free_groups_.back();
      free_groups_.pop_back();
    }
    groups_[group].key_row = keys_.Add(normal);
    candidates.push_back(group);
  }
  const bool inserted = tokens_.try_emplace(handle, Token{group, values_.Add(value)}).second;
  LETHE_CHECK(inserted);
  LETHE_CHECK(groups_[group].members.empty() || groups_[group].members.back() < handle);
  groups_[group].members.push_back(handle);
  return group;
}

GroupIndex TokenTable::Remove(TokenHandle handle) {
  const auto token = tokens_.find(handle);
  LETHE_CHECK(token != tokens_.end());
  const GroupIndex group = token->second.group;
  values_.Free(token->second.value_row);
  tokens_.erase(token);
  auto& members = groups_[group].members;
  members.erase(std::lower_bound(members.begin(), members.end(), handle));
  return group;
}

void TokenTable::ReleaseGroup(GroupIndex group) {
  LETHE_CHECK(groups_[group].members.empty());
  const auto entry = by_hash_.find(HashKey(Key(group)));
  LETHE_CHECK(entry != by_hash_.end());
  auto& candidates = entry->second;
  candidates.erase(std::find(candidates.begin(), candidates.end(), group));
  if (candidates.empty()) by_hash_.erase(entry);
  keys_.Free(groups_[group].key_row);
  free_groups_.push_back(group);
}

std::vector<TokenHandle> TokenTable::Handles() const {
  std::vector<TokenHandle> handles;
  handles.reserve(tokens_.size());
  for (const auto& [handle, token] : tokens_) handles.push_back(handle);
  std::sort(handles.begin(), handles.end());
  return handles;
}

}  // namespace lethe::svdd
