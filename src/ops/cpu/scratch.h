// Memory of one thread that grows on demand and is reused by every op; its contents never outlive a call.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <new>

namespace monograph::cpu {

class Scratch {
 public:
  enum Use { kWeights, kTile, kRows, kKeys, kValues, kScores, kAccumulators, kQueries, kUses };

  /// At least n floats, 64-byte aligned, uninitialised.
  float* floats(Use use, std::int64_t n) {
    Piece& piece = pieces_[use];
    if (piece.size < n) {
      piece.size = n + n / 4;
      piece.data.reset(static_cast<float*>(::operator new(static_cast<std::size_t>(piece.size) * 4, kAlign)));
    }
    return piece.data.get();
  }

 private:
  static constexpr std::align_val_t kAlign{64};
  struct Release {
    void operator()(float* p) const { ::operator delete(p, kAlign); }
  };
  struct Piece {
    std::unique_ptr<float, Release> data;
    std::int64_t size = 0;
  };
  std::array<Piece, kUses> pieces_;
};

}  // namespace monograph::cpu
