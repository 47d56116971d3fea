// GGUF files written byte by byte, and the places of every structural field in one.
#pragma once
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace monograph::files {

template <typename T>
std::string raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}
inline std::string sized(const std::string& text) { return raw<std::uint64_t>(text.size()) + text; }

/// Value types as GGUF numbers them.
enum : std::uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

/// Writes what it is told, right or wrong.
struct GgufBuilder {
  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> dims;  ///< Fastest first, as in the file.
    std::uint32_t type = 0;
    std::uint64_t offset = 0, bytes = 0;
  };
  std::uint32_t version = 3;
  std::vector<std::string> keys;  ///< Whole key-value records.
  std::vector<Tensor> tensors;
  std::int64_t n_tensors_plus = 0, n_keys_plus = 0;

  GgufBuilder& number(const std::string& key, std::uint32_t value) { return key_raw(key, kU32, raw(value)); }
  GgufBuilder& real(const std::string& key, float value) { return key_raw(key, kF32, raw(value)); }
  GgufBuilder& text(const std::string& key, const std::string& value) { return key_raw(key, kString, sized(value)); }
  GgufBuilder& array(const std::string& key, std::uint32_t type, std::uint64_t count, const std::string& items) {
    return key_raw(key, kArray, raw(type) + raw(count) + items);
  }
  GgufBuilder& key_raw(const std::string& key, std::uint32_t type, const std::string& value) {
    keys.push_back(sized(key) + raw(type) + value);
    return *this;
  }
  /// Right after the tensor before it, aligned to 32.
  GgufBuilder& tensor(const std::string& name, std::vector<std::uint64_t> dims, std::uint32_t type,
                      std::uint64_t bytes) {
    const std::uint64_t offset = tensors.empty() ? 0 : (tensors.back().offset + tensors.back().bytes + 31) / 32 * 32;
    tensors.push_back({name, std::move(dims), type, offset, bytes});
    return *this;
  }
  GgufBuilder& f32(const std::string& name, std::vector<std::uint64_t> dims) {
    std::uint64_t bytes = 4;
    for (const auto dim : dims) bytes *= dim;
    return tensor(name, std::move(dims), 0, bytes);
  }

  std::string header() const {
    std::string out = "GGUF" + raw(version) + raw<std::uint64_t>(tensors.size() + n_tensors_plus) +
                      raw<std::uint64_t>(keys.size() + n_keys_plus);
    for (const auto& key : keys) out += key;
    for (const auto& tensor : tensors) {
      out += sized(tensor.name) + raw(static_cast<std::uint32_t>(tensor.dims.size()));
      for (const auto dim : tensor.dims) out += raw(dim);
      out += raw(tensor.type) + raw(tensor.offset);
    }
    out.resize((out.size() + 31) / 32 * 32);
    return out;
  }
  std::uint64_t data_bytes() const { return tensors.empty() ? 0 : tensors.back().offset + tensors.back().bytes; }
  std::string bytes() const { return header() + std::string(data_bytes(), '\0'); }
};

/// A whole model without a tokenizer: one layer, 2 heads of 8, width 16, `vocab` rows.
inline GgufBuilder small_llama(std::uint64_t vocab = 32) {
  GgufBuilder file;
  file.text("general.architecture", "llama").number("llama.block_count", 1).number("llama.embedding_length", 16);
  file.number("llama.feed_forward_length", 32).number("llama.context_length", 64);
  file.number("llama.attention.head_count", 2).real("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  file.f32("token_embd.weight", {16, vocab}).f32("output_norm.weight", {16}).f32("blk.0.attn_norm.weight", {16});
  for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"})
    file.f32(std::string("blk.0.") + name + ".weight", {16, 16});
  file.f32("blk.0.ffn_norm.weight", {16}).f32("blk.0.ffn_gate.weight", {16, 32}).f32("blk.0.ffn_up.weight", {16, 32});
  file.f32("blk.0.ffn_down.weight", {32, 16});
  return file;
}

/// A place in a file that holds a count, length, type, dimension or offset.
struct GgufField {
  std::size_t at;
  int bytes;
  std::string what;
};

/// Every structural field of a well-formed file.
class GgufFieldFinder {
 public:
  explicit GgufFieldFinder(const std::string& file) : file_(file) {}

  std::vector<GgufField> find() {
    at_ = 4;
    number(4, "version");
    const auto n_tensors = number(8, "tensor count"), n_keys = number(8, "key count");
    for (std::uint64_t i = 0; i < n_keys; ++i) {
      const std::string key = text("key " + std::to_string(i));
      value(number(4, key + ": type"), key);
    }
    for (std::uint64_t i = 0; i < n_tensors; ++i) {
      const std::string name = text("tensor " + std::to_string(i));
      const auto n_dims = number(4, name + ": dimensions");
      for (std::uint64_t d = 0; d < n_dims; ++d) number(8, name + ": dimension");
      number(4, name + ": tensor type");
      number(8, name + ": offset");
    }
    return fields_;
  }

 private:
  std::uint64_t number(int bytes, const std::string& what) {
    fields_.push_back({at_, bytes, what});
    std::uint64_t value = 0;
    std::memcpy(&value, file_.data() + at_, static_cast<std::size_t>(bytes));
    at_ += static_cast<std::size_t>(bytes);
    return value;
  }
  std::string text(const std::string& what) {
    const auto length = number(8, what + ": length");
    at_ += length;
    return file_.substr(at_ - length, length);
  }
  void value(std::uint64_t type, const std::string& key) {
    constexpr std::size_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (type == kString) {
      text(key);
    } else if (type == kArray) {
      const auto item = number(4, key + ": item type"), count = number(8, key + ": count");
      for (std::uint64_t i = 0; i < count; ++i) value(item, key);
    } else {
      at_ += kBytes[type];
    }
  }

  const std::string& file_;
  std::size_t at_ = 0;
  std::vector<GgufField> fields_;
};

}  // namespace monograph::files
