#include "model/tensor_store.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "monograph/error.h"

namespace monograph {
namespace {
constexpr std::int64_t kMaxElements = std::int64_t{1} << 60;
}

std::optional<std::int64_t> checked_size(std::span<const std::int64_t> shape) {
  std::int64_t n = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 1 || extent > kMaxElements / n) return std::nullopt;
    n *= extent;
  }
  return n;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

std::string dtype_histogram(const std::vector<TensorEntry>& entries) {
  std::map<DType, int> counts;
  for (const TensorEntry& entry : entries) ++counts[entry.dtype];
  std::vector<std::pair<DType, int>> sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted, std::greater{}, &std::pair<DType, int>::second);
  std::string text;
  for (const auto& [dtype, count] : sorted)
    text.append(text.empty() ? "" : ", ").append(std::to_string(count)).append(" ").append(to_string(dtype));
  return text;
}

void TensorStore::add_file(std::unique_ptr<FileReader> file, std::vector<TensorEntry> entries) {
  files_.push_back(std::move(file));
  for (TensorEntry& entry : entries) {
    entry.file_idx = static_cast<int>(files_.size()) - 1;
    const auto [at, is_new] = by_name_.emplace(entry.name, entries_.size());
    if (!is_new)
      throw Error(ErrorCode::kUnreadableFile, files_.back()->path() + ": duplicate tensor " + printable(entry.name) +
                                                  ", already in " + file_of(entries_[at->second]).path());
    entries_.push_back(std::move(entry));
  }
}

const TensorEntry* TensorStore::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : &entries_[at->second];
}

const FileReader& TensorStore::file_of(const TensorEntry& entry) const {
  return *files_[static_cast<std::size_t>(entry.file_idx)];
}

std::int64_t TensorStore::file_bytes() const {
  std::int64_t total = 0;
  for (const auto& file : files_) total += file->size();
  return total;
}

HostTensor TensorStore::read(const TensorEntry& entry) const {
  const auto n_bytes = static_cast<std::size_t>(entry.bytes);
  const std::lock_guard lock(mutex_);
  auto at = held_.find(entry.name);
  if (at == held_.end()) {
    auto bytes = std::make_unique_for_overwrite<std::byte[]>(n_bytes);
    file_of(entry).read(entry.offset, {bytes.get(), n_bytes}, "tensor " + printable(entry.name));
    at = held_.emplace(entry.name, std::move(bytes)).first;
  }
  return {entry.name, entry.dtype, entry.shape, {at->second.get(), n_bytes}};
}

void TensorStore::release(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto at = held_.find(name);
  if (at != held_.end()) held_.erase(at);
}

}  // namespace monograph
