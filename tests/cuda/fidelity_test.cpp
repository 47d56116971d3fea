// The GPU answers as the CPU backend does in bfloat16, token for token where the reference is sure. (issue: Fidelity)
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/bf16.h"
#include "model/model_files.h"
#include "tests/cuda/support/families.h"

namespace monograph {
namespace {

using testing::Family;
using testing::Lane;
using testing::LaneOptions;
using testing::TestSequence;

constexpr int kPrompts = 50, kAnswer = 16;
constexpr double kLeastEqual = 0.98;

struct Tally {
  int n = 0, n_equal = 0;
  double worst = 0;  ///< Largest difference of a logit, in bounds.
};

void compare(const std::vector<float>& got, const std::vector<float>& reference, int n_layers, Tally& tally,
             const std::string& where) {
  ASSERT_EQ(got.size(), reference.size());
  const double bound = testing::logit_bound(reference, n_layers);
  ++tally.n;
  const bool equal = testing::argmax(got) == testing::argmax(reference);
  tally.n_equal += equal;
  EXPECT_TRUE(equal || testing::lead(reference) <= bound)
      << where << ": lead " << testing::lead(reference) << ", bound " << bound;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(std::isfinite(got[i])) << where;
    tally.worst = std::max(tally.worst, std::abs(static_cast<double>(got[i]) - reference[i]) / bound);
  }
}

/// K and V of the first block, which both backends keep in one layout, within the noise of their layer.
void compare_blocks(const std::vector<std::byte>& got, const std::vector<std::byte>& reference,
                    const LaneOptions& options, int n_rows, const std::string& where) {
  ASSERT_EQ(got.size(), reference.size());
  const auto* a = reinterpret_cast<const bf16*>(got.data());
  const auto* b = reinterpret_cast<const bf16*>(reference.data());
  const int heads = options.model.n_kv_heads, dim = options.model.head_dim, block = options.block_size;
  const std::size_t side = static_cast<std::size_t>(heads) * block * dim;
  for (std::size_t s = 0; s < got.size() / 2 / side; ++s) {  // K, V of layer 0, K, V of layer 1 ...
    const double noise = 6 * testing::rounding_noise(static_cast<int>(s / 2) + 1);
    for (int head = 0; head < heads; ++head)
      for (int row = 0; row < n_rows; ++row) {
        double square = 0;
        const std::size_t at = s * side + (static_cast<std::size_t>(head) * block + row) * dim;
        for (int d = 0; d < dim; ++d) square += std::pow(to_float(b[at + d]), 2);
        const double bound = noise * std::sqrt(square / dim);
        for (int d = 0; d < dim; ++d) {
          const double x = to_float(a[at + d]), y = to_float(b[at + d]);
          ASSERT_LE(std::abs(x - y), bound + std::abs(y) / 128) << where << ", side " << s << ", row " << row;
        }
      }
  }
}

/// Teacher-forced: both follow the reference's tokens.
Tally follow(Lane& reference, Lane& gpu, const LaneOptions& options, int longest) {
  Tally tally;
  std::mt19937 random(3);
  for (int p = 0; p < kPrompts; ++p) {
    const int length = 1 + static_cast<int>(random() % static_cast<unsigned>(longest));
    TestSequence s = reference.sequence(length, random(), 1);
    for (int step = 0; step <= kAnswer; ++step) {
      TestSequence twin = s;
      Batch batch, same;
      const int n = static_cast<int>(s.tokens.size()) - s.cached;
      reference.add(batch, s, n, step == 0);
      gpu.add(same, twin, n, step == 0);
      reference.runner().run(batch);
      gpu.runner().run(same);
      const auto expected = reference.logits(0);
      compare(gpu.logits(0), expected, options.model.n_layers, tally,
              "prompt " + std::to_string(p) + ", token " + std::to_string(step));
      if (step == 0)
        compare_blocks(gpu.block_bytes(1), reference.block_bytes(1), options, std::min(length, options.block_size),
                       "prompt " + std::to_string(p));
      if (::testing::Test::HasFatalFailure()) return tally;
      s.tokens.push_back(testing::argmax(expected));
    }
  }
  std::printf("%d of %d positions equal, largest difference %.2f of the bound\n", tally.n_equal, tally.n, tally.worst);
  return tally;
}

class Fidelity : public ::testing::TestWithParam<Family> {};

TEST_P(Fidelity, FollowsTheReference) {
  const LaneOptions options = testing::on("cpu", GetParam().config);
  Lane reference(options), gpu(testing::on("cuda", GetParam().config));
  const Tally tally = follow(reference, gpu, options, 140);
  EXPECT_GE(tally.n_equal, kLeastEqual * tally.n);
}

INSTANTIATE_TEST_SUITE_P(Families, Fidelity, ::testing::ValuesIn(testing::families()), testing::family_name);

/// A model of the user's, in MONOGRAPH_TEST_MODEL; tools/gpu_check.sh gives the default one where it is there.
TEST(FidelityOfAModel, FollowsTheReference) {
  const char* path = std::getenv("MONOGRAPH_TEST_MODEL");
  LaneOptions options = testing::on("cpu", {});
  options.files = path ? std::shared_ptr<const ModelFiles>(open_model(path))
                       : std::shared_ptr<const ModelFiles>(
                             open_dummy_model(std::string(MONOGRAPH_SOURCE_DIR) + "/bench/configs/SmolLM2-135M"));
  LaneOptions on_gpu = options;
  on_gpu.device = "cuda";
  options.model = options.files->config();
  Lane reference(options), gpu(on_gpu);
  const Tally tally = follow(reference, gpu, options, 140);
  // Random weights have no favourite token: their two best logits are mostly within the noise of each other.
  if (path) {
    EXPECT_GE(tally.n_equal, kLeastEqual * tally.n);
  }
}

}  // namespace
}  // namespace monograph
