// Rows MF01 to MF22 of the bug log: what damaged model files did to other engines.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>

#include "tests/model/support/files.h"
#include "tests/model/support/gguf_bytes.h"

namespace monograph {
namespace {

using namespace files;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::uint64_t kMiB = 1 << 20;

std::string with_tensor(std::vector<std::uint64_t> dims, std::uint32_t type, std::uint64_t bytes = 64) {
  GgufBuilder file = small_llama();
  file.tensors[0] = {"token_embd.weight", std::move(dims), type, 0, bytes};
  return file.bytes();
}

std::string with_key(const std::string& key, std::uint32_t value) {
  GgufBuilder file = small_llama();
  for (auto& record : file.keys)
    if (record.starts_with(sized(key))) record = sized(key) + raw<std::uint32_t>(kU32) + raw(value);
  return file.bytes();
}

std::string vocabulary(const std::string& key, std::uint32_t type, std::uint64_t count, const std::string& items) {
  GgufBuilder file = small_llama(2);
  file.text("tokenizer.ggml.model", "llama").array("tokenizer.ggml.tokens", kString, 2, sized("a") + sized("b"));
  return file.array(key, type, count, items).bytes();
}

std::string nested_arrays(int depth) {
  std::string value;
  for (int i = 0; i < depth; ++i) value += raw<std::uint32_t>(kArray) + raw<std::uint64_t>(1);
  return small_llama().key_raw("a", kArray, value + raw<std::uint32_t>(kU8) + raw<std::uint64_t>(0)).bytes();
}

struct BadFile {
  const char* id;
  std::string bytes;
  std::vector<std::string> says;
};

std::vector<BadFile> bad_gguf_files() {
  const std::string counts = "GGUF" + raw<std::uint32_t>(3) + raw(std::uint64_t{1} << 61) + raw(std::uint64_t{1} << 60);
  GgufBuilder offset = small_llama(), long_tensor = small_llama();
  offset.tensors[1].offset = offset.bytes().size() - 4;
  long_tensor.tensors.back().dims = {32, 17};
  return {
      {"MF01 counts multiply past 64 bits", counts + std::string(40, '\0'), {"tensor count", "cannot fit"}},
      {"MF02 dimension product wraps to 0",
       with_tensor({1152, (std::uint64_t{1} << 42) + 1}, 0),
       {"tensor token_embd.weight", "the file ends 20266198323"}},
      {"MF04 dimension product turns negative",
       with_tensor({(std::uint64_t{1} << 63) - 1, 2, 1, 1}, 24),
       {"tensor token_embd.weight", "out of range"}},
      {"MF04 a dimension above 2^63",
       with_tensor({std::uint64_t{1} << 63, 1}, 0),
       {"token_embd.weight", "out of range"}},
      {"MF06 zero-length key",
       "GGUF" + raw<std::uint32_t>(3) + raw<std::uint64_t>(0) + raw<std::uint64_t>(1) + raw<std::uint64_t>(0) +
           raw<std::uint32_t>(kU8) + "\1",
       {"key 1 of 1: its name is empty"}},
      {"MF06 zero-length key with room", small_llama().number("", 1).bytes(), {"key 8 of 8: its name is empty"}},
      {"MF08 scores as INT8",
       vocabulary("tokenizer.ggml.scores", kI8, 2, "ab"),
       {"tokenizer.ggml.scores: expected an array of F32, found an array of 2 I8"}},
      {"MF08 token_type as U8",
       vocabulary("tokenizer.ggml.token_type", kU8, 2, "\1\1"),
       {"tokenizer.ggml.token_type: expected an array of I32, found an array of 2 U8"}},
      {"MF08 scores too short",
       vocabulary("tokenizer.ggml.scores", kF32, 1, raw(0.0f)),
       {"tokenizer.ggml.scores: expected 2 values, one per token, found 1"}},
      {"MF08 token_type too short",
       vocabulary("tokenizer.ggml.token_type", kI32, 1, raw(1)),
       {"tokenizer.ggml.token_type: expected 2 values"}},
      {"MF10 offset = size - 4", offset.bytes(), {"tensor output_norm.weight: its offset"}},
      {"MF10 dims inflated", long_tensor.bytes(), {"tensor blk.0.ffn_down.weight", "the file ends 128 bytes before"}},
      {"MF10 string past the end",
       small_llama().key_raw("k", kString, raw<std::uint64_t>(1 << 20)).bytes(),
       {"key k: needs 1048576 bytes"}},
      {"MF18 no heads", with_key("llama.attention.head_count", 0), {"llama.attention.head_count: expected", "found 0"}},
      {"MF18 no layers", with_key("llama.block_count", 0), {"llama.block_count: expected", "found 0"}},
      {"MF18 no width", with_key("llama.embedding_length", 0), {"llama.embedding_length: expected", "found 0"}},
      {"MF18 no vocabulary", with_tensor({16, 0}, 0), {"tensor token_embd.weight: its shape [0, 16]"}},
      {"MF18 vocabulary key 0", small_llama().number("llama.vocab_size", 0).bytes(), {"llama.vocab_size", "found 0"}},
      {"MF18 empty token list",
       small_llama().text("tokenizer.ggml.model", "gpt2").array("tokenizer.ggml.tokens", kString, 0, "").bytes(),
       {"tokenizer.ggml.tokens: expected 32 tokens", "found 0"}},
      {"MF21 string of 2^40",
       small_llama().key_raw("k", kString, raw(std::uint64_t{1} << 40)).bytes(),
       {"key k: needs"}},
      {"MF21 array of 2^33",
       small_llama().array("k", kU8, std::uint64_t{1} << 33, "").bytes(),
       {"key k: an array of 8589934592 U8 values cannot fit"}},
      {"MF21 arrays nested 10^5 deep", nested_arrays(100000), {"key a: arrays are nested deeper than"}},
      {"MF22 unknown tensor type",
       with_tensor({16, 32}, 99, 2048),
       {"tensor token_embd.weight: unknown tensor type 99"}},
      {"MF22 type that is not read", with_tensor({256, 2}, 10, 168), {"token_embd.weight: type Q2_K is not supported"}},
  };
}

// MF01, MF02, MF04, MF06, MF08, MF10, MF18, MF21, MF22: bad_gguf_files().
TEST(BugLog, BadGgufFilesAreRefusedByName) {
  const TempFolder folder;
  const std::string path = folder.file("bad.gguf");
  for (const BadFile& file : bad_gguf_files()) {
    write_bytes(path, file.bytes);
    std::string message;
    const auto start = std::chrono::steady_clock::now();
    const auto grown = peak_growth_bytes([&] { message = error_of(path); });
    expect_one_line(message, file.id);
    for (const std::string& part : file.says) EXPECT_THAT(message, HasSubstr(part)) << file.id;
    EXPECT_LT(grown, static_cast<std::int64_t>(16 * kMiB)) << file.id;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2)) << file.id;
  }
}

