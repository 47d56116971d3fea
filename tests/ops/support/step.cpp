#include "tests/ops/support/step.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "base/dequantise.h"

namespace monograph::test {

std::uint64_t seed() {
  static const std::uint64_t value = [] {
    const char* given = std::getenv("MONOGRAPH_TEST_SEED");
    const std::uint64_t s = given ? std::strtoull(given, nullptr, 10) : 20260101;
    std::cout << "seed " << s << " (MONOGRAPH_TEST_SEED)\n";
    return s;
  }();
  return value;
}

Backend cpu_backend(const std::string& target, DType activations, int threads) {
  BackendOptions options;
  options.device = "cpu";
  options.cpu_target = target;
  options.activation_dtype = activations;
  options.threads = threads;
  return make_backend(options, Log());
}

Step::Step(Backend& backend, const InputShape& shape, std::vector<std::int32_t> scratch_blocks)
    : backend_(backend), shape_(shape), layout_(shape), scratch_blocks_(std::move(scratch_blocks)) {
  Device& device = *backend.device;
  for (Buffer& area : host_) area = device.allocate_host(layout_.bytes);
  device_area_ = device.allocate(layout_.bytes);
  const std::int64_t slots = shape.n_slots(), tokens = shape.max_tokens;
  derived_ = device.allocate(4 * (8 * (slots + 1) + (2 + shape.n_groups) * tokens));
  history_ = device.allocate(std::int64_t{4} * shape.max_seqs * shape.max_seq_len);
  history_lens_ = device.allocate(std::int64_t{4} * shape.max_seqs);
  found_ = device.allocate_host(std::int64_t{4} * shape.max_seqs * shape.found_width());
  selector_ = device.allocate_host(4);

  const auto* base = device_area_.as<std::byte>();
  const auto ints = [&](std::int64_t at) { return reinterpret_cast<const std::int32_t*>(base + at); };
  in_.shape = shape;
  in_.n_tokens = ints(layout_.n_tokens);
  in_.n_seqs = ints(layout_.n_seqs);
  in_.input_ids = ints(layout_.input_ids);
  in_.input_lengths = ints(layout_.input_lengths);
  in_.prefix_lengths = ints(layout_.prefix_lengths);
  in_.block_tables = ints(layout_.block_tables);
  in_.position_ids = ints(layout_.position_ids);
  in_.sampling = reinterpret_cast<const SlotSampling*>(base + layout_.sampling);
  in_.bias = reinterpret_cast<const BiasEntry*>(base + layout_.bias);
  in_.banned = ints(layout_.banned);
  auto* next = derived_.as<std::int32_t>();
  for (std::int32_t** array : {&in_.cu_seqlens, &in_.cu_kv_seqlens, &in_.kv_lens, &in_.sample_rows, &in_.last.lengths,
                               &in_.last.prefixes, &in_.last.cu_seqlens, &in_.last.sample_rows}) {
    *array = next;
    next += slots + 1;
  }
  for (std::int32_t** array : {&in_.padding_offset, &in_.positions, &in_.kv_locs}) {
    *array = next;
    next += tokens;
  }
  in_.history = {
      .ids = history_.as<std::int32_t>(), .lens = history_lens_.as<std::int32_t>(), .found = found_.as<std::int32_t>()};
}

void Step::stage(std::byte* area, const std::vector<Row>& rows, int capacity) {
  const auto ints = [&](std::int64_t at) { return reinterpret_cast<std::int32_t*>(area + at); };
  std::memset(area, 0, static_cast<std::size_t>(layout_.bytes));
  auto* sampling = reinterpret_cast<SlotSampling*>(area + layout_.sampling);
  std::fill_n(sampling, shape_.n_slots(), SlotSampling{});
  int n_tokens = 0, n_bias = 0, n_banned = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const Row& row = rows[r];
    ints(layout_.input_lengths)[r] = row.n_tokens;
    ints(layout_.prefix_lengths)[r] = row.prefix;
    std::copy(row.ids.begin(), row.ids.end(), ints(layout_.input_ids) + n_tokens);
    std::copy(row.table.begin(), row.table.end(), ints(layout_.block_tables) + r * shape_.table_width);
    sampling[r] = row.sampling;
    sampling[r].bias_begin = n_bias;
    sampling[r].bias_count = static_cast<int>(row.bias.size());
    sampling[r].banned_begin = n_banned;
    sampling[r].banned_count = static_cast<int>(row.banned.size());
    std::copy(row.bias.begin(), row.bias.end(), reinterpret_cast<BiasEntry*>(area + layout_.bias) + n_bias);
    std::copy(row.banned.begin(), row.banned.end(), ints(layout_.banned) + n_banned);
    sampling[r].n_found = static_cast<int>(row.found.size());
    std::copy(row.found.begin(), row.found.end(),
              found_.as<std::int32_t>() + std::int64_t{row.sampling.history_row} * shape_.found_width());
    n_bias += sampling[r].bias_count;
    n_banned += sampling[r].banned_count;
    n_tokens += row.n_tokens;
  }
  *ints(layout_.n_tokens) = n_tokens;
  *ints(layout_.n_seqs) = static_cast<int>(rows.size());
  *ints(layout_.n_bias) = n_bias;
  *ints(layout_.n_banned) = n_banned;
  ints(layout_.input_lengths)[shape_.max_rows] = capacity - n_tokens;
  std::copy(scratch_blocks_.begin(), scratch_blocks_.end(),
            ints(layout_.block_tables) + std::int64_t{shape_.max_rows} * shape_.table_width);
}

