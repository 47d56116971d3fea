// Where the tensors of a model's files lie, and their bytes on demand.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "model/file_reader.h"
#include "model/model_files.h"

namespace monograph {

/// One tensor of one file; whoever makes an entry has checked that its bytes lie inside the file and fit the shape.
struct TensorEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;  ///< Row-major.
  std::int64_t offset = 0;          ///< From the start of the file.
  std::int64_t bytes = 0;
  int file_idx = 0;
};

/// Product of the extents, or nothing if one is below 1 or the product passes 2^60.
std::optional<std::int64_t> checked_size(std::span<const std::int64_t> shape);
/// "[2048, 64]".
std::string shape_text(std::span<const std::int64_t> shape);
/// `2 F32, 14 Q4_K`: how many tensors have which type, most first.
std::string dtype_histogram(const std::vector<TensorEntry>& entries);

/// The tensors of a set of files by name. Bytes are read when asked for and kept until released.
class TensorStore {
 public:
  /// Throws Error(kUnreadableFile) if a name occurs twice in the set, naming it and both files.
  void add_file(std::unique_ptr<FileReader> file, std::vector<TensorEntry> entries);

  const std::vector<TensorEntry>& entries() const { return entries_; }
  const TensorEntry* find(std::string_view name) const;
  const FileReader& file_of(const TensorEntry& entry) const;
  std::int64_t file_bytes() const;

  /// Reads the tensor if it is not held already. Any thread may call.
  HostTensor read(const TensorEntry& entry) const;
  void release(std::string_view name) const;

 private:
  std::vector<std::unique_ptr<FileReader>> files_;
  std::vector<TensorEntry> entries_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::unique_ptr<std::byte[]>, std::less<>> held_;
};

}  // namespace monograph
