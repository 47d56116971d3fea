// A row's logits have the same bits whatever happens around it: bucket, slot, neighbours, chunks, prefix hits,
// preemption, decode or extend, graph or eager, threads and SIMD target. (SPEC D8; issue: Bits)
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>

#include "ops/cpu/kernels.h"
#include "tests/e2e/support/rig.h"
#include "tests/golden/golden.h"

namespace monograph::e2e {
namespace {

constexpr int kLengths[] = {1, 2, 7, 8, 9, 24, 25, 63, 64, 65, 100, 128, 129, 150, 200};
constexpr int kLongest = 200;
constexpr unsigned kSeed = 77;

std::vector<std::int32_t> random_tokens(int n, int vocab_size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(n));
  for (auto& token : tokens) token = static_cast<std::int32_t>(random() % static_cast<unsigned>(vocab_size));
  return tokens;
}

/// One way to run: everything that must not matter and is fixed when a backend is made.
struct Setting {
  std::string model;
  std::string target;
  int threads = 1;
  DType activation = DType::kF32;
  bool skip_padding = true;
};

RigOptions options_of(const Setting& setting) {
  RigOptions options;
  options.backend.device = "cpu";
  options.backend.cpu_target = setting.target;
  options.backend.threads = setting.threads;
  options.backend.activation_dtype = setting.activation;
  options.skip_padding = setting.skip_padding;
  return options;
}

/// Logits after each of the lengths: eager, alone, one thread, the best target.
std::map<int, Logits> reference(const std::string& model, DType activation) {
  Rig rig(tiny_model(model), options_of({model, "", 1, activation}));
  const auto tokens = random_tokens(kLongest, rig.config().vocab_size, kSeed);
  std::map<int, Logits> rows;
  for (int length : kLengths)
    rows[length] = rig.one_shot(std::span(tokens).first(static_cast<std::size_t>(length)), Mode::kEager);
  return rows;
}

const std::map<int, Logits>& cached_reference(const std::string& model, DType activation) {
  static std::map<std::pair<std::string, DType>, std::map<int, Logits>> known;
  auto& rows = known[{model, activation}];
  if (rows.empty()) rows = reference(model, activation);
  return rows;
}

class Bits : public testing::TestWithParam<Setting> {
 protected:
  std::span<const std::int32_t> first(int n) const { return std::span(tokens_).first(static_cast<std::size_t>(n)); }
  void expect(int length, const Logits& logits, const std::string& how) const {
    EXPECT_TRUE(same_bits(logits, reference_.at(length)))
        << how << ", length " << length << ": relative difference " << relative_error(logits, reference_.at(length));
  }

