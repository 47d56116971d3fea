#include "base/engine_options.h"

#include <array>

#include "base/option_values.h"
#include "monograph/error.h"

namespace monograph {
namespace {

constexpr int kMaxSeqs = 1024;
constexpr int kMaxSeqLen = 1 << 24;
constexpr int kMaxChunk = 65536;
constexpr std::int64_t kMaxTemplateBytes = 1 << 20;

std::string as_is(const std::string& text, const std::string&) { return text; }

auto whole(int least, int most, std::string_view reason = {}) {
  return [=](const std::string& text, const std::string& knob) {
    return static_cast<int>(parse_int(text, knob, least, most, reason));
  };
}

/// One of `choices`, by its place in the list.
template <typename T, std::size_t N>
auto choice(std::array<std::string_view, N> choices) {
  return [=](const std::string& text, const std::string& knob) {
    const int index = parse_choice(text, knob, choices);
    if constexpr (std::is_same_v<T, std::string>)
      return std::string(choices[index]);
    else
      return static_cast<T>(index);
  };
}

using Names2 = std::array<std::string_view, 2>;
using Names3 = std::array<std::string_view, 3>;

void add_model_group(Options& options, EngineConfig& c) {
  const auto add = [&](const char* name, const char* argument, const char* help, Knob::Set set, bool common = false) {
    options.add({name, argument, help, std::string(kModelGroup), std::move(set), common});
  };
  add("model", "PATH", "a .gguf file or a Hugging Face folder", store(c.model, as_is), true);
  add("served-model-name", "NAME", "name shown to clients (default: the file's or folder's)",
      store(c.served_model_name, as_is));
  add("device", "NAME", "auto, cpu or cuda (default auto)",
      store(c.device, choice<std::string>(Names3{"auto", "cpu", "cuda"})), true);
  add("load-format", "NAME", "auto, or dummy: random weights (default auto)",
      store(c.load_format, choice<std::string>(Names2{"auto", "dummy"})));
  add("activation-dtype", "TYPE", "float32 or bfloat16 (default float32)",
      store(c.activation_dtype, choice<ActivationType>(Names2{"float32", "bfloat16"})));
  add("threads", "N", "CPU threads; 0: what affinity and quota allow (default 0)", store(c.threads, whole(0, 1024)),
      true);
  add("pin-threads", "", "pin each CPU thread to a core (default off)", store(c.pin_threads, parse_bool));
  add("cpu-target", "NAME", "force a SIMD target, or reference (default: the best)", store(c.cpu_target, as_is));
  add("gpu-target", "NAME", "force the GPU kernels of sm_80 (default: the GPU's own)", store(c.gpu_target, as_is));
  add("chat-template", "FILE", "Jinja file used instead of the model's template",
      store(c.chat_template, [](const std::string& path, const std::string& knob) {
        std::string text = read_text_file(path, knob, kMaxTemplateBytes);
        if (text.find_first_not_of(" \t\r\n") == std::string::npos)
          throw Error(ErrorCode::kInvalidArgument, knob + " " + path + ": the template is empty", "chat-template");
        return text;
      }));
}

void add_limits_group(Options& options, EngineConfig& c) {
  const auto add = [&](const char* name, const char* argument, const char* help, Knob::Set set, bool common = false) {
    options.add({name, argument, help, std::string(kLimitsGroup), std::move(set), common});
  };
  add("max-seq-len", "N", "prompt and output of one sequence (default: the model's, at most 8192)",
      store(c.max_seq_len, whole(1, kMaxSeqLen)), true);
  add("max-seqs", "N", "sequences running at once (default 256)", store(c.max_seqs, whole(1, kMaxSeqs)), true);
  add("max-queue", "N", "requests waiting; more get 429 (default 1024)", store(c.max_queue, whole(1, 1 << 20)));
  add("spin-us", "N",
      "microseconds that waiting threads stay awake before they sleep (default 10000 on a GPU with 4 or more CPU "
      "threads, else 0)",
      store(c.spin_us, whole(0, 1'000'000)));
  add("chunk-size", "N", "most tokens of one step (default 2048)", store(c.chunk_size, whole(1, kMaxChunk)));
  add("enable-chunked-prefill", "", "cut long prompts into chunks (default on)",
      store(c.enable_chunked_prefill, parse_bool));
  add("enable-prefix-cache", "", "reuse the KV of equal prompt beginnings (default on)",
      store(c.enable_prefix_cache, parse_bool));
  add("block-size", "N", "tokens per KV block (default 64)", store(c.block_size, whole(1, 1024)));
  add("kv-cache-bytes", "SIZE",
      "KV memory, for example 2G (default: 1/8 of available memory; on a GPU what --memory-fraction leaves)",
      store(c.kv_cache_bytes, parse_bytes), true);
  add("memory-fraction", "X", "part of the GPU's memory to use (default 0.9)",
      store(c.memory_fraction,
            [](const std::string& text, const std::string& knob) { return parse_number(text, knob, 0.01, 1.0); }));
  add("audit", "", "check every KV block after every round; slow (default off)", store(c.audit, parse_bool));
  add("step-log", "FILE", "one JSON line per step; - is stderr", store(c.step_log, as_is));
}

void add_graph_group(Options& options, EngineConfig& c) {
  const auto add = [&](const char* name, const char* argument, const char* help, Knob::Set set, bool common = false) {
    options.add({name, argument, help, std::string(kGraphGroup), std::move(set), common});
  };
  add("enable-cuda-graph", "", "master switch of graphs; off: all eager (default on)",
      store(c.enable_cuda_graph, parse_bool), true);
  add("enable-prefill-cuda-graph", "", "graphs for prefill; needs the master (default: as the master)",
      store(c.enable_prefill_cuda_graph, parse_bool));
  add("prefill-cuda-graph-max-requests", "N", "sequences of one replay (default: max-seqs, at most 64)",
      store(c.prefill_cuda_graph_max_requests, whole(1, 1024, "invalid_max_requests")));
  add("prefill-cuda-graph-capture-config", "LIST", "token buckets: 16,32,64 or max:step or @file",
      store(c.prefill_capture_buckets, parse_buckets));
  add("decode-cuda-graph-capture-config", "LIST", "batch sizes of decode graphs, the same forms",
      store(c.decode_capture_buckets, parse_buckets));
  add("prefill-graph-policy", "NAME", "always, or measured: the faster one (default always)",
      store(c.prefill_graph_policy, choice<GraphPolicy>(Names2{"always", "measured"})));
  add("strict-cuda-graph", "", "a graph that cannot be had at start is an error (default off)",
      store(c.strict_cuda_graph, parse_bool));
  add("skip-padding", "", "kernels skip padding rows; changes no bit (default on)", store(c.skip_padding, parse_bool));
  add("allow-untested-gpu", "", "start on a GPU that is not in the tested list (default off)",
      store(c.allow_untested_gpu, parse_bool));
}

}  // namespace

void add_engine_options(Options& options, EngineConfig& config) {
  add_model_group(options, config);
  add_limits_group(options, config);
  add_graph_group(options, config);
}

void check_engine_options(const Options& options, const EngineConfig& config) {
  if (config.enable_cuda_graph == false && config.enable_prefill_cuda_graph == true) {
    const std::string feature = options.origin("enable-prefill-cuda-graph"),
                      master = options.origin("enable-cuda-graph");
    throw Error(ErrorCode::kInvalidArgument,
                feature + " is on, but " + master + " is off: prefill graphs need the master switch", feature);
  }
  const std::string decode = "decode-cuda-graph-capture-config";
  if (!config.decode_capture_buckets.empty() && config.decode_capture_buckets.back() > config.max_seqs)
    throw Error(ErrorCode::kInvalidArgument,
                "invalid_capture_buckets: " + options.origin(decode) + ": bucket " +
                    std::to_string(config.decode_capture_buckets.back()) + " is above --max-seqs " +
                    std::to_string(config.max_seqs),
                options.origin(decode));
}

}  // namespace monograph
