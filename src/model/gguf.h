// The header of a GGUF file: metadata and tensor table, checked against the size of the file.
// (github.com/ggml-org/ggml docs/gguf.md; versions 2 and 3, little-endian)
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "model/file_reader.h"
#include "model/tensor_store.h"

namespace monograph {

/// Value types as the file numbers them.
enum class GgufType : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};
std::string_view to_string(GgufType type);

struct GgufValue;

/// Numbers stay packed as in the file, so that an array takes no more memory than its bytes there.
struct GgufArray {
  GgufType type = GgufType::kU8;
  std::uint64_t count = 0;
  std::vector<std::byte> packed;     ///< Numbers and bools.
  std::vector<std::string> strings;  ///< Type string.
  std::vector<GgufArray> arrays;     ///< Type array.
};

struct GgufValue {
  GgufType type = GgufType::kU8;
  std::variant<std::uint64_t, std::int64_t, double, bool, std::string, GgufArray> value;
};

struct GgufHeader {
  int version = 0;
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<TensorEntry> tensors;  ///< In file order; offsets from the start of the file, bytes inside it.
};

/// Throws Error(kUnreadableFile) naming key or tensor for anything broken, Error(kUnsupported) for versions, byte order
/// and tensor types that are well-formed but not read here. Allocates no more than a small multiple of the file's size.
GgufHeader read_gguf_header(const FileReader& file);

/// Element `i` of a packed array as a number.
double number_at(const GgufArray& array, std::uint64_t i);
/// As JSON, for keys that are handed on; strings may hold any bytes.
nlohmann::json to_json(const GgufValue& value);
/// For messages: one short printable line.
std::string value_text(const GgufValue& value);

}  // namespace monograph
