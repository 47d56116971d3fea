#include "text/charsmap.h"

#include <utf8proc.h>

#include "monograph/error.h"
#include "text/unicode_utf8.h"

namespace monograph {
namespace {

constexpr std::size_t kSmallCluster = 6;  // bytes

std::uint32_t read_u32(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

// A unit of the trie: bits 0-7 and 31 are the byte that leads here, bit 8 says that a key ends here, the others are the
// distance to the children (bit 9: in steps of 256). The unit of a key's end holds its value in bits 0-30.
std::size_t offset_of(std::uint32_t unit) { return std::size_t{unit >> 10} << ((unit & 1u << 9) >> 6); }
std::uint32_t label_of(std::uint32_t unit) { return unit & (1u << 31 | 0xFF); }
bool ends_key(std::uint32_t unit) { return unit >> 8 & 1; }

}  // namespace

Charsmap::Charsmap(std::string_view blob) {
  const std::size_t n_bytes = blob.size() < 4 ? 0 : read_u32(blob, 0);
  if (n_bytes == 0 || n_bytes % 4 != 0 || n_bytes > blob.size() - 4 || blob.back() != '\0')
    throw Error(ErrorCode::kUnreadableFile,
                "tokenizer: precompiled_charsmap: expected the size of a trie, the trie and replacements that end in a "
                "zero byte, found " +
                    std::to_string(blob.size()) + " bytes that begin with the size " + std::to_string(n_bytes));
  for (std::size_t at = 4; at < 4 + n_bytes; at += 4) units_.push_back(read_u32(blob, at));
  replacements_ = blob.substr(4 + n_bytes);
}

const char* Charsmap::find_shortest(std::string_view text) const {
  std::size_t at = offset_of(units_[0]);
  for (const char c : text) {
    at ^= static_cast<unsigned char>(c);
    if (c == '\0' || at >= units_.size() || label_of(units_[at]) != static_cast<unsigned char>(c)) return nullptr;
    const std::uint32_t unit = units_[at];
    at ^= offset_of(unit);
    if (!ends_key(unit)) continue;
    const std::size_t value = at < units_.size() ? units_[at] & ~(1u << 31) : replacements_.size();
    return value < replacements_.size() ? replacements_.c_str() + value : nullptr;
  }
  return nullptr;
}

void Charsmap::append_cluster(std::string& out, std::string_view cluster) const {
  if (cluster.size() < kSmallCluster)
    if (const char* whole = find_shortest(cluster)) {
      out += whole;
      return;
    }
  for (std::size_t at = 0; at < cluster.size();) {
    const std::string_view c = cluster.substr(at, utf8_char_at(cluster, at).length);
    if (const char* replacement = find_shortest(c))
      out += replacement;
    else
      out += c;
    at += c.size();
  }
}

std::string Charsmap::apply(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  std::size_t begin = 0;  // of the cluster
  char32_t previous = 0;
  utf8proc_int32_t state = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = utf8_char_at(text, at);
    const bool goes_on = c.well_formed && at > begin &&
                         !utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(previous),
                                                           static_cast<utf8proc_int32_t>(c.code), &state);
    if (!goes_on) {
      append_cluster(out, text.substr(begin, at - begin));
      begin = at;
      state = 0;
    }
    previous = c.code;
    at += c.length;
    if (c.well_formed) continue;
    out.append(text, begin, at - begin);
    begin = at;
  }
  append_cluster(out, text.substr(begin));
  return out;
}

}  // namespace monograph
