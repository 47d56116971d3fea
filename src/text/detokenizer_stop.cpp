#include <algorithm>

#include "monograph/error.h"
#include "text/detokenizer.h"

namespace monograph {

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include_stop) : include_stop_(include_stop) {
  for (std::string& text : stops) {
    if (text.empty()) throw Error(ErrorCode::kInvalidArgument, "stop: a stop string may not be empty", "stop");
    Stop stop{std::move(text), {}, 0};
    stop.fall_back.assign(stop.text.size() + 1, 0);
    for (std::size_t i = 1, n = 0; i < stop.text.size(); ++i) {
      while (n > 0 && stop.text[i] != stop.text[n]) n = stop.fall_back[n];
      if (stop.text[i] == stop.text[n]) ++n;
      stop.fall_back[i + 1] = n;
    }
    stops_.push_back(std::move(stop));
  }
}

// True if the text that ends with `c` now ends with this stop.
bool StopMatcher::advance(Stop& stop, char c) {
  while (stop.n_matched > 0 && stop.text[stop.n_matched] != c) stop.n_matched = stop.fall_back[stop.n_matched];
  if (stop.text[stop.n_matched] == c) ++stop.n_matched;
  return stop.n_matched == stop.text.size();
}

std::string StopMatcher::push(std::string_view text) {
  if (matched_ >= 0) return {};
  for (const char c : text) {
    pending_ += c;
    for (std::size_t i = 0; i < stops_.size(); ++i) {
      const bool longer = matched_ < 0 || stops_[i].text.size() > stops_[matched_].text.size();
      if (advance(stops_[i], c) && longer) matched_ = static_cast<int>(i);
    }
    if (matched_ < 0) continue;
    if (!include_stop_) pending_.resize(pending_.size() - stops_[matched_].text.size());
    return std::move(pending_);
  }
  std::size_t held = 0;
  for (const Stop& stop : stops_) held = std::max(held, stop.n_matched);
  std::string sent = pending_.substr(0, pending_.size() - held);
  pending_.erase(0, sent.size());
  return sent;
}

std::string StopMatcher::finish() {
  std::string text = std::move(pending_);
  pending_.clear();
  for (Stop& stop : stops_) stop.n_matched = 0;
  return matched_ >= 0 ? std::string() : text;
}

}  // namespace monograph
