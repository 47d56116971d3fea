// Bytes of a model file, read by position.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace monograph {

/// A file that parsers read by position. Files are read, not mapped: a mapped file that somebody shortens raises SIGBUS
/// at any later touch (BUGLOG MF12), while a read that comes back short is an Error that names what was being read.
/// Nothing is lost by it: weights are packed for the backend once, so the copy that the kernel makes here is the only
/// one, and the file's pages stay in the system's cache for the next start either way.
class FileReader {
 public:
  virtual ~FileReader() = default;
  virtual const std::string& path() const = 0;  ///< For messages.
  virtual std::int64_t size() const = 0;        ///< Fixed when opened.
  /// Fills `out` from `offset`, which must lie inside size(). Throws Error(kUnreadableFile) naming `what` and the
  /// missing bytes if the file was shortened, or saying so if it was changed, since it was opened. Any thread may call.
  virtual void read(std::int64_t offset, std::span<std::byte> out, std::string_view what) const = 0;
};

/// Throws Error(kNotFound) or Error(kUnreadableFile), naming the path and the system's reason.
std::unique_ptr<FileReader> open_file(const std::string& path);

/// Bytes in memory under the name of a file; for tests and fuzzing. `bytes` must outlive the reader.
std::unique_ptr<FileReader> memory_file(std::span<const std::byte> bytes, const std::string& path);

/// The whole text of a small file. Throws Error(kUnreadableFile) if it is larger than `max_bytes`.
std::string read_text(const std::string& path, std::int64_t max_bytes);

/// `text` fit for a one-line message: at most 100 bytes, everything but printable ASCII escaped.
std::string printable(std::string_view text);

}  // namespace monograph