TEST(BugLog, MF22NormOfIntegersAndTransposedProjection) {
  const TempFolder folder;
  const std::string path = folder.file("bad.gguf");
  GgufBuilder norm = small_llama(), wide = small_llama();
  norm.tensors[2].type = 26;
  write_bytes(path, norm.bytes());
  EXPECT_THAT(error_of(path), HasSubstr("blk.0.attn_norm.weight: expected F32, F16 or BF16, file has I32"));
  wide.tensors[8].dims = {32, 16};
  write_bytes(path, wide.bytes());
  EXPECT_THAT(error_of(path), HasSubstr("blk.0.ffn_gate.weight: expected [32, 16], file has [16, 32]"));
}

// MF11: a shard that is too short gave zeros or garbage.
void write_sparse(const std::string& path, const std::string& header, std::uint64_t size) {
  write_bytes(path, header);
  ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(size)), 0);
}

TEST(BugLog, MF11ShortGgufNamesTensorAndMissingBytes) {
  const TempFolder folder;
  GgufBuilder file = small_llama(80 * kMiB / 64);
  std::swap(file.tensors.front(), file.tensors.back());  // The large tensor last, so that 66 MB can go from it.
  std::uint64_t offset = 0;
  for (auto& tensor : file.tensors) {
    tensor.offset = offset;
    offset = (offset + tensor.bytes + 31) / 32 * 32;
  }
  const std::string header = file.header(), path = folder.file("short.gguf");
  const std::uint64_t size = header.size() + file.data_bytes();
  write_sparse(path, header, size);
  EXPECT_EQ(error_of(path), "");
  for (const std::uint64_t cut : {std::uint64_t{1}, std::uint64_t{4096}, 66 * kMiB}) {
    write_sparse(path, header, size - cut);
    EXPECT_THAT(error_of(path), HasSubstr("tensor token_embd.weight: the file ends " + std::to_string(cut) + " bytes"));
  }
}

