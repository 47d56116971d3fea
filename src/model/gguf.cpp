#include "model/gguf.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "monograph/error.h"

namespace monograph {

static_assert(std::endian::native == std::endian::little, "GGUF and safetensors are read as little-endian bytes");

namespace {

constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr std::uint64_t kMaxKeyBytes = 65535, kMaxNameBytes = 64;
constexpr std::uint64_t kMaxAlignment = 1 << 20;
constexpr int kMaxArrayDepth = 4;
constexpr std::uint32_t kMaxDims = 4;
// The least bytes that an item can take in the file: a count that needs more than the file has left is refused at once.
constexpr std::int64_t kLeastKeyBytes = 8 + 4 + 1, kLeastTensorBytes = 8 + 4 + 8 + 4 + 8;

// Bytes of one number, 0 for strings, arrays and unknown types.
int number_bytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    default:
      return 0;
  }
}

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Tensor types by their number in the file. Names of types that are not read here make the message useful.
struct TensorType {
  std::uint32_t number;
  const char* name;
  std::optional<DType> dtype;
};
constexpr TensorType kTensorTypes[] = {
    {0, "F32", DType::kF32},
    {1, "F16", DType::kF16},
    {2, "Q4_0", DType::kQ4_0},
    {3, "Q4_1", DType::kQ4_1},
    {6, "Q5_0", DType::kQ5_0},
    {7, "Q5_1", DType::kQ5_1},
    {8, "Q8_0", DType::kQ8_0},
    {9, "Q8_1", {}},
    {10, "Q2_K", {}},
    {11, "Q3_K", {}},
    {12, "Q4_K", DType::kQ4_K},
    {13, "Q5_K", DType::kQ5_K},
    {14, "Q6_K", DType::kQ6_K},
    {15, "Q8_K", {}},
    {16, "IQ2_XXS", {}},
    {17, "IQ2_XS", {}},
    {18, "IQ3_XXS", {}},
    {19, "IQ1_S", {}},
    {20, "IQ4_NL", {}},
    {21, "IQ3_S", {}},
    {22, "IQ2_S", {}},
    {23, "IQ4_XS", {}},
    {24, "I8", {}},
    {25, "I16", {}},
    {26, "I32", DType::kI32},
    {27, "I64", {}},
    {28, "F64", {}},
    {29, "IQ1_M", {}},
    {30, "BF16", DType::kBF16},
    {34, "TQ1_0", {}},
    {35, "TQ2_0", {}},
    {39, "MXFP4", {}},
};

/// Reads forward through a file, 64 KB at a time, and never past its end.
class Cursor {
 public:
  explicit Cursor(const FileReader& file) : file_(file) {}

  std::int64_t at() const { return at_; }
  std::int64_t left() const { return file_.size() - at_; }

  void bytes(std::span<std::byte> out, std::string_view what) {
    if (static_cast<std::uint64_t>(left()) < out.size()) fail_end(out.size(), what);
    const auto skipped = static_cast<std::size_t>(at_ - window_at_);
    if (skipped <= window_.size() && out.size() <= window_.size() - skipped) {
      if (!out.empty()) std::memcpy(out.data(), window_.data() + skipped, out.size());
    } else if (out.size() >= kWindowBytes) {
      file_.read(at_, out, what);
    } else {
      fill(what);
      std::memcpy(out.data(), window_.data(), out.size());
    }
    at_ += static_cast<std::int64_t>(out.size());
  }

  template <typename T>
  T number(std::string_view what) {
    std::byte raw[sizeof(T)];
    bytes(raw, what);
    return load<T>(raw);
  }

  std::string string(std::uint64_t max_bytes, std::string_view what) {
    const auto length = number<std::uint64_t>(what);
    if (length > max_bytes)
      fail(std::string(what) + ": its length is " + std::to_string(length) + " bytes, expected at most " +
           std::to_string(max_bytes));
    if (length > static_cast<std::uint64_t>(left())) fail_end(length, what);
    std::string text(static_cast<std::size_t>(length), '\0');
    bytes(std::as_writable_bytes(std::span(text)), what);
    return text;
  }

  [[noreturn]] void fail(const std::string& message, ErrorCode code = ErrorCode::kUnreadableFile) const {
    throw Error(code, file_.path() + ": " + message);
  }
  [[noreturn]] void fail_end(std::uint64_t wanted, std::string_view what) const {
    fail(std::string(what) + ": needs " + std::to_string(wanted) + " bytes at offset " + std::to_string(at_) +
         ", the file has " + std::to_string(left()) + " left");
  }

