#include "tests/lane_run/audit.h"

#include <algorithm>
#include <cstring>

#include "graph/padding.h"

namespace monograph::lane_run {
namespace {

using testing::DevicePoint;

void require(bool holds, const std::string& what) {
  if (!holds) throw Violation(what);
}

struct Fault {};

testing::LaneOptions counting(testing::LaneOptions options, int& n_forwards) {
  options.on_forward = [&n_forwards](bool) { ++n_forwards; };
  return options;
}

std::int64_t place_bytes(const KvLayer& layer) {
  return std::int64_t{layer.n_kv_heads} * layer.head_dim * (layer.dtype == DType::kF32 ? 4 : 2);
}

/// Calls work(offset, bytes) for `n` places of a block from `first` on, in one side of a layer: one piece per head,
/// since a side is [block][head][place][dim].
template <typename F>
void for_pieces(const KvLayer& layer, std::int64_t block, std::int64_t first, std::int64_t n, F work) {
  const std::int64_t bytes = place_bytes(layer) / layer.n_kv_heads;
  for (int head = 0; head < layer.n_kv_heads; ++head)
    work(((block * layer.n_kv_heads + head) * layer.block_size + first) * bytes, n * bytes);
}

/// The same for one place by its number.
template <typename F>
void for_pieces(const KvLayer& layer, std::int64_t place, F work) {
  for_pieces(layer, place / layer.block_size, place % layer.block_size, 1, work);
}

}  // namespace

Audit::Audit(testing::LaneOptions options) : lane_(counting(std::move(options), n_forwards_)) {
  lane_.fill_cache(0xff);
  for (const KvLayer& layer : lane_.cache().layers()) {
    const std::int64_t bytes = place_bytes(layer) * layer.block_size * layer.n_blocks;
    for (int side = 0; side < 2; ++side) shadow_.emplace_back(static_cast<std::size_t>(bytes), std::byte{0xff});
  }
}

std::vector<std::int64_t> Audit::places(const Batch& batch) const {
  const int block_size = options().block_size;
  std::vector<std::int64_t> all;
  for (const BatchRow& row : batch.rows)
    for (int position = row.prefix; position < row.prefix + row.n_tokens; ++position)
      all.push_back(std::int64_t{row.block_tables[0][static_cast<std::size_t>(position / block_size)]} * block_size +
                    position % block_size);
  return all;
}

bool Audit::is_scratch(std::int64_t block) const {
  const auto& scratch = lane_.scratch();
  return !scratch.empty() && std::ranges::find(scratch[0], static_cast<std::int32_t>(block)) != scratch[0].end();
}

/// What the step may not read becomes NaN: every activation, and every place of a row's blocks that has no token yet.
void Audit::poison(const Batch& batch) {
  lane_.poison_activations();
  const int block_size = options().block_size;
  const auto layers = lane_.cache().layers();
  const std::vector<std::byte> nan(static_cast<std::size_t>(place_bytes(layers[0]) * block_size), std::byte{0xff});
  for (const BatchRow& row : batch.rows)
    for (std::size_t b = static_cast<std::size_t>(row.prefix / block_size); b < row.block_tables[0].size(); ++b) {
      const int first = std::max(0, row.prefix - static_cast<int>(b) * block_size);
      for (std::size_t side = 0; side < shadow_.size(); ++side) {
        const KvLayer& layer = layers[side / 2];
        auto* data = static_cast<std::byte*>(side % 2 == 0 ? layer.k : layer.v);
        for_pieces(layer, row.block_tables[0][b], first, block_size - first, [&](std::int64_t at, std::int64_t bytes) {
          lane_.device().copy_to_device(data + at, nan.data(), bytes);
          std::memcpy(shadow_[side].data() + at, nan.data(), static_cast<std::size_t>(bytes));
        });
      }
    }
  lane_.device().synchronize();
}

std::optional<StepResult> Audit::run(const Batch& batch, std::optional<DevicePoint> fault) {
  poison(batch);
  const Runner& runner = lane_.runner();
  const RunnerStats stats = runner.stats();
  const Eligibility chosen = runner.check(batch);
  const Eligibility again = runner.check(batch);
  require(chosen.status == again.status && chosen.bucket == again.bucket && chosen.role == again.role,
          "I9: the same batch was judged twice apart");
  require(runner.stats().fallbacks == stats.fallbacks && runner.stats().steps == stats.steps,
          "I7: PREPARE left a trace");
  const Staging* extend = runner.staging(GraphRole::kExtend);
  std::vector<std::byte> staged;
  if (extend && !chosen.ok())
    staged = fetch(static_cast<const std::byte*>(extend->device_area()), extend->layout().bytes);
  for (int p = 0; p < testing::kDevicePoints; ++p) before_[p] = lane_.device().count(static_cast<DevicePoint>(p));
  forwards_before_ = n_forwards_;

  StepResult result;
  bool failed = false;
  if (fault)
    lane_.device().set_hook([&](DevicePoint point) {
      if (point == *fault && !failed) failed = true, throw Fault{};
    });
  try {
    result = lane_.runner().run(batch);
  } catch (const Fault&) {
  }
  lane_.device().set_hook({});
  require(n_forwards_ - forwards_before_ + lane_.device().count(DevicePoint::kReplay) -
                  before_[static_cast<int>(DevicePoint::kReplay)] ==
              1,
          "I7: a forward ran twice, or not at all");
  if (!failed) check_device_calls(result.replayed);
  check_cache(batch, !failed);
  if (failed) {
    n_prefill_forwards_ += batch.has_prefill() && !chosen.ok();  // it fell back, and then failed
    return std::nullopt;
  }
  check_choice(batch, chosen, result);
  check_counts(batch, result);
  if (result.replayed) check_staged(batch, result);
  if (extend && !chosen.ok())
    require(staged == fetch(static_cast<const std::byte*>(extend->device_area()), extend->layout().bytes),
            "I7: a batch that did not replay changed what graphs read");
  check_eager(batch, result);
  return result;
}

/// I1, I2: a step allocates nothing, copies nothing, waits once; a replay is one launch and runs no host code of the
/// forward.
void Audit::check_device_calls(bool replayed) const {
  auto& device = const_cast<Audit*>(this)->lane_.device();
  const auto made = [&](DevicePoint p) { return device.count(p) - before_[static_cast<int>(p)]; };
  require(made(DevicePoint::kAllocate) == 0, "I2: a step allocated");
  require(made(DevicePoint::kCopy) == 0 && made(DevicePoint::kCaptureBegin) == 0, "I1: a step copied or captured");
  require(made(DevicePoint::kWait) == 1, "I1: a step waited " + std::to_string(made(DevicePoint::kWait)) + " times");
  require(made(DevicePoint::kReplay) == (replayed ? 1 : 0), "I7: replays and result differ");
}

void Audit::check_choice(const Batch& batch, const Eligibility& chosen, const StepResult& result) const {
  if (!batch.has_prefill()) {
    require(result.status == PrefillStatus::kNotRequested, "I8: a decode step has a prefill status");
    return;
  }
  require(result.status == chosen.status, "I9: run decided otherwise than its check");
  require(result.replayed == (result.status == PrefillStatus::kReplayed), "I8: status and replay differ");
  require(result.bucket == chosen.bucket, "I9: another bucket than the check's");
}

/// I8: replays and fallbacks add up to the forwards with prefill work.
void Audit::check_counts(const Batch& batch, const StepResult&) {
  n_prefill_forwards_ += batch.has_prefill();
  const RunnerStats& stats = lane_.runner().stats();
  std::int64_t counted = stats.prefill_replays;
  for (std::int64_t n : stats.fallbacks) counted += n;
  require(counted == n_prefill_forwards_, "I8: a forward with prefill work was counted never or twice");
}

/// I4, I5: only the batch's own places may have changed, and scratch where padding is computed.
void Audit::check_cache(const Batch& batch, bool ran) {
  const auto layers = lane_.cache().layers();
  const std::vector<std::int64_t> own = places(batch);
  for (std::size_t l = 0; l < layers.size(); ++l)
    for (int side = 0; side < 2; ++side) {
      std::vector<std::byte>& expected = shadow_[2 * l + side];
      const std::vector<std::byte> found = fetch(static_cast<const std::byte*>(side == 0 ? layers[l].k : layers[l].v),
                                                 static_cast<std::int64_t>(expected.size()));
      const auto accept = [&](std::int64_t place, bool must_change) {
        for_pieces(layers[l], place, [&](std::int64_t at, std::int64_t bytes) {
          const auto n = static_cast<std::size_t>(bytes);
          if (must_change)
            require(std::memcmp(expected.data() + at, found.data() + at, n) != 0, "I4: a token left its place empty");
          std::memcpy(expected.data() + at, found.data() + at, n);
        });
      };
      for (std::int64_t place : own) accept(place, ran);
      if (!options().runner.skip_padding && !lane_.scratch().empty())
        for (std::int32_t block : lane_.scratch()[0])
          for (int offset = 0; offset < layers[l].block_size; ++offset)
            accept(std::int64_t{block} * layers[l].block_size + offset, false);
      require(found == expected, "I4, I5: a place was written that is no token's of this step");
    }
}

/// I3: the whole staged set on the device is this batch's and nothing else's.
void Audit::check_staged(const Batch& batch, const StepResult& result) {
  const GraphRole role = batch.has_prefill() ? lane_.runner().check(batch).role : GraphRole::kDecode;
  const Staging& staging = *lane_.runner().staging(role);
  const InputShape& shape = staging.shape();
  const StepInputs in = staging.inputs(result.bucket, options().runner.skip_padding);
  const int n_rows = static_cast<int>(batch.rows.size()), slots = shape.n_slots(), c = result.bucket;
  require(fetch(in.n_tokens, 1)[0] == batch.n_tokens() && fetch(in.n_seqs, 1)[0] == n_rows, "I3: T or R");
  std::vector<std::int32_t> ids = batch.input_ids, table(static_cast<std::size_t>(slots) * shape.table_width);
  ids.resize(static_cast<std::size_t>(c), lane_.model().config().pad_token_id.value_or(0));
  require(fetch(in.input_ids, c) == ids, "I3: token ids");
  for (int row = 0; row < n_rows; ++row)
    std::ranges::copy(batch.rows[static_cast<std::size_t>(row)].block_tables[0],
                      table.begin() + std::int64_t{row} * shape.table_width);
  std::ranges::copy(lane_.scratch()[0], table.begin() + std::int64_t{shape.max_rows} * shape.table_width);
  require(fetch(in.table(0), static_cast<std::int64_t>(table.size())) == table, "I3: block tables");
  if (const int p = shape.position_factor; p > 0) {
    std::vector<std::int32_t> positions(batch.position_ids->begin(),
                                        batch.position_ids->begin() + std::int64_t{batch.n_tokens()} * p);
    positions.resize(static_cast<std::size_t>(c) * p);
    require(fetch(in.position_ids, std::int64_t{c} * p) == positions, "I3: position ids");
  }
  const auto sampling = fetch(in.sampling, slots);
  for (int slot = 0; slot < slots; ++slot) {
    SlotSampling expected;
    if (slot < n_rows) expected = batch.rows[static_cast<std::size_t>(slot)].sampling;
    SlotSampling found = sampling[static_cast<std::size_t>(slot)];
    if (slot < n_rows) {
      const BatchRow& row = batch.rows[static_cast<std::size_t>(slot)];
      require(found.bias_count == static_cast<int>(row.bias.size()) &&
                  found.banned_count == static_cast<int>(row.banned.size()),
              "I3: bias or banned ids");
      require(found.n_found == static_cast<int>(row.found.size()), "I3: ids of a found prefix");
      found.n_found = 0;
      found.bias_begin = found.bias_count = found.banned_begin = found.banned_count = 0;
    }
    require(std::memcmp(&found, &expected, sizeof expected) == 0, "I3: sampling settings");
  }
  check_derived(batch, in);
}

/// D4: what the device derived is what the host's oracle says, byte for byte.
void Audit::check_derived(const Batch& batch, const StepInputs& in) {
  std::vector<std::int32_t> lengths, prefixes;
  for (const BatchRow& row : batch.rows) {
    lengths.push_back(row.n_tokens);
    prefixes.push_back(row.prefix);
  }
  const auto slots = static_cast<std::size_t>(in.shape.n_slots()), c = static_cast<std::size_t>(in.capacity);
  std::vector<std::int32_t> a[] = {std::vector<std::int32_t>(slots),     std::vector<std::int32_t>(slots),
                                   std::vector<std::int32_t>(slots),     std::vector<std::int32_t>(slots + 1),
                                   std::vector<std::int32_t>(slots + 1), std::vector<std::int32_t>(c),
                                   std::vector<std::int32_t>(c),         std::vector<std::int32_t>(slots - 1)};
  require(build_padded_layout(lengths, prefixes, in.capacity, in.shape.max_rows,
                              {a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]}),
          "D4: the oracle refuses the layout");
  const std::int32_t* device[] = {in.input_lengths, in.prefix_lengths, in.kv_lens,   in.cu_seqlens,
                                  in.cu_kv_seqlens, in.padding_offset, in.positions, in.sample_rows};
  for (int i = 0; i < 8; ++i)
    require(fetch(device[i], static_cast<std::int64_t>(a[i].size())) == a[i], "D4: derived array " + std::to_string(i));
  std::vector<std::int32_t> kv_locs(c);
  const auto table = fetch(in.table(0), static_cast<std::int64_t>(slots) * in.shape.table_width);
  build_kv_locs({a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]}, table, in.shape.table_width, in.shape.block_size,
                kv_locs);
  require(fetch(in.kv_locs, static_cast<std::int64_t>(c)) == kv_locs, "D4: kv_locs");
}