struct Folder {
  TempFolder temp;
  explicit Folder(const std::string& model) { temp.fill(kModels + model); }
  std::string replaced(const std::string& file, const std::string& from, const std::string& to) const {
    std::string text = read_bytes(temp.file(file));
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << file << " has no " << from;
    if (at == std::string::npos) return "";
    text.replace(at, from.size(), to);
    write_bytes(temp.file(file), text);
    return error_of(temp.path());
  }
};

std::string safetensors(const std::string& header, std::size_t data_bytes) {
  return raw<std::uint64_t>(header.size()) + header + std::string(data_bytes, '\0');
}

std::string error_of_safetensors(const std::string& bytes) {
  const Folder folder("formats-f32-single-new");
  write_bytes(folder.temp.file("model.safetensors"), bytes);
  return error_of(folder.temp.path());
}

TEST(BugLog, MF11ShortShardNamesTensorAndMissingBytes) {
  const Folder folder("formats-bf16-sharded-new");
  const std::string path = folder.temp.file("model-00002-of-00003.safetensors"), bytes = read_bytes(path);
  for (const std::size_t cut : {std::size_t{1}, std::size_t{4096}}) {
    write_bytes(path, bytes.substr(0, bytes.size() - cut));
    EXPECT_THAT(error_of(folder.temp.path()),
                AllOf(HasSubstr("model-00002-of-00003.safetensors: tensor model."), HasSubstr(": the file ends ")));
  }
  // 66 MB off a sparse shard of 80 MB.
  const std::string header = R"({"w":{"dtype":"F32","shape":[20971520],"data_offsets":[0,83886080]}})";
  write_sparse(path, raw<std::uint64_t>(header.size()) + header, 8 + header.size() + 14 * kMiB);
  EXPECT_THAT(error_of(folder.temp.path()), HasSubstr("tensor w: the file ends 69206016 bytes before"));
}

