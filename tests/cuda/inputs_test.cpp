// What the first two nodes leave on the GPU is what they leave on the CPU: every derived array and all of the history.
#include <gtest/gtest.h>

#include "tests/cuda/support/twins.h"

namespace monograph {
namespace {

using test::Row;
using test::Step;

/// More slots than two warps look at, more tokens than one CTA has, and history rows whose width is not a multiple of
/// four ids.
InputShape shape() {
  InputShape s;
  s.max_tokens = 2048;
  s.max_rows = s.max_seqs = 70;
  s.table_width = 40;
  s.max_seq_len = 2501;
  return s;
}

/// One backend's first nodes.
class Twin {
 public:
  explicit Twin(const std::string& device) : backend_(test::backend_of(device)), step_(backend_, shape(), {1, 2, 3}) {
    WorkspaceShape workspace;
    workspace.max_tokens = shape().max_tokens;
    workspace.max_rows = shape().max_rows;
    workspace.model_dim = workspace.head_dim = workspace.ffn_dim = 64;
    workspace.n_heads = workspace.n_kv_heads = 1;
    workspace.vocab_size = 1000;
    backend_.ops->reserve(workspace);
  }

  /// History, its lengths and the derived arrays after the step, one after the other.
  std::vector<std::int32_t> run(const std::vector<Row>& rows, int capacity) {
    const StepInputs& in = step_.run(rows, capacity);
    const std::int64_t slots = shape().n_slots(), seqs = shape().max_seqs;
    std::vector<std::int32_t> all;
    const auto add = [&](const std::int32_t* from, std::int64_t n) {
      const std::size_t at = all.size();
      all.resize(at + static_cast<std::size_t>(n));
      backend_.device->copy_to_host(all.data() + at, from, 4 * n);
      backend_.device->synchronize();
    };
    backend_.device->synchronize();
    add(step_.history(0), seqs * shape().max_seq_len);
    add(step_.history_lens(), seqs);
    for (const std::int32_t* array : {in.cu_seqlens, in.cu_kv_seqlens}) add(array, slots + 1);
    add(in.kv_lens, slots);
    add(in.sample_rows, slots - 1);
    for (const std::int32_t* array : {in.last.lengths, in.last.prefixes}) add(array, slots);
    add(in.last.cu_seqlens, slots + 1);
    add(in.last.sample_rows, slots - 1);
    for (const std::int32_t* array : {in.padding_offset, in.positions, in.kv_locs}) add(array, capacity);
    return all;
  }

 private:
  Backend backend_;
  Step step_;
};

class Inputs : public ::testing::TestWithParam<const char*> {
 protected:
  int pick(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  std::vector<std::int32_t> ids(int n) {
    std::vector<std::int32_t> some(static_cast<std::size_t>(n));
    for (auto& id : some) id = pick(1000);
    return some;
  }
  Row row(int history_row, int n_tokens, int prefix, bool found) {
    Row row;
    row.n_tokens = n_tokens;
    row.prefix = prefix;
    row.ids = ids(n_tokens);
    for (int b = 0; b < 40; ++b) row.table.push_back(1 + pick(1000));
    row.sampling.history_row = history_row;
    if (found) row.found = ids(prefix);
    return row;
  }

  Twin cpu_{"cpu"}, gpu_{GetParam()};
  std::mt19937_64 random_{test::seed()};
};

TEST_P(Inputs, RandomStepsAreTheCpus) {
  for (int round = 0; round < 100; ++round) {
    const int n_rows = 1 + pick(70), n_found = pick(4);  // of four kinds: none, a few, half, all
    std::vector<Row> rows;
    int n_tokens = 0;
    for (int r = 0; r < n_rows; ++r) {
      const int n = round % 2 == 0 ? 1 : 1 + pick(28);  // decode, or pieces of prompts
      const bool found = n_found == 3 || (n_found == 2 && pick(2) == 0) || (n_found == 1 && pick(20) == 0);
      rows.push_back(row((r + round) % 70, n, pick(8) == 0 ? 2501 - n : pick(2501 - n), found));
      n_tokens += n;
    }
    const int capacity = std::min(2048, n_tokens + pick(600));
    ASSERT_EQ(gpu_.run(rows, capacity), cpu_.run(rows, capacity)) << "round " << round;
  }
}

// Each length about the 16 bytes of one read and about what a CTA reads at once, and the longest.
TEST_P(Inputs, FoundIdsOfEveryLength) {
  for (int prefix : {1, 2, 3, 4, 5, 63, 64, 2047, 2048, 2049, 2500})
    for (int capacity : {1, 2048})
      for (int history_row : {0, 1, 2, 3, 69}) {
        const std::vector<Row> rows = {row(history_row, 1, prefix, true)};
        ASSERT_EQ(gpu_.run(rows, capacity), cpu_.run(rows, capacity)) << prefix << " in row " << history_row;
      }
}

INSTANTIATE_TEST_SUITE_P(EachPath, Inputs, ::testing::Values("cuda", "cuda_sm80"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace monograph
