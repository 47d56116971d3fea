// On the GPU too a row's logits and K and V have the same bits whatever happens around it. (SPEC D8; issue: Bits)
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>

#include "model/model_files.h"
#include "tests/cuda/support/families.h"

namespace monograph {
namespace {

using testing::Family;
using testing::Lane;
using testing::LaneOptions;
using testing::same_bits;
using testing::TestSequence;

/// Tiny models of each family, and public shapes with random weights.
struct Subject {
  std::string name;
  LaneOptions options;
};

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const Family& family : testing::families()) all.push_back({family.name, testing::on("cuda", family.config)});
  for (const char* name : {"SmolLM2-135M", "Qwen3-0.6B"}) {
    Subject subject{name, testing::on("cuda", {})};
    std::erase_if(subject.name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
    subject.options.files = open_dummy_model(std::string(MONOGRAPH_SOURCE_DIR) + "/bench/configs/" + name);
    all.push_back(std::move(subject));
  }
  if (const char* path = std::getenv("MONOGRAPH_TEST_MODEL")) {  // real weights
    Subject subject{"model", testing::on("cuda", {})};
    subject.options.files = open_model(path);
    all.push_back(std::move(subject));
  }
  for (Subject& subject : all) {
    subject.options.runner.prefill_buckets = {16, 64, 144, 256};
    subject.options.n_blocks = 80;
  }
  return all;
}

struct Reference {
  std::vector<float> logits;
  std::vector<std::byte> first_block;
};

constexpr int kLength = 150;

class Bits : public ::testing::TestWithParam<Subject> {
 protected:
  /// Alone, eager, in one piece.
  Reference reference(TestSequence s) {
    s.cached = 0;
    Batch batch;
    lane_.add(batch, s, static_cast<int>(s.tokens.size()));
    lane_.runner().run_eager(batch);
    return {lane_.logits(0), lane_.block_bytes(s.blocks[0])};
  }

  void expect(int row, const TestSequence& s, const Reference& wanted, const std::string& how) {
    EXPECT_TRUE(same_bits(lane_.logits(row), wanted.logits)) << how;
    EXPECT_EQ(lane_.block_bytes(s.blocks[0]), wanted.first_block) << how;
  }

  StepResult run(TestSequence& s, int n, bool prefill = true) {
    Batch batch;
    lane_.add(batch, s, n, prefill);
    return lane_.runner().run(batch);
  }

