// R16: the audits find every kind of damage that a pool's books can take. A pool with blocks of every kind is damaged
// in one place at a time; a check that cannot fail proves nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "tests/support/block_pool_damage.h"

namespace monograph {

namespace {

using Ids = std::vector<TokenId>;
using State = BlockPoolDamage::State;

class PoolDamage : public ::testing::Test {
 protected:
  PoolDamage() : pool_(12), damage_{pool_} {
    damage_.reserved = pool_.reserve(1)->front();
    damage_.used = pool_.allocate(1)->front();
    damage_.published = pool_.allocate(1)->front();
    publish(damage_.published, 1);
    for (int i = 0; i < 3; ++i) damage_.cached[i] = pool_.allocate(1)->front();
    for (int i = 0; i < 3; ++i) publish(damage_.cached[i], 10 + i);
    for (BlockId block : damage_.cached) pool_.release(block);
    damage_.free = damage_.free_list().back();
    pool_.check_invariants();
  }
  void publish(BlockId block, TokenId id) {
    PrefixChain chain;
    EXPECT_TRUE(pool_.publish(block, chain, Ids{id}));
  }

  BlockPool pool_;
  BlockPoolDamage damage_;
};

/// By the O(1) sum, which every round of an engine asks.
TEST_F(PoolDamage, R16_TheSumFindsABlockThatIsNowhereOrTwice) {
  const std::map<std::string, std::function<void(BlockPoolDamage&)>> damages{
      {"lost", [](auto& d) { d.free_list().pop_back(); }},
      {"freed twice", [](auto& d) { d.free_list().push_back(d.used); }},
      {"used, not counted", [](auto& d) { --d.n_used(); }},
      {"cached, not counted", [](auto& d) { --d.n_cached(); }},
      {"reserved, not counted", [](auto& d) { --d.n_reserved(); }},
      {"fewer used than none", [](auto& d) { d.n_used() -= 3, d.n_cached() += 3; }},
      {"fewer cached than none", [](auto& d) { d.n_cached() -= 4, d.n_used() += 4; }},
      {"fewer reserved than none", [](auto& d) { d.n_reserved() -= 2, d.n_used() += 2; }},
  };
  EXPECT_TRUE(pool_.counts_add_up());
  for (const auto& [name, damage] : damages) {
    BlockPool copy = pool_;
    BlockPoolDamage d{copy, damage_.reserved, damage_.used, damage_.published, {}, damage_.free};
    damage(d);
    EXPECT_FALSE(copy.counts_add_up()) << name;
    EXPECT_DEATH(copy.check_invariants(), "counts_add_up") << name;
  }
}

/// By the full audit, though every sum is right.
TEST_F(PoolDamage, R16_TheFullAuditFindsWhatTheSumCannot) {
  const std::vector<std::tuple<std::string, std::string, std::function<void(BlockPoolDamage&)>>> damages{
      {"block 0 was given", "kNull", [](auto& d) { d.set(0, State::kFree); }},
      {"another block is the null block", "kNull",
       [](auto& d) { d.set(0, State::kFree), d.set(d.free, State::kNull); }},
      {"scratch was given", "kReserved", [](auto& d) { d.set(d.reserved, State::kFree); }},
      {"a used block is free, too", "kUsed", [](auto& d) { d.set(d.used, State::kFree); }},
      {"a cached block is free, too", "kCached", [](auto& d) { d.set(d.cached[0], State::kFree); }},
      {"used by nobody", "references", [](auto& d) { d.at(d.used).references = 0; }},
      {"free, and somebody has it", "references", [](auto& d) { d.at(d.free).references = 1; }},
      {"free, and dropped once more", "references", [](auto& d) { d.at(d.free).references = -1; }},
      {"free, and found", "published", [](auto& d) { d.at(d.free).published = true; }},
      {"cached, and never found", "published", [](auto& d) { d.at(d.cached[1]).published = false; }},
      {"found under another's name", "block_of", [](auto& d) { d.at(d.published).slot = d.at(d.cached[0]).slot; }},
      {"found under no name", "block_of", [](auto& d) { d.at(d.published).slot ^= 1; }},
      {"referenced once more than counted", "n_references", [](auto& d) { ++d.at(d.used).references; }},
      {"the index finds more than there is", "n_published",
       [](auto& d) { d.index().insert(PrefixKey(PrefixChain{}, Ids{99}), d.used); }},
      {"block 0 is in the free list", "kFree", [](auto& d) { d.free_list()[0] = 0; }},
      {"a used block is in the free list", "kFree", [](auto& d) { d.free_list()[0] = d.used; }},
      {"a free block is there twice", "is_free", [](auto& d) { d.free_list()[0] = d.free; }},
      {"a used block waits for eviction", "kCached", [](auto& d) { d.lru_head() = d.used; }},
      {"the order of eviction is broken", "lru_prev", [](auto& d) { d.at(d.cached[1]).lru_prev = 0; }},
      {"the order of eviction is a circle", "lru_prev", [](auto& d) { d.at(d.cached[2]).lru_next = d.cached[1]; }},
      {"the first to evict is forgotten", "in_list",
       [](auto& d) { d.lru_head() = d.cached[1], d.at(d.cached[1]).lru_prev = 0; }},
      {"the last to evict is not the last", "lru_tail", [](auto& d) { d.lru_tail() = d.cached[0]; }},
  };
  for (const auto& [name, check, damage] : damages) {
    BlockPool copy = pool_;
    BlockPoolDamage d{copy, damage_.reserved, damage_.used, damage_.published, {}, damage_.free};
    std::ranges::copy(damage_.cached, d.cached);
    damage(d);
    EXPECT_TRUE(copy.counts_add_up()) << name;
    EXPECT_DEATH(copy.check_invariants(), check) << name;
  }
}

/// Whatever was damaged, what is reserved stays so and all else can be had again; nothing of before is found.
TEST_F(PoolDamage, R16_StartsAfresh) {
  damage_.at(damage_.used).references = -5;
  damage_.free_list().pop_back();
  damage_.lru_head() = damage_.used;
  damage_.n_cached() = 77;
  damage_.set(0, State::kFree);
  pool_.start_afresh();
  pool_.check_invariants();
  EXPECT_EQ(pool_.capacity(), 10);
  EXPECT_EQ(pool_.n_available(), 10);
  PrefixChain chain;
  EXPECT_FALSE(pool_.acquire(chain, Ids{1}));
  const auto all = pool_.allocate(10);
  ASSERT_TRUE(all);
  EXPECT_EQ(std::ranges::count(*all, damage_.reserved) + std::ranges::count(*all, 0), 0);
  pool_.release_reservation(std::vector{damage_.reserved});
  pool_.check_invariants();
}

/// A count that promises blocks which no list has: nobody gets block 0 instead.
TEST_F(PoolDamage, R16_NothingIsGivenThatIsNotThere) {
  ASSERT_TRUE(pool_.allocate(pool_.n_available()));
  ++damage_.n_cached();
  EXPECT_DEATH(pool_.allocate(1), "lru_head_");
}

}  // namespace
}  // namespace monograph
