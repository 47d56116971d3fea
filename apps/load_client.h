// One client of `bench serve`: streamed completions over HTTP, with the time of each token as it arrives.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "monograph/sampling.h"

namespace monograph::app {

struct Timing {
  double ttft_us = 0;          ///< From the request's first byte sent to the first token.
  std::vector<double> itl_us;  ///< Between tokens.
  double total_us = 0;         ///< To the last token.
  bool failed = true;          ///< Until every token has come.
  int n_tokens() const { return static_cast<int>(itl_us.size()) + 1; }
};

/// A connection to 127.0.0.1 that is kept open between requests, as a client's pool would.
class LoadClient {
 public:
  /// Throws Error(kUnavailable) if nobody listens.
  explicit LoadClient(int port);
  ~LoadClient();
  LoadClient(const LoadClient&) = delete;
  LoadClient& operator=(const LoadClient&) = delete;

  /// Greedy, to exactly n tokens, from token ids, so no tokenizer is in the times. A request that is refused or cut
  /// short is `failed`, and so is every later one of a connection that broke.
  Timing complete(const std::vector<TokenId>& prompt, int n_tokens);

 private:
  bool send(std::string_view bytes);
  bool receive();
  bool read_head();
  bool read_event(std::string& event);

  int socket_ = -1;
  std::string in_;  ///< Received, not read.
};

}  // namespace monograph::app
