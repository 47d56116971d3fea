#include "engine/memory_plan.h"

#include <gtest/gtest.h>

#include "monograph/error.h"

namespace monograph {
namespace {

ModelConfig model_of(int max_position) {
  ModelConfig model;
  model.n_layers = 2;
  model.n_kv_heads = 2;
  model.head_dim = 16;
  model.max_position = max_position;
  return model;
}

KvCacheShape shape_of(const ModelConfig& model, int block_size = 64) {
  return {
      .n_layers = model.n_layers, .n_kv_heads = model.n_kv_heads, .head_dim = model.head_dim, .block_size = block_size};
}

/// The message of the Error that `work` throws.
template <typename F>
std::string refusal(F work, const std::string& field) {
  try {
    work();
  } catch (const Error& e) {
    EXPECT_EQ(e.field(), field) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "accepted, expected an error about " << field;
  return {};
}

TEST(ResolveConfig, Defaults) {
  const ResolvedConfig r = resolve_config({.model = "/a/b/name.gguf"}, model_of(40960));
  EXPECT_EQ(r.model_name, "name.gguf");
  EXPECT_EQ(r.max_seq_len, 8192);
  EXPECT_EQ(r.chunk_size, 2048);
  EXPECT_EQ(r.max_rows, 64);
  EXPECT_TRUE(r.graphs && r.prefill_graphs);
  EXPECT_EQ(r.prefill_buckets.back(), 2048);
  EXPECT_EQ(r.prefill_buckets.size(), 20u);
  EXPECT_EQ(r.decode_buckets.back(), 256);
  EXPECT_EQ(r.n_scratch_blocks, 32);
  EXPECT_TRUE(r.warnings.empty());
}

// S-02: the feature follows the master; feature on and master off, both explicit, is an error.
TEST(ResolveConfig, S02_SwitchCombinations) {
  const ModelConfig model = model_of(2048);
  for (const auto master : {std::optional<bool>(), std::optional(true), std::optional(false)})
    for (const auto feature : {std::optional<bool>(), std::optional(true), std::optional(false)}) {
      EngineConfig config;
      config.enable_cuda_graph = master;
      config.enable_prefill_cuda_graph = feature;
      if (master == false && feature == true) {
        refusal([&] { resolve_config(config, model); }, "enable-prefill-cuda-graph");
        continue;
      }
      const ResolvedConfig r = resolve_config(config, model);
      EXPECT_EQ(r.graphs, master.value_or(true));
      EXPECT_EQ(r.prefill_graphs, master.value_or(true) && feature.value_or(true));
      EXPECT_EQ(r.prefill_buckets.empty(), !r.prefill_graphs);
      EXPECT_EQ(r.decode_buckets.empty(), !r.graphs);
    }
}

TEST(ResolveConfig, ShortModels) {
  for (int length : {4, 64, 159, 160}) {
    const ResolvedConfig r = resolve_config({}, model_of(length));
    EXPECT_EQ(r.max_seq_len, length);
    EXPECT_EQ(r.chunk_size, length);
    EXPECT_EQ(r.prefill_buckets.back(), length);
    EXPECT_LE(r.n_scratch_blocks, (length + 63) / 64);
  }
}

// A.7: chunk size and an explicit ladder bound each other.
TEST(ResolveConfig, ChunkSizeAndExplicitLadder) {
  const ModelConfig model = model_of(8192);
  ResolvedConfig r = resolve_config({.prefill_capture_buckets = {64, 16}}, model);
  EXPECT_EQ(r.chunk_size, 64);
  EXPECT_EQ(r.prefill_buckets, (std::vector<int>{16, 64}));
  EXPECT_TRUE(r.warnings.empty());

  r = resolve_config({.chunk_size = 512, .prefill_capture_buckets = {16, 64}}, model);
  EXPECT_EQ(r.chunk_size, 64);
  ASSERT_EQ(r.warnings.size(), 1u);
  EXPECT_NE(r.warnings[0].find("512"), std::string::npos);

  r = resolve_config({.chunk_size = 20, .prefill_capture_buckets = {16, 32, 64}}, model);
  EXPECT_EQ(r.chunk_size, 20);
  ASSERT_EQ(r.warnings.size(), 1u);
  EXPECT_NE(r.warnings[0].find("bucket 64"), std::string::npos);

  r = resolve_config({.chunk_size = 4096}, model_of(1000));
  EXPECT_EQ(r.chunk_size, 1000);
  EXPECT_EQ(r.warnings.size(), 1u);
}

TEST(ResolveConfig, DecodeLadderEndsWithMaxSeqs) {
  const ResolvedConfig r = resolve_config({.max_seqs = 10, .decode_capture_buckets = {4, 2}}, model_of(2048));
  EXPECT_EQ(r.decode_buckets, (std::vector<int>{2, 4, 10}));
  EXPECT_EQ(r.max_rows, 10);
}

// S-04, S-11: boundaries, each with the flag's name, the value and the limit.
TEST(ResolveConfig, S04_Boundaries) {
  const ModelConfig model = model_of(2048);
  for (int bad : {0, -1, 1025}) {
    const std::string text = refusal([&] { resolve_config({.prefill_cuda_graph_max_requests = bad}, model); },
                                     "prefill-cuda-graph-max-requests");
    EXPECT_EQ(text.rfind("invalid_max_requests: ", 0), 0u) << text;
    EXPECT_NE(text.find(std::to_string(bad)), std::string::npos);
    EXPECT_NE(text.find("1024"), std::string::npos);
  }
  EXPECT_EQ(resolve_config({.prefill_cuda_graph_max_requests = 1024}, model).max_rows, 1024);
  for (int bad : {0, 2049, 65537})
    refusal(
        [&] {
          resolve_config({.prefill_capture_buckets = {16, bad}}, model);
        },
        "--prefill-cuda-graph-capture-config");
  for (int bad : {0, 1, 2049}) refusal([&] { resolve_config({.max_seq_len = bad}, model); }, "max-seq-len");
  for (int bad : {0, 1025}) refusal([&] { resolve_config({.max_seqs = bad}, model); }, "max-seqs");
  for (int bad : {0, -5}) refusal([&] { resolve_config({.chunk_size = bad}, model); }, "chunk-size");
}

TEST(PlanKv, DefaultIsWhatSequencesCanUseUpToTheLimit) {
  const ModelConfig model = model_of(1024);
  const EngineConfig config{.max_seqs = 4};
  const ResolvedConfig r = resolve_config(config, model);
  const KvCacheShape shape = shape_of(model);
  const KvPlan ample = plan_kv(config, r, shape, 1LL << 40, "all");
  EXPECT_EQ(ample.n_blocks, 4 * 16 + 1 + r.n_scratch_blocks);
  EXPECT_EQ(ample.bytes, ample.n_blocks * shape.bytes_per_block());
  const KvPlan tight = plan_kv(config, r, shape, 40 * shape.bytes_per_block(), "all");
  EXPECT_EQ(tight.n_blocks, 40);
}

TEST(PlanKv, AtLeastOneWholeSequence) {
  const ModelConfig model = model_of(1024);
  EngineConfig config{.max_seqs = 4};
  const ResolvedConfig r = resolve_config(config, model);
  const KvCacheShape shape = shape_of(model);
  const std::int64_t least = (16 + 1 + r.n_scratch_blocks) * shape.bytes_per_block();
  config.kv_cache_bytes = least;
  EXPECT_EQ(plan_kv(config, r, shape, 0, "none").n_blocks, 16 + 1 + r.n_scratch_blocks);
  config.kv_cache_bytes = least - 1;
  const std::string text = refusal([&] { plan_kv(config, r, shape, 0, "none"); }, "kv-cache-bytes");
  EXPECT_NE(text.find(std::to_string(least - 1)), std::string::npos) << text;
  EXPECT_NE(text.find(std::to_string(least)), std::string::npos) << text;
  config.kv_cache_bytes.reset();
  refusal([&] { plan_kv(config, r, shape, least - 1, "all"); }, "max-seq-len");
}

TEST(HumanBytes, ThreeDigits) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(98362432), "98.4 MB");
  EXPECT_EQ(human_bytes(1250000000), "1.25 GB");
}

}  // namespace
}  // namespace monograph
