#include "text/tokenizer_gguf.h"

#include <algorithm>

#include "monograph/error.h"
#include "text/pretokenize.h"
#include "text/tokenizer_eog.h"

namespace monograph {
namespace {

[[noreturn]] void refuse(const std::string& key, const std::string& why) {
  throw Error(ErrorCode::kUnreadableFile, "tokenizer.ggml." + key + ": " + why);
}

std::string text_or_empty(const nlohmann::json& keys, const std::string& key) {
  const auto it = keys.find(key);
  if (it == keys.end()) return {};
  if (!it->is_string()) refuse(key, std::string("expected a string, found ") + it->type_name());
  return it->get<std::string>();
}

bool flag_or(const nlohmann::json& keys, const std::string& key, bool otherwise) {
  const auto it = keys.find(key);
  if (it == keys.end()) return otherwise;
  if (!it->is_boolean()) refuse(key, std::string("expected a bool, found ") + it->type_name());
  return it->get<bool>();
}

// An id of 2^32 - 1 is how files say "none".
std::optional<TokenId> id_or(const nlohmann::json& keys, const std::string& key, std::size_t n_tokens,
                             std::optional<TokenId> otherwise) {
  const auto it = keys.find(key);
  if (it == keys.end()) return otherwise && static_cast<std::size_t>(*otherwise) < n_tokens ? otherwise : std::nullopt;
  if (!it->is_number_integer()) refuse(key, std::string("expected a token id, found ") + it->type_name());
  const auto value = it->get<std::int64_t>();
  if (value == 0xFFFFFFFF || value == -1) return std::nullopt;
  if (value < 0 || value >= static_cast<std::int64_t>(n_tokens))
    refuse(key, std::to_string(value) + " is outside the vocabulary of " + std::to_string(n_tokens) + " tokens");
  return static_cast<TokenId>(value);
}

std::vector<TokenType> read_types(const std::vector<int>& types, std::size_t n_tokens) {
  if (types.empty()) return std::vector<TokenType>(n_tokens, TokenType::kNormal);
  if (types.size() != n_tokens)
    refuse("token_type", "expected " + std::to_string(n_tokens) + " values, found " + std::to_string(types.size()));
  std::vector<TokenType> out;
  out.reserve(n_tokens);
  for (const int type : types) {
    if (type < 0 || type > 6) refuse("token_type", "unknown type " + std::to_string(type));
    out.push_back(type == 0 ? TokenType::kNormal : static_cast<TokenType>(type));
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> read_merges(const std::vector<std::string>& merges) {
  std::vector<std::pair<std::string, std::string>> out;
  out.reserve(merges.size());
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const std::size_t space = merges[i].find(' ', 1);
    if (space == std::string::npos || space + 1 == merges[i].size())
      refuse("merges[" + std::to_string(i) + "]",
             "expected two parts with a space between, found \"" + to_valid_utf8(merges[i]) + "\"");
    out.emplace_back(merges[i].substr(0, space), merges[i].substr(space + 1));
  }
  return out;
}

void read_byte_bpe(TokenizerSpec& spec, const nlohmann::json& keys, const std::vector<std::string>& merges) {
  spec.model = TokenizerModel::kByteBpe;
  spec.pre = text_or_empty(keys, "pre");
  const auto family = find_pre_tokenizer(spec.pre);  // Tokenizer refuses what is not known, by name
  if (family && family->nfc) spec.normalizers = {NormalForm::kNfc};
  spec.ignore_merges = family && family->ignore_merges;
  spec.add_space_prefix = false;
  spec.merges = read_merges(merges);
  if (spec.merges.empty()) refuse("merges", "missing; byte-level BPE needs them");
  spec.add_bos = flag_or(keys, "add_bos_token", family && family->add_bos && spec.bos);
  spec.add_eos = flag_or(keys, "add_eos_token", false);
}

// Phi-3's special tokens swallow the white space behind them; its GGUF files cannot say so.
bool is_phi3(const TokenizerSpec& spec) {
  return std::find(spec.tokens.begin(), spec.tokens.end(), "<|placeholder1|>") != spec.tokens.end() &&
         std::find(spec.tokens.begin(), spec.tokens.end(), "<|assistant|>") != spec.tokens.end();
}

void read_spm(TokenizerSpec& spec, const nlohmann::json& keys) {
  spec.model = TokenizerModel::kSpmBpe;
  spec.byte_fallback = true;
  spec.add_space_prefix = flag_or(keys, "add_space_prefix", true);
  if (spec.scores.size() != spec.tokens.size())
    refuse("scores",
           "expected " + std::to_string(spec.tokens.size()) + " values, found " + std::to_string(spec.scores.size()));
  spec.add_bos = flag_or(keys, "add_bos_token", spec.bos.has_value());
  spec.add_eos = flag_or(keys, "add_eos_token", false);
}

std::vector<NormalizeStep> read_charsmap(const nlohmann::json& keys) {
  const auto map = keys.find("precompiled_charsmap");
  if (map == keys.end()) return {};
  if (!map->is_binary()) refuse("precompiled_charsmap", std::string("expected bytes, found ") + map->type_name());
  const auto& bytes = map->get_binary();
  if (bytes.empty()) return {};
  const std::string_view blob(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return {std::make_shared<const Charsmap>(blob)};
}

// As the tokenizer.json of these models has it: words between white space, each with a mark in front.
void read_unigram(TokenizerSpec& spec, const nlohmann::json& keys) {
  read_spm(spec, keys);
  spec.model = TokenizerModel::kUnigram;
  spec.normalizers = read_charsmap(keys);
  spec.split_at_spaces = flag_or(keys, "remove_extra_whitespaces", true);
  spec.metaspace = spec.split_words = true;
  spec.add_eos = flag_or(keys, "add_eos_token", spec.eos.has_value());
}

void collect_added(TokenizerSpec& spec) {
  const bool strips = spec.model == TokenizerModel::kSpmBpe && is_phi3(spec);
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
    const TokenType type = spec.types[id];
    const bool special = type == TokenType::kControl || type == TokenType::kUnknown;
    if (!special && type != TokenType::kUserDefined) continue;
    const std::string& text = spec.tokens[id];
    const bool rstrip = strips && text != "<unk>" && text != "<s>" && text != "<|endoftext|>";
    spec.added.push_back({static_cast<TokenId>(id), text, special, false, rstrip, false, false});
  }
}

}  // namespace

TokenizerSpec spec_from_gguf(const nlohmann::json& keys, std::vector<std::string> tokens, std::vector<float> scores,
                             const std::vector<int>& types, const std::vector<std::string>& merges) {
  if (!keys.is_object()) throw Error(ErrorCode::kUnreadableFile, "tokenizer.ggml: the file describes no tokenizer");
  const std::string model = text_or_empty(keys, "model");
  const bool spm = model == "llama", unigram = model == "t5";
  if (model != "gpt2" && !spm && !unigram)
    throw Error(ErrorCode::kUnsupported,
                "tokenizer.ggml.model: \"" + to_valid_utf8(model) +
                    "\" is not supported; gpt2 (byte-level BPE), llama (SPM-style BPE) and t5 (unigram) are");
  const std::size_t n = tokens.size();
  TokenizerSpec spec;
  spec.tokens = std::move(tokens);
  spec.types = read_types(types, n);
  if (spm || unigram) spec.scores.assign(scores.begin(), scores.end());
  const auto id = [&](const char* key, int of_spm, int of_unigram) {
    const int otherwise = spm ? of_spm : unigram ? of_unigram : -1;
    return id_or(keys, key, n, otherwise >= 0 ? std::optional<TokenId>(otherwise) : std::nullopt);
  };
  spec.bos = id("bos_token_id", 1, -1);
  spec.eos = id("eos_token_id", 2, 1);
  spec.unk = id("unknown_token_id", 0, 2);
  spec.eot = id("eot_token_id", -1, -1);
  spec.pad = id("padding_token_id", -1, -1);
  if (const auto eom = id("eom_token_id", -1, -1)) spec.eog.push_back(*eom);
  if (spm)
    read_spm(spec, keys);
  else if (unigram)
    read_unigram(spec, keys);
  else
    read_byte_bpe(spec, keys, merges);
  collect_eog(spec);
  collect_added(spec);
  return spec;
}

}  // namespace monograph
