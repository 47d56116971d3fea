// A model on disk, opened and checked, whatever its format: a GGUF file (single or split) or a Hugging Face folder.
#pragma once
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "model/config.h"

namespace monograph {

/// One tensor of a file, read and bounds-checked. Row-major: shape[0] rows (outputs) of shape.back() values (inputs).
struct HostTensor {
  std::string name;  ///< As the file spells it, for messages.
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// The parts of a layer, in Monograph's names, common to every family.
enum class LayerTensor {
  kAttnNorm,
  kQ,
  kK,
  kV,
  kQBias,
  kKBias,
  kVBias,
  kQNorm,
  kKNorm,
  kAttnOut,
  kFfnNorm,
  kGate,
  kUp,
  kDown,
};
enum class ModelTensor { kEmbedding, kFinalNorm, kHead };

/// What the tokenizer part of the model says, for text/ to build a tokenizer from (the engine passes it on).
struct TokenizerFiles {
  // Hugging Face: the texts of the files, empty when absent.
  std::string tokenizer_json, tokenizer_config_json;
  // GGUF: every tokenizer.* key, with arrays as JSON arrays (precompiled_charsmap: binary) except the large ones below.
  nlohmann::json gguf;  ///< {"model": "gpt2", "pre": "smollm", "bos_token_id": 1, ...}; null for HF folders.
  std::vector<std::string> gguf_tokens;
  std::vector<float> gguf_scores;
  std::vector<int> gguf_token_types;
  std::vector<std::string> gguf_merges;  ///< "a b" strings.
  std::string chat_template;             ///< From chat_template.jinja, tokenizer_config.json or GGUF; empty if none.
};

/// generation_config.json (or what GGUF's general.sampling.* says); absent fields stay empty.
struct GenerationDefaults {
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<int> top_k;
  std::optional<bool> do_sample;
  std::vector<int> eos_token_ids;
};

/// An opened model. A tensor is read when asked for (not mapped: file_reader.h says why) and its bytes stay until it is
/// released or this ends; asking again after that reads it again. Row order of q and k is always the half-split (NeoX)
/// rotation order: GGUF files of the llama family hold permuted rows, `permute_qk` says so and the loader must undo it.
class ModelFiles {
 public:
  virtual ~ModelFiles() = default;
  virtual const ModelConfig& config() const = 0;
  virtual const TokenizerFiles& tokenizer() const = 0;
  virtual const GenerationDefaults& generation() const = 0;
  /// Throws Error(kUnreadableFile) naming tensor, expected shape and found shape if it is missing or wrong.
  virtual HostTensor tensor(ModelTensor which) const = 0;
  virtual HostTensor tensor(LayerTensor which, int layer) const = 0;
  virtual bool has(LayerTensor which, int layer) const = 0;
  /// True when rows of q and k come in interleaved rotation pairs (2i, 2i+1) and must be brought to (i, i + D/2).
  virtual bool permute_qk() const = 0;
  /// The bytes of this tensor were taken over: its memory goes, and `tensor.bytes` must not be touched again.
  virtual void release(const HostTensor& tensor) const = 0;
  virtual std::int64_t file_bytes() const = 0;
  /// One line: format, types histogram ("210 Q4_1, 1 Q8_0, 61 F32").
  virtual std::string summary() const = 0;
};

/// Opens `path`: a .gguf file (the first of a split set finds the others) or a folder with config.json.
/// A hub id ("org/name") or a missing path throws Error(kNotFound) with one line that says what to do.
std::unique_ptr<ModelFiles> open_model(const std::string& path);

/// --load-format dummy: the model that `folder`/config.json describes with random weights, the same on every machine
/// and in every run: BF16, or F32 where the config says float32. Matrices have mean 0 and deviation 0.02, norms are
/// about 1.
std::unique_ptr<ModelFiles> open_dummy_model(const std::string& folder);

}  // namespace monograph
