#include <algorithm>
#include <cstdio>
#include <limits>
#include <numeric>
#include <utility>

#include "commands.h"
#include "graph/ladder.h"
#include "graph/padding.h"
#include "monograph/error.h"

namespace monograph::app {
namespace {

[[noreturn]] void refuse(const std::string& flag, const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, flag + ": " + what, flag);
}

int ceil_div(int a, int b) { return (a + b - 1) / b; }

/// Everything the layout needs, defaults filled in and checked.
struct Plan {
  std::vector<int> lengths, prefixes;
  int n_tokens = 0, capacity = 0, max_rows = 0, block_size = 0, width = 0, position_factor = 0;
  std::vector<std::int32_t> table;  // [S, width]
};

int choose_bucket(const Settings& settings, int n_tokens) {
  if (settings.plan.bucket > 0) return settings.plan.bucket;
  const int last = settings.engine.chunk_size.value_or(2048);
  const auto ladder = default_ladder(last, settings.engine.max_seq_len.value_or(last));
  const auto bucket = pick_bucket(ladder, n_tokens);
  if (!bucket)
    refuse("--lengths", std::to_string(n_tokens) + " tokens in all, the default ladder ends at " +
                            std::to_string(ladder.back()) + "; give --bucket or --chunk-size");
  return *bucket;
}

std::vector<int> blocks_of_row(const PlanSettings& p, std::size_t row, int needed, int& next_free) {
  if (p.tables.empty()) {
    std::vector<int> blocks(static_cast<std::size_t>(needed));
    std::iota(blocks.begin(), blocks.end(), std::exchange(next_free, next_free + needed));
    return blocks;
  }
  const auto& given = p.tables[row];
  if (static_cast<int>(given.size()) < needed)
    refuse("--tables", "sequence " + std::to_string(row) + " needs " + std::to_string(needed) + " blocks, " +
                           std::to_string(given.size()) + " are given");
  return given;
}

std::vector<int> scratch_blocks(const PlanSettings& p, int needed, int next_free) {
  if (!p.scratch.empty() && static_cast<int>(p.scratch.size()) < needed)
    refuse("--scratch", std::to_string(needed) + " blocks are needed for the bucket, " +
                            std::to_string(p.scratch.size()) + " are given");
  if (!p.scratch.empty()) return p.scratch;
  std::vector<int> blocks(static_cast<std::size_t>(needed));
  std::iota(blocks.begin(), blocks.end(), next_free);
  return blocks;
}

constexpr std::int64_t kMaxTableEntries = 1 << 22;

/// Rows of the sequences, zero rows, the scratch row.
void fill_table(Plan& plan, const Settings& settings) {
  std::vector<std::vector<int>> rows;
  int next_free = 1;
  for (std::size_t i = 0; i < plan.lengths.size(); ++i) {
    const int needed = ceil_div(plan.lengths[i] + plan.prefixes[i], plan.block_size);
    rows.push_back(blocks_of_row(settings.plan, i, needed, next_free));
  }
  rows.resize(static_cast<std::size_t>(plan.max_rows));
  rows.push_back(scratch_blocks(settings.plan, ceil_div(plan.capacity, plan.block_size), next_free));
  for (const auto& row : rows) plan.width = std::max(plan.width, static_cast<int>(row.size()));
  if (settings.engine.max_seq_len)
    plan.width = std::max(plan.width, ceil_div(*settings.engine.max_seq_len, plan.block_size));
  if (std::int64_t{plan.width} * (plan.max_rows + 1) > kMaxTableEntries)
    refuse("--block-size", "a table of " + std::to_string(plan.max_rows + 1) + " rows and " +
                               std::to_string(plan.width) + " blocks is too large to print");
  for (auto& row : rows) {
    for (int block : row)
      if (block >= std::numeric_limits<std::int32_t>::max() / plan.block_size)
        refuse("--tables, --scratch", "block " + std::to_string(block) + " is outside the int32 places of a cache");
    row.resize(static_cast<std::size_t>(plan.width), 0);
    plan.table.insert(plan.table.end(), row.begin(), row.end());
  }
}

Plan make_plan(const Settings& settings) {
  const PlanSettings& p = settings.plan;
  if (p.lengths.empty()) refuse("--lengths", "missing, expected the new tokens of each sequence, as 5,4");
  Plan plan;
  plan.lengths = p.lengths;
  plan.prefixes = p.prefixes.empty() ? std::vector<int>(p.lengths.size(), 0) : p.prefixes;
  const int n = static_cast<int>(p.lengths.size());
  const auto count = [&](const char* flag, std::size_t found) {
    if (static_cast<int>(found) != n)
      refuse(flag, std::to_string(found) + " entries for " + std::to_string(n) + " sequences");
  };
  count("--prefixes", plan.prefixes.size());
  if (!p.tables.empty()) count("--tables", p.tables.size());
  plan.max_rows = p.max_requests > 0 ? p.max_requests : n;
  if (n > plan.max_rows)
    refuse("--max-requests", std::to_string(plan.max_rows) + " is below the " + std::to_string(n) + " sequences given");
  const auto total = std::accumulate(p.lengths.begin(), p.lengths.end(), std::int64_t{0});
  if (total > kMaxBucket) refuse("--lengths", std::to_string(total) + " tokens in all, at most 65536 fit a bucket");
  plan.n_tokens = static_cast<int>(total);
  plan.capacity = choose_bucket(settings, plan.n_tokens);
  if (plan.n_tokens > plan.capacity)
    refuse("--bucket",
           std::to_string(plan.capacity) + " is below the " + std::to_string(plan.n_tokens) + " tokens given");
  plan.block_size = settings.engine.block_size;
  plan.position_factor = p.position_factor;
  fill_table(plan, settings);
  return plan;
}

/// The arrays of a PaddedLayout.
struct Arrays {
  explicit Arrays(const Plan& plan)
      : slots(static_cast<std::size_t>(plan.max_rows) + 1), capacity(static_cast<std::size_t>(plan.capacity)) {
    for (auto* array : {&input_lengths, &prefix_lengths, &kv_lens}) array->resize(slots);
    for (auto* array : {&cu_seqlens, &cu_kv_seqlens}) array->resize(slots + 1);
    for (auto* array : {&padding_offset, &positions, &kv_locs}) array->resize(capacity);
    sample_rows.resize(slots - 1);
    const PaddedLayout layout{input_lengths, prefix_lengths, kv_lens,   cu_seqlens,
                              cu_kv_seqlens, padding_offset, positions, sample_rows};
    if (!build_padded_layout(plan.lengths, plan.prefixes, plan.capacity, plan.max_rows, layout))
      throw Error(ErrorCode::kInternal, "plan: the layout was refused");
    build_kv_locs(layout, plan.table, plan.width, plan.block_size, kv_locs);
  }
  std::size_t slots, capacity;
  std::vector<std::int32_t> input_lengths, prefix_lengths, kv_lens, cu_seqlens, cu_kv_seqlens, padding_offset,
      positions, kv_locs, sample_rows;
};

std::string joined(std::span<const std::int32_t> values, const char* separator = ", ") {
  std::string text;
  for (auto value : values) text.append(text.empty() ? "" : separator).append(std::to_string(value));
  return text;
}

/// Equal neighbours as "5 x 0".
std::string runs(std::span<const std::int32_t> values) {
  std::string text;
  for (std::size_t i = 0; i < values.size();) {
    std::size_t end = i;
    while (end < values.size() && values[end] == values[i]) ++end;
    text.append(text.empty() ? "" : ", ").append(std::to_string(end - i) + " x " + std::to_string(values[i]));
    i = end;
  }
  return text;
}

/// Values that count up as "28..31".
std::string ranges(std::span<const std::int32_t> values) {
  std::string text;
  for (std::size_t i = 0; i < values.size();) {
    std::size_t end = i + 1;
    while (end < values.size() && values[end] == values[end - 1] + 1) ++end;
    text.append(text.empty() ? "" : ", ").append(std::to_string(values[i]));
    if (end - i > 1) text.append("..").append(std::to_string(values[end - 1]));
    i = end;
  }
  return text;
}

std::string table_rows(const Plan& plan) {
  std::string text;
  for (std::size_t at = 0; at < plan.table.size(); at += static_cast<std::size_t>(plan.width))
    text.append(at > 0 ? " / " : "")
        .append("[" + joined(std::span(plan.table).subspan(at, static_cast<std::size_t>(plan.width)), ",") + "]");
  return text;
}

/// Which tokens write to which block.
std::string writes(const Plan& plan, const Arrays& a, int first, int last) {
  std::string text;
  for (int t = first; t < last;) {
    const int block = a.kv_locs[static_cast<std::size_t>(t)] / plan.block_size;
    int end = t;
    while (end < last && a.kv_locs[static_cast<std::size_t>(end)] / plan.block_size == block) ++end;
    text.append(text.empty() ? "" : ", ").append("block " + std::to_string(block) + ": " + std::to_string(t));
    if (end - t > 1) text.append("-" + std::to_string(end - 1));
    t = end;
  }
  return text.empty() ? "none" : text;
}

/// Query-key pairs that causal attention computes: each new token sees the prefix, the earlier new ones and itself.
std::string causal_pairs(const Plan& plan) {
  const auto pairs = [](std::int64_t length, std::int64_t prefix) {
    return length * (length + 1) / 2 + length * prefix;
  };
  std::int64_t real = 0;
  for (std::size_t i = 0; i < plan.lengths.size(); ++i) real += pairs(plan.lengths[i], plan.prefixes[i]);
  return std::to_string(real) + " real, " + std::to_string(pairs(plan.capacity - plan.n_tokens, 0)) +
         " sentinel (computed only with --skip-padding=false)";
}

}  // namespace

