#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "monograph/error.h"
#include "tests/text/support/tiny_vocab.h"
#include "text/tokenizer.h"

namespace monograph {
namespace {

using Json = nlohmann::ordered_json;
constexpr EncodeOptions kPlain{false, false};
constexpr EncodeOptions kParse{false, true};

Json added_json(const TokenizerSpec::AddedToken& token) {
  return {{"id", token.id},          {"content", token.content}, {"single_word", token.single_word},
          {"lstrip", token.lstrip},  {"rstrip", token.rstrip},   {"normalized", token.normalized},
          {"special", token.special}};
}

// A tiny vocabulary the way a file holds it.
Json byte_level_json() {
  const TokenizerSpec spec = tiny_byte_spec();
  Json json = {{"version", "1.0"},
               {"added_tokens", Json::array()},
               {"normalizer", nullptr},
               {"post_processor", nullptr},
               {"decoder", {{"type", "ByteLevel"}}}};
  json["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  Json vocab = Json::object(), merges = Json::array();
  for (std::size_t id = 0; id < spec.tokens.size(); ++id)
    if (spec.types[id] == TokenType::kNormal) vocab[spec.tokens[id]] = id;
  for (const auto& [left, right] : spec.merges) merges.push_back({left, right});
  for (const auto& token : spec.added) json["added_tokens"].push_back(added_json(token));
  json["model"] = {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}};
  return json;
}

// Llama 2's shape, with the merges that the scores of tiny_spm_spec() stand for.
Json spm_json() {
  const std::string mark = "\u2581";
  Json json = {{"pre_tokenizer", nullptr}, {"added_tokens", Json::array()}};
  json["normalizer"] = {{"type", "Sequence"},
                        {"normalizers",
                         {{{"type", "Prepend"}, {"prepend", mark}},
                          {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", mark}}}}};
  const TokenizerSpec spec = tiny_spm_spec();
  Json vocab = Json::object();
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) vocab[spec.tokens[id]] = id;
  for (const auto& token : spec.added) json["added_tokens"].push_back(added_json(token));
  json["model"] = {
      {"type", "BPE"},
      {"unk_token", "<unk>"},
      {"fuse_unk", true},
      {"byte_fallback", true},
      {"vocab", vocab},
      {"merges",
       {"h e", "l l", "he ll", "hell o", mark + " hello", mark + " a", mark + " b", mark + " c", mark + " " + mark}}};
  return json;
}

TokenizerSpec spec_of(const Json& json, const std::string& config = "") {
  return Tokenizer::spec_from_json(json.dump(), config);
}

std::string message_of(const Json& json, const std::string& config = "") {
  try {
    Tokenizer tokenizer(spec_of(json, config));
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(TokenizerJson, ByteLevelIsTheSameTokenizer) {
  const Tokenizer ours(tiny_byte_spec()), read(spec_of(byte_level_json()));
  EXPECT_EQ(read.vocab_size(), ours.vocab_size());
  for (const char* text : {"hello  world", "AAAAAAA", "<|im_end|>x <s>", "it's \u00e9"}) {
    EXPECT_EQ(read.encode(text, kPlain), ours.encode(text, kPlain)) << text;
    EXPECT_EQ(read.encode(text, kParse), ours.encode(text, kParse)) << text;
    EXPECT_EQ(read.decode(read.encode(text, kParse), true), text);
  }
}

TEST(TokenizerJson, SpmIsTheSameTokenizer) {
  const Tokenizer ours(tiny_spm_spec()), read(spec_of(spm_json()));
  for (const char* text : {"hello a", "  b", "\u00e9", "x</s> y", "<s>a"}) {
    EXPECT_EQ(read.encode(text, kParse), ours.encode(text, kParse)) << text;
    EXPECT_EQ(read.decode(read.encode(text, kPlain)), text);
  }
}

TEST(TokenizerJson, MetaspaceDoesNotDoubleALeadingSpace) {
  Json json = spm_json();
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "first"}, {"split", true}};
  const Tokenizer tokenizer(spec_of(json));
  EXPECT_EQ(tokenizer.encode(" a", kParse), tokenizer.encode("a", kParse));
  EXPECT_EQ(tokenizer.encode("<s>a", kParse),
            (std::vector<TokenId>{1, spm_id(tokenizer, "a")}));  // "first": no space after an added token
  EXPECT_EQ(tokenizer.encode("  ", kParse).size(), 2u);          // words are cut before merging
}

// T5's shape of today: the charsmap, then spaces are stripped and joined, then marked.
Json unigram_json() {
  const std::string mark = "\u2581";
  Json json = {{"added_tokens", Json::array()}, {"post_processor", nullptr}};
  json["normalizer"] = {{"type", "Sequence"},
                        {"normalizers",
                         {{{"type", "NFKC"}},
                          {{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}},
                          {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", mark}}}}};
  json["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", mark}, {"prepend_scheme", "always"}, {"split", true}};
  const TokenizerSpec spec = tiny_unigram_spec();
  Json vocab = Json::array();
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) vocab.push_back({spec.tokens[id], spec.scores[id]});
  for (const auto& token : spec.added) json["added_tokens"].push_back(added_json(token));
  json["model"] = {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocab}, {"byte_fallback", false}};
  return json;
}

TEST(TokenizerJson, UnigramIsTheSameTokenizer) {
  const Tokenizer ours(tiny_unigram_spec()), read(spec_of(unigram_json()));
  for (const char* text : {"a aaa", "abc=", "x</s> y", "<s>a", "\u00e9"}) {
    EXPECT_EQ(read.encode(text, kParse), ours.encode(text, kParse)) << text;
    EXPECT_EQ(read.encode(text, kPlain), ours.encode(text, kPlain)) << text;
  }
  EXPECT_EQ(read.encode("a   a  ", kPlain), ours.encode("a a", kPlain));
  EXPECT_EQ(read.encode("\uff41", kPlain), ours.encode("a", kPlain));  // NFKC
  EXPECT_TRUE(read.encode(" \t ", kPlain).empty());
}

TEST(TokenizerJson, WhatIsWrongInUnigramIsNamed) {
  struct Case {
    const char* pointer;
    Json value;
    const char* message;
  };
  const Case cases[] = {
      {"/model/vocab", Json::object(), "tokenizer.json: model.vocab: expected an array, found object"},
      {"/model/vocab/5", "a", "tokenizer.json: model.vocab[5]: expected a string and a score"},
      {"/model/vocab/5/1", "a", "tokenizer.json: model.vocab[5]: expected a string and a score"},
      {"/model/unk_id", nullptr, "tokenizer.json: model.unk_id: missing, expected a token id"},
      {"/model/unk_id", 9000, "tokenizer.json: model.unk_id: 9000 is outside the vocabulary of 273"},
      {"/normalizer/normalizers/0/type", "Lowercase",
       "tokenizer.json: normalizer.normalizers[0]: Lowercase is not supported"},
      {"/normalizer/normalizers/2/pattern/Regex", "\\s+",
       "tokenizer.json: normalizer.normalizers[2]: Replace of the pattern \\s+ is not supported"},
      {"/normalizer",
       {{"type", "Precompiled"}, {"precompiled_charsmap", "AA*A"}},
       "tokenizer.json: normalizer.precompiled_charsmap: expected base64, found another character at 2"},
      {"/normalizer",
       {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA"}},
       "tokenizer: precompiled_charsmap: expected the size of a trie, the trie and replacements that end in a zero "
       "byte, found 3 bytes that begin with the size 0"},
  };
  for (const Case& c : cases) {
    Json json = unigram_json();
    json[Json::json_pointer(c.pointer)] = c.value;
    EXPECT_EQ(message_of(json), c.message) << c.pointer;
  }
}

TEST(TokenizerJson, FamiliesAreKnownByTheirPattern) {
  const auto with_split = [](const std::string& regex) {
    Json json = byte_level_json();
    json["pre_tokenizer"] = {
        {"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}},
          {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
    return json;
  };
  const std::string head = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|";
  const std::string tail = "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  EXPECT_EQ(spec_of(with_split(head + "\\p{N}{1,3}" + tail)).pre, "llama-bpe");
  EXPECT_EQ(spec_of(with_split(head + "\\p{N}" + tail)).pre, "qwen2");
  EXPECT_EQ(spec_of(byte_level_json()).pre, "gpt-2");
  EXPECT_EQ(message_of(with_split("\\w+")),
            "tokenizer.json: pre_tokenizer.pretokenizers[0]: the pattern \\w+ is not supported");
}

TEST(TokenizerJson, PostProcessorSaysWhetherBosIsAdded) {
  Json json = byte_level_json();
  const TokenId bos = *tiny_byte_spec().bos;
  const Json single = {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
                       {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}};
  const Json part = {{"type", "TemplateProcessing"},
                     {"single", single},
                     {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {bos}}, {"tokens", {"<s>"}}}}}}};
  json["post_processor"] = {{"type", "Sequence"}, {"processors", {{{"type", "ByteLevel"}}, part}}};
  EXPECT_EQ(Tokenizer(spec_of(json)).encode("A").front(), bos);
  EXPECT_EQ(Tokenizer(spec_of(json, R"({"add_bos_token": false})")).encode("A").size(), 1u);
  EXPECT_EQ(message_of(byte_level_json(), R"({"add_bos_token": true})"), "accepted");  // there is no BOS to add
}

TEST(TokenizerJson, ConfigNamesSpecialTokensAndAddsLateOnes) {
  const std::string config = R"({"bos_token": {"content": "<s>"}, "eos_token": "<|im_end|>", "pad_token": "<pad>",
                                 "added_tokens_decoder": {"269": {"content": "<pad>", "special": true}}})";
  const TokenizerSpec spec = spec_of(byte_level_json(), config);
  EXPECT_EQ(spec.bos, token_id(spec, "<s>"));
  EXPECT_EQ(spec.eos, token_id(spec, "<|im_end|>"));
  EXPECT_EQ(spec.pad, 269);
  EXPECT_EQ(spec.eog, (std::vector<TokenId>{*spec.eos}));
  EXPECT_EQ(Tokenizer(spec).encode("<pad>", kParse), (std::vector<TokenId>{269}));
}

TEST(TokenizerJson, NfcNormalisesTextAndNormalisedTokens) {
  Json json = byte_level_json();
  json["normalizer"] = {{"type", "NFC"}};
  json["added_tokens"].push_back({{"id", 300}, {"content", "e\u0301"}, {"normalized", true}, {"special", false}});
  const Tokenizer tokenizer(spec_of(json));
  EXPECT_EQ(tokenizer.encode("\u00e9", kPlain), (std::vector<TokenId>{300}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a\u0301", kPlain)), "\u00e1");
}

TEST(TokenizerJson, WhatIsWrongIsNamed) {
  struct Case {
    const char* pointer;
    Json value;
    const char* message;
  };
  const Case cases[] = {
      {"/model/type", "WordPiece", "tokenizer.json: model type \"WordPiece\" is not supported"},
      {"/model/vocab", 5, "tokenizer.json: model.vocab: expected an object, found number"},
      {"/model/vocab/h", -1, "tokenizer.json: model.vocab: token id -1 is outside 0 to 16777215"},
      {"/model/vocab/h", 5000000,
       "tokenizer.json: model.vocab: the highest id is 5000000, but there are only 269 entries"},
      {"/model/vocab/h", 3, "tokenizer.json: model.vocab: id 3 is both"},
      {"/model/vocab/h", "x", "tokenizer.json: model.vocab: expected a token id, found string"},
      {"/model/merges/0", 7, "tokenizer.json: model.merges[0]: expected a pair of strings"},
      {"/model/merges/0", "a b c",
       "tokenizer.json: model.merges[0]: expected two parts with a space between, found \"a b c\""},
      {"/model/merges/0", {"zz", "z"}, "tokenizer merges[0]: \"zzz\" is not in the vocabulary"},
      {"/model/byte_fallback", "yes", "tokenizer.json: model.byte_fallback: expected true or false, found string"},
      {"/model/end_of_word_suffix", "</w>", "tokenizer.json: model.end_of_word_suffix is not supported"},
      {"/pre_tokenizer/type", "Whitespace", "tokenizer.json: pre_tokenizer: Whitespace is not supported"},
      {"/pre_tokenizer/add_prefix_space", true,
       "tokenizer.json: pre_tokenizer: ByteLevel with add_prefix_space is not supported"},
      {"/normalizer",
       {{"type", "Lowercase"}},
       "tokenizer.json: normalizer: Lowercase before byte-level BPE is not supported"},
      {"/normalizer", {{"kind", 1}}, "tokenizer.json: normalizer.type: missing, expected a string"},
      {"/post_processor",
       {{"type", "BertProcessing"}},
       "tokenizer.json: post_processor: BertProcessing is not supported"},
      {"/added_tokens/0/content", "", "tokenizer.json: added_tokens[0].content: is empty"},
      {"/added_tokens/0/id", 1.5, "tokenizer.json: added_tokens.id: expected a token id, found number"},
  };
  for (const Case& c : cases) {
    Json json = byte_level_json();
    json[Json::json_pointer(c.pointer)] = c.value;
    EXPECT_EQ(message_of(json).substr(0, std::string(c.message).size()), c.message) << c.pointer;
  }
  EXPECT_EQ(message_of(Json::array()), "tokenizer.json: expected an object, found array");
}

TEST(TokenizerJson, BrokenFilesAreErrors) {
  const unsigned seed = 7;
  std::mt19937 random(seed);
  const std::string good[] = {byte_level_json().dump(), spm_json().dump(), unigram_json().dump()};
  for (int round = 0; round < 400; ++round) {
    std::string text = good[round % 3];
    for (unsigned i = 0; i <= random() % 4; ++i) {
      const std::size_t at = random() % text.size();
      if (random() % 3 == 0)
        text.erase(at, random() % 50);
      else
        text[at] = "{}[]\",:0x\\-e\xff "[random() % 15];
    }
    try {
      const Tokenizer tokenizer(Tokenizer::spec_from_json(text, ""));
      tokenizer.encode("hello world <|im_end|> \xff");
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::kUnreadableFile || error.code() == ErrorCode::kUnsupported)
          << error.what() << " seed " << seed << " round " << round;
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace monograph