const StepInputs& Step::run(const std::vector<Row>& rows, int capacity, bool skip_padding) {
  auto* selector = selector_.as<std::int32_t>();
  *selector = 1 - *selector;
  stage(host_[*selector].as<std::byte>(), rows, capacity);
  in_.capacity = capacity;
  in_.skip_padding = skip_padding;
  const void* const from[2] = {host_[0].data(), host_[1].data()};
  backend_.ops->fetch_inputs(device_area_.data(), from, selector, layout_, shape_, capacity);
  backend_.ops->derive_inputs(in_);
  return in_;
}

std::vector<float> random_floats(std::mt19937_64& random, std::size_t n, float scale) {
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

namespace {

/// Offsets of the f16 fields of a block.
std::vector<int> half_offsets(DType dtype) {
  switch (dtype) {
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kQ5_0:
      return {0};
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    case DType::kQ6_K:
      return {208};
    default:
      return {};
  }
}

}  // namespace

std::vector<std::byte> random_blocks(std::mt19937_64& random, DType dtype, int rows, int cols) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(row_bytes(dtype, cols) * rows));
  if (dtype == DType::kF32) {
    const auto values = random_floats(random, bytes.size() / 4, 0.1f);
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  const auto set_half = [&](std::size_t at) {
    // Exponents 2^-9..2^-3 and subnormals now and then; bfloat16 alike at its own place.
    const auto mantissa = static_cast<std::uint16_t>(random());
    std::uint16_t bits;
    if (dtype == DType::kBF16)
      bits = static_cast<std::uint16_t>((mantissa & 0x807fu) | ((118u + random() % 7u) << 7));
    else
      bits = static_cast<std::uint16_t>((mantissa & 0x83ffu) | ((random() % 97 == 0 ? 0u : 6u + random() % 7u) << 10));
    std::memcpy(bytes.data() + at, &bits, 2);
  };
  if (dtype == DType::kF16 || dtype == DType::kBF16) {
    for (std::size_t at = 0; at < bytes.size(); at += 2) set_half(at);
  } else {
    for (std::size_t block = 0; block < bytes.size(); block += static_cast<std::size_t>(block_bytes(dtype)))
      for (int at : half_offsets(dtype)) set_half(block + static_cast<std::size_t>(at));
  }
  return bytes;
}

std::vector<float> dequantised(DType dtype, const std::vector<std::byte>& bytes, int rows, int cols) {
  std::vector<float> values(static_cast<std::size_t>(rows) * cols);
  dequantise(dtype, bytes, values);
  return values;
}

}  // namespace monograph::test
