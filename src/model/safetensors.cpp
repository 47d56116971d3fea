#include "model/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "model/fields.h"
#include "model/json_file.h"
#include "monograph/error.h"

namespace monograph {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // The format's own limit.
constexpr std::size_t kMaxDims = 8;

// Types of the format that exist, but that no supported model uses.
constexpr std::string_view kOtherTypes[] = {"BOOL", "U8",  "I8",      "I16",     "U16",         "U32",
                                            "F64",  "I64", "U64",     "F8_E4M3", "F8_E5M2",     "F8_E8M0",
                                            "C64",  "F4",  "F6_E2M3", "F6_E3M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ"};

[[noreturn]] void fail(const FileReader& file, const std::string& message,
                       ErrorCode code = ErrorCode::kUnreadableFile) {
  throw Error(code, file.path() + ": " + message);
}

std::string read_header_text(const FileReader& file) {
  std::array<std::byte, 8> raw;
  if (file.size() < 8) fail(file, "not a safetensors file: it has only " + std::to_string(file.size()) + " bytes");
  file.read(0, raw, "header length");
  std::uint64_t length;
  std::memcpy(&length, raw.data(), sizeof length);
  const auto left = static_cast<std::uint64_t>(file.size()) - 8;
  if (length > kMaxHeaderBytes || length > left)
    fail(file, "header length: " + std::to_string(length) + " bytes, the file has " + std::to_string(left) +
                   " left and the format allows " + std::to_string(kMaxHeaderBytes));
  std::string text(static_cast<std::size_t>(length), '\0');
  file.read(8, std::as_writable_bytes(std::span(text)), "header");
  if (!text.starts_with('{')) fail(file, "header: expected it to begin with {");
  return text;
}

void check_metadata(const FileReader& file, const nlohmann::json& metadata) {
  if (!metadata.is_object()) fail(file, "__metadata__: expected an object");
  for (const auto& [key, value] : metadata.items())
    if (!value.is_string()) fail(file, "__metadata__." + printable(key) + ": expected a string");
}

DType dtype_of(const FileReader& file, const std::string& what, const Fields& fields) {
  const std::string name = fields.string("dtype");
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kI32})
    if (name == to_string(dtype)) return dtype;
  if (std::ranges::find(kOtherTypes, name) != std::end(kOtherTypes))
    fail(file, what + ": dtype " + name + " is not supported; supported are F32, F16 and BF16",
         ErrorCode::kUnsupported);
  fail(file, what + ": unknown dtype \"" + printable(name) + "\", expected F32, F16 or BF16");
}

std::vector<std::int64_t> whole_numbers(const FileReader& file, const std::string& what, const nlohmann::json& list,
                                        std::size_t least, std::size_t most) {
  if (!list.is_array() || list.size() < least || list.size() > most)
    fail(file, what + ": expected a list of " + std::to_string(least) + " to " + std::to_string(most) + " numbers");
  std::vector<std::int64_t> numbers;
  for (const auto& item : list) {
    if (!item.is_number_unsigned() ||
        item.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      fail(file, what + ": expected whole numbers from 0 to 2^63 - 1");
    numbers.push_back(item.get<std::int64_t>());
  }
  return numbers;
}

TensorEntry read_entry(const FileReader& file, const std::string& name, const nlohmann::json& json) {
  const std::string what = "tensor " + printable(name);
  const Fields fields(json, file.path() + ": " + what + ": ");
  TensorEntry entry;
  entry.name = name;
  entry.dtype = dtype_of(file, what, fields);
  entry.shape = whole_numbers(file, what + ": shape", json.value("shape", nlohmann::json()), 0, kMaxDims);
  const auto offsets = whole_numbers(file, what + ": data_offsets", json.value("data_offsets", nlohmann::json()), 2, 2);
  const auto n_values = checked_size(entry.shape);
  if (!n_values) fail(file, what + ": its shape " + shape_text(entry.shape) + " is out of range");
  const std::int64_t bytes = *n_values * block_bytes(entry.dtype);  // At most 2^60 * 4.
  if (offsets[0] > offsets[1] || offsets[1] - offsets[0] != bytes)
    fail(file, what + ": data_offsets " + shape_text(offsets) + " hold " + std::to_string(offsets[1] - offsets[0]) +
                   " bytes, expected " + std::to_string(bytes) + " for " + std::string(to_string(entry.dtype)) + " " +
                   shape_text(entry.shape));
  entry.offset = offsets[0];
  entry.bytes = bytes;
  return entry;
}

// The format allows neither holes nor overlaps nor bytes that belong to nothing.
void place_entries(const FileReader& file, std::int64_t data_at, std::vector<TensorEntry>& entries) {
  std::ranges::sort(entries, {}, &TensorEntry::offset);
  const std::int64_t data_bytes = file.size() - data_at;
  std::int64_t expected = 0;
  for (TensorEntry& entry : entries) {
    const std::string what = "tensor " + printable(entry.name);
    if (entry.offset != expected)
      fail(file, what + ": its data begins at " + std::to_string(entry.offset) + ", expected " +
                     std::to_string(expected) + ", where the tensor before it ends");
    if (entry.bytes > data_bytes - entry.offset)
      fail(file, what + ": the file ends " + std::to_string(entry.offset + entry.bytes - data_bytes) +
                     " bytes before the tensor's " + std::to_string(entry.bytes) + " bytes end");
    expected = entry.offset + entry.bytes;
    entry.offset += data_at;
  }
  if (expected != data_bytes)
    fail(file, std::to_string(data_bytes - expected) + " bytes after the last tensor belong to none");
}

}  // namespace

std::vector<TensorEntry> read_safetensors_header(const FileReader& file) {
  const std::string text = read_header_text(file);
  const nlohmann::json header = parse_file_json(text, file.path() + ": header");
  std::vector<TensorEntry> entries;
  for (const auto& [name, json] : header.items()) {
    if (name == "__metadata__")
      check_metadata(file, json);
    else
      entries.push_back(read_entry(file, name, json));
  }
  place_entries(file, 8 + static_cast<std::int64_t>(text.size()), entries);
  return entries;
}

}  // namespace monograph
