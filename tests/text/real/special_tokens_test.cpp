// Special tokens and the spaces beside them, in published vocabularies. Ids by the Hugging Face tokenizers 0.23.3.
#include <gtest/gtest.h>

#include <random>

#include "tests/text/real/vocabularies.h"
#include "text/detokenizer.h"

namespace monograph {
namespace {

TEST(RealVocabulary, TK07_SpacesBesideSpecialTokens) {
  struct Case {
    const char* vocabulary;
    const char* text;
    std::vector<TokenId> ids;
  };
  const Case cases[] = {
      {"smollm2", "<s>G", {44, 99, 46, 55}},
      {"smollm2", "<s> G", {44, 99, 46, 452}},
      {"smollm2", "<|im_start|>user", {1, 4093}},
      {"smollm2", "x</s> y", {104, 9617, 99, 46, 329}},
      {"smollm2", " a<|im_end|> \n<|im_start|> b", {253, 2, 3717, 1, 278}},
      {"qwen2", "<|im_start|>user", {151644, 872}},
      {"qwen2", "x</s> y", {87, 522, 82, 29, 379}},
      {"qwen2", " a<|im_end|> \n<|im_start|> b", {264, 151645, 715, 151644, 293}},
      {"llama-spm", "<s>G", {1, 402}},
      {"llama-spm", "<s> G", {1, 29871, 402}},
      {"llama-spm", "<|im_start|>user", {529, 29989, 326, 29918, 2962, 29989, 29958, 1792}},
      {"llama-spm", "x</s> y", {921, 2, 29871, 343}},
      {"nomic-bert-moe", "<s>G", {0, 527}},  // unigram
      {"nomic-bert-moe", "<s> G", {0, 527}},
      {"nomic-bert-moe", "<|im_start|>user", {4426, 58745, 464, 454, 17137, 58745, 2740, 65918}},
      {"nomic-bert-moe", "x</s> y", {1022, 2, 113}},
      {"nomic-bert-moe", " a  b", {10, 876}},
  };
  std::string loaded;
  std::unique_ptr<Tokenizer> tokenizer;
  for (const Case& c : cases) {
    if (loaded != c.vocabulary) tokenizer = std::make_unique<Tokenizer>(vocabulary_spec(loaded = c.vocabulary));
    EXPECT_EQ(tokenizer->encode(c.text, {false, true}), c.ids) << c.vocabulary << ": " << c.text;
  }
}

TEST(RealVocabulary, TK11_NoControlTokenComesFromPlainText) {
  for (const char* name :
       {"smollm2", "llama-bpe", "qwen2", "gpt-2", "starcoder", "llama-spm", "phi-3", "nomic-bert-moe"}) {
    const Tokenizer tokenizer(vocabulary_spec(name));
    for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
      if (!tokenizer.is_control(id)) continue;
      const std::string text = "<|im_end|>\n" + tokenizer.spec().tokens[id] + "system\nX";
      for (const TokenId found : tokenizer.encode(text, {false, false}))
        ASSERT_FALSE(tokenizer.is_control(found)) << name << ": " << text;
    }
  }
}

TEST(RealVocabulary, EndsOfGeneration) {
  const auto ends = [](const char* name) {
    const TokenizerSpec spec = vocabulary_spec(name);
    std::vector<std::string> texts;
    for (const TokenId id : spec.eog) texts.push_back(spec.tokens[id]);
    return texts;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(ends("smollm2"), (Texts{"<|im_end|>", "<|endoftext|>"}));
  EXPECT_EQ(ends("llama-bpe"), (Texts{"<|end_of_text|>", "<|eot_id|>"}));
  EXPECT_EQ(ends("qwen2"), (Texts{"<|endoftext|>", "<|im_end|>"}));
  EXPECT_EQ(ends("gpt-2"), (Texts{"<|endoftext|>"}));
  EXPECT_EQ(ends("llama-spm"), (Texts{"</s>"}));
  EXPECT_EQ(ends("phi-3"), (Texts{"<|endoftext|>", "</s>", "<|end|>"}));
}

TEST(RealVocabulary, TK06_AMillionRandomIdListsStreamLikeOneShot) {
  const unsigned seed = 61;
  std::mt19937 random(seed);
  for (const char* name : {"smollm2", "llama-spm"}) {
    const Tokenizer tokenizer(vocabulary_spec(name));
    for (int round = 0; round < 500'000; ++round) {
      const bool with_special = random() % 2;
      std::vector<TokenId> ids(random() % 10);
      for (TokenId& id : ids)
        id = static_cast<TokenId>(random() % (random() % 2 ? 300 : tokenizer.vocab_size() + 2)) - 1;
      Detokenizer stream(tokenizer, with_special);
      std::string joined;
      for (const TokenId id : ids) joined += stream.push(id);
      joined += stream.finish();
      ASSERT_EQ(joined, to_valid_utf8(tokenizer.decode(ids, with_special))) << "seed " << seed << " round " << round;
    }
  }
}

}  // namespace
}  // namespace monograph
