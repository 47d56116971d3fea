#include "model/config_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "monograph/error.h"

namespace monograph {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json llama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", 64},
          {"intermediate_size", 128},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"vocab_size", 100},
          {"max_position_embeddings", 4096},
          {"rms_norm_eps", 1e-5}};
}

ModelConfig read(json changes) {
  json config = llama();
  config.merge_patch(changes);
  return config_from_json(config, "config.json");
}

std::string error_of(const json& changes) {
  try {
    read(changes);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(ConfigJson, WhatAFileMayLeaveOut) {
  const ModelConfig config = read(json::object());
  EXPECT_EQ(config.n_kv_heads, 4);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.rope.rotary_dim, 16);
  EXPECT_EQ(config.rope.theta, 10000.0f);
  EXPECT_EQ(config.rope.kind, RopeConfig::Kind::kDefault);
  EXPECT_FALSE(config.tied_head);
  EXPECT_EQ(config.attention_scale, 0.25f);
  EXPECT_TRUE(config.eos_token_ids.empty());
}

TEST(ConfigJson, BothSpellingsOfRopeAreOne) {
  const json scalings = {
      {{"rope_type", "llama3"},
       {"factor", 32.0},
       {"low_freq_factor", 1.0},
       {"high_freq_factor", 4.0},
       {"original_max_position_embeddings", 1024}},
      {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 1024}, {"beta_fast", 16}},
      {{"rope_type", "linear"}, {"factor", 2.0}},
      {{"rope_type", "default"}},
  };
  for (const json& scaling : scalings) {
    json with_theta = scaling;
    with_theta["rope_theta"] = 5e5;
    const RopeConfig old_style = read({{"rope_theta", 5e5}, {"rope_scaling", scaling}}).rope;
    const RopeConfig new_style = read({{"rope_parameters", with_theta}}).rope;
    EXPECT_EQ(old_style.kind, new_style.kind) << scaling;
    EXPECT_EQ(old_style.theta, 5e5f) << scaling;
    EXPECT_EQ(new_style.theta, 5e5f) << scaling;
    EXPECT_EQ(old_style.factor, new_style.factor) << scaling;
    EXPECT_EQ(old_style.original_max_position, new_style.original_max_position) << scaling;
    EXPECT_EQ(old_style.high_freq_factor, new_style.high_freq_factor) << scaling;
    EXPECT_EQ(old_style.beta_fast, new_style.beta_fast) << scaling;
  }
}

TEST(ConfigJson, RopeDefaultsAreThoseOfTransformers) {
  const RopeConfig yarn = read({{"rope_scaling", {{"type", "yarn"}, {"factor", 4.0}}}}).rope;
  EXPECT_EQ(yarn.kind, RopeConfig::Kind::kYarn);
  EXPECT_EQ(yarn.original_max_position, 4096);
  EXPECT_EQ(yarn.beta_fast, 32.0f);
  EXPECT_EQ(yarn.beta_slow, 1.0f);
  EXPECT_FALSE(yarn.attention_factor);
  const json without_factor = {{"type", "yarn"}, {"original_max_position_embeddings", 1024}};
  EXPECT_EQ(read({{"rope_scaling", without_factor}}).rope.factor, 4.0f);
  // A value outside the dictionary wins, as in Phi's files.
  const json inside = {{"type", "yarn"}, {"factor", 2.0}, {"original_max_position_embeddings", 1024}};
  EXPECT_EQ(read({{"rope_scaling", inside}, {"original_max_position_embeddings", 512}}).rope.original_max_position,
            512);
}

TEST(ConfigJson, EosAsOneIdOrAList) {
  EXPECT_EQ(read({{"eos_token_id", 7}}).eos_token_ids, std::vector<int>{7});
  EXPECT_EQ(read({{"eos_token_id", {7, 8}}}).eos_token_ids, (std::vector<int>{7, 8}));
  EXPECT_FALSE(read({{"pad_token_id", -1}}).pad_token_id);
}

TEST(ConfigJson, S42_PadTokenIsOfTheVocabularyOrAbsent) {
  EXPECT_EQ(read({{"pad_token_id", 99}}).pad_token_id, 99);
  EXPECT_EQ(read({{"pad_token_id", -1}}).pad_token_id, std::nullopt);
  EXPECT_EQ(read(json::object()).pad_token_id, std::nullopt);
  EXPECT_THAT(error_of({{"pad_token_id", 100}}), HasSubstr("pad_token_id: expected a whole number from -1 to 99"));
}

TEST(ConfigJson, Qwen3HasItsOwnHeadWidth) {
  const json qwen3 = {{"architectures", {"Qwen3ForCausalLM"}}, {"model_type", "qwen3"}};
  EXPECT_EQ(read(qwen3).head_dim, 128);
  EXPECT_TRUE(read(qwen3).qk_norm);
}

struct Refused {
  json changes;
  std::string says;
};

