#include "graph/family.h"

#include <chrono>

#include "base/check.h"
#include "graph/capture.h"

namespace monograph {

GraphFamily::GraphFamily(const ForwardContext& context, const InputShape& shape,
                         std::vector<std::vector<std::int32_t>> scratch, std::int32_t pad_token, const History& history)
    : context_(context),
      staging_(*context.backend->device, shape, std::move(scratch), pad_token, history, context.groups) {}

void GraphFamily::forward(int capacity) {
  Ops& ops = *context_.backend->ops;
  const StepInputs in = staging_.inputs(capacity, context_.skip_padding, takes_rows(capacity));
  const auto host = staging_.host_areas();
  ops.fetch_inputs(staging_.device_area(), host.data(), staging_.selector(), staging_.layout(), in.shape, capacity);
  ops.derive_inputs(in);
  Activations a = context_.activations(capacity, in.shape.max_rows);
  context_.model->forward(ops, in, context_.kv, a);
  ops.sample(staging_.sampled(), a.logits, context_.sampled_vocab, in);
}

bool GraphFamily::takes_rows(int capacity) const {
  const int max_rows = staging_.shape().max_rows;
  if (context_.last_layer == LastLayer::kAll || capacity < max_rows) return false;
  return context_.last_layer == LastLayer::kSampled || context_.backend->ops->pays_to_take_rows(capacity, max_rows);
}

void GraphFamily::warm_up(int bucket) {
  staging_.stage_sentinel_only(bucket);
  forward(bucket);
}

void GraphFamily::self_test(int bucket) {
  staging_.stage_sentinel_only(bucket);
  graphs_.at(bucket)->replay();
  context_.backend->device->synchronize();
}

std::vector<GraphFamily::Captured> GraphFamily::capture(const std::vector<int>& ladder,
                                                        const std::function<void()>& before_each) {
  Device& device = *context_.backend->device;
  const bool executes = device.needs_warm_up();
  std::vector<Captured> captured;
  if (executes) {
    warm_up(ladder.back());
    device.synchronize();
  }
  for (auto bucket = ladder.rbegin(); bucket != ladder.rend(); ++bucket) {
    before_each();
    const auto start = std::chrono::steady_clock::now();
    const auto prepare = [&] {
      for (int i = 0; i < 2 && executes; ++i) warm_up(*bucket);
      device.synchronize();
    };
    graphs_[*bucket] = capture_graph(device, prepare, [&] { forward(*bucket); });
    if (executes || *bucket == ladder.front()) self_test(*bucket);
    const std::chrono::duration<double, std::micro> us = std::chrono::steady_clock::now() - start;
    captured.push_back({*bucket, us.count(), graphs_[*bucket]->n_nodes(), graphs_[*bucket]->device_bytes()});
  }
  ladder_ = ladder;
  return captured;
}

void GraphFamily::replay(const Batch& batch, int bucket) {
  const auto graph = graphs_.find(bucket);
  CHECK(graph != graphs_.end());
  staging_.stage(batch, bucket);
  run([&] { graph->second->replay(); });
}

void GraphFamily::run_eager(const Batch& batch, int capacity) {
  staging_.stage(batch, capacity);
  run([&] { forward(capacity); });
}

void GraphFamily::run(const std::function<void()>& queue) {
  if (context_.stopwatch) context_.stopwatch->start();
  queue();
  if (context_.stopwatch) context_.stopwatch->stop();
  launched_ = std::chrono::steady_clock::now();
  context_.backend->device->synchronize();
}

}  // namespace monograph
