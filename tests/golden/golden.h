// Reads tests/golden/logits/*.golden; tools/make_golden.py, which makes them, describes the format.
#pragma once
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace monograph::golden {

struct Prompt {
  std::vector<std::int32_t> tokens;
  std::vector<int> rows;                   ///< Positions whose logits are stored: row p is after tokens[0..p].
  std::vector<std::vector<float>> logits;  ///< One per entry of rows.
  std::vector<std::int32_t> greedy;        ///< What greedy decoding gives, EOS or not.
  std::vector<float> gaps;                 ///< Best minus second-best logit at each step of it.
  bool chat = false;
};

struct Golden {
  std::string model;
  int vocab_size = 0;
  std::vector<Prompt> prompts;
};

inline std::vector<float> read_row(const char*& at, int vocab_size, bool packed) {
  std::vector<float> row(static_cast<std::size_t>(vocab_size));
  if (!packed) {
    std::memcpy(row.data(), at, row.size() * sizeof(float));
    at += row.size() * sizeof(float);
    return row;
  }
  float scale;
  std::memcpy(&scale, at, sizeof scale);
  at += sizeof scale;
  for (float& logit : row) {
    std::int16_t level;
    std::memcpy(&level, at, sizeof level);
    at += sizeof level;
    logit = scale * static_cast<float>(level);
  }
  return row;
}

inline Golden read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string data{std::istreambuf_iterator<char>(file), {}};
  if (data.size() < 12 || data.compare(0, 8, "MGGOLD1\n") != 0) throw std::runtime_error(path + ": not a golden file");
  std::uint32_t length;
  std::memcpy(&length, data.data() + 8, sizeof length);
  const auto header = nlohmann::json::parse(data.substr(12, length));
  Golden golden{header["model"], header["vocab_size"], {}};
  const bool packed = header["encoding"] == "i16";
  const char* at = data.data() + 12 + length;
  for (const auto& item : header["prompts"]) {
    Prompt prompt{item["tokens"], item["rows"], {}, item["greedy"], item["gaps"], item["kind"] == "chat"};
    for (std::size_t i = 0; i < prompt.rows.size(); ++i)
      prompt.logits.push_back(read_row(at, golden.vocab_size, packed));
    golden.prompts.push_back(std::move(prompt));
  }
  if (at != data.data() + data.size()) throw std::runtime_error(path + ": rows and header disagree");
  return golden;
}

}  // namespace monograph::golden
