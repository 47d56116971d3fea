// What the long run asks for, and what each request must get: its answer alone, eager, in one piece.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "engine/sequence.h"
#include "tests/support/draw.h"
#include "tests/support/lane.h"

namespace monograph::lane_run {

using testing::below;
using testing::one_in;
using testing::Random;

/// All that changes bits: activation type, positions per token, tokens per block. One model and one oracle each.
struct World {
  std::string device = "cpu";
  DType dtype = DType::kF32;
  int position_factor = 0;
  int block_size = 4;
  int max_seq_len = 64;

  testing::LaneOptions lane() const;
};

/// One output sequence, before it has a place in an engine.
struct Ask {
  std::vector<TokenId> prompt;
  std::vector<std::int32_t> position_ids;  ///< Empty: derived.
  SlotSampling sampling;
  std::vector<BiasEntry> bias;
  std::vector<TokenId> end_ids;
  int min_tokens = 0, max_tokens = 1;
  std::string salt;
};

/// The same for equal (world, number): a request of the fixed pool, or one that nobody else asks.
Ask make_ask(const World& world, std::uint64_t number);
std::unique_ptr<Sequence> make_sequence(const Ask& ask);

struct Answer {
  std::vector<TokenId> ids;
  std::vector<float> logprobs;  ///< The chosen token's and the top ones', per token.
  void add(const SampledRow& row);
  bool operator==(const Answer&) const = default;
  /// Whether this is how `whole` begins.
  bool begins(const Answer& whole) const;
};

/// Runs requests alone, without graphs, each prompt in one step. Remembers the fixed pool's answers.
class Oracle {
 public:
  explicit Oracle(const World& world);
  const Answer& answer(std::uint64_t number, bool keep);

 private:
  Answer run(const Ask& ask);

  World world_;
  testing::Lane lane_;
  std::map<std::uint64_t, Answer> known_;
  Answer last_;
};

}  // namespace monograph::lane_run
