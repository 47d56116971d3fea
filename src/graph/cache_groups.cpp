#include "graph/cache_groups.h"

#include <algorithm>

#include "monograph/error.h"

namespace monograph {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, "scratch blocks: " + what);
}

void check_tags(std::span<const CacheGroup> groups, std::span<const GroupBlocks> given) {
  for (const CacheGroup& group : groups)
    if (group.tag.empty()) refuse("a cache group has no tag");
  for (const GroupBlocks& one : given) {
    const auto of_tag = [&](const auto& other) { return other.tag == one.tag; };
    if (one.tag.empty()) refuse("a group without a tag");
    if (std::ranges::count_if(given, of_tag) > 1) refuse("group \"" + one.tag + "\" is given twice");
    const auto n = std::ranges::count_if(groups, of_tag);
    if (n == 0) refuse("the cache has no group \"" + one.tag + "\"");
    if (n > 1) refuse("the cache has two groups \"" + one.tag + "\"");
  }
}

}  // namespace

std::optional<std::vector<int>> match_tags(std::span<const CacheGroup> groups, std::span<const std::string> tags) {
  if (tags.size() != groups.size()) return std::nullopt;
  std::vector<int> at;
  for (const CacheGroup& group : groups) {
    const auto found = std::ranges::find(tags, group.tag);
    if (found == tags.end()) return std::nullopt;
    at.push_back(static_cast<int>(found - tags.begin()));
  }
  return at;
}

std::vector<std::vector<std::int32_t>> order_scratch(std::span<const CacheGroup> groups,
                                                     std::span<const GroupBlocks> given) {
  check_tags(groups, given);
  std::vector<std::vector<std::int32_t>> ordered;
  if (given.empty()) return ordered;
  for (const CacheGroup& group : groups) {
    const auto found = std::ranges::find(given, group.tag, &GroupBlocks::tag);
    if (found == given.end()) refuse("group \"" + group.tag + "\" is missing");
    ordered.push_back(found->blocks);
  }
  return ordered;
}

}  // namespace monograph
