#include <algorithm>
#include <cstdio>
#include <set>

#include "commands.h"
#include "console.h"
#include "lane.h"
#include "model/model_files.h"

namespace monograph::app {
namespace {

void line(const char* name, const std::string& value) { std::printf("%-22s%s\n", name, value.c_str()); }

const char* family_name(ModelFamily family) {
  switch (family) {
    case ModelFamily::kLlama:
      return "llama";
    case ModelFamily::kQwen2:
      return "qwen2";
    case ModelFamily::kQwen3:
      return "qwen3";
  }
  return "?";
}

const char* rope_name(RopeConfig::Kind kind) {
  switch (kind) {
    case RopeConfig::Kind::kDefault:
      return "default";
    case RopeConfig::Kind::kLinear:
      return "linear";
    case RopeConfig::Kind::kLlama3:
      return "llama3";
    case RopeConfig::Kind::kYarn:
      return "yarn";
  }
  return "?";
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

std::string id_or_none(const std::optional<int>& id) { return id ? std::to_string(*id) : "none"; }

void show_config(const ModelConfig& c) {
  line("family", family_name(c.family));
  line("layers", std::to_string(c.n_layers));
  line("model_dim", std::to_string(c.model_dim));
  line("ffn_dim", std::to_string(c.ffn_dim));
  line("heads", std::to_string(c.n_heads) + " (" + std::to_string(c.n_kv_heads) + " for K and V), head_dim " +
                    std::to_string(c.head_dim));
  line("vocab_size", std::to_string(c.vocab_size) + (c.tied_head ? ", head tied to the embedding" : ""));
  line("max_position", std::to_string(c.max_position));
  line("norm_eps", number(c.norm_eps));
  line("rope", std::string(rope_name(c.rope.kind)) + ", theta " + number(c.rope.theta) +
                   (c.rope.factor != 1.0f ? ", factor " + number(c.rope.factor) : "") +
                   (c.position_factor > 0 ? ", " + std::to_string(c.position_factor) + " positions per token" : ""));
  if (c.qkv_bias) line("qkv bias", "yes");
  if (c.qk_norm) line("q/k norm", "yes");
}

/// End tokens of config and generation_config; the engine adds those that the tokenizer names.
std::string eos_set(const ModelFiles& files) {
  std::set<int> ids(files.config().eos_token_ids.begin(), files.config().eos_token_ids.end());
  ids.insert(files.generation().eos_token_ids.begin(), files.generation().eos_token_ids.end());
  std::string text;
  for (int id : ids) text.append(text.empty() ? "" : ", ").append(std::to_string(id));
  return text.empty() ? "none" : text;
}

void show_tokenizer(const ModelFiles& files) {
  const TokenizerFiles& t = files.tokenizer();
  if (!t.gguf_tokens.empty())
    line("tokenizer", t.gguf.value("model", "?") + std::string(", pre-tokenizer ") + t.gguf.value("pre", "none") +
                          ", " + std::to_string(t.gguf_tokens.size()) + " tokens, " +
                          std::to_string(t.gguf_merges.size()) + " merges");
  else
    line("tokenizer", t.tokenizer_json.empty() ? "none" : "tokenizer.json");
  line("end tokens", eos_set(files));
  line("bos, pad", id_or_none(files.config().bos_token_id) + ", " + id_or_none(files.config().pad_token_id));
  line("chat template", t.chat_template.empty() ? "none" : std::to_string(t.chat_template.size()) + " bytes");
}

void show_generation(const GenerationDefaults& g) {
  std::string text;
  const auto add = [&](const char* name, const std::optional<float>& value) {
    if (value) text.append(text.empty() ? "" : ", ").append(name).append(" " + number(*value));
  };
  add("temperature", g.temperature);
  add("top_p", g.top_p);
  add("min_p", g.min_p);
  add("repetition_penalty", g.repetition_penalty);
  if (g.top_k) add("top_k", static_cast<float>(*g.top_k));
  line("sampling defaults", text.empty() ? "none" : text);
}

int show_model(const Settings& settings) {
  const auto files = open_files(settings.engine);
  line("model", files->config().name);
  line("file", std::to_string(files->file_bytes()) + " bytes, " + files->summary());
  show_config(files->config());
  show_tokenizer(*files);
  show_generation(files->generation());
  return kExitOk;
}

/// One row per graph; prefill buckets with the times of a full step, by which `measured` chooses (SPEC D3).
void show_captures(const Runner& runner) {
  std::printf(
      "\n| family | bucket | capture us | nodes | bytes | graph us | eager us | measured picks |\n"
      "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n");
  for (const auto& c : runner.captures()) {
    std::printf("| %s | %d | %.1f | %d | %lld |", c.family.c_str(), c.bucket, c.us, c.nodes,
                static_cast<long long>(c.bytes));
    const auto times = runner.bucket_times().find(c.bucket);
    if (c.family == to_string(GraphRole::kExtend) && times != runner.bucket_times().end())
      std::printf(" %.1f | %.1f | %s |\n", times->second.graph_us, times->second.eager_us,
                  times->second.eager_us < times->second.graph_us ? "eager" : "graph");
    else
      std::printf(" | | |\n");
  }
}

int show_graphs(const Settings& settings) {
  Console console(settings.log_level, LogLevel::kWarning);
  Lane lane(settings.engine, 1, Log(console.sink()), /*measure_buckets=*/true);
  console.clear();
  const RunnerConfig& config = lane.runner_config();
  const PrefillStatus status = lane.runner().init_status();
  line("device", lane.device());
  line("prefill graphs", status == PrefillStatus::kReplayed ? "ready" : std::string(to_string(status)));
  line("sequences per replay", std::to_string(config.max_rows));
  line("arena and staging", std::to_string(lane.runner().fixed_bytes()) + " bytes, shared by all graphs");
  line("policy", config.policy == GraphPolicy::kMeasured ? "measured" : "always");
  show_captures(lane.runner());
  return kExitOk;
}

}  // namespace

int inspect(const Settings& settings, const std::string& what) {
  return what == "graphs" ? show_graphs(settings) : show_model(settings);
}

}  // namespace monograph::app
