// Finds blocks by the tokens they hold: chained block hash → block. A hit is exact, never a matter of luck.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "monograph/sampling.h"

namespace monograph {

using BlockId = std::int32_t;
using BlockHash = std::uint64_t;
/// Names one published prefix for the life of the index; never used again. 0 is the empty prefix.
using PrefixId = std::uint64_t;

/// Where a chain stands: everything before the next block. Two chains are equal only if salt and all tokens are.
struct PrefixChain {
  BlockHash hash = 0;
  PrefixId prefix = 0;
  std::string salt;  ///< Compared at the first block; the blocks after it are bound to it by `prefix`.
};

/// What a block is looked up and stored by. `hash` = xxhash64(seed: the parent's hash; the block's token ids, and at
/// the first block the salt before them), so it depends on content alone.
class PrefixKey {
 public:
  PrefixKey(const PrefixChain& parent, std::span<const TokenId> ids);
  BlockHash hash() const { return hash_; }

 private:
  friend class PrefixIndex;
  BlockHash hash_;
  PrefixId parent_;
  std::string_view salt_;
  std::span<const TokenId> ids_;
};

/// Every entry keeps its token ids and the PrefixId of its parent. A lookup compares both, so by induction from the
/// first block (whose salt is compared too) a hit means equal tokens, whatever hashes collide. An entry whose parent
/// was forgotten can never match again; inserting the same content replaces it. The index belongs to one cache of one
/// model: nothing else that changes K and V needs to be in the key.
class PrefixIndex {
 public:
  /// `hash_mask` keeps some bits of the hash only, so that a test can make contents collide.
  explicit PrefixIndex(BlockHash hash_mask = ~BlockHash{0}) : hash_mask_(hash_mask) {}

  struct Hit {
    BlockId block = 0;
    PrefixId prefix = 0;
  };
  struct Inserted {
    PrefixId prefix = 0;    ///< Of the entry that now stands for this content.
    bool is_new = false;    ///< This block is the entry's block.
    BlockHash slot = 0;     ///< What erase() and block_of() know the entry by.
    BlockId displaced = 0;  ///< The block that stood under the hash and is no longer findable; 0: none.
  };

  std::optional<Hit> find(const PrefixKey& key) const;
  /// Content already known keeps its first block.
  Inserted insert(const PrefixKey& key, BlockId block);
  void erase(BlockHash slot) { entries_.erase(slot); }
  void clear() { entries_.clear(); }
  std::size_t size() const { return entries_.size(); }
  /// The block that stands in a slot, 0 if none; for audits.
  BlockId block_of(BlockHash slot) const;

 private:
  struct Entry {
    BlockId block = 0;
    PrefixId prefix = 0, parent = 0;
    std::string salt;
    std::vector<TokenId> ids;
  };
  static bool matches(const Entry& entry, const PrefixKey& key);

  BlockHash hash_mask_;
  std::unordered_map<BlockHash, Entry> entries_;
  PrefixId next_prefix_ = 1;
};

}  // namespace monograph
