#include "model/file_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "device/cpu/thread_pool.h"
#include "monograph/error.h"

namespace monograph {
namespace {

constexpr std::size_t kMaxPrintable = 100;

[[noreturn]] void fail(const std::string& path, const std::string& reason) {
  throw Error(ErrorCode::kUnreadableFile, path + ": " + reason);
}

[[noreturn]] void fail_errno(const std::string& path, const char* action, int error) {
  const auto code = error == ENOENT || error == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kUnreadableFile;
  throw Error(code, path + ": cannot " + action + ": " + std::strerror(error));
}

[[noreturn]] void fail_short(const std::string& path, std::string_view what, std::int64_t missing) {
  fail(path, std::string(what) + ": the file ends " + std::to_string(missing) +
                 " bytes too early; it was shortened after it was opened");
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { ::close(fd_); }
  int get() const { return fd_; }

 private:
  int fd_;
};

class DiskFile : public FileReader {
 public:
  DiskFile(const std::string& path, int fd) : path_(path), fd_(fd), opened_(stat()) {
    if (!S_ISREG(opened_.st_mode)) fail(path_, "not a regular file");
  }

  const std::string& path() const override { return path_; }
  std::int64_t size() const override { return opened_.st_size; }

  void read(std::int64_t offset, std::span<std::byte> out, std::string_view what) const override {
    CHECK(offset >= 0 && offset <= size() && static_cast<std::int64_t>(out.size()) <= size() - offset);
    // A file in the page cache is read as fast as cores copy, and a fresh buffer is first touched here.
    const auto bytes = static_cast<std::int64_t>(out.size());
    cpu::parallel_once(bytes, kPieceBytes, [&](std::int64_t begin, std::int64_t end) {
      const auto piece = out.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
      if (!read_piece(offset + begin, piece)) fail_short(path_, what, offset + bytes - stat().st_size);
    });
    check_unchanged(what);
  }

 private:
  static constexpr std::int64_t kPieceBytes = 8 << 20;

  /// False if the file ends before the piece is full.
  bool read_piece(std::int64_t offset, std::span<std::byte> out) const {
    while (!out.empty()) {
      const ssize_t n = ::pread(fd_.get(), out.data(), out.size(), offset);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail_errno(path_, "read", errno);
      if (n == 0) return false;
      out = out.subspan(static_cast<std::size_t>(n));
      offset += n;
    }
    return true;
  }

  struct stat stat() const {
    struct stat status {};
    if (::fstat(fd_.get(), &status) != 0) fail_errno(path_, "examine", errno);
    return status;
  }

  // A file that is rewritten in place while it is read would give a mixture of two models.
  void check_unchanged(std::string_view what) const {
    const struct stat now = stat();
    if (now.st_size == opened_.st_size && now.st_mtim.tv_sec == opened_.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == opened_.st_mtim.tv_nsec)
      return;
    fail(path_, std::string(what) + ": the file was changed after it was opened (" + std::to_string(opened_.st_size) +
                    " bytes then, " + std::to_string(now.st_size) + " now)");
  }

  std::string path_;
  Descriptor fd_;
  struct stat opened_;
};

class MemoryFile : public FileReader {
 public:
  MemoryFile(std::span<const std::byte> bytes, const std::string& path) : bytes_(bytes), path_(path) {}
  const std::string& path() const override { return path_; }
  std::int64_t size() const override { return static_cast<std::int64_t>(bytes_.size()); }
  void read(std::int64_t offset, std::span<std::byte> out, std::string_view) const override {
    CHECK(offset >= 0 && offset <= size() && static_cast<std::int64_t>(out.size()) <= size() - offset);
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
  }

 private:
  std::span<const std::byte> bytes_;
  std::string path_;
};

}  // namespace

std::unique_ptr<FileReader> open_file(const std::string& path) {
  // O_NONBLOCK: opening a pipe must not hang; it has no effect on the regular files that are accepted.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail_errno(path, "open", errno);
  return std::make_unique<DiskFile>(path, fd);
}

std::unique_ptr<FileReader> memory_file(std::span<const std::byte> bytes, const std::string& path) {
  return std::make_unique<MemoryFile>(bytes, path);
}

std::string read_text(const std::string& path, std::int64_t max_bytes) {
  const auto file = open_file(path);
  if (file->size() > max_bytes)
    fail(path,
         "expected at most " + std::to_string(max_bytes) + " bytes, the file has " + std::to_string(file->size()));
  std::string text(static_cast<std::size_t>(file->size()), '\0');
  file->read(0, std::as_writable_bytes(std::span(text)), "text");
  return text;
}

std::string printable(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char c : text.substr(0, kMaxPrintable)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f)
      out.push_back(c);
    else
      out.append("\\x").append({kHex[byte >> 4], kHex[byte & 15]});
  }
  if (text.size() > kMaxPrintable) out += "...";
  return out;
}

}  // namespace monograph
