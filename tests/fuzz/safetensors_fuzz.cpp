// Any bytes as a safetensors file: tensors that lie inside it, or an Error.
#include <cstdlib>
#include <span>

#include "model/safetensors.h"
#include "monograph/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace monograph;
  auto file = memory_file(std::as_bytes(std::span(data, size)), "fuzz.safetensors");
  try {
    const FileReader& reader = *file;
    auto entries = read_safetensors_header(reader);
    TensorStore store;
    store.add_file(std::move(file), std::move(entries));
    for (const TensorEntry& entry : store.entries())
      if (static_cast<std::int64_t>(store.read(entry).bytes.size()) != entry.bytes) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
