// Streams of token ids to streams of valid UTF-8 text, never half a character; and stop strings over such a stream.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace monograph {

/// One per output sequence. The joined deltas equal to_valid_utf8(tokenizer.decode(all ids)).
class Detokenizer {
 public:
  Detokenizer(const Tokenizer& tokenizer, bool with_special = false);
  /// Text that became complete with this id; bytes of a character still open are held back.
  std::string push(TokenId id);
  /// What was held back, made valid (U+FFFD for the open character). Call once at the end.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool with_special_;
  bool at_start_ = true;
  std::string pending_;
};

/// Holds back text that may become a stop string and cuts before the first one that is complete (ST01, ST03). Of
/// several that end at the same byte the longest counts. How the text is cut into pushes changes nothing. Linear time.
class StopMatcher {
 public:
  /// Throws Error(kInvalidArgument) for an empty string. `include_stop` keeps the matched text in the output.
  StopMatcher(std::vector<std::string> stops, bool include_stop = false);
  /// Text that may be sent now. After a match matched() is set and everything later is dropped.
  std::string push(std::string_view text);
  /// Text that was held back and is no stop.
  std::string finish();
  /// Index into stops of the match, -1 if none yet.
  int matched() const { return matched_; }

 private:
  struct Stop {
    std::string text;
    std::vector<std::size_t> fall_back;  // [n]: the longest proper prefix that the first n bytes also end with
    std::size_t n_matched = 0;
  };
  static bool advance(Stop& stop, char c);

  std::vector<Stop> stops_;
  bool include_stop_;
  int matched_ = -1;
  std::string pending_;
};

}  // namespace monograph
