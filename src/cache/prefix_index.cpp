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

PrefixIndex::Inserted PrefixIndex::insert(const PrefixKey& key, BlockId block) {
  const auto [at, is_new] = entries_.try_emplace(key.hash() & hash_mask_);
  Entry& entry = at->second;
  if (!is_new && matches(entry, key)) return {entry.prefix, false, at->first, 0};
  const BlockId displaced = is_new ? 0 : entry.block;
  entry = {block, next_prefix_++, key.parent_, std::string(key.salt_), {key.ids_.begin(), key.ids_.end()}};
  return {entry.prefix, true, at->first, displaced};
}

BlockId PrefixIndex::block_of(BlockHash slot) const {
  const auto found = entries_.find(slot);
  return found == entries_.end() ? 0 : found->second.block;
}

}  // namespace monograph
