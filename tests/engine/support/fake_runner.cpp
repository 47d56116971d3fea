#include "tests/engine/support/fake_runner.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/check.h"

namespace monograph {
namespace {

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace

TokenId fake_next_token(std::span<const TokenId> tokens, const SlotSampling& sampling, std::span<const TokenId> banned,
                        int vocab_size) {
  std::uint64_t h = sampling.temperature > 0 ? sampling.seed : 0x9e3779b97f4a7c15ull;
  for (TokenId token : tokens) h = mix(h + 0x9e3779b97f4a7c15ull + static_cast<std::uint64_t>(token));
  auto token = static_cast<TokenId>(h % static_cast<std::uint64_t>(vocab_size));
  while (std::ranges::find(banned, token) != banned.end()) token = (token + 1) % vocab_size;
  return token;
}

std::vector<TokenId> fake_output(std::vector<TokenId> prompt, const SlotSampling& sampling, int max_tokens,
                                 int min_tokens, const std::set<TokenId>& end_ids, int vocab_size) {
  std::vector<TokenId> tokens = std::move(prompt), output;
  const std::vector<TokenId> ends(end_ids.begin(), end_ids.end());
  while (static_cast<int>(output.size()) < max_tokens) {
    const bool may_end = static_cast<int>(output.size()) >= min_tokens;
    output.push_back(fake_next_token(tokens, sampling, may_end ? std::span<const TokenId>() : ends, vocab_size));
    tokens.push_back(output.back());
    if (end_ids.contains(output.back())) break;
  }
  return output;
}

FakeRunner::FakeRunner(const FakeRunnerConfig& config) : config_(config) {
  cells_.assign(static_cast<std::size_t>(config.n_blocks) * config.block_size, -1);
  history_.resize(static_cast<std::size_t>(config.max_seqs));
  stats_.fallbacks.assign(kPrefillStatusCount, 0);
  stats_.decode_misses.assign(kPrefillStatusCount, 0);
}

std::vector<float> FakeRunner::last_logits(int n_rows) {
  return std::vector<float>(static_cast<std::size_t>(n_rows) * config_.vocab_size);
}
Eligibility FakeRunner::check(const Batch&) const { return {PrefillStatus::kReplayed, config_.chunk_size, {}}; }
StepResult FakeRunner::run_eager(const Batch& batch, int) { return run(batch); }

/// What every planned step must keep (KV09: a sequence is in a step once).
void FakeRunner::check_step(const Batch& batch) const {
  CHECK(!batch.rows.empty());
  const int n_rows = static_cast<int>(batch.rows.size());
  if (batch.has_prefill())
    CHECK(n_rows <= config_.max_rows && batch.n_tokens() <= config_.chunk_size);
  else
    CHECK(n_rows <= config_.max_seqs && batch.n_tokens() == n_rows);
  std::set<int> history_rows;
  std::set<std::int32_t> written;
  int n_tokens = 0;
  for (const BatchRow& row : batch.rows) {
    CHECK(row.n_tokens >= 1 && (row.prefill || row.n_tokens == 1));
    CHECK(row.prefix + row.n_tokens <= config_.max_seq_len);
    CHECK(history_rows.insert(row.sampling.history_row).second);
    CHECK(row.sampling.history_row >= 0 && row.sampling.history_row < config_.max_seqs);
    CHECK(static_cast<int>(row.found.size()) <= row.prefix);
    n_tokens += row.n_tokens;
    const auto& table = row.block_tables.at(0);
    for (int at = row.prefix / config_.block_size; at * config_.block_size < row.prefix + row.n_tokens; ++at)
      CHECK(written.insert(table.at(static_cast<std::size_t>(at))).second);  // no block is written by two rows
    for (std::int32_t block : table) CHECK(block > 0 && block < config_.n_blocks);
  }
  CHECK(n_tokens == batch.n_tokens());
}

void FakeRunner::write(const Batch& batch, bool garbage) {
  std::size_t next = 0;
  for (const BatchRow& row : batch.rows)
    for (int i = row.prefix; i < row.prefix + row.n_tokens; ++i, ++next) {
      const auto block =
          static_cast<std::size_t>(row.block_tables[0][static_cast<std::size_t>(i / config_.block_size)]);
      cells_[block * config_.block_size + i % config_.block_size] = garbage ? -7 : batch.input_ids[next];
    }
}

std::vector<TokenId> FakeRunner::read(const BatchRow& row) const {
  std::vector<TokenId> tokens;
  for (int i = 0; i < row.prefix + row.n_tokens; ++i) {
    const auto block = static_cast<std::size_t>(row.block_tables[0][static_cast<std::size_t>(i / config_.block_size)]);
    tokens.push_back(cells_[block * config_.block_size + i % config_.block_size]);
  }
  return tokens;
}

void FakeRunner::check_history(const BatchRow& row, const std::vector<TokenId>& tokens) const {
  const auto& history = history_[static_cast<std::size_t>(row.sampling.history_row)];
  CHECK(history.size() >= tokens.size() && std::equal(tokens.begin(), tokens.end(), history.begin()));
}

StepResult FakeRunner::run(const Batch& batch) {
  check_step(batch);
  const std::int64_t step = stats_.steps + 1;
  if (keep_batches) batches.push_back(batch);
  if (before_step) {
    try {
      before_step(step, batch);
    } catch (...) {
      ++stats_.steps;
      write(batch, true);
      throw;
    }
  }
  ++stats_.steps;
  write(batch, false);
  StepResult result;
  result.step = step;
  result.replayed = true;
  result.bucket = batch.n_tokens();
  if (batch.has_prefill()) result.status = PrefillStatus::kReplayed;
  std::size_t next = 0;
  for (const BatchRow& row : batch.rows) {
    auto& history = history_[static_cast<std::size_t>(row.sampling.history_row)];
    history.resize(static_cast<std::size_t>(row.prefix + row.n_tokens), -3);
    std::ranges::copy(row.found, history.begin());
    std::copy_n(batch.input_ids.begin() + static_cast<std::ptrdiff_t>(next), row.n_tokens,
                history.begin() + row.prefix);
    next += static_cast<std::size_t>(row.n_tokens);
    SampledRow sampled;
    if (row.sampling.samples) {
      const std::vector<TokenId> tokens = read(row);
      if (row.sampling.repetition_penalty != 1.0f) check_history(row, tokens);
      sampled.token = fake_next_token(tokens, row.sampling, row.banned, config_.vocab_size);
      sampled.logprob = -1.0f;
    }
    result.rows.push_back(sampled);
  }
  if (after_step) after_step(step, result);
  return result;
}

}  // namespace monograph
