#include "tests/lane_run/requests.h"

#include <algorithm>
#include <numeric>

#include "engine/positions.h"

namespace monograph::lane_run {
namespace {

ModelConfig model_of(const World& world) {
  ModelConfig model = testing::tiny_config();
  const bool gpu = world.device != "cpu";  // whose kernels know no smaller shapes
  model.model_dim = gpu ? 64 : 32;
  model.ffn_dim = gpu ? 128 : 32;
  model.n_layers = gpu ? 2 : 1;
  model.n_heads = gpu ? 4 : 2;
  model.n_kv_heads = gpu ? 2 : 1;
  model.vocab_size = gpu ? 130 : 40;
  if (world.position_factor > 0) {
    model.position_factor = 3;
    model.rope.mrope_sections = {3, 2, 3};
  }
  return model;
}

std::vector<TokenId> random_tokens(Random& random, int n, int vocab_size) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back(below(random, vocab_size));
  return tokens;
}

void choose_sampling(Random& random, Ask& ask, int vocab_size) {
  SlotSampling& s = ask.sampling;
  s.seed = random();
  s.n_logprobs = one_in(random, 3) ? 3 : 0;
  if (one_in(random, 2)) s.temperature = 0.2f + 0.1f * static_cast<float>(below(random, 15));
  if (one_in(random, 4)) s.top_k = 1 + below(random, vocab_size);
  if (one_in(random, 4)) s.top_p = 0.3f + 0.1f * static_cast<float>(below(random, 7));
  if (one_in(random, 6)) s.min_p = 0.05f;
  if (one_in(random, 3)) {  // the history that these read skips a prefix hit's tokens
    s.repetition_penalty = 1.3f;
    s.presence_penalty = 0.5f;
    s.frequency_penalty = -0.2f;
  }
  if (one_in(random, 5)) ask.bias = {{below(random, vocab_size), 3.0f}};
  if (one_in(random, 3)) ask.end_ids = {below(random, vocab_size)};
  ask.min_tokens = one_in(random, 3) ? below(random, ask.max_tokens + 1) : 0;
}

}  // namespace

testing::LaneOptions World::lane() const {
  testing::LaneOptions options;
  options.device = device;
  options.activation_dtype = dtype;
  options.model = model_of(*this);
  options.block_size = block_size;
  options.runner.max_seq_len = max_seq_len;
  return options;
}

Ask make_ask(const World& world, std::uint64_t number) {
  Random random(number * 0x9e3779b97f4a7c15ull + 1);
  const int vocab_size = model_of(world).vocab_size;
  Ask ask;
  // A few beginnings that many requests share, cut anywhere, also inside a block.
  if (!one_in(random, 3)) {
    Random shared(77 + random() % 3);
    ask.prompt = random_tokens(shared, world.max_seq_len / 2, vocab_size);
    ask.prompt.resize(static_cast<std::size_t>(1 + below(random, world.max_seq_len / 2)));
  }
  const int most = world.max_seq_len - 2 - static_cast<int>(ask.prompt.size());
  for (TokenId id : random_tokens(random, 1 + below(random, one_in(random, 4) ? most : most / 4 + 1), vocab_size))
    ask.prompt.push_back(id);
  const int n = static_cast<int>(ask.prompt.size());
  ask.max_tokens = 1 + below(random, one_in(random, 4) ? world.max_seq_len - n : std::min(8, world.max_seq_len - n));
  choose_sampling(random, ask, vocab_size);
  if (one_in(random, 12)) ask.salt = "other";
  if (world.position_factor > 0 && one_in(random, 2)) {
    Random shared(5 + random() % 2);
    for (int i = 0; i < 3 * n; ++i) ask.position_ids.push_back(below(shared, world.max_seq_len - ask.max_tokens));
  }
  return ask;
}

std::unique_ptr<Sequence> make_sequence(const Ask& ask) {
  auto sequence = std::make_unique<Sequence>();
  sequence->tokens = ask.prompt;
  sequence->prompt_len = static_cast<int>(ask.prompt.size());
  sequence->sampling = ask.sampling;
  sequence->bias = ask.bias;
  sequence->end_ids = ask.end_ids;
  sequence->min_tokens = ask.min_tokens;
  sequence->max_tokens = ask.max_tokens;
  sequence->salt = ask.salt;
  sequence->position_ids = ask.position_ids;
  if (!ask.position_ids.empty()) sequence->last_position = *std::ranges::max_element(ask.position_ids);
  return sequence;
}

void Answer::add(const SampledRow& row) {
  ids.push_back(row.token);
  logprobs.push_back(row.logprob);
  logprobs.insert(logprobs.end(), row.top_logprobs, row.top_logprobs + row.n_top);
}

bool Answer::begins(const Answer& whole) const {
  return ids.size() <= whole.ids.size() && logprobs.size() <= whole.logprobs.size() &&
         std::equal(ids.begin(), ids.end(), whole.ids.begin()) &&
         std::equal(logprobs.begin(), logprobs.end(), whole.logprobs.begin());
}

namespace {

testing::LaneOptions solo_lane(const World& world) {
  testing::LaneOptions options = world.lane();
  options.runner.enable_graphs = false;
  options.runner.last_layer = LastLayer::kAll;
  options.runner.max_seqs = options.runner.max_rows = 1;
  options.runner.max_eager_tokens = world.max_seq_len;
  options.n_blocks = 1 + world.max_seq_len / world.block_size;
  options.n_scratch = 0;
  return options;
}

}  // namespace

Oracle::Oracle(const World& world) : world_(world), lane_(solo_lane(world)) {}

const Answer& Oracle::answer(std::uint64_t number, bool keep) {
  if (const auto known = known_.find(number); known != known_.end()) return known->second;
  Answer found = run(make_ask(world_, number));
  return keep ? known_[number] = std::move(found) : last_ = std::move(found);
}

Answer Oracle::run(const Ask& ask) {
  auto sequence = make_sequence(ask);
  std::vector<TokenId>& tokens = sequence->tokens;
  Answer answer;
  for (int cached = 0; static_cast<int>(answer.ids.size()) < ask.max_tokens;) {
    Batch batch;
    BatchRow row;
    row.prefix = cached;
    row.n_tokens = static_cast<int>(tokens.size()) - cached;
    row.prefill = cached == 0;
    std::vector<std::int32_t> blocks((tokens.size() + world_.block_size - 1) / world_.block_size);
    std::iota(blocks.begin(), blocks.end(), 1);
    row.block_tables = {blocks};
    row.sampling = ask.sampling;
    row.sampling.samples = 1;
    row.sampling.prompt_len = sequence->prompt_len;
    row.bias = ask.bias;
    const int n_output = static_cast<int>(answer.ids.size());
    if (n_output < ask.min_tokens) row.banned = ask.end_ids;
    batch.input_ids.assign(tokens.begin() + cached, tokens.end());
    if (world_.position_factor > 0)
      append_positions(batch.position_ids.emplace(), *sequence, cached, row.n_tokens, world_.position_factor);
    batch.rows.push_back(std::move(row));
    cached = static_cast<int>(tokens.size());
    const SampledRow sampled = lane_.runner().run(batch).rows[0];
    answer.add(sampled);
    tokens.push_back(sampled.token);
    if (std::ranges::find(ask.end_ids, sampled.token) != ask.end_ids.end()) break;  // forbidden before min_tokens
  }
  return answer;
}

}  // namespace monograph::lane_run
