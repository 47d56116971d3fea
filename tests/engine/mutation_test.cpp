// Model files damaged at random, as an engine opens them: each is refused in one line that names the file's key or
// tensor at fault, within the memory that the file justifies. TEST_MUTATIONS=N makes N of them instead of 200,
// TEST_SEED picks others. With TEST_BINARY=path the program must refuse them as well: exit code 1 and the same single
// line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "monograph/engine.h"
#include "tests/model/support/files.h"
#include "tests/model/support/gguf_bytes.h"

namespace monograph {
namespace {

using namespace files;
using nlohmann::json;

int from_environment(const char* name, int fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::atoi(text);
}

// What a refusal names. (POSIX regular expressions)
const std::string kBadJson = "(not valid JSON at byte [0-9]+|key \".*\" stands twice)";
const std::string kGgufCulprit =
    "bad.gguf: ((key|tensor) .+: |key [0-9]+ of |tensor [0-9]+ of |(tensor|key) count: |[0-9]+ bytes after the last "
    "tensor|not a GGUF file|magic: |version: |header: |(token_embd|blk|output|tokenizer|llama|general)[a-z0-9_.]*: )|"
    "tokenizer(.ggml.[a-z]+: | merges.[0-9]+.: )";

// What a refused load may hold besides four times its file. Sanitizers keep freed memory back, and shadows of it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::int64_t kFixedBytes = 256 << 20;
#else
constexpr std::int64_t kFixedBytes = 16 << 20;
#endif

const char* binary() { return std::getenv("TEST_BINARY"); }

// Exit code and output of one prompt to the model; nothing of it may reach the shell but a path that we made.
std::pair<int, std::string> run_program(const std::string& path) {
  const std::string command =
      std::string("'") + binary() + "' generate --model '" + path + "' --prompt a --max-tokens 1 2>&1 >/dev/null";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  std::string output;
  char buffer[4096];
  while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) output.append(buffer, n);
  const int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

class Mutations : public ::testing::Test {
 protected:
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }
  template <typename T>
  const T& pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }

  // Loads `path` and checks that it is refused as it should be, in a line with `culprit`, a regular expression, in it.
  void expect_refused(const std::string& path, const std::string& mutation, const std::string& culprit) {
    std::string message;
    const auto grown = peak_growth_bytes([&] { message = error_of_load(path); });
    expect_one_line(message, mutation);
    EXPECT_THAT(message, ::testing::ContainsRegex(culprit)) << mutation;
    EXPECT_LT(grown, kFixedBytes + 4 * static_cast<std::int64_t>(bytes_of(path))) << mutation;
    if (binary() != nullptr) expect_program_refuses(path, mutation, message);
  }

  static std::string error_of_load(const std::string& path) {
    EngineConfig config;
    config.model = path;
    config.threads = 1;
    config.kv_cache_bytes = 4 << 20;
    try {
      Engine::load(config);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  // Of a file, or of all files of a folder.
  static std::int64_t bytes_of(const std::string& path) {
    if (!std::filesystem::is_directory(path)) return static_cast<std::int64_t>(std::filesystem::file_size(path));
    std::int64_t total = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path))
      total += static_cast<std::int64_t>(entry.file_size());
    return total;
  }