// MF02, MF04, MF10, MF14, MF16, MF18, MF20, MF21, MF22.
TEST(BugLog, BadSafetensorsAreRefusedByName) {
  const std::vector<BadFile> cases = {
      {"MF10 offsets past the file",
       safetensors(R"({"w":{"dtype":"F32","shape":[4],"data_offsets":[8,24]}})", 16),
       {"tensor w: its data begins at 8, expected 0"}},
      {"MF14 fewer bytes than the shape",
       safetensors(R"({"w":{"dtype":"F32","shape":[1000,1000],"data_offsets":[0,4]}})", 4),
       {"tensor w: data_offsets [0, 4] hold 4 bytes, expected 4000000 for F32 [1000, 1000]"}},
      {"MF14 offsets in the wrong order",
       safetensors(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[8,4]}})", 8),
       {"tensor w: data_offsets [8, 4]"}},
      {"MF16 one name twice",
       safetensors(
           R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
           8),
       {"\"w\"", "twice"}},
      {"MF20 header longer than the file", raw<std::uint64_t>(100) + "{}", {"header length: 100 bytes"}},
      {"MF20 header length near 2^64", raw(~std::uint64_t{0}) + "{}", {"header length: 18446744073709551615"}},
      {"MF20 no header length", "1234", {"has only 4 bytes"}},
      {"MF02 shape product wraps",
       safetensors(R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
       {"tensor w: its shape", "out of range"}},
      {"MF04 negative dimension",
       safetensors(R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4),
       {"tensor w: shape"}},
      {"MF18 dimension 0",
       safetensors(R"({"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})", 0),
       {"tensor w: its shape"}},
      {"MF21 nested 10^5 deep",
       safetensors(std::string(R"({"w":)") + std::string(100000, '['), 0),
       {"header: nested deeper"}},
      {"MF22 unknown dtype",
       safetensors(R"({"w":{"dtype":"F8_ZZZ","shape":[4],"data_offsets":[0,4]}})", 4),
       {"tensor w: unknown dtype \"F8_ZZZ\", expected F32, F16 or BF16"}},
      {"MF22 dtype that is not read",
       safetensors(R"({"w":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})", 4),
       {"tensor w: dtype F8_E4M3 is not supported"}},
      {"MF22 BF16 bytes under F32",
       safetensors(R"({"w":{"dtype":"F32","shape":[4],"data_offsets":[0,8]}})", 8),
       {"tensor w: data_offsets [0, 8] hold 8 bytes, expected 16"}},
      {"a hole",
       safetensors(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8),
       {"tensor w: its data begins"}},
      {"bytes of no tensor",
       safetensors(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8),
       {"4 bytes after the last tensor"}},
      {"metadata of numbers", safetensors(R"({"__metadata__":{"a":1}})", 0), {"__metadata__.a: expected a string"}},
      {"an array", safetensors("[]", 0), {"header: expected it to begin with {"}},
      {"a value that is no object", safetensors(R"({"w":1})", 0), {"tensor w: expected an object, found 1"}},
  };
  for (const BadFile& file : cases) {
    const std::string message = error_of_safetensors(file.bytes);
    expect_one_line(message, file.id);
    for (const std::string& part : file.says) EXPECT_THAT(message, HasSubstr(part)) << file.id;
  }
}

TEST(BugLog, MF22TransposedProjectionInSafetensors) {
  const Folder folder("formats-f32-single-new");
  EXPECT_THAT(folder.replaced("model.safetensors", R"("shape":[48,32])", R"("shape":[32,48])"),
              AllOf(HasSubstr("expected [48, 32], file has [32, 48]"), HasSubstr("proj.weight")));
}

TEST(BugLog, MF18ZeroesInConfigJson) {
  for (const char* key :
       {"num_attention_heads", "num_hidden_layers", "hidden_size", "vocab_size", "num_key_value_heads"}) {
    const Folder folder("formats-bf16-single-old");
    auto config = nlohmann::json::parse(read_bytes(folder.temp.file("config.json")));
    config[key] = 0;
    write_bytes(folder.temp.file("config.json"), config.dump());
    EXPECT_THAT(error_of(folder.temp.path()),
                AllOf(HasSubstr(std::string("config.json: ") + key + ": expected"), HasSubstr("found 0")));
  }
}

// MF12: nothing is mapped, so a file that shrinks or changes under the loader is an Error.
class ChangedFile : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_.fill(kModels + "formats-bf16-single-old");
    std::filesystem::copy_file(kModels + "formats-bf16.gguf", folder_.file("formats-bf16.gguf"));
    path_ = folder_.file(GetParam());
    // An old modification time, as any change within the clock's resolution would go unseen otherwise.
    const timespec times[2] = {{1000000000, 0}, {1000000000, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
    model_ = open_model(path_.ends_with(".gguf") ? path_ : folder_.path());
  }
  std::string error_of_read() {
    try {
      model_->tensor(LayerTensor::kDown, 1);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
  TempFolder folder_;
  std::string path_;
  std::unique_ptr<ModelFiles> model_;
};

TEST_P(ChangedFile, MF12ShortenedWhileLoading) {
  const HostTensor read_before = model_->tensor(ModelTensor::kEmbedding);
  const std::vector<std::byte> bytes(read_before.bytes.begin(), read_before.bytes.end());
  ASSERT_EQ(::truncate(path_.c_str(), 100), 0);
  EXPECT_THAT(error_of_read(), AllOf(HasSubstr("down"), HasSubstr("bytes too early; it was shortened")));
  // What was read stays whole: serving goes on.
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), read_before.bytes.begin(), read_before.bytes.end()));
}

