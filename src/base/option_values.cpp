#include "base/option_values.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <set>
#include <system_error>

#include "base/json.h"
#include "monograph/error.h"

namespace monograph {
namespace {

// The limits of graph/ladder.h, which a layer below it cannot include; a test keeps the two equal.
constexpr int kMaxBuckets = 64;
constexpr int kMaxBucket = 65536;
constexpr std::string_view kBadBuckets = "invalid_capture_buckets";
constexpr std::int64_t kMaxBucketFileBytes = 1 << 20;

[[noreturn]] void refuse(const std::string& knob, const std::string& what, std::string_view reason = {}) {
  std::string message = reason.empty() ? "" : std::string(reason) + ": ";
  throw Error(ErrorCode::kInvalidArgument, message + knob + ": " + what, knob);
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMost = 80;  // an error is one line, whatever was given
  std::string shown;
  for (char c : text.substr(0, kMost)) shown.push_back(static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c);
  return '"' + shown + (text.size() > kMost ? "..." : "") + '"';
}

std::string range(std::int64_t least, std::int64_t most) { return std::to_string(least) + ".." + std::to_string(most); }

std::string shortest(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return std::string(text, end);
}

}  // namespace

bool parse_bool(const std::string& text, const std::string& knob) {
  if (text == "true" || text == "1" || text == "on") return true;
  if (text == "false" || text == "0" || text == "off") return false;
  refuse(knob, in_quotes(text) + " is not one of true, false, 1, 0, on, off");
}

std::int64_t parse_int(const std::string& text, const std::string& knob, std::int64_t least, std::int64_t most,
                       std::string_view reason) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (stop != end || text.empty() || error == std::errc::invalid_argument)
    refuse(knob, in_quotes(text) + " is not a whole number, expected " + range(least, most), reason);
  if (error == std::errc::result_out_of_range || value < least || value > most)
    refuse(knob, in_quotes(text) + " is outside " + range(least, most), reason);
  return value;
}

double parse_number(const std::string& text, const std::string& knob, double least, double most) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const std::string limits = shortest(least) + ".." + shortest(most);
  if (stop != end || text.empty() || error == std::errc::invalid_argument || std::isnan(value))
    refuse(knob, in_quotes(text) + " is not a number, expected " + limits);
  if (error == std::errc::result_out_of_range || value < least || value > most)
    refuse(knob, in_quotes(text) + " is outside " + limits);
  return value;
}

std::int64_t parse_bytes(const std::string& text, const std::string& knob) {
  const auto unit_at = std::min(text.find_first_not_of("0123456789"), text.size());
  std::string unit = text.substr(unit_at);
  if (unit.size() == 3 && unit.ends_with("iB")) unit.resize(1);
  constexpr std::string_view kUnits = "KMGT";
  int shift = 0;
  if (unit == "k") unit = "K";
  if (!unit.empty()) {
    const auto found = unit.size() == 1 ? kUnits.find(unit[0]) : std::string_view::npos;
    if (unit_at == 0 || found == std::string_view::npos)
      refuse(knob, in_quotes(text) + " is not a size, expected bytes or a number with k, K, M, G or T");
    shift = 10 * (static_cast<int>(found) + 1);
  }
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() >> shift;
  return parse_int(text.substr(0, unit_at), knob, 1, most) << shift;
}

int parse_choice(const std::string& text, const std::string& knob, std::span<const std::string_view> choices) {
  const auto found = std::find(choices.begin(), choices.end(), text);
  if (found != choices.end()) return static_cast<int>(found - choices.begin());
  std::string all;
  for (auto choice : choices) all.append(all.empty() ? "" : ", ").append(choice);
  refuse(knob, in_quotes(text) + " is not one of " + all);
}

namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  for (std::size_t at; (at = text.find(separator, start)) != std::string::npos; start = at + 1)
    parts.push_back(text.substr(start, at - start));
  parts.push_back(text.substr(start));
  return parts;
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

}  // namespace

std::vector<int> parse_int_list(const std::string& text, const std::string& knob, int least, int most) {
  std::vector<int> values;
  for (const auto& part : split(text, ',')) values.push_back(static_cast<int>(parse_int(part, knob, least, most)));
  return values;
}

