#include "graph/staging.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace monograph {
namespace {

constexpr std::int64_t kAlign = 64;  // int32 entries between derived arrays: 256 bytes

std::int64_t padded(std::int64_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

}  // namespace

/// One host area, seen through the layout.
struct Staging::Area {
  std::byte* base;
  const StagingLayout& at;
  std::int32_t* ints(std::int64_t offset) const { return reinterpret_cast<std::int32_t*>(base + offset); }
  SlotSampling* sampling() const { return reinterpret_cast<SlotSampling*>(base + at.sampling); }
  BiasEntry* bias() const { return reinterpret_cast<BiasEntry*>(base + at.bias); }
};

Staging::Staging(Device& device, const InputShape& shape, std::vector<std::vector<std::int32_t>> scratch,
                 std::int32_t pad_token, const History& history, std::vector<CacheGroup> groups)
    : shape_(shape),
      layout_(shape),
      groups_(std::move(groups)),
      scratch_(std::move(scratch)),
      pad_token_(pad_token),
      history_(history) {
  CHECK(static_cast<int>(groups_.size()) == shape_.n_groups);
  for (const auto& blocks : scratch_) CHECK(static_cast<int>(blocks.size()) <= shape_.table_width);
  for (auto& area : host_) area = device.allocate_host(layout_.bytes);
  selector_ = device.allocate_host(sizeof(std::int32_t));
  device_area_ = device.allocate(layout_.bytes);
  const std::int64_t slots = shape_.n_slots(), tokens = shape_.max_tokens;
  derived_ = device.allocate(4 * (3 * padded(slots + 1) + 5 * padded(slots) + (2 + shape_.n_groups) * padded(tokens)));
  sampled_ = device.allocate_host(static_cast<std::int64_t>(sizeof(SampledRow)) * shape_.max_rows);
}

std::int64_t Staging::bytes() const { return 3 * layout_.bytes + derived_.bytes() + sampled_.bytes(); }

Staging::Area Staging::next_area() {
  const int next = 1 - *selector_.as<std::int32_t>();
  return {host_[next].as<std::byte>(), layout_};
}

void Staging::stage_tables(std::int32_t* tables, const Batch& batch) {
  const std::int64_t width = shape_.table_width;
  int& in_use = rows_in_tables_[static_cast<std::size_t>(1 - *selector_.as<std::int32_t>())];
  const int n_cleared = std::max(in_use, static_cast<int>(batch.rows.size()));  // tables are long: 128 kB for 256 rows
  in_use = static_cast<int>(batch.rows.size());
  const auto table_of_group = match_tags(groups_, batch.group_tags);
  CHECK(batch.rows.empty() || table_of_group);
  for (int group = 0; group < shape_.n_groups; ++group) {
    std::int32_t* table = tables + group * shape_.n_slots() * width;
    std::fill(table, table + n_cleared * width, 0);
    for (std::size_t row = 0; row < batch.rows.size(); ++row) {
      const auto& blocks = batch.rows[row].block_tables[(*table_of_group)[group]];
      CHECK(static_cast<std::int64_t>(blocks.size()) <= width);
      std::copy(blocks.begin(), blocks.end(), table + static_cast<std::int64_t>(row) * width);
    }
    // The sentinel's blocks are scratch, so padding never reaches a sequence's cache (I4).
    if (static_cast<std::size_t>(group) < scratch_.size())
      std::copy(scratch_[group].begin(), scratch_[group].end(), table + shape_.max_rows * width);
  }
}

/// `found` is not there twice, as the areas are. Whoever may still read a row that is written here is a step that was
/// given up: its tokens are nobody's, and the step staged now brings the history up to date after it.
void Staging::stage_found(const BatchRow& row) const {
  const int history_row = row.sampling.history_row;
  CHECK(history_row >= 0 && history_row < shape_.max_seqs);
  CHECK(row.found.size() <= static_cast<std::size_t>(std::min(row.prefix, shape_.max_seq_len)));
  std::ranges::copy(row.found, history_.found + static_cast<std::int64_t>(history_row) * shape_.found_width());
}

void Staging::stage_sampling(const Area& area, const Batch& batch) const {
  std::fill_n(area.sampling(), shape_.n_slots(), SlotSampling{});
  std::int32_t n_bias = 0, n_banned = 0;
  for (std::size_t row = 0; row < batch.rows.size(); ++row) {
    const BatchRow& from = batch.rows[row];
    CHECK(from.bias.size() <= kMaxLogitBias && from.banned.size() <= kMaxBannedIds);
    SlotSampling& to = area.sampling()[row];
    to = from.sampling;
    stage_found(from);
    to.n_found = static_cast<std::int32_t>(from.found.size());
    to.bias_begin = n_bias;
    to.bias_count = static_cast<std::int32_t>(from.bias.size());
    to.banned_begin = n_banned;
    to.banned_count = static_cast<std::int32_t>(from.banned.size());
    std::copy(from.bias.begin(), from.bias.end(), area.bias() + n_bias);
    std::copy(from.banned.begin(), from.banned.end(), area.ints(layout_.banned) + n_banned);
    n_bias += to.bias_count;
    n_banned += to.banned_count;
  }
  *area.ints(layout_.n_bias) = n_bias;
  *area.ints(layout_.n_banned) = n_banned;
}

void Staging::stage(const Batch& batch, int capacity) {
  const int n_rows = static_cast<int>(batch.rows.size()), n_tokens = batch.n_tokens();
  CHECK(capacity <= shape_.max_tokens && n_tokens <= capacity && n_rows <= shape_.max_rows);
  const Area area = next_area();
  *area.ints(layout_.n_tokens) = n_tokens;
  *area.ints(layout_.n_seqs) = n_rows;

  std::int32_t* lengths = area.ints(layout_.input_lengths);
  std::int32_t* prefixes = area.ints(layout_.prefix_lengths);
  std::fill(lengths, lengths + shape_.n_slots(), 0);
  std::fill(prefixes, prefixes + shape_.n_slots(), 0);
  for (int row = 0; row < n_rows; ++row) {
    lengths[row] = batch.rows[row].n_tokens;
    prefixes[row] = batch.rows[row].prefix;
  }
  lengths[shape_.max_rows] = capacity - n_tokens;

  stage_tables(area.ints(layout_.block_tables), batch);
  stage_sampling(area, batch);

  std::int32_t* ids = area.ints(layout_.input_ids);
  std::copy(batch.input_ids.begin(), batch.input_ids.end(), ids);
  std::fill(ids + n_tokens, ids + capacity, pad_token_);
  if (const std::int64_t p = shape_.position_factor; p > 0) {
    std::int32_t* positions = area.ints(layout_.position_ids);
    const std::int64_t staged = batch.position_ids ? n_tokens * p : 0;
    CHECK(!batch.position_ids || static_cast<std::int64_t>(batch.position_ids->size()) >= staged);
    if (batch.position_ids) std::copy_n(batch.position_ids->begin(), staged, positions);
    std::fill(positions + staged, positions + capacity * p, 0);
  }
  *selector_.as<std::int32_t>() = 1 - *selector_.as<std::int32_t>();
}

void Staging::stage_sentinel_only(int capacity) { stage(Batch{}, capacity); }

StepInputs Staging::inputs(int capacity, bool skip_padding, bool with_last_rows) const {
  CHECK(capacity >= 1 && capacity <= shape_.max_tokens);
  StepInputs in;
  in.shape = shape_;
  in.capacity = capacity;
  in.skip_padding = skip_padding;
  const auto* base = device_area_.as<std::byte>();
  const auto ints = [&](std::int64_t offset) { return reinterpret_cast<const std::int32_t*>(base + offset); };
  in.n_tokens = ints(layout_.n_tokens);
  in.n_seqs = ints(layout_.n_seqs);
  in.input_ids = ints(layout_.input_ids);
  in.input_lengths = ints(layout_.input_lengths);
  in.prefix_lengths = ints(layout_.prefix_lengths);
  in.block_tables = ints(layout_.block_tables);
  in.position_ids = shape_.position_factor > 0 ? ints(layout_.position_ids) : nullptr;
  in.sampling = reinterpret_cast<const SlotSampling*>(base + layout_.sampling);
  in.bias = reinterpret_cast<const BiasEntry*>(base + layout_.bias);
  in.banned = ints(layout_.banned);

  std::int32_t* next = derived_.as<std::int32_t>();
  const auto take = [&](std::int64_t n) { return std::exchange(next, next + padded(n)); };
  const std::int64_t slots = shape_.n_slots(), tokens = shape_.max_tokens;
  in.cu_seqlens = take(slots + 1);
  in.cu_kv_seqlens = take(slots + 1);
  in.kv_lens = take(slots);
  in.sample_rows = take(slots);
  in.padding_offset = take(tokens);
  in.positions = take(tokens);
  in.kv_locs = take(shape_.n_groups * padded(tokens));
  if (with_last_rows)
    in.last = {
        .lengths = take(slots), .prefixes = take(slots), .cu_seqlens = take(slots + 1), .sample_rows = take(slots)};
  in.history = history_;
  return in;
}

}  // namespace monograph
