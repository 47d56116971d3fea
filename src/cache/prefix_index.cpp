#include "cache/prefix_index.h"

#include <algorithm>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace monograph {

PrefixKey::PrefixKey(const PrefixChain& parent, std::span<const TokenId> ids)
    : parent_(parent.prefix),
      salt_(parent.prefix == 0 ? std::string_view(parent.salt) : std::string_view()),
      ids_(ids) {
  const BlockHash seed = parent.prefix == 0 ? XXH64(salt_.data(), salt_.size(), 0) : parent.hash;
  hash_ = XXH64(ids.data(), ids.size_bytes(), seed);
}

bool PrefixIndex::matches(const Entry& entry, const PrefixKey& key) {
  return entry.parent == key.parent_ && entry.salt == key.salt_ && std::ranges::equal(entry.ids, key.ids_);
}

std::optional<PrefixIndex::Hit> PrefixIndex::find(const PrefixKey& key) const {
  const auto found = entries_.find(key.hash() & hash_mask_);
  if (found == entries_.end() || !matches(found->second, key)) return std::nullopt;
  return Hit{found->second.block, found->second.prefix};
}

/// All memory is taken before anything changes: if there is none, the index is as it was (S-103).
PrefixIndex::Inserted PrefixIndex::insert(const PrefixKey& key, BlockId block) {
  const BlockHash slot = key.hash() & hash_mask_;
  const auto at = entries_.find(slot);
  if (at != entries_.end() && matches(at->second, key)) return {at->second.prefix, false, slot, 0};
  Entry fresh{block, next_prefix_, key.parent_, std::string(key.salt_), {key.ids_.begin(), key.ids_.end()}};
  BlockId displaced = 0;
  if (at == entries_.end()) {
    entries_.emplace(slot, std::move(fresh));
  } else {
    displaced = at->second.block;
    at->second = std::move(fresh);
  }
  return {next_prefix_++, true, slot, displaced};
}

BlockId PrefixIndex::block_of(BlockHash slot) const {
  const auto found = entries_.find(slot);
  return found == entries_.end() ? 0 : found->second.block;
}

}  // namespace monograph
