#include "graph/padding.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

namespace monograph {
namespace {

using Ints = std::vector<std::int32_t>;

/// Arrays for one layout, each followed by guard cells that must stay as they are.
struct Arrays {
  static constexpr std::int32_t kGuard = 0x5a5a5a5a;
  Arrays(int capacity, int max_rows) : c(capacity), s(max_rows + 1) {
    for (auto* a : {&input_lengths, &prefix_lengths, &kv_lens}) a->assign(s + 4, kGuard);
    for (auto* a : {&cu_seqlens, &cu_kv_seqlens}) a->assign(s + 5, kGuard);
    for (auto* a : {&padding_offset, &positions, &kv_locs}) a->assign(c + 4, kGuard);
    sample_rows.assign(s + 3, kGuard);
  }
  PaddedLayout layout() {
    const auto part = [](Ints& a, int n) { return std::span<std::int32_t>(a.data(), static_cast<std::size_t>(n)); };
    return {part(input_lengths, s),     part(prefix_lengths, s), part(kv_lens, s),   part(cu_seqlens, s + 1),
            part(cu_kv_seqlens, s + 1), part(padding_offset, c), part(positions, c), part(sample_rows, s - 1)};
  }
  bool guards_untouched() const {
    for (const auto* a : {&input_lengths, &prefix_lengths, &kv_lens, &cu_seqlens, &cu_kv_seqlens, &padding_offset,
                          &positions, &sample_rows})
      for (std::size_t i = a->size() - 4; i < a->size(); ++i)
        if ((*a)[i] != kGuard) return false;
    return true;
  }
  int c, s;
  Ints input_lengths, prefix_lengths, kv_lens, cu_seqlens, cu_kv_seqlens, padding_offset, positions, sample_rows,
      kv_locs;
};

Ints head(const Ints& a, int n) { return {a.begin(), a.begin() + n}; }
Ints repeated(std::initializer_list<std::pair<int, int>> runs) {  // (count, value)
  Ints out;
  for (auto [count, value] : runs) out.insert(out.end(), count, value);
  return out;
}

TEST(PaddedLayout, Example1NoPrefix) {  // SPEC A.3
  Arrays a(16, 3);
  ASSERT_TRUE(build_padded_layout(Ints{5, 4}, Ints{0, 0}, 16, 3, a.layout()));
  EXPECT_EQ(head(a.input_lengths, 4), (Ints{5, 4, 0, 7}));
  EXPECT_EQ(head(a.prefix_lengths, 4), (Ints{0, 0, 0, 0}));
  EXPECT_EQ(head(a.cu_seqlens, 5), (Ints{0, 5, 9, 9, 16}));
  EXPECT_EQ(head(a.cu_kv_seqlens, 5), (Ints{0, 5, 9, 9, 16}));
  EXPECT_EQ(head(a.padding_offset, 16), repeated({{5, 0}, {4, 11}, {7, 39}}));
  EXPECT_EQ(head(a.sample_rows, 3), (Ints{4, 8, -1}));
  const Ints table{7, 2, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 90, 91, 92, 93};
  build_kv_locs(a.layout(), table, 4, 4, a.kv_locs);
  EXPECT_EQ(head(a.kv_locs, 16), (Ints{28, 29, 30, 31, 8, 20, 21, 22, 23, 360, 361, 362, 363, 364, 365, 366}));
  EXPECT_TRUE(a.guards_untouched());
}

TEST(PaddedLayout, Example2Mixed) {  // SPEC A.3
  Arrays a(16, 3);
  ASSERT_TRUE(build_padded_layout(Ints{5, 1}, Ints{8, 6}, 16, 3, a.layout()));
  EXPECT_EQ(head(a.input_lengths, 4), (Ints{5, 1, 0, 10}));
  EXPECT_EQ(head(a.prefix_lengths, 4), (Ints{8, 6, 0, 0}));
  EXPECT_EQ(head(a.kv_lens, 4), (Ints{13, 7, 0, 10}));
  EXPECT_EQ(head(a.cu_seqlens, 5), (Ints{0, 5, 6, 6, 16}));
  EXPECT_EQ(head(a.cu_kv_seqlens, 5), (Ints{0, 13, 20, 20, 30}));
  EXPECT_EQ(head(a.padding_offset, 16), repeated({{5, 0}, {1, 11}, {10, 42}}));
  EXPECT_EQ(head(a.positions, 16), (Ints{8, 9, 10, 11, 12, 6, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  const Ints table{7, 2, 9, 4, 5, 6, 0, 0, 0, 0, 0, 0, 90, 91, 92, 93};
  build_kv_locs(a.layout(), table, 4, 4, a.kv_locs);
  EXPECT_EQ(head(a.kv_locs, 16), (Ints{36, 37, 38, 39, 16, 26, 360, 361, 362, 363, 364, 365, 366, 367, 368, 369}));
  EXPECT_EQ(head(a.sample_rows, 3), (Ints{4, 5, -1}));
}

TEST(PaddedLayout, MoreVectors) {  // SPEC A.3
  Arrays a(64, 4);
  ASSERT_TRUE(build_padded_layout(Ints{24, 32}, Ints{0, 0}, 64, 4, a.layout()));
  EXPECT_EQ(head(a.cu_seqlens, 6), (Ints{0, 24, 56, 56, 56, 64}));
  EXPECT_EQ(head(a.padding_offset, 64), repeated({{24, 0}, {32, 40}, {8, 200}}));
  ASSERT_TRUE(build_padded_layout(Ints{64}, Ints{0}, 64, 4, a.layout()));
  EXPECT_EQ(head(a.cu_seqlens, 6), (Ints{0, 64, 64, 64, 64, 64}));
  EXPECT_EQ(a.input_lengths[4], 0) << "an exact fit leaves the sentinel empty";
  ASSERT_TRUE(build_padded_layout(Ints{16, 16, 16, 16}, Ints{0, 0, 0, 0}, 64, 4, a.layout()));
  EXPECT_EQ(head(a.padding_offset, 64), repeated({{16, 0}, {16, 48}, {16, 96}, {16, 144}}));
}

TEST(PaddedLayout, RefusesAndTouchesNothing) {  // S-38
  const auto refused = [](Ints lengths, Ints prefixes, int capacity, int max_rows) {
    Arrays a(16, 3), before(16, 3);
    EXPECT_FALSE(build_padded_layout(lengths, prefixes, capacity, max_rows, a.layout()));
    return a.cu_seqlens == before.cu_seqlens && a.padding_offset == before.padding_offset &&
           a.input_lengths == before.input_lengths;
  };
  EXPECT_TRUE(refused({}, {}, 16, 3)) << "R = 0";
  EXPECT_TRUE(refused({1, 1, 1, 1}, {0, 0, 0, 0}, 16, 3)) << "R > Bmax";
  EXPECT_TRUE(refused({17}, {0}, 16, 3)) << "T > C";
  EXPECT_TRUE(refused({0}, {0}, 16, 3)) << "a length of 0";
  EXPECT_TRUE(refused({-1, 5}, {0, 0}, 16, 3));
  EXPECT_TRUE(refused({5}, {-1}, 16, 3)) << "a prefix below 0";
  EXPECT_TRUE(refused({5, 4}, {0}, 16, 3)) << "spans of different length";
  EXPECT_TRUE(refused({2147483647, 2147483647}, {0, 0}, 16, 3)) << "a sum beyond int32";
}

TEST(PaddedLayout, RefusesSizesThatHoldNothing) {  // S-38
  Arrays a(16, 3);
  EXPECT_FALSE(build_padded_layout(Ints{5}, Ints{0}, 16, 0, a.layout())) << "Bmax = 0";
  EXPECT_FALSE(build_padded_layout(Ints{5}, Ints{0}, 0, 3, a.layout())) << "C = 0";
  EXPECT_EQ(a.cu_seqlens[0], Arrays::kGuard);
}

TEST(PaddedLayoutDeathTest, PlacesAreOnlyThoseOfTheTable) {
  Arrays a(16, 3);
  ASSERT_TRUE(build_padded_layout(Ints{9}, Ints{0}, 16, 3, a.layout()));
  PaddedLayout layout = a.layout();
  layout.input_lengths = layout.input_lengths.first(4);
  Ints kv_locs(16), table(4 * 4, 1);
  EXPECT_DEATH(build_kv_locs(layout, std::span(table).first(15), 4, 4, kv_locs), "table.size");
  EXPECT_DEATH(build_kv_locs(layout, table, 2, 4, kv_locs), "width") << "token 8 is in the third block";
}

TEST(PaddedLayout, EveryCapacityOneShort) {  // S-38
  for (int which = 0; which < 8; ++which) {
    Arrays a(16, 3);
    PaddedLayout layout = a.layout();
    std::span<std::int32_t>* spans[] = {&layout.input_lengths, &layout.prefix_lengths, &layout.kv_lens,
                                        &layout.cu_seqlens,    &layout.cu_kv_seqlens,  &layout.padding_offset,
                                        &layout.positions,     &layout.sample_rows};
    *spans[which] = spans[which]->first(spans[which]->size() - 1);
    EXPECT_FALSE(build_padded_layout(Ints{5, 4}, Ints{0, 0}, 16, 3, layout)) << which;
    EXPECT_EQ(a.cu_seqlens[0], Arrays::kGuard);
  }
}

TEST(PaddedLayout, DecodingRuleRecoversSlotAndPosition) {  // S-39
  std::mt19937 random(20261201);
  for (int round = 0; round < 500; ++round) {
    const int max_rows = 1 + static_cast<int>(random() % 9), capacity = max_rows + static_cast<int>(random() % 100);
    const int n_rows = 1 + static_cast<int>(random() % max_rows);
    Ints lengths(n_rows, 1), prefixes(n_rows);
    int left = static_cast<int>(random() % (capacity - n_rows + 1));
    for (int i = 0; i < n_rows; ++i) {
      const int more = static_cast<int>(random() % (left + 1));
      lengths[i] += more;
      left -= more;
      prefixes[i] = static_cast<int>(random() % 1000);
    }
    Arrays a(capacity, max_rows);
    ASSERT_TRUE(build_padded_layout(lengths, prefixes, capacity, max_rows, a.layout()));
    for (int t = 0; t < capacity; ++t) {
      const int g = t + a.padding_offset[t], slot = g / capacity;
      ASSERT_GE(t, a.cu_seqlens[slot]);
      ASSERT_LT(t, a.cu_seqlens[slot + 1]);
      ASSERT_EQ(a.positions[t], g % capacity + a.prefix_lengths[slot]);
    }
    const int total = std::accumulate(lengths.begin(), lengths.end(), 0);
    EXPECT_EQ(a.cu_seqlens[max_rows], total);
    EXPECT_EQ(a.cu_seqlens[max_rows + 1], capacity);
    EXPECT_EQ(a.input_lengths[max_rows], capacity - total);
    EXPECT_TRUE(a.guards_untouched());
  }
}

}  // namespace
}  // namespace monograph
