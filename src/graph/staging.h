// The fixed buffers of one graph family: two host areas that a step is written to whole, the device area that the
// graph's first node fetches one of them into, the derived arrays, and the host rows that the last node writes.
#pragma once
#include <array>
#include <vector>

#include "device/device.h"
#include "graph/batch.h"
#include "graph/cache_groups.h"
#include "ops/inputs.h"

namespace monograph {

class Staging {
 public:
  /// `scratch[g]`: the scratch blocks of group g (may be empty where only exact eager steps are staged).
  /// `history` is shared by all families. `groups` are the cache's; a batch may hold its tables in another order.
  Staging(Device& device, const InputShape& shape, std::vector<std::vector<std::int32_t>> scratch,
          std::int32_t pad_token, const History& history, std::vector<CacheGroup> groups = {CacheGroup{}});

  /// Writes the whole set for `batch` in a bucket of `capacity` into the area that no replay reads, and makes it the
  /// one the next fetch takes. Nothing of an earlier, larger batch survives (I3). The batch must fit shape and capacity
  /// (CHECK).
  void stage(const Batch& batch, int capacity);
  /// The layout that capture, warm-up and self-test use: every token belongs to the sentinel, no row is real.
  void stage_sentinel_only(int capacity);

  /// The views a forward of this capacity reads; `with_last_rows`: has_last_rows().
  StepInputs inputs(int capacity, bool skip_padding, bool with_last_rows = false) const;
  /// Arguments of Ops::fetch_inputs.
  void* device_area() const { return device_area_.data(); }
  std::array<const void*, 2> host_areas() const { return {host_[0].data(), host_[1].data()}; }
  const std::int32_t* selector() const { return selector_.as<std::int32_t>(); }
  const StagingLayout& layout() const { return layout_; }
  const InputShape& shape() const { return shape_; }
  SampledRow* sampled() const { return sampled_.as<SampledRow>(); }
  std::int64_t bytes() const;

 private:
  struct Area;
  Area next_area();
  void stage_tables(std::int32_t* tables, const Batch& batch);
  void stage_sampling(const Area& area, const Batch& batch) const;
  void stage_found(const BatchRow& row) const;

  InputShape shape_;
  StagingLayout layout_;
  std::vector<CacheGroup> groups_;
  std::vector<std::vector<std::int32_t>> scratch_;
  std::int32_t pad_token_;
  std::array<Buffer, 2> host_;
  std::array<int, 2> rows_in_tables_{};  // of each area: rows of block tables that are not all zero, sentinel apart
  Buffer selector_, device_area_, derived_, sampled_;
  History history_;
};

}  // namespace monograph
