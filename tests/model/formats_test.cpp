#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <numeric>

#include "base/dequantise.h"
#include "model/model_files.h"
#include "monograph/error.h"

namespace monograph {
namespace {

const std::string kModels = MONOGRAPH_SOURCE_DIR "/tests/golden/models/";

std::vector<float> values_of(const ModelFiles& model, const HostTensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(
      std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::int64_t{1}, std::multiplies<>())));
  dequantise(tensor.dtype, tensor.bytes, values);
  model.release(tensor);
  return values;
}

// Rows of each head from pairs (2i, 2i + 1) to halves (i, i + D/2).
std::vector<float> unpaired(const std::vector<float>& rows, int n_heads, int head_dim, int width) {
  std::vector<float> out(rows.size());
  for (int head = 0; head < n_heads; ++head)
    for (int i = 0; i < head_dim; ++i) {
      const int from = head * head_dim + i, to = head * head_dim + i / 2 + i % 2 * (head_dim / 2);
      std::copy_n(rows.begin() + from * width, width, out.begin() + to * width);
    }
  return out;
}

using Weights = std::map<std::string, std::vector<float>>;

// Every tensor under one naming, whatever the format.
Weights weights_of(const ModelFiles& model) {
  const ModelConfig& config = model.config();
  Weights all;
  all["embedding"] = values_of(model, model.tensor(ModelTensor::kEmbedding));
  all["norm"] = values_of(model, model.tensor(ModelTensor::kFinalNorm));
  all["head"] = values_of(model, model.tensor(ModelTensor::kHead));
  for (int layer = 0; layer < config.n_layers; ++layer)
    for (int i = 0; i <= static_cast<int>(LayerTensor::kDown); ++i) {
      const auto which = static_cast<LayerTensor>(i);
      if (!model.has(which, layer)) continue;
      auto values = values_of(model, model.tensor(which, layer));
      const bool is_q = which == LayerTensor::kQ, is_k = which == LayerTensor::kK;
      if (model.permute_qk() && (is_q || is_k))
        values = unpaired(values, is_q ? config.n_heads : config.n_kv_heads, config.head_dim, config.model_dim);
      all[std::to_string(layer) + "." + std::to_string(i)] = std::move(values);
    }
  return all;
}

void expect_same_config(const ModelConfig& a, const ModelConfig& b) {
  EXPECT_EQ(a.family, b.family);
  EXPECT_EQ(a.model_dim, b.model_dim);
  EXPECT_EQ(a.ffn_dim, b.ffn_dim);
  EXPECT_EQ(a.n_layers, b.n_layers);
  EXPECT_EQ(a.n_heads, b.n_heads);
  EXPECT_EQ(a.n_kv_heads, b.n_kv_heads);
  EXPECT_EQ(a.head_dim, b.head_dim);
  EXPECT_EQ(a.vocab_size, b.vocab_size);
  EXPECT_EQ(a.max_position, b.max_position);
  EXPECT_EQ(a.norm_eps, b.norm_eps);
  EXPECT_EQ(a.tied_head, b.tied_head);
  EXPECT_EQ(a.qkv_bias, b.qkv_bias);
  EXPECT_EQ(a.qk_norm, b.qk_norm);
  EXPECT_EQ(a.attention_scale, b.attention_scale);
  EXPECT_EQ(a.rope.kind, b.rope.kind);
  EXPECT_EQ(a.rope.theta, b.rope.theta);
  EXPECT_EQ(a.rope.rotary_dim, b.rope.rotary_dim);
  EXPECT_EQ(a.eos_token_ids, b.eos_token_ids);
  EXPECT_EQ(a.bos_token_id, b.bos_token_id);
  EXPECT_EQ(a.pad_token_id, b.pad_token_id);
}

// One model in every format: the same numbers reach the engine, so the logits have the same bits.
class EachFormat : public ::testing::TestWithParam<const char*> {};

TEST_P(EachFormat, HasTheWeightsOfTheReferenceFolder) {
  const bool is_f16 = std::string(GetParam()).starts_with("f16");
  const auto reference = open_model(kModels + (is_f16 ? "formats-f16-sharded-old" : "formats-f32-single-new"));
  const auto model = open_model(kModels + "formats-" + GetParam());
  expect_same_config(model->config(), reference->config());
  EXPECT_EQ(weights_of(*model), weights_of(*reference));
  EXPECT_EQ(model->tokenizer().chat_template, reference->tokenizer().chat_template);
  EXPECT_THAT(model->tokenizer().chat_template, ::testing::StartsWith("{% for message in messages %}"));
}

INSTANTIATE_TEST_SUITE_P(Formats, EachFormat,
                         ::testing::Values("bf16-single-old", "bf16-sharded-new", "bf16.gguf",
                                           "bf16-split-00001-of-00003.gguf", "f16-single-new", "f16-sharded-old",
                                           "f16.gguf", "f16-split-00001-of-00003.gguf", "f32-single-new",
                                           "f32-sharded-old", "f32.gguf", "f32-split-00001-of-00003.gguf"));

class EachFamily : public ::testing::TestWithParam<const char*> {};

