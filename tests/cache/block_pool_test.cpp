#include "cache/block_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace monograph {
namespace {

using Ids = std::vector<TokenId>;

TEST(BlockPool, NullBlockIsNeverGiven) {
  BlockPool pool(4);
  EXPECT_EQ(pool.capacity(), 3);
  const auto blocks = pool.allocate(3);
  ASSERT_TRUE(blocks);
  for (BlockId block : *blocks) EXPECT_NE(block, 0);
  EXPECT_FALSE(pool.allocate(1));
  EXPECT_EQ(pool.n_used(), 3);
  pool.check_invariants();
}

TEST(BlockPool, AllocationIsAllOrNothing) {
  BlockPool pool(4);
  EXPECT_FALSE(pool.allocate(4));
  EXPECT_EQ(pool.n_available(), 3);
  EXPECT_TRUE(pool.allocate(0)->empty());
  EXPECT_FALSE(pool.allocate(-1));
  EXPECT_FALSE(pool.reserve(-1));
  pool.check_invariants();
}

// S-49, S-50: scratch has no key, no metric, is outside capacity and survives eviction pressure.
TEST(BlockPool, ReservationIsOutsideEverything) {
  BlockPool pool(6);
  const auto scratch = pool.reserve(2);
  ASSERT_TRUE(scratch);
  EXPECT_EQ(pool.capacity(), 3);
  EXPECT_EQ(pool.n_used(), 0);
  EXPECT_EQ(pool.n_available(), 3);
  for (int round = 0; round < 10; ++round) {
    auto blocks = pool.allocate(3);
    ASSERT_TRUE(blocks);
    PrefixChain chain;
    for (BlockId block : *blocks) {
      EXPECT_NE(block, (*scratch)[0]);
      EXPECT_NE(block, (*scratch)[1]);
      pool.publish(block, chain, Ids{round, block});
    }
    for (BlockId block : *blocks) pool.release(block);
    pool.check_invariants();
  }
  pool.release_reservation(*scratch);
  EXPECT_EQ(pool.capacity(), 5);
  EXPECT_FALSE(pool.reserve(6));
  EXPECT_EQ(pool.capacity(), 5);
  pool.check_invariants();
}

TEST(BlockPool, PublishedBlockIsFoundAndShared) {
  BlockPool pool(4);
  const BlockId block = pool.allocate(1)->front();
  PrefixChain chain, again;
  EXPECT_FALSE(pool.acquire(again, Ids{1, 2}));
  EXPECT_TRUE(pool.publish(block, chain, Ids{1, 2}));
  EXPECT_EQ(pool.acquire(again, Ids{1, 2}), block);
  EXPECT_EQ(again.prefix, chain.prefix);
  pool.release(block);
  EXPECT_EQ(pool.n_used(), 1);
  pool.release(block);
  EXPECT_EQ(pool.n_cached(), 1);
  EXPECT_EQ(pool.n_available(), 3);
  PrefixChain third;
  EXPECT_EQ(pool.acquire(third, Ids{1, 2}), block);
  EXPECT_EQ(pool.n_cached(), 0);
  pool.check_invariants();
}

TEST(BlockPool, EvictsLeastRecentlyUsedFirst) {
  BlockPool pool(4);
  const auto blocks = *pool.allocate(3);
  for (int i = 0; i < 3; ++i) {
    PrefixChain chain;
    pool.publish(blocks[i], chain, Ids{i});
  }
  for (int i : {1, 0, 2}) pool.release(blocks[i]);
  PrefixChain touched;
  pool.release(*pool.acquire(touched, Ids{1}));  // 1 is the newest now: 0, 2, 1
  EXPECT_EQ(pool.allocate(1)->front(), blocks[0]);
  PrefixChain chain0, chain1, chain2;
  EXPECT_FALSE(pool.acquire(chain0, Ids{0}));
  EXPECT_TRUE(pool.acquire(chain1, Ids{1}));
  EXPECT_TRUE(pool.acquire(chain2, Ids{2}));
  pool.check_invariants();
}

// KV10: what changes K and V is in the key; here the salt.
TEST(BlockPool, KV10_SaltsDoNotShare) {
  BlockPool pool(4);
  PrefixChain a{.salt = "a"}, b{.salt = "b"}, none;
  pool.publish(pool.allocate(1)->front(), a, Ids{1, 2});
  EXPECT_FALSE(pool.acquire(b, Ids{1, 2}));
  EXPECT_FALSE(pool.acquire(none, Ids{1, 2}));
  PrefixChain again{.salt = "a"};
  EXPECT_TRUE(pool.acquire(again, Ids{1, 2}));
}

TEST(BlockPool, SameBlockAfterAnotherPrefixIsAnotherBlock) {
  BlockPool pool(8);
  const auto blocks = *pool.allocate(4);
  PrefixChain a, b;
  EXPECT_TRUE(pool.publish(blocks[0], a, Ids{1}));
  EXPECT_TRUE(pool.publish(blocks[1], a, Ids{9}));
  EXPECT_TRUE(pool.publish(blocks[2], b, Ids{2}));
  EXPECT_TRUE(pool.publish(blocks[3], b, Ids{9}));
  PrefixChain walk;
  EXPECT_EQ(pool.acquire(walk, Ids{2}), blocks[2]);
  EXPECT_EQ(pool.acquire(walk, Ids{9}), blocks[3]);
}

TEST(BlockPool, KnownContentKeepsItsFirstBlock) {
  BlockPool pool(4);
  const auto blocks = *pool.allocate(2);
  PrefixChain a, b;
  EXPECT_TRUE(pool.publish(blocks[0], a, Ids{1}));
  EXPECT_FALSE(pool.publish(blocks[1], b, Ids{1}));
  EXPECT_EQ(a.prefix, b.prefix);
  pool.release(blocks[1]);
  EXPECT_EQ(pool.n_cached(), 0);
  pool.release(blocks[0]);
  EXPECT_EQ(pool.n_cached(), 1);
  pool.check_invariants();
}

TEST(BlockPool, ClearCacheForgetsUsedBlocksToo) {
  BlockPool pool(4);
  const auto blocks = *pool.allocate(2);
  PrefixChain a, b;
  pool.publish(blocks[0], a, Ids{1});
  pool.publish(blocks[1], b, Ids{2});
  pool.release(blocks[1]);
  pool.clear_cache();
  pool.check_invariants();
  PrefixChain walk;
  EXPECT_FALSE(pool.acquire(walk, Ids{1}));
  pool.release(blocks[0]);
  EXPECT_EQ(pool.n_cached(), 0);
  EXPECT_EQ(pool.n_available(), 3);
}

TEST(BlockPoolDeathTest, MisuseStopsTheProcess) {
  BlockPool pool(4);
  const auto scratch = *pool.reserve(1);
  const BlockId block = pool.allocate(1)->front(), gone = pool.allocate(1)->front(), beyond = pool.n_blocks();
  PrefixChain chain, other;
  pool.publish(block, chain, Ids{1});
  pool.release(gone);
  for (BlockId wrong : {0, beyond, gone, scratch[0]}) {
    EXPECT_DEATH(pool.release(wrong), "broken invariant") << "freed twice, or never given: " << wrong;
    EXPECT_DEATH(pool.publish(wrong, other, Ids{2}), "broken invariant") << "others would read it: " << wrong;
  }
  EXPECT_DEATH(pool.publish(block, other, Ids{2}), "broken invariant") << "under two contents";
  for (BlockId wrong : {0, beyond}) EXPECT_DEATH(pool.forget(wrong), "broken invariant") << wrong;
  for (BlockId wrong : {0, beyond, block, gone})
    EXPECT_DEATH(pool.release_reservation(std::vector<BlockId>{wrong}), "broken invariant") << wrong;
  EXPECT_DEATH(BlockPool(0), "broken invariant") << "without the null block";
  pool.check_invariants();
}

/// A sequence of the property test: what it holds, and the content that says which prefix it must find.
struct Holder {
  std::string salt;
  Ids tokens;
  std::vector<BlockId> blocks;
  PrefixChain chain;
  std::size_t n_published = 0;
};

// KV08, KV22: random matching, inserting, evicting and dropping never breaks the accounts, and a hit never lies, even
// when nearly every hash collides. The model keeps, beside the pool, what each block holds.
void random_operations(BlockHash hash_mask, int n_operations, std::uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
  constexpr int kBlock = 2;
  BlockPool pool(24, hash_mask);
  std::vector<BlockId> scratch = *pool.reserve(2);
  std::vector<Holder> holders;
  std::map<BlockId, Ids> content;  // salt and every token up to the block's end
  std::int64_t n_hits = 0;
  const auto whole = [](const Holder& h, std::size_t n_blocks) {
    Ids all{static_cast<TokenId>(h.salt.size())};
    all.insert(all.end(), h.tokens.begin(), h.tokens.begin() + static_cast<std::ptrdiff_t>(n_blocks * kBlock));
    return all;
  };
  const auto block_ids = [](const Holder& h, std::size_t i) { return std::span(h.tokens).subspan(i * kBlock, kBlock); };
  for (int i = 0; i < n_operations; ++i) {
    const int what = below(100);
    if (what < 40 && holders.size() < 12) {
      Holder h;
      h.salt = below(4) == 0 ? "s" : "";
      h.chain.salt = h.salt;
      for (int n = kBlock * (1 + below(4)); n > 0; --n) h.tokens.push_back(below(2));
      const std::size_t n_blocks = h.tokens.size() / kBlock;
      while (h.blocks.size() < n_blocks) {
        const auto hit = pool.acquire(h.chain, block_ids(h, h.blocks.size()));
        if (!hit) break;
        ++n_hits;
        h.blocks.push_back(*hit);
        ASSERT_EQ(content[*hit], whole(h, h.blocks.size())) << "operation " << i;
      }
      h.n_published = h.blocks.size();
      if (auto rest = pool.allocate(static_cast<int>(n_blocks - h.blocks.size()))) {
        for (BlockId block : *rest) {
          h.blocks.push_back(block);
          content[block] = whole(h, h.blocks.size());
        }
        holders.push_back(std::move(h));
      } else {
        for (std::size_t b = h.blocks.size(); b-- > 0;) pool.release(h.blocks[b]);
      }
    } else if (what < 70 && !holders.empty()) {
      Holder& h = holders[static_cast<std::size_t>(below(static_cast<int>(holders.size())))];
      if (h.n_published < h.blocks.size()) {
        pool.publish(h.blocks[h.n_published], h.chain, block_ids(h, h.n_published));
        ++h.n_published;
      }
    } else if (what < 99 && !holders.empty()) {
      const auto at = holders.begin() + below(static_cast<int>(holders.size()));
      for (std::size_t b = at->blocks.size(); b-- > 0;) pool.release(at->blocks[b]);
      holders.erase(at);
    } else if (below(50) == 0) {
      pool.clear_cache();
    }
    ASSERT_TRUE(pool.counts_add_up());
    if (i % 64 == 0) pool.check_invariants();
  }
  for (Holder& h : holders)
    for (std::size_t b = h.blocks.size(); b-- > 0;) pool.release(h.blocks[b]);
  pool.check_invariants();
  EXPECT_EQ(pool.n_used(), 0);
  EXPECT_EQ(pool.n_available(), pool.capacity());
  EXPECT_GT(n_hits, n_operations / 100);
}

TEST(BlockPool, KV22_KV08_RandomOperations) { random_operations(~BlockHash{0}, 1000000, 20261201); }
TEST(BlockPool, KV22_RandomOperationsWhenHashesCollide) { random_operations(3, 1000000, 20261202); }

}  // namespace
}  // namespace monograph
