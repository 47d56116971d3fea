// Cache groups are named by tags; the order in which they stand carries no meaning. (SPEC A.1, S-48)
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace monograph {

/// Whether every token of a sequence has a place in the group, or some of its blocks may be null.
enum class CacheGroupKind { kFull, kSlidingWindow, kLinearState };

/// Layers that share one block-table namespace. The cache names its groups once; layers and staged tables refer to them
/// by their place in that list.
struct CacheGroup {
  std::string tag = "full";
  CacheGroupKind kind = CacheGroupKind::kFull;
};

/// Blocks of one group: scratch, or a row's table.
struct GroupBlocks {
  std::string tag;
  std::vector<std::int32_t> blocks;
};

/// For each group, where `tags` names it. nullopt unless `tags` holds exactly the groups' tags, in any order.
std::optional<std::vector<int>> match_tags(std::span<const CacheGroup> groups, std::span<const std::string> tags);

/// The blocks in the groups' order. Throws Error(kInvalidArgument) naming the tag if a tag is empty, missing,
/// unknown or given twice. `given` may be empty as a whole: no scratch; the result is empty then.
std::vector<std::vector<std::int32_t>> order_scratch(std::span<const CacheGroup> groups,
                                                     std::span<const GroupBlocks> given);

}  // namespace monograph
