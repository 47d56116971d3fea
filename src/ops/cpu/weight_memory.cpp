#include "ops/cpu/weight_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <string>

#include "monograph/error.h"

namespace monograph::cpu {
namespace {

constexpr std::int64_t kHugePage = std::int64_t{2} << 20;
constexpr std::int64_t kPiece = std::int64_t{64} << 20;  // address space only: pages are committed where written

std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

std::shared_ptr<std::byte> map_piece(std::int64_t size) {
  const auto length = static_cast<std::size_t>(size + kHugePage);
  void* mapped = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    throw Error(ErrorCode::kOutOfMemory, "weights: cannot map " + std::to_string(length) + " bytes");
  const auto address = reinterpret_cast<std::uintptr_t>(mapped);
  auto* aligned = reinterpret_cast<std::byte*>(round_up(static_cast<std::int64_t>(address), kHugePage));
  madvise(aligned, static_cast<std::size_t>(size), MADV_HUGEPAGE);  // a wish; refused, it is only slower
  return {aligned, [mapped, length](std::byte*) { munmap(mapped, length); }};
}

}  // namespace

std::shared_ptr<std::byte> WeightMemory::allocate(std::int64_t bytes) {
  const std::int64_t wanted = round_up(std::max<std::int64_t>(bytes, 1), 64);
  if (!piece_ || used_ + wanted > size_) {
    size_ = round_up(std::max(wanted, kPiece), kHugePage);
    piece_ = map_piece(size_);
    used_ = 0;
  }
  std::byte* begin = piece_.get() + used_;
  used_ += wanted;
  return {piece_, begin};
}

}  // namespace monograph::cpu
