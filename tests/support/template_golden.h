// Reads tests/golden/templates/, which tools/make_template_golden.py makes and describes.
#pragma once
#include <cstdint>
#include <ctime>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

#include "text/chat_template.h"

namespace monograph::golden {

inline std::string read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::string template_golden(const std::string& name) {
  return read_whole(std::string(MONOGRAPH_SOURCE_DIR) + "/tests/golden/templates/" + name);
}

/// FNV-1a in hex, folded to 32 bits if asked.
inline std::string hash_of(std::string_view text, int bits = 64) {
  std::uint64_t value = 0xCBF29CE484222325u;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  if (bits == 32) value = value >> 32 ^ (value & 0xFFFFFFFFu);
  char buffer[17];
  std::snprintf(buffer, sizeof buffer, "%0*llx", bits / 4, static_cast<unsigned long long>(value));
  return buffer;
}

/// 2025-07-14 09:05:03 where the test runs: the date of every golden.
inline RenderOptions golden_date() {
  std::tm parts{};
  parts.tm_year = 125, parts.tm_mon = 6, parts.tm_mday = 14;
  parts.tm_hour = 9, parts.tm_min = 5, parts.tm_sec = 3, parts.tm_isdst = -1;
  return {std::mktime(&parts)};
}

}  // namespace monograph::golden
