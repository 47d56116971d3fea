// Any text through encode, and any ids through the streaming decoder and a stop matcher. The first byte picks the
// vocabulary, the second says how the rest is read.
#include <cstdlib>

#include "tests/text/support/tiny_vocab.h"
#include "text/detokenizer.h"

namespace monograph {
namespace {

// Byte-level vocabularies lose nothing, whatever the bytes.
void check_text(const Tokenizer& tokenizer, std::string_view text, bool parse_special) {
  const auto ids = tokenizer.encode(text, {false, parse_special});
  if (tokenizer.spec().model == TokenizerModel::kByteBpe && tokenizer.decode(ids, true) != text) std::abort();
}

void check_stream(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool with_special) {
  Detokenizer stream(tokenizer, with_special);
  StopMatcher pieces({"hell", "lo", "\xc3\xa9", "</s>"}), whole({"hell", "lo", "\xc3\xa9", "</s>"});
  std::string joined, until_stop;
  for (const TokenId id : ids) {
    const std::string delta = stream.push(id);
    joined += delta;
    until_stop += pieces.push(delta);
  }
  const std::string rest = stream.finish();
  joined += rest;
  until_stop += pieces.push(rest);
  until_stop += pieces.finish();
  if (joined != to_valid_utf8(tokenizer.decode(ids, with_special))) std::abort();
  std::string at_once = whole.push(joined);
  at_once += whole.finish();
  if (at_once != until_stop || whole.matched() != pieces.matched()) std::abort();
}

}  // namespace
}  // namespace monograph

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace monograph;
  static const Tokenizer kTokenizers[] = {Tokenizer(tiny_byte_spec("gpt-2")), Tokenizer(tiny_byte_spec("smollm")),
                                          Tokenizer(tiny_byte_spec("llama-bpe")), Tokenizer(tiny_byte_spec("qwen35")),
                                          Tokenizer(tiny_spm_spec())};
  if (size < 2) return 0;
  const Tokenizer& tokenizer = kTokenizers[data[0] % 5];
  const bool flag = data[1] & 1;
  check_text(tokenizer, {reinterpret_cast<const char*>(data + 2), size - 2}, flag);
  std::vector<TokenId> ids;
  for (std::size_t i = 2; i + 1 < size; i += 2) ids.push_back((data[i] << 8 | data[i + 1]) % 290 - 5);
  check_stream(tokenizer, ids, flag);
  return 0;
}