TEST_P(EachFamily, FolderAndGgufAreTheSameModel) {
  const auto folder = open_model(kModels + GetParam());
  const auto file = open_model(kModels + GetParam() + std::string(".gguf"));
  expect_same_config(file->config(), folder->config());
  EXPECT_EQ(weights_of(*file), weights_of(*folder));
  EXPECT_EQ(file->config().name, GetParam());
  EXPECT_EQ(folder->config().name, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Families, EachFamily,
                         ::testing::Values("llama3-rope", "llama-yarn", "qwen2-bias", "qwen3-qknorm"));

TEST(HfModel, ConfigOfEachFamily) {
  const auto llama = open_model(kModels + "llama-gqa");
  EXPECT_EQ(llama->config().family, ModelFamily::kLlama);
  EXPECT_EQ(llama->config().head_dim, 16);
  EXPECT_EQ(llama->config().n_kv_heads, 1);
  EXPECT_TRUE(llama->config().tied_head);
  EXPECT_EQ(llama->config().rope.theta, 100000.0f);
  EXPECT_FALSE(llama->permute_qk());
  EXPECT_FALSE(open_model(kModels + "llama-mha")->config().tied_head);
  const auto qwen2 = open_model(kModels + "qwen2-bias");
  EXPECT_EQ(qwen2->config().family, ModelFamily::kQwen2);
  EXPECT_TRUE(qwen2->config().qkv_bias);
  EXPECT_TRUE(qwen2->has(LayerTensor::kKBias, 1));
  const auto qwen3 = open_model(kModels + "qwen3-qknorm");
  EXPECT_EQ(qwen3->config().family, ModelFamily::kQwen3);
  EXPECT_TRUE(qwen3->config().qk_norm);
  EXPECT_FALSE(qwen3->has(LayerTensor::kKBias, 1));
  EXPECT_FALSE(open_model(kModels + "qwen3-qknorm.gguf")->permute_qk());
}

TEST(HfModel, RopeOfEachKind) {
  const RopeConfig llama3 = open_model(kModels + "llama3-rope")->config().rope;
  EXPECT_EQ(llama3.kind, RopeConfig::Kind::kLlama3);
  EXPECT_EQ(llama3.factor, 8.0f);
  EXPECT_EQ(llama3.original_max_position, 64);
  EXPECT_TRUE(llama3.freq_factors.empty());
  const RopeConfig from_file = open_model(kModels + "llama3-rope.gguf")->config().rope;
  ASSERT_EQ(from_file.freq_factors.size(), 16u);
  EXPECT_EQ(from_file.freq_factors.front(), 1.0f);
  EXPECT_EQ(from_file.freq_factors.back(), 8.0f);
  for (const char* yarn : {"llama-yarn", "llama-yarn.gguf"}) {
    const RopeConfig rope = open_model(kModels + yarn)->config().rope;
    EXPECT_EQ(rope.kind, RopeConfig::Kind::kYarn) << yarn;
    EXPECT_EQ(rope.factor, 8.0f) << yarn;
    EXPECT_EQ(rope.original_max_position, 64) << yarn;
    EXPECT_FALSE(rope.attention_factor) << yarn;
  }
  EXPECT_EQ(open_model(kModels + "llama-linear")->config().rope.kind, RopeConfig::Kind::kLinear);
}

TEST(HfModel, GenerationDefaultsAndTokenizerTexts) {
  const auto model = open_model(kModels + "llama-gqa");
  EXPECT_EQ(model->generation().temperature, 0.7f);
  EXPECT_EQ(model->generation().top_k, 20);
  EXPECT_EQ(model->generation().do_sample, true);
  EXPECT_EQ(model->generation().eos_token_ids, (std::vector<int>{2, 0}));
  EXPECT_EQ(nlohmann::json::parse(model->tokenizer().tokenizer_json)["model"]["vocab"].size(), 288u);
  EXPECT_TRUE(model->tokenizer().gguf.is_null());
}

TEST(GgufModel, TokenizerKeys) {
  const auto model = open_model(kModels + "formats-bf16.gguf");
  const TokenizerFiles& files = model->tokenizer();
  EXPECT_EQ(files.gguf["model"], "gpt2");
  EXPECT_EQ(files.gguf["pre"], "smollm");
  EXPECT_EQ(files.gguf["bos_token_id"], 1);
  EXPECT_EQ(files.gguf["add_bos_token"], false);
  EXPECT_EQ(files.gguf_tokens.size(), 288u);
  EXPECT_EQ(files.gguf_token_types[1], 3);
  EXPECT_EQ(files.gguf_merges.front(), "h e");
}

TEST(GgufModel, SummaryCountsTypes) {
  EXPECT_EQ(open_model(kModels + "width256-q4_k_m.gguf")->summary(), "GGUF v3, 5 Q4_K, 3 F32, 3 Q6_K");
  EXPECT_EQ(open_model(kModels + "formats-bf16-split-00001-of-00003.gguf")->summary(),
            "GGUF v3 in 3 parts, 15 BF16, 5 F32");
}

}  // namespace
}  // namespace monograph
