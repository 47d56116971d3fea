// Scratch is given back exactly once, after the graphs. (S-30, S-52)
#include "cache/reservation.h"

#include <gtest/gtest.h>

namespace monograph {
namespace {

TEST(Reservation, S52_GivesBackOnceAtTheEnd) {
  BlockPool pool(10);
  {
    auto scratch = Reservation::take(pool, 4);
    ASSERT_TRUE(scratch);
    EXPECT_EQ(scratch->blocks().size(), 4u);
    EXPECT_EQ(pool.capacity(), 5);
    for (BlockId block : scratch->blocks()) EXPECT_GT(block, 0) << "never the null block (S-51)";
    Reservation moved = std::move(*scratch);
    scratch.reset();  // the moved-from one has nothing to give back
    EXPECT_EQ(pool.capacity(), 5);
    auto other = Reservation::take(pool, 2);
    moved = std::move(*other);  // what it had goes back
    EXPECT_EQ(pool.capacity(), 7);
  }
  EXPECT_EQ(pool.capacity(), 9);
  pool.check_invariants();
}

TEST(Reservation, MovesKeepOneOwner) {  // S-30
  BlockPool pool(6);
  Reservation a = *Reservation::take(pool, 2);
  Reservation& same = a;
  a = std::move(same);
  EXPECT_EQ(a.blocks().size(), 2u) << "onto itself";
  EXPECT_EQ(pool.capacity(), 3);
  Reservation b = *Reservation::take(pool, 3);
  a = std::move(b);
  EXPECT_EQ(a.blocks().size(), 3u);
  EXPECT_EQ(pool.capacity(), 2) << "the two blocks that it held before went back";
  pool.check_invariants();
}

TEST(Reservation, S52_TooSmallAPoolGivesNothingAndKeepsNothing) {
  BlockPool pool(4);
  EXPECT_FALSE(Reservation::take(pool, 4));
  EXPECT_EQ(pool.capacity(), 3);
  EXPECT_EQ(pool.n_available(), 3);
  pool.check_invariants();
}

}  // namespace
}  // namespace monograph
