#include "engine/chat_prompt.h"

#include <algorithm>

#include "base/json.h"
#include "monograph/error.h"

namespace monograph {
namespace {

// User text that spells a control token is marked before the template sees it: U+FDD0 U+FDD2 goes in after the first
// byte, so the text no longer spells the token, wherever the template puts it. A U+FDD0 of the user's own becomes
// U+FDD0 U+FDD1. Both are noncharacters, meant for use inside a program. Only texts that need it are rendered this way.
constexpr std::string_view kEscape = "\xEF\xB7\x90", kOwn = "\xEF\xB7\x91", kMark = "\xEF\xB7\x92";

/// Undoes the marks. Returns whether there were any.
bool unmark(std::string_view text, std::string& out) {
  bool found = false;
  for (std::size_t at = 0; at < text.size();) {
    if (text.substr(at).starts_with(kEscape)) {
      const std::string_view next = text.substr(at + kEscape.size());
      if (next.starts_with(kMark)) {
        found = true;
        at += kEscape.size() + kMark.size();
        continue;
      }
      if (next.starts_with(kOwn)) {
        out += kEscape;
        at += kEscape.size() + kOwn.size();
        continue;
      }
    }
    out += text[at++];
  }
  return found;
}

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }

}  // namespace

ChatPrompt::ChatPrompt(std::string_view template_source, const Tokenizer& tokenizer)
    : tokenizer_(&tokenizer), template_(template_source), controls_(256) {
  const TokenizerSpec& spec = tokenizer.spec();
  if (spec.bos) bos_ = tokenizer.token_bytes(*spec.bos, true);
  if (spec.eos) eos_ = tokenizer.token_bytes(*spec.eos, true);
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if (!tokenizer.is_control(id)) continue;
    const std::string text = tokenizer.token_bytes(id, true);
    if (!text.empty()) controls_[static_cast<unsigned char>(text[0])].push_back(text);
  }
  for (auto& texts : controls_)
    std::ranges::sort(texts, [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
}

TemplateValue ChatPrompt::variables(const std::string& chat) const {
  Json value;
  try {
    value = parse_json(chat, "messages");
  } catch (const Error& e) {
    throw Error(ErrorCode::kInvalidArgument, e.what(), "messages");
  }
  if (!value.is_object() || !value.contains("messages") || !value["messages"].is_array())
    throw Error(ErrorCode::kInvalidArgument, "messages: expected an object with a list of messages", "messages");
  if (value["messages"].empty()) throw Error(ErrorCode::kInvalidArgument, "messages: the list is empty", "messages");
  if (!value.contains("add_generation_prompt")) value["add_generation_prompt"] = true;
  return value;
}

std::string ChatPrompt::render(const TemplateValue& given) const {
  TemplateValue variables = given;
  variables["bos_token"] = bos_;
  variables["eos_token"] = eos_;
  try {
    return template_.render(variables);
  } catch (const Error& e) {
    throw Error(e.code(), e.what(), e.field().empty() ? "messages" : e.field());
  }
}

std::string ChatPrompt::render(const std::string& chat) const { return render(variables(chat)); }

std::vector<TokenId> ChatPrompt::encode(const std::string& chat) const {
  TemplateValue given = variables(chat);
  if (!mark_strings(given)) return tokenizer_->encode(render(given), {.add_special = false, .parse_special = true});
  return encode_marked(render(given));
}

/// Length of the control token's text that starts at `at`, the longest one; 0 if none does.
std::size_t ChatPrompt::control_at(std::string_view text, std::size_t at) const {
  const std::string_view rest = text.substr(at);
  for (const std::string& control : controls_[static_cast<unsigned char>(rest[0])])
    if (rest.starts_with(control)) return control.size();
  return 0;
}

bool ChatPrompt::mark(std::string& text) const {
  std::size_t end = text.size();  // a template may trim, so what counts as the end is before trailing space
  while (end > 0 && is_space(text[end - 1])) --end;
  const auto begins_control = [&](std::size_t at) {
    const std::string_view rest = std::string_view(text).substr(at, end - at);
    return std::ranges::any_of(controls_[static_cast<unsigned char>(text[at])], [&](const std::string& control) {
      return std::string_view(text).substr(at).starts_with(control) ||
             (at < end && std::string_view(control).starts_with(rest));
    });
  };
  std::string marked;
  bool found = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (std::string_view(text).substr(at).starts_with(kEscape)) {
      marked.append(kEscape).append(kOwn);
      at += kEscape.size() - 1;
      found = true;
      continue;
    }
    marked += text[at];
    if (begins_control(at)) {
      marked.append(kEscape).append(kMark);
      found = true;
    }
  }
  if (found) text = std::move(marked);
  return found;
}

/// Marks all strings of the request, keys included: whatever a client sends is text.
bool ChatPrompt::mark_strings(TemplateValue& value) const {
  bool found = false;
  if (value.is_string()) return mark(value.get_ref<std::string&>());
  if (value.is_array())
    for (auto& item : value) found |= mark_strings(item);
  if (value.is_object()) {
    TemplateValue marked = TemplateValue::object();
    for (auto& [key, item] : value.items()) {
      std::string name = key;
      found |= mark(name);
      found |= mark_strings(item);
      marked[name] = std::move(item);
    }
    value = std::move(marked);
  }
  return found;
}

/// Cuts the text at the template's own control tokens. A piece between two of them that holds marks is encoded as plain
/// text; everything else as usual.
std::vector<TokenId> ChatPrompt::encode_marked(std::string_view text) const {
  std::vector<TokenId> ids;
  const auto append = [&](std::string_view piece, bool parse_special) {
    const auto more = tokenizer_->encode(piece, {.add_special = false, .parse_special = parse_special});
    ids.insert(ids.end(), more.begin(), more.end());
  };
  std::string usual;  // control tokens and pieces without marks, in one, so that they are encoded together
  const auto take_piece = [&](std::string_view piece) {
    std::string plain;
    if (!unmark(piece, plain)) {
      usual += plain;
      return;
    }
    if (!usual.empty()) append(usual, true);
    usual.clear();
    append(plain, false);
  };
  std::size_t piece_begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = control_at(text, at);
    if (length == 0) {
      ++at;
      continue;
    }
    take_piece(text.substr(piece_begin, at - piece_begin));
    usual += text.substr(at, length);
    at += length;
    piece_begin = at;
  }
  take_piece(text.substr(piece_begin));
  if (!usual.empty()) append(usual, true);
  return ids;
}

}  // namespace monograph
