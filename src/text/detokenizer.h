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

/// Holds back text that may become a stop string; cuts before the earliest match (the first in the text wins) (ST01,
/// ST03).
class StopMatcher {
 public:
  /// `stops` must not hold empty strings. `include_stop` keeps the matched text in the output.
  StopMatcher(std::vector<std::string> stops, bool include_stop = false);
  /// Text that may be sent now. After a match matched() is set and everything later is dropped.
  std::string push(std::string_view text);
  /// Text that was held back and is no stop.
  std::string finish();
  /// Index into stops of the match, -1 if none yet.
  int matched() const { return matched_; }

 private:
  std::vector<std::string> stops_;
  bool include_stop_;
  int matched_ = -1;
  std::string pending_;
};

}  // namespace monograph