/// I6: the same step again, eager, gives the same logits, tokens, K and V.
void Audit::check_eager(const Batch& batch, const StepResult& result) {
  const int n_rows = static_cast<int>(batch.rows.size()), vocab_size = lane_.model().config().vocab_size;
  const std::vector<float> logits = lane_.runner().last_logits(n_rows);
  const auto written = shadow_;
  poison(batch);
  // In the bucket's shape or in its own; padding that is computed needs scratch, which eager steps have not.
  const bool in_bucket = options().runner.skip_padding && lane_.runner().stats().steps % 2 == 0;
  const StepResult eager = lane_.runner().run_eager(batch, in_bucket ? result.bucket : 0);
  const std::vector<float> again = lane_.runner().last_logits(n_rows);
  for (int row = 0; row < n_rows; ++row) {
    if (!batch.rows[static_cast<std::size_t>(row)].sampling.samples) continue;
    const auto at = static_cast<std::size_t>(row) * vocab_size;
    require(std::memcmp(&logits[at], &again[at], sizeof(float) * vocab_size) == 0,
            "I6: logits of row " + std::to_string(row));
    const SampledRow &a = result.rows[static_cast<std::size_t>(row)], &b = eager.rows[static_cast<std::size_t>(row)];
    require(a.token == b.token && a.logprob == b.logprob && a.n_top == b.n_top, "I6: token of row");
    ++n_rows_compared_;
  }
  check_cache(batch, true);
  const auto layers = lane_.cache().layers();
  for (std::size_t i = 0; i < written.size(); ++i)
    for (std::int64_t place : places(batch))
      for_pieces(layers[i / 2], place, [&](std::int64_t at, std::int64_t bytes) {
        require(std::memcmp(written[i].data() + at, shadow_[i].data() + at, static_cast<std::size_t>(bytes)) == 0,
                "I6: K or V of a token");
      });
}

}  // namespace monograph::lane_run