namespace {

/// Distinct buckets in order; refuses the one that makes them too many.
class BucketSet {
 public:
  explicit BucketSet(std::string knob) : knob_(std::move(knob)) {}
  void add(const std::string& text, const std::string& where) {
    buckets_.insert(static_cast<int>(parse_int(text, knob_ + where, 1, kMaxBucket, kBadBuckets)));
    if (buckets_.size() > static_cast<std::size_t>(kMaxBuckets))
      refuse(knob_, "more than " + std::to_string(kMaxBuckets) + " buckets", kBadBuckets);
  }
  std::vector<int> take(const std::string& text) const {
    if (buckets_.empty()) refuse(knob_, in_quotes(text) + " holds no bucket, expected 1..64 of them", kBadBuckets);
    return {buckets_.begin(), buckets_.end()};
  }

 private:
  std::string knob_;
  std::set<int> buckets_;
};

std::vector<int> buckets_of_range(const std::string& text, const std::string& knob) {
  const auto parts = split(text, ':');
  if (parts.size() != 2) refuse(knob, in_quotes(text) + " is not a range, expected max:step", kBadBuckets);
  const auto most = parse_int(parts[0], knob, 1, kMaxBucket, kBadBuckets);
  const auto step = parse_int(parts[1], knob, 1, std::numeric_limits<int>::max(), kBadBuckets);
  const auto count = (most + step - 1) / step;
  if (count > kMaxBuckets)
    refuse(knob,
           in_quotes(text) + " makes " + std::to_string(count) + " buckets, at most " + std::to_string(kMaxBuckets) +
               " are allowed",
           kBadBuckets);
  std::vector<int> buckets;
  for (auto bucket = step; bucket < most; bucket += step) buckets.push_back(static_cast<int>(bucket));
  buckets.push_back(static_cast<int>(most));
  return buckets;
}

std::vector<int> buckets_of_file(const std::string& text, const std::string& knob) {
  const std::string path = text.substr(1);
  std::string content;
  try {
    content = read_text_file(path, knob, kMaxBucketFileBytes);
  } catch (const Error& error) {
    throw Error(error.code(), std::string(kBadBuckets) + ": " + error.what(), knob);
  }
  BucketSet buckets(knob);
  int number = 0;
  for (const auto& raw : split(content, '\n')) {
    ++number;
    const std::string line = trimmed(raw);
    if (!line.empty() && line[0] != '#') buckets.add(line, ": " + path + ":" + std::to_string(number));
  }
  return buckets.take(text);
}

}  // namespace

std::vector<int> parse_buckets(const std::string& text, const std::string& knob) {
  if (text.starts_with('@')) return buckets_of_file(text, knob);
  if (text.find(':') != std::string::npos) return buckets_of_range(text, knob);
  BucketSet buckets(knob);
  if (!text.empty())
    for (const auto& part : split(text, ',')) buckets.add(part, "");
  return buckets.take(text);
}

namespace {

/// Offset of the first byte that is not part of valid UTF-8, or of a NUL, which no text file has; npos if all is well.
std::size_t first_bad_byte(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const int n = text[i] == '\0' ? 0 : utf8_length(text, i);
    if (n == 0) return i;
    i += static_cast<std::size_t>(n);
  }
  return std::string_view::npos;
}

}  // namespace

std::string read_text_file(const std::string& path, const std::string& knob, std::int64_t max_bytes) {
  const auto cannot = [&](const std::string& cause) { refuse(knob, "cannot read " + in_quotes(path) + ": " + cause); };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) cannot(std::generic_category().message(errno));
  std::string text;
  char part[4096];
  for (std::size_t n; (n = std::fread(part, 1, sizeof part, file.get())) > 0;) {
    text.append(part, n);
    if (static_cast<std::int64_t>(text.size()) > max_bytes)
      cannot("it is larger than " + std::to_string(max_bytes) + " bytes");
  }
  if (std::ferror(file.get())) cannot(std::generic_category().message(errno));  // a folder opens, but does not read
  if (const auto bad = first_bad_byte(text); bad != std::string_view::npos) {
    char byte[8];
    std::snprintf(byte, sizeof byte, "0x%02x", static_cast<unsigned char>(text[bad]));
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bad), '\n');
    cannot("it is not UTF-8 text (byte " + std::string(byte) + " in line " + std::to_string(line) + ")");
  }
  return text;
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const auto& candidate : candidates) {
    // Edit distance, one row at a time.
    std::vector<std::size_t> row(candidate.size() + 1);
    for (std::size_t k = 0; k < row.size(); ++k) row[k] = k;
    for (std::size_t i = 1; i <= word.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t k = 1; k < row.size(); ++k) {
        const std::size_t replace = diagonal + (word[i - 1] == candidate[k - 1] ? 0 : 1);
        diagonal = row[k];
        row[k] = std::min({replace, row[k] + 1, row[k - 1] + 1});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace monograph