  Lane lane_{GetParam().options};
};

TEST_P(Bits, AloneInEveryBucket) {
  int least = 1;
  for (int bucket : GetParam().options.runner.prefill_buckets) {
    for (int n : {least, bucket - 1, bucket}) {
      TestSequence s = lane_.sequence(n, static_cast<unsigned>(n), 1);
      lane_.fill_cache(0xff);  // NaN, also where nothing is written: blocks are compared whole
      const Reference wanted = reference(s);
      lane_.fill_cache(0xff);
      const StepResult result = run(s, n);
      EXPECT_EQ(result.bucket, n == 1 ? 1 : bucket);  // one token rides the decode graph
      expect(0, s, wanted, std::to_string(n) + " tokens, replayed");
      s.cached = 0;
      Batch batch;
      lane_.add(batch, s, n);
      lane_.runner().run_eager(batch, bucket);
      expect(0, s, wanted, std::to_string(n) + " tokens, eager in the bucket's shape");
    }
    least = bucket + 1;
  }
}

/// One request in every graph: what else the step holds decides the bucket.
TEST_P(Bits, TheSameInEveryBucket) {
  constexpr int kOwn = 10;
  TestSequence s = lane_.sequence(kOwn, 3, 1);
  lane_.fill_cache(0xff);
  const Reference wanted = reference(s);
  for (int bucket : GetParam().options.runner.prefill_buckets)
    for (const bool first : {true, false}) {
      TestSequence other = lane_.sequence(bucket - kOwn, static_cast<unsigned>(bucket), 20, 1);
      lane_.fill_cache(0xff);
      s.cached = 0;
      Batch batch;
      if (first) lane_.add(batch, s, kOwn);
      lane_.add(batch, other, bucket - kOwn);
      if (!first) lane_.add(batch, s, kOwn);
      const StepResult result = lane_.runner().run(batch);
      EXPECT_EQ(result.status, PrefillStatus::kReplayed);
      EXPECT_EQ(result.bucket, bucket);
      expect(first ? 0 : 1, s, wanted, "bucket " + std::to_string(bucket) + (first ? ", first" : ", second"));
    }
}

TEST_P(Bits, InChunks) {
  TestSequence s = lane_.sequence(kLength, 5, 1);
  const Reference wanted = reference(s);
  for (int chunk : {1, 7, 64}) {
    lane_.fill_cache(0xff);
    for (s.cached = 0; s.cached < kLength;) EXPECT_TRUE(run(s, std::min(chunk, kLength - s.cached)).replayed);
    expect(0, s, wanted, "chunks of " + std::to_string(chunk));
  }
}

TEST_P(Bits, PackedWithOthers) {
  std::vector<TestSequence> sequences;
  std::vector<Reference> wanted;
  for (int i = 0; int n : {33, 64, 1, 40, 17, 50}) {
    sequences.push_back(lane_.sequence(n, static_cast<unsigned>(n), 1 + 8 * i, i));
    wanted.push_back(reference(sequences.back()));
    ++i;
  }
  std::mt19937 random(2);
  for (int round = 0; round < 6; ++round) {
    std::vector<std::size_t> order(sequences.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    Batch batch;
    for (std::size_t i : order) {
      sequences[i].cached = 0;
      lane_.add(batch, sequences[i], static_cast<int>(sequences[i].tokens.size()));
    }
    EXPECT_EQ(lane_.runner().run(batch).status, PrefillStatus::kReplayed);
    for (std::size_t row = 0; row < order.size(); ++row)
      expect(static_cast<int>(row), sequences[order[row]], wanted[order[row]], "slot " + std::to_string(row));
  }
}

TEST_P(Bits, AfterAPrefixHit) {
  TestSequence owner = lane_.sequence(kLength, 7, 1);
  run(owner, kLength);
  for (int shared : {64, 128}) {
    TestSequence s = lane_.sequence(kLength, 7, 40);
    const Reference wanted = reference(s);
    std::copy_n(owner.blocks.begin(), shared / 64, s.blocks.begin());
    s.cached = shared;
    EXPECT_TRUE(run(s, kLength - shared).replayed);
    expect(0, s, wanted, "prefix of " + std::to_string(shared));
  }
}

TEST_P(Bits, AfterPreemption) {
  TestSequence s = lane_.sequence(kLength, 9, 1);
  const Reference wanted = reference(s);
  s.cached = 0;
  run(s, 100);
  for (int i = 0; i < 20; ++i) run(s, 1, false);
  // Its blocks go to another, and it starts again elsewhere, in other pieces.
  TestSequence intruder = lane_.sequence(140, 10, 1, 1);
  run(intruder, 140);
  std::iota(s.blocks.begin(), s.blocks.end(), 30);
  for (s.cached = 0; s.cached < kLength - 1;) run(s, std::min(50, kLength - 1 - s.cached));
  EXPECT_TRUE(run(s, 1, false).replayed);
  expect(0, s, wanted, "decode after recomputation");
}

TEST_P(Bits, DecodeGraphEqualsExtendGraph) {
  for (int n_rows : {1, 3, 6}) {
    std::vector<TestSequence> sequences;
    std::vector<Reference> wanted;
    Batch decode, extend;
    for (int i = 0; i < n_rows; ++i) {
      sequences.push_back(lane_.sequence(20 + 23 * i, static_cast<unsigned>(i), 1 + 8 * i, i));
      wanted.push_back(reference(sequences.back()));
      TestSequence& s = sequences.back();
      run(s, static_cast<int>(s.tokens.size()) - 1);
      TestSequence again = s;
      lane_.add(decode, s, 1, false);
      lane_.add(extend, again, 1, true);
    }
    EXPECT_TRUE(lane_.runner().run(decode).replayed);
    for (int i = 0; i < n_rows; ++i) expect(i, sequences[i], wanted[i], "decode, row " + std::to_string(i));
    EXPECT_EQ(lane_.runner().run(extend).status, PrefillStatus::kReplayed);
    for (int i = 0; i < n_rows; ++i) expect(i, sequences[i], wanted[i], "extend, row " + std::to_string(i));
  }
}

INSTANTIATE_TEST_SUITE_P(Subjects, Bits, ::testing::ValuesIn(subjects()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace monograph
