// Any bytes as tokenizer.json and tokenizer_config.json (split at the first zero byte): a tokenizer, or an Error.
// Seeds: build/fuzz/corpus/tokenizer_json, from .cache/test-data/tokenizers cut to a few hundred tokens.
#include <cstdlib>

#include "monograph/error.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace monograph;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = std::min(input.find('\0'), size);
  try {
    const Tokenizer tokenizer(
        Tokenizer::spec_from_json(input.substr(0, cut), cut < size ? input.substr(cut + 1) : std::string_view()));
    // What was accepted is safe to use.
    for (const bool parse : {false, true})
      for (const TokenId id : tokenizer.encode("Hello  w\xc3\xb6rld 42!\n\xff <s></s>\xe2\x96\x81", {true, parse}))
        if (id < 0 || id >= tokenizer.vocab_size()) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
