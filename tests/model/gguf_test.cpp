#include "model/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model/support/files.h"
#include "tests/model/support/gguf_bytes.h"

namespace monograph {
namespace {

using namespace files;
using ::testing::HasSubstr;

std::string error_of_bytes(const std::string& bytes) {
  const TempFolder folder;
  write_bytes(folder.file("x.gguf"), bytes);
  return error_of(folder.file("x.gguf"));
}

TEST(Gguf, SmallModelOpens) {
  EXPECT_EQ(error_of_bytes(small_llama().bytes()), "");
  GgufBuilder v2 = small_llama();
  v2.version = 2;
  EXPECT_EQ(error_of_bytes(v2.bytes()), "");
}

TEST(Gguf, AlignmentIsHonoured) {
  GgufBuilder file = small_llama();
  file.number("general.alignment", 64);
  std::uint64_t offset = 0;
  for (auto& tensor : file.tensors) {
    tensor.offset = offset;
    offset = (offset + tensor.bytes + 63) / 64 * 64;
  }
  std::string bytes = file.header();
  bytes.resize((bytes.size() + 63) / 64 * 64);
  EXPECT_EQ(error_of_bytes(bytes + std::string(file.data_bytes(), '\0')), "");
}

TEST(Gguf, EveryValueTypeIsRead) {
  GgufBuilder file;
  file.key_raw("u8", kU8, "\x7f").key_raw("i8", kI8, "\xff").key_raw("u16", kU16, raw<std::uint16_t>(65535));
  file.key_raw("i16", kI16, raw<std::int16_t>(-2)).key_raw("u64", kU64, raw(~std::uint64_t{0}));
  file.key_raw("i64", kI64, raw<std::int64_t>(-3)).key_raw("f64", kF64, raw(0.5)).key_raw("bool", kBool, "\1");
  file.text("text", std::string("a\0b", 3)).array("list", kI16, 2, raw<std::int16_t>(1) + raw<std::int16_t>(-1));
  file.array("names", kString, 2, sized("x") + sized(""));
  file.array("nested", kArray, 1, raw<std::uint32_t>(kBool) + raw<std::uint64_t>(1) + "\1");
  const std::string bytes = file.bytes();
  const auto reader = memory_file(std::as_bytes(std::span(bytes)), "memory");
  const GgufHeader header = read_gguf_header(*reader);
  nlohmann::json all;
  for (const auto& [key, value] : header.metadata) all[key] = to_json(value);
  EXPECT_EQ(all, (nlohmann::json{{"u8", 127},
                                 {"i8", -1},
                                 {"u16", 65535},
                                 {"i16", -2},
                                 {"u64", ~std::uint64_t{0}},
                                 {"i64", -3},
                                 {"f64", 0.5},
                                 {"bool", true},
                                 {"text", std::string("a\0b", 3)},
                                 {"list", {1, -1}},
                                 {"names", {"x", ""}},
                                 {"nested", {{true}}}}));
}

struct Refused {
  std::string bytes, says;
};

std::string with(const std::string& key, std::uint32_t type, const std::string& value) {
  GgufBuilder file = small_llama();
  for (auto& record : file.keys)
    if (record.starts_with(sized(key))) {
      record = sized(key) + raw(type) + value;
      return file.bytes();
    }
  return file.key_raw(key, type, value).bytes();
}
std::string with(const std::string& key, int value) { return with(key, kU32, raw(value)); }
std::string with(const std::string& key, const std::string& value) { return with(key, kString, sized(value)); }
std::string with(const std::string& key, float value) { return with(key, kF32, raw(value)); }

std::string renamed(const std::string& from, const std::string& to) {
  GgufBuilder file = small_llama();
  for (auto& tensor : file.tensors)
    if (tensor.name == from) tensor.name = to;
  return file.bytes();
}

TEST(Gguf, WhatIsNotReadIsRefusedByName) {
  GgufBuilder moved = small_llama(), v1 = small_llama(), big = small_llama(), twice = small_llama();
  moved.tensors[1].offset += 32;
  v1.version = 1;
  big.version = 0x03000000;
  twice.tensors[3].name = twice.tensors[2].name;
  const std::vector<Refused> cases = {
      {"", "magic: needs 4 bytes at offset 0, the file has 0 left"},
      {"PK\3\4 some archive", "not a GGUF file: expected it to begin with GGUF"},
      {v1.bytes(), "GGUF version 1; versions 2 and 3 are read"},
      {big.bytes(), "a big-endian GGUF file; only little-endian files are read"},
      {moved.bytes() + std::string(32, '\0'), "tensor output_norm.weight: its offset is 2080, expected 2048"},
      {small_llama().bytes() + std::string(40, '\0'), "bytes after the last tensor belong to none"},
      {twice.bytes(), "duplicate tensor blk.0.attn_norm.weight"},
      {small_llama().number("a", 1).number("a", 2).bytes(), "duplicate key a"},
      {small_llama().key_raw("a", 13, "").bytes(), "key a: unknown value type 13, expected 0 to 12"},
      {small_llama().key_raw("a", kBool, "\2").bytes(), "key a: a bool holds 2, expected 0 or 1"},
      {with("general.alignment", 24), "key general.alignment: expected a power of two up to 1048576, found 24"},
      {with("general.alignment", "x"), "key general.alignment: expected a power of two up to 1048576, found \"x\""},
      {with("general.architecture", "mamba"),
       "general.architecture: \"mamba\" is not supported; supported are llama, qwen2"},
      {with("llama.expert_count", 8), "llama.expert_count: 8 experts: mixture-of-experts models are not supported"},
      {with("llama.attention.sliding_window", 32),
       "llama.attention.sliding_window: 32 tokens: sliding windows are not"},
      {with("llama.attention.causal", kBool, std::string(1, '\0')), "llama.attention.causal: false is not supported"},
      {with("llama.rope.scaling.type", "longrope"), "llama.rope.scaling.type: \"longrope\" is not supported"},
      {with("llama.rope.dimension_count", 4),
       "llama.rope.dimension_count: 4 is not supported: it must equal the head width 8"},
      {with("llama.attention.value_length", 16), "llama.attention.value_length: 16 is not supported"},
      {with("llama.attention.head_count_kv", 3),
       "llama.attention.head_count_kv: expected a divisor of the 2 heads, found 3"},
      {with("llama.attention.head_count", kArray,
            raw<std::uint32_t>(kU32) + raw<std::uint64_t>(1) + raw<std::uint32_t>(2)),
       "llama.attention.head_count: expected a whole number from 1 to 4096, found a list"},
      {with("llama.logit_scale", 0.5f), "llama.logit_scale: 0.5 is not supported"},
      {with("llama.rope.freq_base", std::numeric_limits<float>::quiet_NaN()),
       "llama.rope.freq_base: expected a number from 1"},
      {with("llama.vocab_size", 31), "llama.vocab_size: expected 32, the rows of token_embd.weight, found 31"},
      {with("tokenizer.ggml.eos_token_id", 32),
       "tokenizer.ggml.eos_token_id: expected a whole number from 0 to 31, found 32"},
      {with("tokenizer.chat_template", 1), "tokenizer.chat_template: expected a string, found 1"},
      {renamed("blk.0.ffn_up.weight", "blk.0.ffn_sideways.weight"), "blk.0.ffn_up.weight: expected [32, 16], missing"},
      {small_llama().f32("blk.0.attn_q.bias", {16}).bytes(),
       "unexpected tensor blk.0.attn_q.bias, which no such model has"},
      {small_llama().f32("rope_freqs.weight", {5}).bytes(), "rope_freqs.weight: expected F32 [4], file has F32 [5]"},
      {small_llama().f32("rope_freqs.weight", {4}).bytes(), "rope_freqs.weight: expected positive numbers, found 0.0"},
      {small_llama().f32(std::string(65, 'x'), {4}).bytes(), "(its name): its length is 65 bytes, expected at most 64"},
      {small_llama().f32("x\n\xff", {4}).bytes(), "unexpected tensor x\\x0a\\xff"},
      {small_llama().f32("x", {}).bytes(), "tensor x: 0 dimensions, expected 1 to 4"},
      {small_llama().tensor("x", {33}, 2, 18).bytes(),
       "tensor x: rows of 33 values are no multiple of the 32 values in a bl"},
  };
  for (const auto& [bytes, says] : cases) {
    const std::string message = error_of_bytes(bytes);
    EXPECT_THAT(message, HasSubstr(says));
    expect_one_line(message, says);
  }
}

TEST(Gguf, MergesAreTwoPieces) {
  for (const std::string merge : {"", "ab", "a ", " "}) {
    GgufBuilder file = small_llama(1);
    file.array("tokenizer.ggml.tokens", kString, 1, sized("a"))
        .array("tokenizer.ggml.merges", kString, 1, sized(merge));
    EXPECT_THAT(error_of_bytes(file.bytes()), HasSubstr("tokenizer.ggml.merges: entry 0: expected two pieces"))
        << merge;
  }
}

// ---- Split files

class SplitFiles : public ::testing::Test {
 protected:
  SplitFiles() {
    for (int i = 1; i <= 3; ++i) std::filesystem::copy_file(kModels + part(i), folder_.file(part(i)));
  }
  static std::string part(int i) { return "formats-bf16-split-0000" + std::to_string(i) + "-of-00003.gguf"; }
  void set_count(int i, const std::string& key, std::uint16_t value) {
    std::string bytes = read_bytes(folder_.file(part(i)));
    const auto at = bytes.find(key);
    ASSERT_NE(at, std::string::npos);
    std::memcpy(bytes.data() + at + key.size() + 4, &value, 2);
    write_bytes(folder_.file(part(i)), bytes);
  }
  std::string error() { return error_of(folder_.file(part(1))); }
  TempFolder folder_;
};

TEST_F(SplitFiles, TheFirstPartFindsTheOthers) { EXPECT_EQ(error(), ""); }

TEST_F(SplitFiles, AFolderWithOneSetOpens) { EXPECT_EQ(error_of(folder_.path()), ""); }

TEST_F(SplitFiles, AnotherPartNamesTheFirst) {
  EXPECT_THAT(error_of(folder_.file(part(2))), HasSubstr("part 2 of 3; open the first part, " + folder_.file(part(1))));
}

TEST_F(SplitFiles, AMissingPartIsNamed) {
  std::filesystem::remove(folder_.file(part(3)));
  EXPECT_THAT(error(), HasSubstr(part(3) + ": cannot open: No such file or directory"));
}

TEST_F(SplitFiles, ARenamedSetSaysSo) {
  std::filesystem::rename(folder_.file(part(1)), folder_.file("model.gguf"));
  EXPECT_THAT(error_of(folder_.file("model.gguf")),
              HasSubstr("split.no and split.count say that its name ends in -00001-of-00003.gguf"));
}

TEST_F(SplitFiles, APartOfAnotherSetIsRefused) {
  set_count(2, "split.no", 2);
  EXPECT_THAT(error(),
              HasSubstr(part(2) + ": split.no, split.count, split.tensors.count: expected 1, 3, 20, found 2, 3, 20"));
}

TEST_F(SplitFiles, APartTwiceHasDuplicateTensors) {
  std::filesystem::copy_file(folder_.file(part(2)), folder_.file(part(3)),
                             std::filesystem::copy_options::overwrite_existing);
  set_count(3, "split.no", 2);
  EXPECT_THAT(error(), HasSubstr("duplicate tensor "));
}

}  // namespace
}  // namespace monograph
