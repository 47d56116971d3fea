#include "tests/e2e/support/rig.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <utility>

#include "base/check.h"
#include "graph/ladder.h"
#include "tests/golden/recipe_model.h"

namespace monograph::e2e {
namespace {

KvCacheShape cache_shape(const ModelConfig& config, const Ops& ops, int block_size) {
  KvCacheShape shape;
  shape.n_layers = config.n_layers;
  shape.n_kv_heads = config.n_kv_heads;
  shape.head_dim = config.head_dim;
  shape.block_size = block_size;
  shape.dtype = ops.activation_dtype();
  return shape;
}

RunnerConfig runner_config(const RigOptions& options, int block_size) {
  RunnerConfig config;
  config.enable_graphs = options.enable_graphs;
  config.prefill_buckets = options.prefill_buckets;
  config.decode_buckets = options.decode_buckets;
  config.max_rows = options.max_rows;
  config.max_seqs = options.max_seqs;
  config.max_seq_len = options.max_seq_len;
  config.block_size = block_size;
  config.skip_padding = options.skip_padding;
  config.strict = true;
  return config;
}

}  // namespace

Rig::Rig(const std::string& model_path, RigOptions options)
    : options_(std::move(options)),
      backend_(make_backend(options_.backend, Log())),
      files_(open_model(model_path)),
      model_(load_model(*files_, backend_, options_.max_seq_len, {})) {
  cache_ = std::make_unique<KvCache>(*backend_.device, cache_shape(model_->config(), *backend_.ops, kBlockSize),
                                     options_.n_blocks);
  const int n_scratch = (options_.prefill_buckets.back() + kBlockSize - 1) / kBlockSize;
  std::vector<std::int32_t> scratch;
  for (int block = 1; block < options_.n_blocks; ++block) (block <= n_scratch ? scratch : free_).push_back(block);
  references_.assign(static_cast<std::size_t>(options_.n_blocks), 0);
  runner_ =
      make_runner(runner_config(options_, kBlockSize), *model_, backend_, cache_->layers(), {{"full", scratch}}, Log());
}

Sequence Rig::start(std::span<const std::int32_t> tokens, int history_row) const {
  Sequence sequence;
  sequence.tokens.assign(tokens.begin(), tokens.end());
  sequence.history_row = history_row;
  return sequence;
}

void Rig::share_prefix(Sequence& to, const Sequence& from, int n_tokens) {
  CHECK(n_tokens % kBlockSize == 0 && n_tokens <= from.n_cached && to.blocks.empty());
  to.blocks.assign(from.blocks.begin(), from.blocks.begin() + n_tokens / kBlockSize);
  for (std::int32_t block : to.blocks) ++references_[static_cast<std::size_t>(block)];
  to.n_cached = to.n_found = n_tokens;
}

void Rig::drop(Sequence& sequence) {
  for (std::int32_t block : sequence.blocks)
    if (--references_[static_cast<std::size_t>(block)] == 0) free_.push_back(block);
  sequence.blocks.clear();
  sequence.n_cached = sequence.n_found = 0;
}

void Rig::cover(Sequence& sequence, int n_tokens) {
  while (static_cast<int>(sequence.blocks.size()) * kBlockSize < n_tokens) {
    CHECK(!free_.empty());
    // From the end: the block given up last, full of someone's K and V, is the next one taken.
    sequence.blocks.push_back(free_.back());
    free_.pop_back();
    ++references_[static_cast<std::size_t>(sequence.blocks.back())];
  }
}

Batch Rig::make_batch(std::span<const Piece> pieces) {
  Batch batch;
  for (const Piece& piece : pieces) {
    Sequence& sequence = *piece.sequence;
    const int end = sequence.n_cached + piece.n_tokens;
    CHECK(piece.n_tokens > 0 && end <= static_cast<int>(sequence.tokens.size()));
    cover(sequence, end);
    batch.input_ids.insert(batch.input_ids.end(), sequence.tokens.begin() + sequence.n_cached,
                           sequence.tokens.begin() + end);
    BatchRow row;
    row.n_tokens = piece.n_tokens;
    row.prefix = sequence.n_cached;
    row.prefill = piece.prefill;
    row.block_tables = {sequence.blocks};
    row.sampling.samples = 1;
    row.sampling.history_row = sequence.history_row;
    row.sampling.prompt_len = static_cast<int>(sequence.tokens.size());
    row.found = std::span(sequence.tokens).first(static_cast<std::size_t>(std::exchange(sequence.n_found, 0)));
    batch.rows.push_back(std::move(row));
    sequence.n_cached = end;
  }
  return batch;
}

StepOutput Rig::step(std::span<const Piece> pieces, Mode mode) {
  const Batch batch = make_batch(pieces);
  StepOutput output;
  if (mode == Mode::kRun) {
    output.result = runner_->run(batch);
    CHECK(!options_.enable_graphs || output.result.replayed);
  } else {
    const auto bucket = pick_bucket(options_.prefill_buckets, batch.n_tokens());
    output.result = runner_->run_eager(batch, mode == Mode::kEagerBucket ? bucket.value_or(0) : 0);
  }
  const std::size_t n_rows = pieces.size(), vocab = static_cast<std::size_t>(config().vocab_size);
  const std::vector<float> all = runner_->last_logits(static_cast<int>(n_rows));
  for (std::size_t r = 0; r < n_rows; ++r)
    output.logits.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(r * vocab),
                               all.begin() + static_cast<std::ptrdiff_t>((r + 1) * vocab));
  return output;
}

