// Every registered model plans its attention for the mode it is asked for. (S-57)
#include <gtest/gtest.h>

#include "tests/support/tiny_model.h"

namespace monograph {
namespace {

using testing::tiny_config;
using testing::TinyFiles;

Backend backend_of(std::vector<AttentionBackend> attention) {
  BackendOptions options;
  options.device = "cpu";
  options.threads = 1;
  Backend backend = make_backend(options, Log{});
  if (!attention.empty()) backend.attention = std::move(attention);
  return backend;
}

AttentionBackend stub(const std::string& name, bool prefill_graph) {
  return {.name = name,
          .supports = [](const AttentionShape&) { return true; },
          .capabilities = {.prefill_graph = prefill_graph}};
}

class EveryFamily : public ::testing::TestWithParam<ModelFamily> {
 protected:
  static std::unique_ptr<Model> load(Backend& backend) {
    ModelConfig config = tiny_config();
    config.family = GetParam();
    config.qkv_bias = config.family == ModelFamily::kQwen2;
    config.qk_norm = config.family == ModelFamily::kQwen3;
    return load_model(TinyFiles(config), backend, 64, {});
  }
};

TEST_P(EveryFamily, S57_HonoursTheMode) {
  Backend backend = backend_of({stub("unsafe", false), stub("safe", true)});
  const auto model = load(backend);
  EXPECT_EQ(model->plan_attention(backend, AttentionMode::kDefault).name, "unsafe");
  EXPECT_THROW(model->plan_attention(backend, AttentionMode::kPrefillGraph), AttentionUnsupported);
  backend.attention[0].capabilities.prefill_graph = true;
  EXPECT_EQ(&model->plan_attention(backend, AttentionMode::kPrefillGraph), &backend.attention[0]);
}

TEST_P(EveryFamily, AsksForItsOwnShape) {
  Backend backend = backend_of({});
  const auto model = load(backend);
  AttentionShape asked;
  backend.attention = {{.name = "spy",
                        .supports =
                            [&](const AttentionShape& shape) {
                              asked = shape;
                              return true;
                            },
                        .capabilities = {.prefill_graph = true}}};
  model->plan_attention(backend, AttentionMode::kPrefillGraph);
  EXPECT_EQ(asked.n_heads, 4);
  EXPECT_EQ(asked.n_kv_heads, 2);
  EXPECT_EQ(asked.head_dim, 16);
  EXPECT_EQ(asked.dtype, DType::kF32);
}

std::string family_name(const ::testing::TestParamInfo<ModelFamily>& info) {
  constexpr const char* kNames[] = {"llama", "qwen2", "qwen3"};
  return kNames[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Models, EveryFamily,
                         ::testing::Values(ModelFamily::kLlama, ModelFamily::kQwen2, ModelFamily::kQwen3), family_name);

}  // namespace
}  // namespace monograph
