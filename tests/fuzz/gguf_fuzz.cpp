// Any bytes as a GGUF file: a value or an Error, from the header to the configuration and the vocabulary.
#include <span>

#include "model/config_gguf.h"
#include "monograph/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace monograph;
  const auto file = memory_file(std::as_bytes(std::span(data, size)), "fuzz.gguf");
  try {
    GgufHeader header = read_gguf_header(*file);
    int vocab_size = 0;
    try {
      vocab_size = config_from_gguf(header, "fuzz.gguf").vocab_size;
      generation_from_gguf(header, "fuzz.gguf");
    } catch (const Error&) {
    }
    tokenizer_from_gguf(header, vocab_size, "fuzz.gguf");
  } catch (const Error&) {
  }
  return 0;
}
