// One step of a lane, with every invariant of SPEC A.4 checked around it.
#pragma once
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "graph/batch.h"
#include "tests/support/lane.h"

namespace monograph::lane_run {

/// An invariant that does not hold: "I4: ...".
struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Audit {
 public:
  explicit Audit(testing::LaneOptions options);

  /// Runs the batch and checks I1..I9; throws Violation. With `fault` the step throws there, once; nullopt then, after
  /// checking that nothing else was touched. A point that the step does not reach changes nothing.
  std::optional<StepResult> run(const Batch& batch, std::optional<testing::DevicePoint> fault);

  testing::Lane& lane() { return lane_; }
  const testing::LaneOptions& options() const { return lane_.options(); }
  std::int64_t n_rows_compared() const { return n_rows_compared_; }

 private:
  /// Ids of the places (block * block_size + offset) that the batch's tokens are written to.
  std::vector<std::int64_t> places(const Batch& batch) const;
  void poison(const Batch& batch);
  void check_choice(const Batch& batch, const Eligibility& chosen, const StepResult& result) const;
  void check_device_calls(bool replayed) const;
  void check_cache(const Batch& batch, bool ran);
  void check_staged(const Batch& batch, const StepResult& result);
  void check_derived(const Batch& batch, const StepInputs& in);
  void check_eager(const Batch& batch, const StepResult& result);
  void check_counts(const Batch& batch, const StepResult& result);
  bool is_scratch(std::int64_t block) const;

  template <typename T>
  std::vector<T> fetch(const T* from, std::int64_t n) {
    std::vector<T> to(static_cast<std::size_t>(n));
    lane_.device().copy_to_host(to.data(), from, n * static_cast<std::int64_t>(sizeof(T)));
    lane_.device().synchronize();
    return to;
  }

  int n_forwards_ = 0;
  testing::Lane lane_;
  std::vector<std::vector<std::byte>> shadow_;  ///< What K and V of each layer must hold.
  std::int64_t before_[testing::kDevicePoints] = {};
  int forwards_before_ = 0;
  std::int64_t n_prefill_forwards_ = 0, n_rows_compared_ = 0;
};

}  // namespace monograph::lane_run
