// What a start-up is told when the device's memory is too small, and that the advice works.
#include "engine/memory_budget.h"

#include <gtest/gtest.h>

#include <sstream>
#include <vector>

#include "graph/arena.h"
#include "monograph/error.h"

namespace monograph {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

ModelConfig qwen3_8b() {
  ModelConfig m;
  m.model_dim = 4096;
  m.ffn_dim = 12288;
  m.n_layers = 36;
  m.n_heads = 32;
  m.n_kv_heads = 8;
  m.head_dim = 128;
  m.vocab_size = 151936;
  m.max_position = 40960;
  m.tied_head = false;
  m.rope.rotary_dim = 128;
  return m;
}

KvCacheShape shape_of(const ModelConfig& m) {
  return {.n_layers = m.n_layers, .n_kv_heads = m.n_kv_heads, .head_dim = m.head_dim, .dtype = DType::kBF16};
}

/// What kernels keep for themselves, of the size that a GPU's do.
std::int64_t workspace_bytes(const WorkspaceShape& s) {
  return s.max_tokens * (2LL * s.model_dim + 4LL * (s.n_heads + 2 * s.n_kv_heads) * s.head_dim) +
         8LL * s.max_rows * s.vocab_size;
}

MemoryShape memory_shape(const ModelConfig& m) { return {m, shape_of(m), workspace_bytes}; }

DeviceMemory with_free(std::int64_t free) { return {.free = free, .total = 140 * kGiB, .own = true}; }

std::string refusal(const EngineConfig& config, const DeviceMemory& memory) {
  try {
    const ModelConfig model = qwen3_8b();
    check_room(config, memory_shape(model), memory);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kOutOfMemory);
    return e.what();
  }
  return {};
}

/// The options after "start with", taken over.
EngineConfig advised(EngineConfig config, const std::string& line) {
  const auto at = line.find("start with ");
  EXPECT_NE(at, std::string::npos) << line;
  std::istringstream words(line.substr(at + 11));
  for (std::string flag, value; words >> flag >> value;) {
    if (flag == "--memory-fraction") config.memory_fraction = std::stod(value);
    if (flag == "--max-seq-len") config.max_seq_len = std::stoi(value);
    if (flag == "--chunk-size") config.chunk_size = std::stoi(value);
    if (flag == "--max-seqs") config.max_seqs = std::stoi(value);
  }
  return config;
}

TEST(MemoryBudget, WeightsAreThoseOfTheShapes) {
  const ModelConfig model = qwen3_8b();
  const MemoryBudget budget = estimate_budget(resolve_config({}, model), memory_shape(model));
  EXPECT_NEAR(static_cast<double>(budget.weights) / 1e9, 16.38, 0.02);  // 8.19 billion parameters
  EXPECT_EQ(budget.scratch, 33 * shape_of(qwen3_8b()).bytes_per_block());
  EXPECT_EQ(budget.outside, 0);
  EXPECT_EQ(budget.kv, 0);
}

/// The budget's activations are what runner and kernels ask for: the arena, the workspace of that many tokens and rows.
TEST(MemoryBudget, ActivationsAreThoseOfTheArenaAndTheKernels) {
  const ModelConfig model = qwen3_8b();
  MemoryShape shape = memory_shape(model);
  std::vector<std::pair<int, int>> asked;
  shape.workspace_bytes = [&](const WorkspaceShape& s) {
    asked.emplace_back(s.max_tokens, s.max_rows);
    return std::int64_t{0};
  };
  const ResolvedConfig resolved = resolve_config({}, model);
  const std::int64_t without = estimate_budget(resolved, shape).activations;
  EXPECT_EQ(asked, (std::vector{std::pair{2048, 256}}));
  EXPECT_GT(without, Arena::bytes_for(DType::kBF16, model, 2048, 256));
  shape.workspace_bytes = [](const WorkspaceShape&) { return std::int64_t{1} << 30; };
  EXPECT_EQ(estimate_budget(resolved, shape).activations, without + (std::int64_t{1} << 30));
}

TEST(MemoryBudget, AmpleMemoryIsFine) { EXPECT_EQ(refusal({}, with_free(139 * kGiB)), ""); }

TEST(MemoryBudget, TheAdviceIsOneLineAndStarts) {  // CG22
  for (std::int64_t free = 139; free >= 17; --free) {
    EngineConfig config;
    const std::string line = refusal(config, with_free(free * kGiB));
    if (line.empty()) continue;
    EXPECT_EQ(line.find('\n'), std::string::npos);
    if (line.find("there is no setting") != std::string::npos) {
      EXPECT_LT(free, 20) << line;
      continue;
    }
    EXPECT_EQ(refusal(advised(config, line), with_free(free * kGiB)), "") << line;
  }
}

TEST(MemoryBudget, RaisesTheFractionBeforeItLowersAnything) {
  EXPECT_NE(refusal({}, with_free(30 * kGiB)).find("start with --memory-fraction 0."), std::string::npos);
  const std::string lowered = refusal({.memory_fraction = 0.98}, with_free(20 * kGiB));
  EXPECT_NE(lowered.find("start with --max-seq-len"), std::string::npos) << lowered;
}

TEST(MemoryBudget, NothingHelpsAModelThatIsTooLarge) {
  const std::string line = refusal({}, with_free(10 * kGiB));
  EXPECT_NE(line.find("there is no setting with which this model fits"), std::string::npos) << line;
  EXPECT_NE(line.find("weights 16.4 GB"), std::string::npos) << line;
}

TEST(MemoryBudget, WhatMeasuringFoundCounts) {
  const ModelConfig model = qwen3_8b();
  const DeviceMemory memory = with_free(120 * kGiB);
  EXPECT_NO_THROW(check_room({}, memory_shape(model), memory));
  EXPECT_THROW(check_room({}, memory_shape(model), memory, 100 * kGiB), Error);
}

}  // namespace
}  // namespace monograph
