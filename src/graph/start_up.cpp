#include "graph/start_up.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>

#include "graph/capture.h"
#include "monograph/error.h"

namespace monograph {
namespace {

using Clock = std::chrono::steady_clock;

class StartUp {
 public:
  StartUp(const RunnerConfig& config, const FamilyParts& parts, const Log& log)
      : config_(config), parts_(parts), model_(parts.context.model->config()), log_(log) {}

  Families run() {
    made_.eager = make_family(parts_.max_tokens, parts_.max_rows, {});
    made_.decode_status = start_decode();
    made_.extend_status = start_extend();
    return std::move(made_);
  }

 private:
  std::unique_ptr<GraphFamily> make_family(int max_tokens, int max_rows,
                                           const std::vector<std::vector<std::int32_t>>& scratch) const {
    InputShape shape;
    shape.max_tokens = max_tokens;
    shape.max_rows = max_rows;
    shape.block_size = config_.block_size;
    shape.table_width = config_.table_width();
    shape.n_groups = static_cast<int>(config_.groups.size());
    shape.position_factor = model_.position_factor;
    shape.max_seqs = config_.max_seqs;
    shape.max_seq_len = config_.max_seq_len;
    return std::make_unique<GraphFamily>(parts_.context, shape, scratch, pad_token(), parts_.history);
  }

  /// Both readers of model files keep it inside the vocabulary (S-42).
  std::int32_t pad_token() const { return model_.pad_token_id.value_or(0); }

  Deployment deployment(bool wanted, const std::vector<int>& ladder) const {
    Deployment d;
    d.graphs = config_.enable_graphs;
    d.prefill_graphs = wanted;
    d.topology = config_.topology;
    d.instance = config_.instance;
    d.groups = config_.groups;
    d.ladder = ladder;
    for (const auto& blocks : parts_.scratch) d.n_scratch.push_back(static_cast<int>(blocks.size()));
    const int largest = ladder.empty() ? 0 : ladder.back();
    d.n_scratch_needed = std::min((largest + config_.block_size - 1) / config_.block_size, config_.table_width());
    return d;
  }

  /// Outcome of start-up per family: kReplayed stands for "ready". Under `strict` a degradation is an error (D6).
  PrefillStatus start_decode() {
    const auto& ladder = config_.decode_buckets;
    const Eligibility gates = check_deployment(deployment(!ladder.empty(), ladder));
    if (!gates.ok()) return degrade("decode", {gates.status, gates.detail});
    const auto failure = try_to_capture([&] {
      if (!parts_.attention.refreshes_in_place)
        throw AttentionUnsupported("attention " + parts_.attention.name + " cannot refresh its parameters in place");
      made_.decode = captured_family(GraphRole::kDecode, ladder, config_.max_seqs);
    });
    return failure ? degrade("decode", *failure) : PrefillStatus::kReplayed;
  }

  PrefillStatus start_extend() {
    const auto& ladder = config_.prefill_buckets;
    const Eligibility gates = check_deployment(deployment(config_.enable_prefill_graphs, ladder));
    if (!gates.ok()) return degrade("prefill", {gates.status, gates.detail});
    const auto failure = try_to_capture([&] {
      plan_prefill_attention();
      made_.extend = captured_family(GraphRole::kExtend, ladder, config_.max_rows);
      measure_buckets();
    });
    if (!failure) return PrefillStatus::kReplayed;
    made_.extend.reset();
    made_.policy = {};
    std::erase_if(made_.captures, [](const CaptureRecord& c) { return c.family == to_string(GraphRole::kExtend); });
    return degrade("prefill", *failure);
  }

  /// Before anything is captured: graph and eager must run the same attention, and it must be safe in a graph.
  void plan_prefill_attention() {
    const AttentionBackend& planned =
        parts_.context.model->plan_attention(*parts_.context.backend, AttentionMode::kPrefillGraph);
    if (&planned != &parts_.attention || !planned.capabilities.prefill_graph)
      throw AttentionUnsupported("attention " + planned.name + ": eager runs " + parts_.attention.name +
                                 ", a prefill graph needs the same one and declared safe");
  }

  void check_cancelled() const {
    if (config_.cancelled && config_.cancelled()) throw Error(ErrorCode::kCancelled, "the start was cancelled");
  }

  PrefillStatus degrade(const char* family, const CleanFailure& why) {
    if (why.status == PrefillStatus::kNotRequested) return why.status;
    const std::string line =
        std::string(family) + " graphs are off: reason=" + std::string(to_string(why.status)) + " detail=" + why.detail;
    if (config_.strict) throw Error(ErrorCode::kUnsupported, line + " (--strict-cuda-graph)");
    log_.warning(line);
    return why.status;
  }

  std::unique_ptr<GraphFamily> captured_family(GraphRole role, const std::vector<int>& ladder, int max_rows) {
    auto family = make_family(ladder.back(), max_rows, parts_.scratch);
    const std::string name(to_string(role));
    double us = 0;
    std::int64_t bytes = 0;
    for (const auto& captured : family->capture(ladder, [this] { check_cancelled(); })) {
      made_.captures.push_back({name, captured.bucket, captured.us, captured.bytes, captured.nodes});
      us += captured.us;
      bytes += captured.bytes;
    }
    log_.info(name + " graphs: " + std::to_string(ladder.size()) + " buckets up to " + std::to_string(ladder.back()) +
              " captured in " + std::to_string(static_cast<std::int64_t>(us / 1000)) + " ms, " + std::to_string(bytes) +
              " bytes");
    return family;
  }

  /// Times a full step of each bucket both ways, on a row that lives in scratch (D3).
  void measure_buckets() {
    for (const auto& [bucket, times] : config_.known_times) made_.policy.set(bucket, times);
    const bool wanted = config_.measure_buckets || config_.policy == GraphPolicy::kMeasured;
    if (!wanted || !config_.known_times.empty()) return;
    for (int bucket : made_.extend->ladder()) {
      check_cancelled();
      const Batch batch = scratch_batch(bucket);
      made_.policy.set(bucket, {median_us([&] { made_.extend->replay(batch, bucket); }),
                                median_us([&] { made_.eager->run_eager(batch); })});
    }
  }

  Batch scratch_batch(int n_tokens) const {
    Batch batch;
    batch.input_ids.assign(n_tokens, pad_token());
    batch.group_tags.clear();
    for (const CacheGroup& group : config_.groups) batch.group_tags.push_back(group.tag);
    batch.rows.resize(1);
    batch.rows[0].n_tokens = n_tokens;
    batch.rows[0].prefill = true;
    batch.rows[0].block_tables = parts_.scratch;
    batch.rows[0].sampling.samples = 1;
    if (const int p = model_.position_factor; p > 0)
      batch.position_ids.emplace(static_cast<std::size_t>(n_tokens) * p, 0);
    return batch;
  }

  static double median_us(const std::function<void()>& work) {
    std::array<double, 3> us{};
    for (double& one : us) {
      const auto start = Clock::now();
      work();
      one = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    }
    std::sort(us.begin(), us.end());
    return us[1];
  }

  const RunnerConfig& config_;
  const FamilyParts& parts_;
  const ModelConfig& model_;
  const Log& log_;
  Families made_;
};

}  // namespace

Families start_families(const RunnerConfig& config, const FamilyParts& parts, const Log& log) {
  return StartUp(config, parts, log).run();
}

}  // namespace monograph