std::string plan_text(const Settings& settings) {
  const Plan plan = make_plan(settings);
  const Arrays a(plan);
  const int c = plan.capacity, t = plan.n_tokens, p = plan.position_factor;
  std::string text = "C " + std::to_string(c) + ", Bmax " + std::to_string(plan.max_rows) + ", S " +
                     std::to_string(a.slots) + ", R " + std::to_string(plan.lengths.size()) + ", T " +
                     std::to_string(t) + ", block size " + std::to_string(plan.block_size) + ", W " +
                     std::to_string(plan.width) + ", P " + std::to_string(p) + "\n\n";
  const auto line = [&](std::string name, const std::string& value) {
    name.resize(20, ' ');
    text += name + value + "\n";
  };
  const auto interval = [](int from, int to) { return "[" + std::to_string(from) + "," + std::to_string(to) + ")"; };
  line("n_tokens, n_seqs", std::to_string(t) + ", " + std::to_string(plan.lengths.size()));
  line("input_ids", "real " + interval(0, t) + ", pad id " + interval(t, c));
  line("input_lengths", "[" + joined(a.input_lengths) + "]");
  line("prefix_lengths", "[" + joined(a.prefix_lengths) + "]");
  line("kv_lens", "[" + joined(a.kv_lens) + "]");
  line("cu_seqlens", "[" + joined(a.cu_seqlens) + "]");
  line("cu_kv_seqlens", "[" + joined(a.cu_kv_seqlens) + "]");
  line("padding_offset", runs(a.padding_offset));
  line("positions", ranges(a.positions));
  line("block_table", table_rows(plan));
  line("kv_locs", ranges(a.kv_locs));
  line("sample_rows", "[" + joined(std::span(a.sample_rows).first(plan.lengths.size())) + "]");
  line("combo_position_ids", p == 0 ? "none" : "copy " + interval(0, t * p) + ", zero " + interval(t * p, c * p));
  text += "\n";
  line("KV writes", writes(plan, a, 0, t));
  line("with padding", writes(plan, a, t, c));
  line("causal pairs", causal_pairs(plan));
  return text;
}

int plan(const Settings& settings) {
  std::fputs(plan_text(settings).c_str(), stdout);
  return kExitOk;
}

}  // namespace monograph::app
