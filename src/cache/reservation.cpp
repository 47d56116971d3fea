#include "cache/reservation.h"

#include <utility>

namespace monograph {

std::optional<Reservation> Reservation::take(BlockPool& pool, int n) {
  auto blocks = pool.reserve(n);
  if (!blocks) return std::nullopt;
  return Reservation(pool, std::move(*blocks));
}

Reservation::Reservation(Reservation&& other) noexcept
    : pool_(other.pool_), blocks_(std::exchange(other.blocks_, {})) {}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  pool_ = other.pool_;
  blocks_ = std::exchange(other.blocks_, {});
  return *this;
}

void Reservation::give_back() {
  if (!blocks_.empty()) pool_->release_reservation(blocks_);
  blocks_.clear();
}

}  // namespace monograph
