// Text of a setting → a checked value. Every function throws Error(kInvalidArgument) in one line that names the knob as
// it was spelled where it was read ("--max-seqs", "MONOGRAPH_MAX_SEQS", "monograph.conf: max-seqs"), echoes the text
// and states the limit.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace monograph {

/// true|false|1|0|on|off
bool parse_bool(const std::string& text, const std::string& knob);
/// A whole number in [least, most], decimal digits with an optional minus. `reason` starts the message, if given.
std::int64_t parse_int(const std::string& text, const std::string& knob, std::int64_t least, std::int64_t most,
                       std::string_view reason = {});
/// A number in [least, most]; never NaN or infinite.
double parse_number(const std::string& text, const std::string& knob, double least, double most);
/// Bytes: a whole number and one of nothing, k, K, M, G, T, each also with iB; all powers of 1024. At least 1.
std::int64_t parse_bytes(const std::string& text, const std::string& knob);
/// One of `choices`; gives its index.
int parse_choice(const std::string& text, const std::string& knob, std::span<const std::string_view> choices);
/// Whole numbers in [least, most] between commas; none may be empty.
std::vector<int> parse_int_list(const std::string& text, const std::string& knob, int least, int most);

/// Capture buckets: a list `1,2,4`, a range `max:step` (the multiples of step below max, then max) or `@file` (one per
/// line; blank lines and lines that start with # are skipped). Gives 1..64 distinct values of 1..65536, sorted. The
/// count of a range is checked before it is built. Messages start with "invalid_capture_buckets".
std::vector<int> parse_buckets(const std::string& text, const std::string& knob);

/// A whole text file of at most `max_bytes`. Messages keep the cause: missing, a folder, no permission, not UTF-8.
std::string read_text_file(const std::string& path, const std::string& knob, std::int64_t max_bytes);

/// The candidate that differs from `word` in the fewest letters, if that is few enough to be a slip; else empty.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace monograph