Logits Rig::advance(Sequence& sequence, int n_tokens, bool prefill, Mode mode) {
  const Piece piece{&sequence, n_tokens, prefill};
  return step({&piece, 1}, mode).logits[0];
}

Logits Rig::one_shot(std::span<const std::int32_t> tokens, Mode mode) {
  return chunked(tokens, static_cast<int>(tokens.size()), mode);
}

Logits Rig::chunked(std::span<const std::int32_t> tokens, int chunk, Mode mode) {
  Sequence sequence = start(tokens);
  Logits logits;
  while (sequence.n_cached < static_cast<int>(tokens.size()))
    logits = advance(sequence, std::min(chunk, static_cast<int>(tokens.size()) - sequence.n_cached), true, mode);
  drop(sequence);
  return logits;
}

bool full() {
  const char* wish = std::getenv("MONOGRAPH_E2E");
  return wish != nullptr && std::string(wish) == "full";
}

namespace {
// Models that follow from a rule are written when they are asked for; under another name first, so that a program
// beside this one never reads half a file.
std::string written_recipe(const std::string& name) {
  const std::string path = testing::TempDir() + "/" + name, partial = path + "." + std::to_string(::getpid());
  for (const DType dtype : golden::kRecipeTypes) {
    std::string type(to_string(dtype));
    std::transform(type.begin(), type.end(), type.begin(), [](unsigned char c) { return std::tolower(c); });
    if (name != "recipe-" + type + ".gguf") continue;
    std::ofstream(partial, std::ios::binary) << golden::recipe_model(dtype);
    std::filesystem::rename(partial, path);
  }
  return path;
}
}  // namespace

std::string tiny_model(const std::string& name) {
  if (name.starts_with("recipe-")) return written_recipe(name);
  const std::string base = std::string(MONOGRAPH_SOURCE_DIR) + "/tests/golden/models/" + name;
  const std::string stem = name.substr(0, name.rfind(".gguf"));
  if (!std::filesystem::exists(base))  // split: named by its first file
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(base).parent_path()))
      if (entry.path().filename().string().starts_with(stem + "-00001-of-")) return entry.path().string();
  return base;
}

std::string golden_file(const std::string& name) {
  return std::string(MONOGRAPH_SOURCE_DIR) + "/tests/golden/logits/" + name + ".golden";
}

double relative_error(const Logits& logits, const Logits& reference) {
  double worst = 0, largest = 0;
  if (logits.size() != reference.size() || logits.empty()) return std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, std::abs(double{logits[i]} - reference[i]));
    largest = std::max(largest, std::abs(double{reference[i]}));
  }
  return worst / largest;
}

bool same_bits(const Logits& a, const Logits& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

int argmax(const Logits& logits) {
  return static_cast<int>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace monograph::e2e
