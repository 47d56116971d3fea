// The normalizers of tokenizer.json.
#include "text/tokenizer_json_parts.h"

namespace monograph::tokenizer_json {
namespace {

std::string decoded_base64(const std::string& text, const std::string& where) {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  std::uint32_t bits = 0;
  int n_bits = 0;
  const std::size_t end = text.find_last_not_of('=') + 1;
  for (std::size_t i = 0; i < end; ++i) {
    const std::size_t digit = kDigits.find(text[i]);
    if (digit == std::string_view::npos)
      refuse(where, "expected base64, found another character at " + std::to_string(i));
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    n_bits += 6;
    if (n_bits >= 8) out += static_cast<char>(bits >> (n_bits -= 8) & 0xFF);
  }
  return out;
}

ReplaceText read_replace(const Object& part) {
  const std::string from = pattern_of(part, "String"), regex = pattern_of(part, "Regex");
  if (!from.empty()) return {from, part.text("content")};
  if (regex != " {2,}") cannot(part.where() + ": Replace of the pattern " + regex);
  return {" ", part.text("content"), /*runs=*/true};
}

}  // namespace

NormalizeStep read_normalizer(const Object& part) {
  const std::string type = part.text("type");
  if (type == "NFC") return NormalForm::kNfc;
  if (type == "NFD") return NormalForm::kNfd;
  if (type == "NFKC") return NormalForm::kNfkc;
  if (type == "NFKD") return NormalForm::kNfkd;
  if (type == "Strip") return StripSpace{part.flag_or("strip_left", true), part.flag_or("strip_right", true)};
  if (type == "Replace") return read_replace(part);
  if (type != "Precompiled") cannot(part.where() + ": " + type);
  return std::make_shared<const Charsmap>(
      decoded_base64(part.text("precompiled_charsmap"), part.where() + ".precompiled_charsmap"));
}

}  // namespace monograph::tokenizer_json