// CG03: also a mixture of experts.
TEST(ConfigJson, WhatIsNotBuiltIsRefusedByName) {
  const std::vector<Refused> cases = {
      {{{"architectures", {"MixtralForCausalLM"}}},
       "config.json: architectures: MixtralForCausalLM is not supported; supp"},
      {{{"architectures", json::array()}}, "config.json: architectures: expected a list with one name, found a list"},
      {{{"model_type", "mistral"}},
       "config.json: model_type: expected llama, as LlamaForCausalLM has, found \"mistral\""},
      {{{"num_local_experts", 8}},
       "config.json: num_local_experts: 8 experts: mixture-of-experts models are not supported"},
      {{{"use_sliding_window", true}}, "config.json: use_sliding_window: true is not supported"},
      {{{"layer_types", {"full_attention", "sliding_attention"}}},
       "layer_types: a list with sliding_attention is not supp"},
      {{{"attention_bias", true}}, "config.json: attention_bias: true is not supported"},
      {{{"mlp_bias", true}}, "config.json: mlp_bias: true is not supported"},
      {{{"hidden_act", "gelu"}}, "config.json: hidden_act: \"gelu\" is not supported; supported is silu"},
      {{{"quantization_config", {{"quant_method", "awq"}}}},
       "config.json: quantization_config: an object is not supported"},
      {{{"partial_rotary_factor", 0.5}}, "config.json: partial_rotary_factor: 0.5 is not supported"},
      {{{"rope_scaling", {{"type", "dynamic"}, {"factor", 2}}}},
       "config.json: rope_scaling.type: \"dynamic\" is not supported"},
      {{{"rope_parameters", {{"rope_type", "longrope"}}}},
       "config.json: rope_parameters.rope_type: \"longrope\" is not supp"},
      {{{"rope_parameters", {{"full_attention", {{"rope_type", "default"}}}}}},
       "rope_parameters.full_attention: an object per"},
      {{{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8}}}},
       "config.json: rope_scaling.low_freq_factor: missing"},
      {{{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 8}, {"truncate", false}}}},
       "rope_scaling.truncate: false is not"},
      {{{"rope_scaling", {{"rope_type", "linear"}, {"factor", 0}}}},
       "config.json: rope_scaling.factor: expected a number from"},
      {{{"num_key_value_heads", 3}}, "num_key_value_heads: expected a divisor of the 4 attention heads, found 3"},
      {{{"num_attention_heads", 5}}, "num_attention_heads: expected a divisor of hidden_size 64, found 5"},
      {{{"head_dim", 15}}, "config.json: head_dim: expected an even head width up to 1024, not 15, found 15"},
      {{{"hidden_size", 1099511627776}},
       "config.json: hidden_size: expected a whole number from 1 to 1048576, found 10995116"},
      {{{"hidden_size", 64.0}}, "config.json: hidden_size: expected a whole number from 1 to 1048576, found 64.0"},
      {{{"vocab_size", nullptr}}, "config.json: vocab_size: missing"},
      {{{"rms_norm_eps", 0}}, "config.json: rms_norm_eps: expected a number from 1e-12 to 1, found 0"},
      {{{"eos_token_id", 100}}, "config.json: eos_token_id: expected a whole number from 0 to 99, found 100"},
      {{{"torch_dtype", 3}}, "config.json: torch_dtype: expected a string, found 3"},
  };
  for (const auto& [changes, says] : cases) EXPECT_THAT(error_of(changes), HasSubstr(says)) << changes;
}

TEST(ConfigJson, MropeHasThreeSectionsAndThreePositions) {  // S-81
  for (const json& rope : {json{{"type", "mrope"}, {"mrope_section", {2, 3, 3}}},
                           json{{"rope_type", "default"}, {"mrope_section", {2, 3, 3}}}}) {
    const ModelConfig config = read({{"rope_scaling", rope}});
    EXPECT_EQ(config.rope.mrope_sections, (std::vector<int>{2, 3, 3}));
    EXPECT_EQ(config.position_factor, 3);
    EXPECT_EQ(config.rope.kind, RopeConfig::Kind::kDefault);
  }
  EXPECT_EQ(read(json::object()).position_factor, 0);
  const auto refused = [](json rope) { return error_of({{"rope_scaling", std::move(rope)}}); };
  EXPECT_THAT(refused({{"type", "mrope"}}),
              HasSubstr("expected three sizes that add up to 8, half of the head, found nothing"));
  EXPECT_THAT(refused({{"type", "mrope"}, {"mrope_section", {4, 4}}}),
              HasSubstr("expected three sizes that add up to 8, half of the head"));
  EXPECT_THAT(refused({{"type", "mrope"}, {"mrope_section", {2, 3, 4}}}), HasSubstr("three sizes that add up to 8"));
  EXPECT_THAT(refused({{"type", "mrope"}, {"mrope_section", {2, 3, 3}}, {"mrope_interleaved", true}}),
              HasSubstr("mrope_interleaved: true is not supported"));
}

TEST(ConfigJson, UnsupportedIsToldFromBroken) {
  try {
    read({{"mlp_bias", true}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  }
}

}  // namespace
}  // namespace monograph
