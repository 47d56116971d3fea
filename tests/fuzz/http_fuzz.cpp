// Any bytes from a socket, in pieces of any size: the same requests or the same refusal however they are cut.
#include <cstdlib>
#include <string>
#include <vector>

#include "server/http_parser.h"

namespace {

using monograph::server::HttpParser;

/// Everything that the bytes said, as one text.
std::string parsed(std::string_view bytes, std::size_t piece) {
  std::string out, pending;
  HttpParser parser(/*max_header_bytes=*/512, /*max_body_bytes=*/4096);
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    pending += bytes.substr(at, piece);
    pending.erase(0, parser.feed(pending));
    if (parser.state() == HttpParser::State::kDone) break;
    if (parser.state() == HttpParser::State::kFailed) return "refused";
    if (parser.body_bytes() > 4096) std::abort();
  }
  if (parser.state() != HttpParser::State::kDone) return "unfinished";
  const auto request = parser.take();
  return request.method + " " + request.path + " " + request.content_type + " " + request.body;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string whole = parsed(bytes, bytes.size() + 1);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}}) {
    const std::string pieces = parsed(bytes, piece);
    // A limit may be met earlier in one cut than in another; what is accepted must not differ.
    const bool both_accepted = whole.find(' ') != std::string::npos && pieces.find(' ') != std::string::npos;
    if (both_accepted && whole != pieces) std::abort();
  }
  return 0;
}
