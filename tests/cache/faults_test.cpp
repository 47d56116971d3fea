// Publishing while memory runs out: each allocation fails once, and nothing half-done is ever found. (S-103)
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "cache/block_pool.h"

namespace {
thread_local int allocations_left = -1;  // below 0: no limit
}

void* operator new(std::size_t bytes) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  if (void* data = std::malloc(bytes > 0 ? bytes : 1)) return data;
  throw std::bad_alloc();
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }

namespace monograph {
namespace {

using Ids = std::vector<TokenId>;

/// Publishes with the n-th allocation failing; whether it went through.
bool publish_failing(BlockPool& pool, BlockId block, PrefixChain& chain, const Ids& ids, int n) {
  bool done = true;
  allocations_left = n;
  try {
    pool.publish(block, chain, ids);
  } catch (const std::bad_alloc&) {
    done = false;
  }
  allocations_left = -1;
  return done;
}

TEST(PublishFaults, S103_ABlockIsFoundOnlyIfItsPublishingWentThrough) {
  for (BlockHash mask : {~BlockHash{0}, BlockHash{0}}) {  // with 0 every content displaces the one before
    int n_failed = 0;
    for (int n = 0;; ++n) {
      BlockPool pool(8, mask);
      const BlockId first = pool.allocate(1)->front(), second = pool.allocate(1)->front();
      PrefixChain chain{.salt = std::string(40, 's')}, chain_before = chain;
      pool.publish(first, chain, Ids{1, 2, 3});
      const PrefixChain parent = chain;
      const bool done = publish_failing(pool, second, chain, Ids{4, 5, 6}, n);
      pool.check_invariants();
      PrefixChain again = parent;
      EXPECT_EQ(pool.acquire(again, Ids{4, 5, 6}).has_value(), done) << "allocation " << n;
      if (!done) {
        EXPECT_EQ(chain.prefix, parent.prefix) << "the chain stands where it stood";
        PrefixChain found = chain_before;
        EXPECT_EQ(pool.acquire(found, Ids{1, 2, 3}), first) << "what was there is still there";
        ++n_failed;
        EXPECT_TRUE(pool.publish(second, chain, Ids{4, 5, 6})) << "and it works when there is memory again";
        pool.check_invariants();
        continue;
      }
      break;
    }
    EXPECT_GE(n_failed, 1);
  }
}

}  // namespace
}  // namespace monograph
