#include "text/tokenizer_gguf.h"

#include <gtest/gtest.h>

#include "monograph/error.h"
#include "tests/text/support/tiny_vocab.h"

namespace monograph {
namespace {

// What a GGUF reader hands over for tiny_byte_spec().
struct Fields {
  nlohmann::json keys = {{"model", "gpt2"}, {"pre", "smollm"}, {"bos_token_id", 266u}, {"eos_token_id", 268u}};
  std::vector<std::string> tokens = tiny_byte_spec().tokens, merges;
  std::vector<int> types;
  std::vector<float> scores;

  Fields() {
    for (const TokenType type : tiny_byte_spec().types) types.push_back(static_cast<int>(type));
    for (const auto& [left, right] : tiny_byte_spec().merges) merges.push_back(left + " " + right);
  }
  TokenizerSpec spec() const { return spec_from_gguf(keys, tokens, scores, types, merges); }
  std::string message() const {
    try {
      Tokenizer tokenizer(spec());
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  }
};

TEST(TokenizerGguf, ByteLevelIsTheSameTokenizer) {
  const Tokenizer tokenizer(Fields().spec()), ours(tiny_byte_spec("smollm"));
  for (const char* text : {"hello  world 12", "<|im_start|>hello<|im_end|>"})
    EXPECT_EQ(tokenizer.encode(text, {true, true}), ours.encode(text, {true, true}));
  EXPECT_EQ(tokenizer.spec().bos, 266);
  EXPECT_FALSE(tokenizer.spec().add_bos);
}

TEST(TokenizerGguf, Llama3AddsBosUnlessToldOtherwise) {
  Fields fields;
  fields.keys["pre"] = "llama-bpe";
  EXPECT_TRUE(fields.spec().add_bos);
  EXPECT_TRUE(fields.spec().ignore_merges);
  fields.keys["add_bos_token"] = false;
  EXPECT_FALSE(fields.spec().add_bos);
}

TEST(TokenizerGguf, EndsOfGenerationComeFromKeysAndTexts) {
  Fields fields;
  fields.keys["eot_token_id"] = 5u;
  fields.keys["eom_token_id"] = 6u;
  fields.keys["eos_token_id"] = 7u;
  fields.tokens[8] = "<|eot_id|>";
  fields.tokens[9] = "</s>";  // a normal entry here, so no end
  EXPECT_EQ(fields.spec().eog, (std::vector<TokenId>{6, 7, 5, 8, 268}));
  const TokenizerSpec spec = fields.spec();
  EXPECT_EQ(spec.types[8], TokenType::kControl);  // nobody can type it
  EXPECT_EQ(spec.types[9], TokenType::kNormal);
}

TEST(TokenizerGguf, HarmonyEndIsNoEndOfGeneration) {
  Fields fields;
  fields.tokens[8] = "<|end|>";
  EXPECT_EQ(fields.spec().eog, (std::vector<TokenId>{268, 8}));
  fields.tokens[9] = "<|return|>";
  EXPECT_EQ(fields.spec().eog, (std::vector<TokenId>{268, 9}));
}

TEST(TokenizerGguf, SpmNeedsScores) {
  const TokenizerSpec tiny = tiny_spm_spec();
  Fields fields;
  fields.keys = {{"model", "llama"}, {"pre", "default"}};
  fields.tokens = tiny.tokens;
  fields.types.clear();
  for (const TokenType type : tiny.types) fields.types.push_back(static_cast<int>(type));
  EXPECT_EQ(fields.message(), "tokenizer.ggml.scores: expected 279 values, found 0");
  fields.scores.assign(tiny.scores.begin(), tiny.scores.end());
  const Tokenizer tokenizer(fields.spec()), ours(tiny);
  EXPECT_EQ(tokenizer.encode("hello a\u00e9"), ours.encode("hello a\u00e9"));
  EXPECT_EQ(tokenizer.encode("hello").front(), 1);
}

TEST(TokenizerGguf, UnigramIsTheSameTokenizer) {
  const TokenizerSpec tiny = tiny_unigram_spec();
  Fields fields;
  fields.keys = {
      {"model", "t5"}, {"unknown_token_id", 0u}, {"bos_token_id", 1u}, {"eos_token_id", 2u}, {"add_bos_token", false}};
  fields.tokens = tiny.tokens;
  fields.types.clear();
  for (const TokenType type : tiny.types) fields.types.push_back(static_cast<int>(type));
  fields.scores.assign(tiny.scores.begin(), tiny.scores.end());
  const Tokenizer tokenizer(fields.spec()), ours(tiny);
  EXPECT_EQ(tokenizer.encode(" a   abc\n", {false, false}), ours.encode("a abc", {false, false}));
  EXPECT_EQ(tokenizer.encode("a").back(), 2);  // these vocabularies add EOS
  fields.keys["precompiled_charsmap"] = "x";
  EXPECT_EQ(fields.message(), "tokenizer.ggml.precompiled_charsmap: expected bytes, found string");
  fields.keys["precompiled_charsmap"] = nlohmann::json::binary({1, 2, 3, 4, 5});
  EXPECT_EQ(fields.message(),
            "tokenizer: precompiled_charsmap: expected the size of a trie, the trie and replacements that end in a "
            "zero byte, found 5 bytes that begin with the size 67305985");
}

TEST(TokenizerGguf, WhatIsWrongIsNamed) {
  const auto with = [](const char* key, nlohmann::json value) {
    Fields fields;
    fields.keys[key] = std::move(value);
    return fields.message();
  };
  EXPECT_EQ(with("model", "bert"),
            "tokenizer.ggml.model: \"bert\" is not supported; gpt2 (byte-level BPE), llama (SPM-style BPE) and t5 "
            "(unigram) are");
  EXPECT_EQ(with("model", 3), "tokenizer.ggml.model: expected a string, found number");
  EXPECT_EQ(with("pre", "tekken9"), "tokenizer.ggml.pre: unknown pre-tokenizer \"tekken9\"");
  EXPECT_EQ(with("pre", "default").substr(0, 47), "tokenizer.ggml.pre: \"default\" does not say how ");
  EXPECT_EQ(with("bos_token_id", 269u), "tokenizer.ggml.bos_token_id: 269 is outside the vocabulary of 269 tokens");
  EXPECT_EQ(with("bos_token_id", "x"), "tokenizer.ggml.bos_token_id: expected a token id, found string");
  EXPECT_EQ(with("add_bos_token", 1), "tokenizer.ggml.add_bos_token: expected a bool, found number");
  Fields fields;
  fields.types.pop_back();
  EXPECT_EQ(fields.message(), "tokenizer.ggml.token_type: expected 269 values, found 268");
  fields = Fields();
  fields.types[3] = 9;
  EXPECT_EQ(fields.message(), "tokenizer.ggml.token_type: unknown type 9");
  fields = Fields();
  fields.merges[2] = "ab";
  EXPECT_EQ(fields.message(), "tokenizer.ggml.merges[2]: expected two parts with a space between, found \"ab\"");
  fields = Fields();
  fields.merges.clear();
  EXPECT_EQ(fields.message(), "tokenizer.ggml.merges: missing; byte-level BPE needs them");
}

}  // namespace
}  // namespace monograph