  void expect_program_refuses(const std::string& path, const std::string& mutation, const std::string& message) {
    const auto [code, output] = run_program(path);
    EXPECT_EQ(code, 1) << mutation << ": " << output;
    EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 1) << mutation << ": " << output;
    EXPECT_THAT(output, ::testing::HasSubstr(message)) << mutation;
  }

  void mutate_tokenizer() {
    const TempFolder folder;
    folder.fill(kModels + "llama-gqa");
    std::string text = read_bytes(folder.file("tokenizer.json"));
    json content = json::parse(text);
    const std::string pointer = pick<std::string>({"/model/vocab/he", "/model/merges/3", "/model/type", "/model/vocab",
                                                   "/model/merges", "/model", "/added_tokens/0/id", "/added_tokens",
                                                   "/pre_tokenizer/type", "/pre_tokenizer/pretokenizers"});
    const json value = pick<json>({-1, 1e30, "zz", json::array({"zz", "qq"}), true, 1ull << 40});
    content[json::json_pointer(pointer)] = value;
    text = content.dump();
    std::string culprit = "tokenizer(.json: | )(model|added_tokens|pre_tokenizer|merges)";
    if (below(3) == 0) {
      while (json::accept(text)) text[below(text.size())] = static_cast<char>(below(256));
      culprit = "tokenizer.json: " + kBadJson;
    }
    write_bytes(folder.file("tokenizer.json"), text);
    expect_refused(folder.path(), "tokenizer.json" + pointer + " = " + value.dump(), culprit);
  }

  // A vocabulary inside a GGUF file: as the fields are, but for what only the tokenizer reads.
  void mutate_gguf_vocabulary() {
    static const std::string good = read_bytes(kModels + "width64-q4_0.gguf");
    // As many bytes as before, so that everything behind it stays in its place.
    const auto [from, to] = pick<std::pair<std::string, std::string>>(
        {{"he", "zz"}, {"Ġ t", "zz t"}, {"h e", "hxe"}, {"smollm", "smolls"}, {"gpt2", "gpt9"}});
    const std::string whole = sized(from);
    const std::size_t at = good.find(whole);
    ASSERT_NE(at, std::string::npos) << from;
    std::string bad = good;
    bad.replace(at, whole.size(), sized(to));
    const TempFolder folder;
    write_bytes(folder.file("bad.gguf"), bad);
    expect_refused(folder.file("bad.gguf"), from + " becomes another text", kGgufCulprit);
  }

  void mutate_gguf_field() {
    static const std::string good = read_bytes(kModels + "width64-q4_0.gguf");
    static const auto fields = GgufFieldFinder(good).find();
    // Most are the lengths of the 288 entries of the vocabulary; nearly all picks are others.
    const GgufField& field = pick(fields);
    if (field.what == "tokenizer.ggml.tokens: length" && below(10) != 0) return mutate_gguf_field();
    // A version 2 file, and U32 called I32, hold the same model.
    if (field.what == "version" || field.what.ends_with(": type")) return mutate_gguf_field();
    std::uint64_t old = 0;
    std::memcpy(&old, good.data() + field.at, static_cast<std::size_t>(field.bytes));
    const std::uint64_t value = pick<std::uint64_t>(
        {0, 1, old + 1, old - 1, old * 2, 1u << 31, ~0u, 1ull << 32, 1ull << 63, ~0ull, ~0ull >> 1, random_()});
    std::string bad = good;
    std::memcpy(bad.data() + field.at, &value, static_cast<std::size_t>(field.bytes));
    if (bad == good) return mutate_gguf_field();
    const TempFolder folder;
    write_bytes(folder.file("bad.gguf"), bad);
    expect_refused(folder.file("bad.gguf"), field.what + " = " + std::to_string(value), kGgufCulprit);
  }

  void cut_file() {
    const std::string name = pick<std::string>({"width64-q8_0.gguf", "llama3-rope.gguf", "qwen2-bias.gguf"});
    const std::string good = read_bytes(kModels + name);
    const TempFolder folder;
    // The last 31 bytes may be padding that nothing needs.
    const std::size_t length = below(2) == 0 ? below(8000) : below(good.size() - 32);
    write_bytes(folder.file("bad.gguf"), good.substr(0, length));
    expect_refused(folder.file("bad.gguf"), name + " cut to " + std::to_string(length), kGgufCulprit);
  }

  // A JSON file of the folder `model` with one value replaced, removed or added.
  void mutate_json(const std::string& model, const std::string& file, const std::string& pointer, const json& value) {
    const TempFolder folder;
    folder.fill(kModels + model);
    json content = json::parse(read_bytes(folder.file(file)));
    content[json::json_pointer(pointer)] = value;
    write_bytes(folder.file(file), content.dump());
    std::string key = pointer.substr(1);
    std::replace(key.begin(), key.end(), '/', '.');
    // A size that the file may have, and the tensors do not.
    const std::string culprit = "/" + file + ": " + key + "[.:]|: tensor model[^ ]+: expected ";
    expect_refused(folder.path(), file + pointer + " = " + value.dump(), culprit);
  }

  void mutate_config() {
    const std::vector<json> bad = {-1, 0, "x", 1.5, json::array(), json::object(), true, 1ull << 40, ~0ull, -1e300};
    static const std::vector<std::string> keys = {"/hidden_size",
                                                  "/intermediate_size",
                                                  "/num_hidden_layers",
                                                  "/num_attention_heads",
                                                  "/num_key_value_heads",
                                                  "/vocab_size",
                                                  "/max_position_embeddings",
                                                  "/architectures",
                                                  "/model_type",
                                                  "/eos_token_id",
                                                  "/head_dim",
                                                  "/hidden_act",
                                                  "/rope_theta",
                                                  "/tie_word_embeddings",
                                                  "/rms_norm_eps",
                                                  "/rope_scaling"};
    const std::string key = pick(keys);
    json value = pick(bad);
    // Values that are right for that key.
    if (key == "/eos_token_id" && (value == 0 || value == json::array())) value = -7;
    if (key == "/tie_word_embeddings" && value.is_boolean()) value = "true";
    if (key == "/rope_scaling" && value == json::object()) value = {{"rope_type", "longrope"}};
    if ((key == "/rope_theta") && value.is_number() && value >= 1) value = nan_text();
    mutate_json("formats-bf16-single-old", "config.json", key,
                key == "/rms_norm_eps" && value.is_number() ? json(-1) : value);
  }
  static json nan_text() { return "nan"; }

  void mutate_side_files() {
    const json bad = pick<json>({-5, "x", json::array({"a"}), json::object({{"a", 1}}), 1e300});
    const std::string key =
        pick<std::string>({"/temperature", "/top_p", "/top_k", "/eos_token_id", "/repetition_penalty"});
    if (below(2) == 0) return mutate_json("llama-gqa", "generation_config.json", key, bad);
    mutate_json("formats-bf16-single-old", "tokenizer_config.json", "/chat_template",
                pick<json>({1, true, json::object(), json::array({1}), json::array({{{"name", "default"}}})}));
  }

  void mutate_index() {
    const std::string file = "model.safetensors.index.json";
    const std::string tensor = pick<std::string>({"model.norm.weight", "model.layers.0.mlp.up_proj.weight"});
    mutate_json("formats-bf16-sharded-new", file, "/weight_map/" + tensor,
                pick<json>({1, nullptr, "", "../config.json", "/etc/passwd", "missing.safetensors", "config.json",
                            json::array(), "x/../model-00001-of-00003.safetensors"}));
  }

  void mutate_safetensors() {
    const TempFolder folder;
    folder.fill(kModels + "formats-f32-single-new");
    const std::string path = folder.file("model.safetensors"), good = read_bytes(path);
    std::uint64_t length;
    std::memcpy(&length, good.data(), sizeof length);
    json header = json::parse(good.substr(8, length));
    header.erase("__metadata__");
    auto entry = header.begin();
    std::advance(entry, below(header.size()));
    const std::string name = entry.key(), field = pick<std::string>({"dtype", "shape", "data_offsets", ""});
    const json value = pick<json>({nullptr, "F16", 1, json::array(), json::array({1, 2}), json::array({-1, 4}),
                                   json::array({1ull << 63, ~0ull}), json::array({0, 1e30}), json::object()});
    if (field.empty())
      header.erase(entry);
    else
      (*entry)[field] = value;
    const std::string text = header.dump();
    write_bytes(path, raw<std::uint64_t>(text.size()) + text + good.substr(8 + length));
    const bool its_own = field == "dtype" || field == "shape";  // else the data of its neighbours is out of place
    expect_refused(
        folder.path(), name + "." + field + " = " + value.dump(),
        "/model.safetensors: (tensor " + (its_own ? name + ": |$." : "[^ ]+: |[0-9]+ bytes after the last ") + ")");
  }

  // Bytes of a JSON text swapped for others until it is no JSON any more.
  void garble_json() {
    const std::string file =
        pick<std::string>({"config.json", "model.safetensors.index.json", "generation_config.json"});
    const TempFolder folder;
    folder.fill(kModels + "formats-bf16-sharded-new");
    std::string text = read_bytes(folder.file(file));
    if (below(2) == 0) text.resize(below(text.size() - 2));
    while (json::accept(text)) text[below(text.size())] = static_cast<char>(below(256));
    write_bytes(folder.file(file), text);
    expect_refused(folder.path(), "garbled " + file, "/" + file + ": " + kBadJson);
  }

  // Every kind of file in turn.
  void mutate(int i) {
    switch (i % 10) {
      case 0:
      case 1:
        return mutate_gguf_field();
      case 2:
        return cut_file();
      case 3:
        return mutate_gguf_vocabulary();
      case 4:
        return mutate_config();
      case 5:
        return mutate_side_files();
      case 6:
        return mutate_index();
      case 7:
        return mutate_safetensors();
      case 8:
        return mutate_tokenizer();
      default:
        return garble_json();
    }
  }

  std::mt19937_64 random_;
};

TEST_F(Mutations, EachIsRefusedInOneLine) {
  const int seed = from_environment("TEST_SEED", 1), n = from_environment("TEST_MUTATIONS", 200);
  std::printf("seed %d, %d mutations; replay: TEST_SEED=%d TEST_MUTATIONS=%d\n", seed, n, seed, n);
  random_.seed(static_cast<std::uint64_t>(seed));
  for (int i = 0; i < n && !HasFailure(); ++i) mutate(i);
}

}  // namespace
}  // namespace monograph