 private:
  static constexpr std::size_t kWindowBytes = 65536;

  void fill(std::string_view what) {
    const auto n = std::min(static_cast<std::int64_t>(kWindowBytes), left());
    window_.resize(static_cast<std::size_t>(n));
    window_at_ = at_;
    file_.read(at_, window_, what);
  }

  const FileReader& file_;
  std::int64_t at_ = 0, window_at_ = 0;
  std::vector<std::byte> window_;
};

class HeaderParser {
 public:
  explicit HeaderParser(const FileReader& file) : in_(file), file_bytes_(file.size()) {}

  GgufHeader parse() {
    version();
    const std::uint64_t n_tensors = count("tensor count", kLeastTensorBytes);
    const std::uint64_t n_keys = count("key count", kLeastKeyBytes);
    for (std::uint64_t i = 0; i < n_keys; ++i) key_value(i, n_keys);
    for (std::uint64_t i = 0; i < n_tensors; ++i) tensor(i, n_tensors);
    place_tensors(alignment());
    return std::move(out_);
  }

 private:
  void version() {
    if (in_.number<std::uint32_t>("magic") != kMagic) in_.fail("not a GGUF file: expected it to begin with GGUF");
    const auto version = in_.number<std::uint32_t>("version");
    if (version == 2 || version == 3) {
      out_.version = static_cast<int>(version);
      return;
    }
    if ((version & 0xffff) == 0 && version != 0)
      in_.fail("a big-endian GGUF file; only little-endian files are read", ErrorCode::kUnsupported);
    in_.fail("GGUF version " + std::to_string(version) + "; versions 2 and 3 are read", ErrorCode::kUnsupported);
  }

  std::uint64_t count(const char* what, std::int64_t least_bytes) {
    const auto n = in_.number<std::uint64_t>(what);
    if (n > static_cast<std::uint64_t>(in_.left() / least_bytes))
      in_.fail(std::string(what) + ": " + std::to_string(n) + " cannot fit into the " + std::to_string(in_.left()) +
               " bytes that follow");
    return n;
  }

  void key_value(std::uint64_t i, std::uint64_t n) {
    const std::string where = "key " + std::to_string(i + 1) + " of " + std::to_string(n);
    std::string key = in_.string(kMaxKeyBytes, where);
    if (key.empty()) in_.fail(where + ": its name is empty");
    const std::string what = "key " + printable(key);
    const GgufType type = value_type(what);
    GgufValue value = this->value(type, what);
    if (!out_.metadata.emplace(std::move(key), std::move(value)).second) in_.fail("duplicate " + what);
  }

  GgufType value_type(const std::string& what) {
    const auto number = in_.number<std::uint32_t>(what);
    if (number > static_cast<std::uint32_t>(GgufType::kF64))
      in_.fail(what + ": unknown value type " + std::to_string(number) + ", expected 0 to 12");
    return static_cast<GgufType>(number);
  }

  GgufValue value(GgufType type, const std::string& what) {
    switch (type) {
      case GgufType::kU8:
        return {type, std::uint64_t{in_.number<std::uint8_t>(what)}};
      case GgufType::kU16:
        return {type, std::uint64_t{in_.number<std::uint16_t>(what)}};
      case GgufType::kU32:
        return {type, std::uint64_t{in_.number<std::uint32_t>(what)}};
      case GgufType::kU64:
        return {type, in_.number<std::uint64_t>(what)};
      case GgufType::kI8:
        return {type, std::int64_t{in_.number<std::int8_t>(what)}};
      case GgufType::kI16:
        return {type, std::int64_t{in_.number<std::int16_t>(what)}};
      case GgufType::kI32:
        return {type, std::int64_t{in_.number<std::int32_t>(what)}};
      case GgufType::kI64:
        return {type, in_.number<std::int64_t>(what)};
      case GgufType::kF32:
        return {type, double{in_.number<float>(what)}};
      case GgufType::kF64:
        return {type, in_.number<double>(what)};
      case GgufType::kBool:
        return {type, boolean(what)};
      case GgufType::kString:
        return {type, in_.string(std::numeric_limits<std::int64_t>::max(), what)};
      case GgufType::kArray:
        return {type, array(what, 1)};
    }
    in_.fail(what + ": unknown value type");
  }

  bool boolean(const std::string& what) {
    const auto byte = in_.number<std::uint8_t>(what);
    if (byte > 1) in_.fail(what + ": a bool holds " + std::to_string(byte) + ", expected 0 or 1");
    return byte == 1;
  }

