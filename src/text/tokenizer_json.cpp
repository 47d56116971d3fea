// tokenizer.json and tokenizer_config.json of Hugging Face, into a TokenizerSpec. What they ask for and we do not do is
// refused by name: a tokenizer that is nearly right is worse than none.
#include <algorithm>
#include <map>

#include "base/json.h"
#include "monograph/error.h"
#include "text/tokenizer.h"
#include "text/tokenizer_eog.h"
#include "text/tokenizer_json_parts.h"
#include "text/tokenizer_models.h"

namespace monograph {
namespace {

using namespace tokenizer_json;

constexpr std::string_view kSpaceMark = "\u2581";

// The parts of a component that may be absent, one, or a Sequence of several (which may nest).
std::vector<Object> flatten(const Object& root, const std::string& key, const std::string& list) {
  std::vector<Object> out;
  const Json* value = root.find(key);
  if (!value) return out;
  const Object whole(*value, key);
  if (whole.text("type") != "Sequence") return {whole};
  const std::string place = key + "." + list;
  for (const Json& part : whole.array(list)) {
    const Object object(part, place + "[" + std::to_string(out.size()) + "]");
    if (object.text("type") == "Sequence") cannot(object.where() + ": a Sequence inside a Sequence");
    out.push_back(object);
  }
  return out;
}

bool replaces_spaces(const Object& part) {
  return part.text("type") == "Replace" && pattern_of(part, "String") == " " && part.text("content") == kSpaceMark;
}

struct Pattern {
  std::string_view regex, pre;
};
constexpr Pattern kPatterns[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", "gpt-2"},
    {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", "gpt-2"},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     "llama-bpe"},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     "qwen2"},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     "qwen35"},
};

std::string split_family(const Object& part) {
  const std::string regex = pattern_of(part, "Regex");
  const std::string behavior = part.text("behavior");
  const bool keeps_pieces = (behavior == "Isolated" && !part.flag_or("invert", false)) ||
                            (behavior == "Removed" && part.flag_or("invert", false));
  if (!keeps_pieces) cannot(part.where() + ": Split with behavior " + behavior);
  for (const Pattern& known : kPatterns)
    if (known.regex == regex) return std::string(known.pre);
  cannot(part.where() + ": the pattern " + regex);
}

// The pre-tokenizers of byte-level models end in ByteLevel; before it may stand one that cuts.
std::string byte_level_family(const std::vector<Object>& parts) {
  const Object& last = parts.back();
  if (last.flag_or("add_prefix_space", true)) cannot(last.where() + ": ByteLevel with add_prefix_space");
  const bool own_regex = last.flag_or("use_regex", true);
  if (parts.size() == 1 && own_regex) return "gpt-2";
  if (parts.size() != 2) cannot("pre_tokenizer: this Sequence of " + std::to_string(parts.size()) + " parts");
  const std::string type = parts[0].text("type");
  if (type == "Digits" && parts[0].flag_or("individual_digits", false) && own_regex) return "starcoder";
  if (type == "Split" && !own_regex) return split_family(parts[0]);
  cannot(parts[0].where() + ": " + type + " before ByteLevel");
}

void read_byte_level(TokenizerSpec& spec, const std::vector<Object>& pre, const std::vector<Object>& normalizers) {
  spec.model = TokenizerModel::kByteBpe;
  spec.pre = byte_level_family(pre);
  spec.add_space_prefix = false;
  for (const Object& part : normalizers) {
    if (part.text("type") != "NFC") cannot(part.where() + ": " + part.text("type") + " before byte-level BPE");
    spec.normalizers = {NormalForm::kNfc};
  }
}

void read_metaspace(TokenizerSpec& spec, const Object& part) {
  if (part.text("replacement") != kSpaceMark) cannot(part.where() + ": another mark than U+2581");
  const std::string scheme =
      part.text_or("prepend_scheme", part.flag_or("add_prefix_space", true) ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never") cannot(part.where() + ": prepend_scheme " + scheme);
  spec.metaspace = true;
  spec.split_words = part.flag_or("split", true);
  spec.add_space_prefix = scheme != "never";
  spec.space_prefix_first_only = scheme == "first";
}

void read_spm(TokenizerSpec& spec, const std::vector<Object>& pre, const std::vector<Object>& normalizers) {
  spec.add_space_prefix = false;
  bool marks_spaces = false;
  for (const Object& part : normalizers) {
    const bool prepends = part.text("type") == "Prepend" && part.text("prepend") == kSpaceMark;
    if (prepends) {
      spec.add_space_prefix = true;
    } else if (replaces_spaces(part)) {
      marks_spaces = true;
    } else {
      if (marks_spaces || spec.add_space_prefix) cannot(part.where() + ": " + part.text("type") + " of marked spaces");
      spec.normalizers.push_back(read_normalizer(part));
    }
  }
  for (const Object& part : pre) {
    const std::string type = part.text("type");
    // Spaces are gone by then, so a Split at spaces (Gemma) cuts nothing.
    if (type == "Split" && marks_spaces && pattern_of(part, "String") == " ") continue;
    if (type == "WhitespaceSplit" && !marks_spaces && !spec.split_at_spaces) {
      spec.split_at_spaces = true;
      continue;
    }
    if (type != "Metaspace" || marks_spaces) cannot(part.where() + ": " + type);
    read_metaspace(spec, part);
    marks_spaces = true;
  }
  if (!marks_spaces) cannot("a vocabulary without ByteLevel, Metaspace or a Replace of spaces by U+2581");
}

void put_token(TokenizerSpec& spec, TokenId id, const std::string& content, TokenType type, const std::string& where) {
  std::string& entry = spec.tokens[id];
  if (!entry.empty() && entry != content)
    refuse(where, "id " + std::to_string(id) + " is both \"" + entry + "\" and \"" + content + "\"");
  entry = content;
  spec.types[id] = type;
}

// Ids may have gaps, but a small file may not ask for a large vocabulary.
void make_room(TokenizerSpec& spec, TokenId max_id, std::size_t n_entries) {
  if (static_cast<std::size_t>(max_id) >= 2 * n_entries + 4096)
    refuse("model.vocab", "the highest id is " + std::to_string(max_id) + ", but there are only " +
                              std::to_string(n_entries) + " entries");
  spec.tokens.resize(max_id + 1);
  spec.types.resize(max_id + 1, TokenType::kUnused);
}

void read_vocab(TokenizerSpec& spec, const Json& vocab, const Json* added) {
  TokenId max_id = -1;
  for (const auto& [entry, id] : vocab.items()) max_id = std::max(max_id, Object::id_of(id, "model.vocab"));
  std::size_t n_entries = vocab.size();
  if (added) {
    n_entries += added->size();
    for (const Json& token : *added) max_id = std::max(max_id, Object(token, "added_tokens").id("id"));
  }
  if (max_id < 0) refuse("model.vocab", "is empty");
  make_room(spec, max_id, n_entries);
  for (const auto& [entry, value] : vocab.items()) {
    const bool is_byte = spec.model == TokenizerModel::kSpmBpe && spec.byte_fallback && spm_byte_value(entry) >= 0;
    put_token(spec, value.get<TokenId>(), entry, is_byte ? TokenType::kByte : TokenType::kNormal, "model.vocab");
  }
}

// [["<unk>", 0.0], ["\u2581", -2.5], ...]: the place is the id.
void read_unigram_vocab(TokenizerSpec& spec, const Object& model, const Json& added) {
  const Json& vocab = model.array("vocab");
  TokenId max_id = static_cast<TokenId>(vocab.size()) - 1;
  for (const Json& token : added) max_id = std::max(max_id, Object(token, "added_tokens").id("id"));
  if (vocab.empty()) refuse("model.vocab", "is empty");
  make_room(spec, max_id, vocab.size() + added.size());
  spec.scores.resize(spec.tokens.size());
  for (std::size_t i = 0; i < vocab.size(); ++i) {
    const Json& entry = vocab[i];
    const std::string where = "model.vocab[" + std::to_string(i) + "]";
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
      refuse(where, "expected a string and a score");
    const auto text = entry[0].get<std::string>();
    const bool is_byte = spec.byte_fallback && spm_byte_value(text) >= 0;
    put_token(spec, static_cast<TokenId>(i), text, is_byte ? TokenType::kByte : TokenType::kNormal, where);
    spec.scores[i] = entry[1].get<double>();
  }
  const TokenId unk = model.id("unk_id");
  if (static_cast<std::size_t>(unk) >= vocab.size())
    refuse("model.unk_id", std::to_string(unk) + " is outside the vocabulary of " + std::to_string(vocab.size()));
  spec.unk = unk;
  spec.types[unk] = TokenType::kUnknown;
}

void read_merges(TokenizerSpec& spec, const Json& merges) {
  spec.merges.reserve(merges.size());
  for (const Json& merge : merges) {
    const std::string where = "model.merges[" + std::to_string(spec.merges.size()) + "]";
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      spec.merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
    } else if (merge.is_string()) {
      const auto& text = merge.get_ref<const std::string&>();
      const std::size_t space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
        refuse(where, "expected two parts with a space between, found \"" + text + "\"");
      spec.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    } else {
      refuse(where, "expected a pair of strings");
    }
  }
}

void read_model(TokenizerSpec& spec, const Object& model) {
  const std::string type = model.text_or("type", model.find("merges") ? "BPE" : "");
  if (type != "BPE" && type != "Unigram") cannot("model type \"" + type + "\"");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!model.text_or(key, "").empty()) cannot("model." + std::string(key));
  spec.model = type == "BPE" ? TokenizerModel::kSpmBpe : TokenizerModel::kUnigram;
  spec.ignore_merges = model.flag_or("ignore_merges", false);
  spec.byte_fallback = model.flag_or("byte_fallback", false);
  spec.fuse_unk = model.flag_or("fuse_unk", false);
}

void read_added(TokenizerSpec& spec, const Json& list) {
  for (const Json& json : list) {
    const Object token(json, "added_tokens[" + std::to_string(spec.added.size()) + "]");
    const std::string content = token.text("content");
    const bool special = token.flag_or("special", false);
    const TokenId id = token.id("id");
    if (content.empty()) refuse(token.where() + ".content", "is empty");
    put_token(spec, id, content, special ? TokenType::kControl : TokenType::kUserDefined, token.where());
    spec.added.push_back({id, content, special, token.flag_or("lstrip", false), token.flag_or("rstrip", false),
                          token.flag_or("single_word", false), token.flag_or("normalized", false)});
  }
}

std::optional<TokenId> find_token(const TokenizerSpec& spec, const std::string& content) {
  for (const auto& token : spec.added)
    if (token.content == content) return token.id;
  const auto it = std::find(spec.tokens.begin(), spec.tokens.end(), content);
  return it == spec.tokens.end() ? std::nullopt : std::optional(static_cast<TokenId>(it - spec.tokens.begin()));
}

// TemplateProcessing: which tokens stand around a single sequence.
void read_template(TokenizerSpec& spec, const Object& part) {
  const Object ids = part.object("special_tokens");
  bool after = false;
  for (const Json& json : part.array("single")) {
    const Object piece(json, part.where() + ".single");
    if (piece.find("Sequence")) {
      after = true;
      continue;
    }
    const std::string name = piece.object("SpecialToken").text("id");
    const Json& list = ids.object(name).array("ids");
    bool& adds = after ? spec.add_eos : spec.add_bos;
    if (list.size() != 1 || adds) cannot(part.where() + ": more than one token before or after the text");
    const TokenId id = Object::id_of(list[0], part.where() + ".special_tokens." + name);
    if (static_cast<std::size_t>(id) >= spec.tokens.size())
      refuse(part.where() + ".special_tokens." + name, std::to_string(id) + " is outside the vocabulary");
    adds = true;
    (after ? spec.eos : spec.bos) = id;
  }
}

void read_post_processor(TokenizerSpec& spec, const Object& root) {
  for (const Object& part : flatten(root, "post_processor", "processors")) {
    const std::string type = part.text("type");
    if (type == "TemplateProcessing")
      read_template(spec, part);
    else if (type != "ByteLevel")
      cannot(part.where() + ": " + type);
  }
}

// A special token of tokenizer_config.json: a string, or an object with its content.
std::optional<TokenId> configured_token(const TokenizerSpec& spec, const Object& config, const std::string& key) {
  const Json* value = config.find(key);
  if (!value) return std::nullopt;
  const std::string content = value->is_object() ? Object(*value, key).text("content") : config.text(key);
  return find_token(spec, content);
}

void read_config(TokenizerSpec& spec, const Object& config) {
  const auto take = [&](std::optional<TokenId>& slot, const char* key) {
    if (const auto id = configured_token(spec, config, key)) slot = id;
  };
  take(spec.bos, "bos_token");
  take(spec.eos, "eos_token");
  take(spec.pad, "pad_token");
  take(spec.unk, "unk_token");
  spec.add_bos = config.flag_or("add_bos_token", spec.add_bos) && spec.bos;
  spec.add_eos = config.flag_or("add_eos_token", spec.add_eos) && spec.eos;
}

// Tokens that only tokenizer_config.json knows: {"32000": {"content": "<|im_start|>", ...}}.
Json later_added(const Object& root, const Object* config) {
  Json list = root.find("added_tokens") ? root.array("added_tokens") : Json::array();
  if (!config || !config->find("added_tokens_decoder")) return list;
  std::map<std::int64_t, bool> known;
  for (const Json& token : list) known[Object(token, "added_tokens").id("id")] = true;
  for (const auto& [key, token] : config->raw_object("added_tokens_decoder").items()) {
    const bool is_id = !key.empty() && key.size() < 9 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!is_id || !token.is_object()) refuse("added_tokens_decoder", "expected ids and objects, found \"" + key + "\"");
    if (known.contains(std::stol(key))) continue;
    Json entry = token;
    entry["id"] = std::stol(key);
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

TokenizerSpec Tokenizer::spec_from_json(std::string_view tokenizer_json, std::string_view tokenizer_config_json) {
  JsonLimits limits;
  limits.code = ErrorCode::kUnreadableFile;
  const Json json = parse_json(tokenizer_json, "tokenizer.json", limits);
  const Json config_json =
      tokenizer_config_json.empty() ? Json() : parse_json(tokenizer_config_json, "tokenizer_config.json", limits);
  const Object root(json, "");
  const std::optional<Object> config =
      config_json.is_null() ? std::nullopt : std::optional<Object>(std::in_place, config_json, "tokenizer_config.json");

  TokenizerSpec spec;
  const Object model = root.object("model");
  read_model(spec, model);
  const auto pre = flatten(root, "pre_tokenizer", "pretokenizers");
  const auto normalizers = flatten(root, "normalizer", "normalizers");
  const bool unigram = spec.model == TokenizerModel::kUnigram;
  const bool byte_level = !unigram && !pre.empty() && pre.back().text("type") == "ByteLevel";
  if (byte_level)
    read_byte_level(spec, pre, normalizers);
  else
    read_spm(spec, pre, normalizers);

  const Json added = later_added(root, config ? &*config : nullptr);
  if (unigram) {
    read_unigram_vocab(spec, model, added);
  } else {
    read_vocab(spec, model.raw_object("vocab"), &added);
    read_merges(spec, model.array("merges"));
  }
  read_added(spec, added);
  if (model.find("unk_token")) spec.unk = find_token(spec, model.text("unk_token"));
  read_post_processor(spec, root);
  if (config) read_config(spec, *config);
  collect_eog(spec);
  return spec;
}

}  // namespace monograph
