// Every setting of an engine: a plain struct, filled from flags, environment and file, checked once (base/options).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace monograph {

enum class GraphPolicy { kAlways, kMeasured };
enum class ActivationType { kFloat32, kBFloat16 };

/// Absent optionals are resolved against the model and the machine (ResolvedConfig in engine/).
struct EngineConfig {
  std::string model;                 ///< --model: a .gguf file or a Hugging Face folder.
  std::string served_model_name;     ///< --served-model-name; default: the file's or folder's name.
  std::string device = "auto";       ///< --device auto|cpu|cuda
  std::string load_format = "auto";  ///< --load-format auto|dummy
  ActivationType activation_dtype = ActivationType::kFloat32;
  int threads = 0;  ///< --threads; 0: what affinity and the cgroup quota allow.
  bool pin_threads = false;
  std::string cpu_target;  ///< --cpu-target: force a SIMD target ("avx2", "avx3", ...); empty: best.
  std::string gpu_target;  ///< --gpu-target: force the GPU kernels of "sm_80"; empty: the GPU's own.

  std::optional<int> max_seq_len;  ///< Prompt and output of one sequence; default: the model's, capped at 8192.
  int max_seqs = 256;              ///< Sequences running at once.
  int max_queue = 1024;            ///< Requests waiting; more are refused with "try later".
  std::optional<int> spin_us;      ///< How long waiting threads stay awake before they sleep; default: see --help.
  std::optional<int> chunk_size;   ///< Most tokens of one step; default 2048.
  bool enable_chunked_prefill = true;
  bool enable_prefix_cache = true;
  int block_size = 64;
  std::optional<std::int64_t> kv_cache_bytes;
  double memory_fraction = 0.9;

  std::optional<bool> enable_cuda_graph;               ///< The master; default on.
  std::optional<bool> enable_prefill_cuda_graph;       ///< Follows the master.
  std::optional<int> prefill_cuda_graph_max_requests;  ///< Bmax; default min(64, max_seqs).
  std::vector<int> prefill_capture_buckets;            ///< Parsed list; empty: the default ladder.
  std::vector<int> decode_capture_buckets;
  GraphPolicy prefill_graph_policy = GraphPolicy::kAlways;
  bool strict_cuda_graph = false;
  bool skip_padding = true;
  bool allow_untested_gpu = false;

  std::string chat_template;  ///< --chat-template FILE's text; empty: the model's own.
  std::string step_log;       ///< --step-log FILE: one JSON line per step ("-": stderr).
  bool audit = false;         ///< Check every KV block after every round; for tests.
};

}  // namespace monograph