TEST_P(ChangedFile, MF12RewrittenInPlace) {
  std::string bytes = read_bytes(path_);
  bytes.back() ^= 1;
  write_bytes(path_, bytes);
  EXPECT_THAT(error_of_read(), AllOf(HasSubstr("down"), HasSubstr("was changed after it was opened")));
}

TEST_P(ChangedFile, MF12ReplacedByAnotherFileIsNotSeen) {
  const HostTensor before = model_->tensor(LayerTensor::kDown, 1);
  const std::vector<std::byte> bytes(before.bytes.begin(), before.bytes.end());
  model_->release(before);
  write_bytes(path_ + ".new", "something else");
  std::filesystem::rename(path_ + ".new", path_);
  const HostTensor after = model_->tensor(LayerTensor::kDown, 1);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), after.bytes.begin(), after.bytes.end()));
}

INSTANTIATE_TEST_SUITE_P(Files, ChangedFile, ::testing::Values("formats-bf16.gguf", "model.safetensors"));

// MF20: every length, count, type, dimension and offset, one more and one less.
std::string changed(std::string bytes, const GgufField& field, std::int64_t by) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + field.at, static_cast<std::size_t>(field.bytes));
  value += static_cast<std::uint64_t>(by);
  std::memcpy(bytes.data() + field.at, &value, static_cast<std::size_t>(field.bytes));
  return bytes;
}

TEST(BugLog, MF20EachGgufFieldOneOff) {
  const TempFolder folder;
  const std::string path = folder.file("bad.gguf"), good = read_bytes(kModels + "width64-q4_0.gguf");
  const auto fields = GgufFieldFinder(good).find();
  ASSERT_GT(fields.size(), 400u);
  for (const GgufField& field : fields) {
    for (const int by : {-1, 1}) {
      // Version 2 differs only in what it does not have, and U32 and I32 hold the same small numbers.
      if (field.what == "version" || field.what.ends_with(": type")) continue;
      write_bytes(path, changed(good, field, by));
      expect_one_line(error_of(path), field.what + (by < 0 ? " - 1" : " + 1"));
    }
  }
}

TEST(BugLog, MF20EachSafetensorsNumberOneOff) {
  const Folder folder("formats-f32-single-new");
  const std::string path = folder.temp.file("model.safetensors"), good = read_bytes(path);
  for (const int by : {-1, 1}) {
    write_bytes(path, changed(good, {0, 8, ""}, by));
    expect_one_line(error_of(folder.temp.path()), "header length");
  }
  std::uint64_t length;
  std::memcpy(&length, good.data(), sizeof length);
  const auto header = nlohmann::json::parse(good.substr(8, length));
  for (const auto& [name, entry] : header.items()) {
    for (const char* list : {"shape", "data_offsets"}) {
      if (!entry.contains(list)) continue;
      for (std::size_t i = 0; i < entry[list].size(); ++i)
        for (const int by : {-1, 1}) {
          auto bad = header;
          bad[name][list][i] = entry[list][i].get<std::int64_t>() + by;
          write_bytes(path, safetensors(bad.dump(), 0) + good.substr(8 + length));
          expect_one_line(error_of(folder.temp.path()), name + "." + list);
        }
    }
  }
}

}  // namespace
}  // namespace monograph
