// Bytes of a connection to an HttpRequest. The only user of Boost.Beast.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "server/http_message.h"

namespace monograph::server {

/// One request. Fed in pieces of any size; makes a new one for the next request.
class HttpParser {
 public:
  enum class State { kHeader, kBody, kDone, kFailed };

  HttpParser(int max_header_bytes, std::int64_t max_body_bytes);
  ~HttpParser();

  /// Takes what it can from the front of `bytes` and returns how much. The rest must come again, with more behind it.
  std::size_t feed(std::string_view bytes);
  State state() const;
  std::int64_t body_bytes() const;  ///< Received so far.
  bool wants_continue() const;      ///< The header asked for `100 Continue`.
  HttpRequest take();               ///< Once, when kDone.

  /// When kFailed: what to answer. The connection must close then, its next byte means nothing.
  int failure_status() const;
  const std::string& failure() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace monograph::server