  Rig rig_{tiny_model(GetParam().model), options_of(GetParam())};
  std::vector<std::int32_t> tokens_ = random_tokens(kLongest, rig_.config().vocab_size, kSeed);
  const std::map<int, Logits>& reference_ = cached_reference(GetParam().model, GetParam().activation);
};

TEST_P(Bits, ReplayAndEagerInEveryShape) {
  for (int length : kLengths) {
    expect(length, rig_.one_shot(first(length), Mode::kRun), "replay");
    expect(length, rig_.one_shot(first(length), Mode::kEager), "eager");
    expect(length, rig_.one_shot(first(length), Mode::kEagerBucket), "eager in the bucket's shape");
  }
}

TEST_P(Bits, Chunked) {
  for (int length : {9, 65, 130 - 1, 200})
    for (int chunk : {1, 7, 64})
      expect(length, rig_.chunked(first(length), chunk), "chunks of " + std::to_string(chunk));
}

TEST_P(Bits, PackedInRandomCompany) {
  std::mt19937 random(5);
  for (int round = 0; round < 12; ++round) {
    std::vector<Sequence> sequences;
    std::vector<int> lengths;
    int left = 256;
    for (int r = 0; r < 8 && left > 0; ++r) {
      const int length = kLengths[random() % std::size(kLengths)];
      if (length > left) continue;
      lengths.push_back(length);
      left -= length;
    }
    sequences.reserve(lengths.size());
    std::vector<Piece> pieces;
    for (std::size_t r = 0; r < lengths.size(); ++r) {
      sequences.push_back(rig_.start(first(lengths[r]), static_cast<int>(r)));
      pieces.push_back({&sequences.back(), lengths[r]});
    }
    const StepOutput output = rig_.step(pieces);
    for (std::size_t r = 0; r < lengths.size(); ++r)
      expect(lengths[r], output.logits[r], "slot " + std::to_string(r) + " of " + std::to_string(lengths.size()));
    for (Sequence& s : sequences) rig_.drop(s);
  }
}

TEST_P(Bits, AfterAPrefixHit) {
  Sequence owner = rig_.start(tokens_, 1);
  rig_.advance(owner, kLongest);
  for (int length : {65, 100, 128, 129, 150, 200}) {
    for (int shared = 64; shared < length; shared += 64) {
      Sequence sequence = rig_.start(first(length));
      rig_.share_prefix(sequence, owner, shared);
      expect(length, rig_.advance(sequence, length - shared), "prefix of " + std::to_string(shared));
      rig_.drop(sequence);
    }
  }
}

TEST_P(Bits, DecodeOrExtendAloneOrMixed) {
  for (int length : {2, 9, 64, 65, 129, 200}) {
    for (bool prefill : {false, true}) {
      Sequence sequence = rig_.start(first(length));
      rig_.advance(sequence, length - 1);
      expect(length, rig_.advance(sequence, 1, prefill), prefill ? "one-token extend" : "decode");
      rig_.drop(sequence);
    }
    // A decode row among prefill rows, which are checked too.
    Sequence decoding = rig_.start(first(length)), other = rig_.start(first(25), 1);
    rig_.advance(decoding, length - 1);
    const Piece pieces[] = {{&other, 25}, {&decoding, 1, false}};
    const StepOutput output = rig_.step(pieces);
    expect(25, output.logits[0], "prefill beside a decode row");
    expect(length, output.logits[1], "decode row of a mixed step");
    rig_.drop(decoding);
    rig_.drop(other);
  }
}

TEST_P(Bits, DecodeBatchOfAnySize) {
  for (int n_rows : {1, 2, 3, 4, 5, 8}) {
    std::vector<Sequence> sequences(static_cast<std::size_t>(n_rows));
    std::vector<Piece> pieces;
    for (int r = 0; r < n_rows; ++r) {
      const int length = kLengths[static_cast<std::size_t>(2 * r) % std::size(kLengths)];
      sequences[static_cast<std::size_t>(r)] = rig_.start(first(std::max(length, 2)), r);
      rig_.advance(sequences[static_cast<std::size_t>(r)], std::max(length, 2) - 1);
      pieces.push_back({&sequences[static_cast<std::size_t>(r)], 1, false});
    }
    const StepOutput output = rig_.step(pieces);
    for (int r = 0; r < n_rows; ++r)
      expect(sequences[static_cast<std::size_t>(r)].n_cached, output.logits[static_cast<std::size_t>(r)],
             "decode row " + std::to_string(r) + " of " + std::to_string(n_rows));
    for (Sequence& s : sequences) rig_.drop(s);
  }
}

TEST_P(Bits, AfterPreemption) {
  Sequence sequence = rig_.start(first(129));
  rig_.advance(sequence, 100);
  for (int i = 0; i < 28; ++i) rig_.advance(sequence, 1, false);
  // Its blocks go to someone else, who fills them; then everything is computed again, in other chunks.
  rig_.drop(sequence);
  Sequence intruder = rig_.start(random_tokens(180, rig_.config().vocab_size, 4), 1);
  rig_.advance(intruder, 180);
  while (sequence.n_cached < 128) rig_.advance(sequence, std::min(50, 128 - sequence.n_cached));
  expect(128, rig_.one_shot(first(128)), "beside a preempted sequence");
  expect(129, rig_.advance(sequence, 1, false), "decode after recomputation");
  rig_.drop(sequence);
  rig_.drop(intruder);
}

/// Attention combines splits of 512 keys; here rows on both sides of the edge do.
TEST_P(Bits, LongerThanOneSplit) {
  const auto tokens = random_tokens(600, rig_.config().vocab_size, 8);
  for (int length : full() ? std::vector{512, 513, 600} : std::vector{513}) {
    const auto prompt = std::span(tokens).first(static_cast<std::size_t>(length));
    const Logits expected = rig_.one_shot(prompt, Mode::kEager);
    EXPECT_TRUE(same_bits(rig_.one_shot(prompt), expected)) << length;
    EXPECT_TRUE(same_bits(rig_.chunked(prompt, 77), expected)) << length;
    Sequence sequence = rig_.start(prompt), other = rig_.start(first(25), 1);
    rig_.advance(sequence, length - 1);
    const Piece pieces[] = {{&other, 25}, {&sequence, 1, false}};
    EXPECT_TRUE(same_bits(rig_.step(pieces).logits[1], expected)) << length;
    rig_.drop(sequence);
    rig_.drop(other);
  }
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  const auto targets = cpu::kernel_targets();
  for (const std::string& target : targets)
    for (int threads : {1, 2, 3})
      if (threads == 2 || target == targets.front() || (full() && target != "reference"))
        all.push_back({"llama-gqa", target, threads});
  for (const char* model :
       {"qwen3-qknorm", "width256-q4_k_m.gguf", "llama-mha", "llama3-rope", "llama-yarn", "qwen2-bias",
        "width64-q4_0.gguf", "width64-q4_1.gguf", "width64-q5_0.gguf", "width64-q5_1.gguf", "width64-q8_0.gguf",
        "formats-f16.gguf", "formats-f32-single-new", "recipe-q4_k.gguf", "recipe-q5_k.gguf", "recipe-q6_k.gguf"})
    for (const std::string& target : targets)
      if (target != "reference" && (full() || all.size() < 9)) all.push_back({model, target, 2});
  if (full()) all.push_back({"width256-q4_k_m.gguf", "reference", 2});
  all.push_back({"llama-gqa", "", 2, DType::kF32, /*skip_padding=*/false});
  for (const std::string& target : targets)
    if (full() || target == targets.front()) all.push_back({"qwen3-qknorm", target, 3, DType::kBF16});
  return all;
}

std::string setting_name(const testing::TestParamInfo<Setting>& info) {
  const Setting& s = info.param;
  std::string name = s.model + "_" + (s.target.empty() ? "best" : s.target) + "_" + std::to_string(s.threads) +
                     (s.activation == DType::kBF16 ? "_bf16" : "") + (s.skip_padding ? "" : "_padded");
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Settings, Bits, testing::ValuesIn(settings()), setting_name);

}  // namespace
}  // namespace monograph::e2e