  GgufArray array(const std::string& what, int depth) {
    if (depth > kMaxArrayDepth)
      in_.fail(what + ": arrays are nested deeper than " + std::to_string(kMaxArrayDepth) + " levels");
    GgufArray array{value_type(what), in_.number<std::uint64_t>(what)};
    const int bytes_each = number_bytes(array.type);
    // An element takes its own bytes, a string at least its length, an array at least its type and length.
    const std::int64_t least = bytes_each > 0 ? bytes_each : array.type == GgufType::kString ? 8 : 12;
    if (array.count > static_cast<std::uint64_t>(in_.left() / least))
      in_.fail(what + ": an array of " + std::to_string(array.count) + " " + std::string(to_string(array.type)) +
               " values cannot fit into the " + std::to_string(in_.left()) + " bytes that follow");
    if (bytes_each > 0) {
      array.packed.resize(static_cast<std::size_t>(array.count) * static_cast<std::size_t>(bytes_each));
      in_.bytes(array.packed, what);
      return array;
    }
    for (std::uint64_t i = 0; i < array.count; ++i) {
      if (array.type == GgufType::kString)
        array.strings.push_back(in_.string(std::numeric_limits<std::int64_t>::max(), what));
      else
        array.arrays.push_back(this->array(what, depth + 1));
    }
    return array;
  }

  void tensor(std::uint64_t i, std::uint64_t n) {
    const std::string where = "tensor " + std::to_string(i + 1) + " of " + std::to_string(n);
    TensorEntry entry;
    entry.name = in_.string(kMaxNameBytes, where + " (its name)");
    if (entry.name.empty()) in_.fail(where + ": its name is empty");
    const std::string what = "tensor " + printable(entry.name);
    entry.shape = dimensions(what);
    entry.dtype = tensor_type(what);
    entry.bytes = tensor_bytes(entry, what);
    entry.offset = offset(what);
    if (!names_.emplace(entry.name, i).second) in_.fail("duplicate " + what);
    out_.tensors.push_back(std::move(entry));
  }

  std::vector<std::int64_t> dimensions(const std::string& what) {
    const auto n_dims = in_.number<std::uint32_t>(what);
    if (n_dims < 1 || n_dims > kMaxDims)
      in_.fail(what + ": " + std::to_string(n_dims) + " dimensions, expected 1 to " + std::to_string(kMaxDims));
    // The file lists the fastest dimension first.
    std::vector<std::int64_t> shape(n_dims);
    for (std::size_t d = n_dims; d-- > 0;) shape[d] = static_cast<std::int64_t>(in_.number<std::uint64_t>(what));
    if (!checked_size(shape)) in_.fail(what + ": its shape " + shape_text(shape) + " is out of range");
    return shape;
  }

  DType tensor_type(const std::string& what) {
    const auto number = in_.number<std::uint32_t>(what);
    for (const TensorType& type : kTensorTypes) {
      if (type.number != number) continue;
      if (type.dtype) return *type.dtype;
      in_.fail(what + ": type " + type.name +
                   " is not supported; supported are F32, F16, BF16, I32, Q8_0, Q4_0, Q4_1, "
                   "Q5_0, Q5_1, Q4_K, Q5_K and Q6_K",
               ErrorCode::kUnsupported);
    }
    in_.fail(what + ": unknown tensor type " + std::to_string(number));
  }

  std::int64_t tensor_bytes(const TensorEntry& entry, const std::string& what) {
    const std::int64_t row = entry.shape.back(), per_block = block_weights(entry.dtype);
    if (row % per_block != 0)
      in_.fail(what + ": rows of " + std::to_string(row) + " values are no multiple of the " +
               std::to_string(per_block) + " values in a block of " + std::string(to_string(entry.dtype)));
    return *checked_size(entry.shape) / per_block * block_bytes(entry.dtype);  // At most 2^60 * 4.
  }

  // Relative to the data section; place_tensors() checks it and makes it absolute.
  std::int64_t offset(const std::string& what) {
    const auto offset = in_.number<std::uint64_t>(what);
    if (offset > static_cast<std::uint64_t>(file_bytes_))
      in_.fail(what + ": its offset " + std::to_string(offset) + " lies past the end of the file, " +
               std::to_string(file_bytes_) + " bytes");
    return static_cast<std::int64_t>(offset);
  }

  std::int64_t alignment() {
    const auto at = out_.metadata.find("general.alignment");
    if (at == out_.metadata.end()) return 32;
    const auto* value = std::get_if<std::uint64_t>(&at->second.value);
    if (value == nullptr || !std::has_single_bit(*value) || *value > kMaxAlignment)
      in_.fail("key general.alignment: expected a power of two up to " + std::to_string(kMaxAlignment) + ", found " +
               value_text(at->second));
    return static_cast<std::int64_t>(*value);
  }

  // Writers place tensors back to back in table order, each aligned; anything else is a damaged table.
  void place_tensors(std::int64_t alignment) {
    const auto aligned = [&](std::int64_t n) { return (n + alignment - 1) / alignment * alignment; };
    const std::int64_t data_at = aligned(in_.at());
    std::int64_t expected = 0;
    for (TensorEntry& entry : out_.tensors) {
      const std::string what = "tensor " + printable(entry.name);
      if (entry.offset != expected)
        in_.fail(what + ": its offset is " + std::to_string(entry.offset) + ", expected " + std::to_string(expected) +
                 " (tensors follow each other, aligned to " + std::to_string(alignment) + ")");
      const std::int64_t end =
          data_at + entry.offset + entry.bytes;  // Below 2^63: bytes <= 2^62, the rest is in the file.
      if (end > file_bytes_)
        in_.fail(what + ": the file ends " + std::to_string(end - file_bytes_) + " bytes before the tensor's " +
                 std::to_string(entry.bytes) + " bytes end");
      expected = aligned(entry.offset + entry.bytes);
      entry.offset += data_at;
    }
    if (file_bytes_ - data_at > expected)
      in_.fail(std::to_string(file_bytes_ - data_at - expected) + " bytes after the last tensor belong to none");
  }

  Cursor in_;
  std::int64_t file_bytes_;
  std::map<std::string, std::uint64_t, std::less<>> names_;
  GgufHeader out_;
};

nlohmann::json array_to_json(const GgufArray& array) {
  auto json = nlohmann::json::array();
  for (const std::string& text : array.strings) json.push_back(text);
  for (const GgufArray& inner : array.arrays) json.push_back(array_to_json(inner));
  if (number_bytes(array.type) == 0) return json;
  const bool is_real = array.type == GgufType::kF32 || array.type == GgufType::kF64;
  for (std::uint64_t i = 0; i < array.count; ++i) {
    const double number = number_at(array, i);
    if (array.type == GgufType::kBool)
      json.push_back(number != 0);
    else if (is_real || std::abs(number) > 0x1p53)
      json.push_back(number);
    else
      json.push_back(static_cast<std::int64_t>(number));
  }
  return json;
}

}  // namespace

std::string_view to_string(GgufType type) {
  constexpr std::string_view kNames[] = {"U8",   "I8",     "U16",   "I16", "U32", "I32", "F32",
                                         "BOOL", "STRING", "ARRAY", "U64", "I64", "F64"};
  return kNames[static_cast<std::size_t>(type)];
}

GgufHeader read_gguf_header(const FileReader& file) { return HeaderParser(file).parse(); }

double number_at(const GgufArray& array, std::uint64_t i) {
  const std::byte* from = array.packed.data() + i * static_cast<std::uint64_t>(number_bytes(array.type));
  switch (array.type) {
    case GgufType::kU8:
    case GgufType::kBool:
      return load<std::uint8_t>(from);
    case GgufType::kI8:
      return load<std::int8_t>(from);
    case GgufType::kU16:
      return load<std::uint16_t>(from);
    case GgufType::kI16:
      return load<std::int16_t>(from);
    case GgufType::kU32:
      return load<std::uint32_t>(from);
    case GgufType::kI32:
      return load<std::int32_t>(from);
    case GgufType::kU64:
      return static_cast<double>(load<std::uint64_t>(from));
    case GgufType::kI64:
      return static_cast<double>(load<std::int64_t>(from));
    case GgufType::kF32:
      return load<float>(from);
    case GgufType::kF64:
      return load<double>(from);
    default:
      return 0;
  }
}

nlohmann::json to_json(const GgufValue& value) {
  if (const auto* array = std::get_if<GgufArray>(&value.value)) return array_to_json(*array);
  return std::visit(
      [](const auto& plain) -> nlohmann::json {
        if constexpr (std::is_same_v<std::decay_t<decltype(plain)>, GgufArray>)
          return nullptr;
        else
          return plain;
      },
      value.value);
}

std::string value_text(const GgufValue& value) {
  if (const auto* array = std::get_if<GgufArray>(&value.value))
    return "an array of " + std::to_string(array->count) + " " + std::string(to_string(array->type));
  if (const auto* text = std::get_if<std::string>(&value.value)) return '"' + printable(*text) + '"';
  return to_json(value).dump();
}

}  // namespace monograph
