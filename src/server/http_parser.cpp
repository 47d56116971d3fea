#include "server/http_parser.h"

// Beast 1.81 asserts that an empty chunked body never arrives in pieces; without the assert it is right.
#define BOOST_DISABLE_ASSERTS
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

namespace monograph::server {
namespace http = boost::beast::http;

struct HttpParser::Impl {
  http::request_parser<http::string_body> parser;
  int max_header_bytes;
  std::int64_t max_body_bytes;
  std::int64_t header_bytes = 0;
  int status = 0;
  std::string failure;

  Impl(int max_header, std::int64_t max_body) : max_header_bytes(max_header), max_body_bytes(max_body) {
    parser.header_limit(static_cast<std::uint32_t>(max_header));
    parser.body_limit(static_cast<std::uint64_t>(max_body));
    parser.eager(true);
  }

  void fail(int with_status, std::string why) {
    status = with_status;
    failure = std::move(why);
  }
  void fail_too_large() {
    fail(413, "the request body is larger than the limit of " + std::to_string(max_body_bytes) + " bytes");
  }
  void fail_header() {
    fail(431, "the request header is larger than the limit of " + std::to_string(max_header_bytes) + " bytes");
  }
  void fail_from(const boost::beast::error_code& error) {
    if (error == http::error::body_limit) return fail_too_large();
    if (error == http::error::header_limit) return fail_header();
    fail(400, "not a valid HTTP request: " + error.message());
  }
};

HttpParser::HttpParser(int max_header_bytes, std::int64_t max_body_bytes)
    : impl_(std::make_unique<Impl>(max_header_bytes, max_body_bytes)) {}
HttpParser::~HttpParser() = default;

std::size_t HttpParser::feed(std::string_view bytes) {
  if (state() == State::kDone || state() == State::kFailed) return 0;
  const bool in_header = !impl_->parser.is_header_done();
  boost::beast::error_code error;
  const std::size_t n = impl_->parser.put(boost::asio::buffer(bytes.data(), bytes.size()), error);
  if (error && error != http::error::need_more) impl_->fail_from(error);
  if (in_header) impl_->header_bytes += static_cast<std::int64_t>(n);
  // Beast's limit holds for a piece; many pieces must not add up to more.
  const bool still_in_header = !impl_->parser.is_header_done();
  if (still_in_header && impl_->status == 0 && impl_->header_bytes > impl_->max_header_bytes) impl_->fail_header();
  return n;
}

HttpParser::State HttpParser::state() const {
  if (impl_->status != 0) return State::kFailed;
  if (impl_->parser.is_done()) return State::kDone;
  return impl_->parser.is_header_done() ? State::kBody : State::kHeader;
}

std::int64_t HttpParser::body_bytes() const { return static_cast<std::int64_t>(impl_->parser.get().body().size()); }

bool HttpParser::wants_continue() const {
  return impl_->parser.is_header_done() &&
         boost::beast::iequals(impl_->parser.get()[http::field::expect], "100-continue");
}

HttpRequest HttpParser::take() {
  auto message = impl_->parser.release();
  const auto text = [&](auto field) { return std::string(message[field]); };
  HttpRequest request;
  request.method = std::string(message.method_string());
  const std::string target(message.target());
  request.path = target.substr(0, target.find('?'));
  request.content_type = text(http::field::content_type);
  request.content_encoding = text(http::field::content_encoding);
  request.request_id = text("X-Request-Id");
  request.keep_alive = message.keep_alive();
  request.http_1_0 = message.version() < 11;
  request.body = std::move(message.body());
  return request;
}

int HttpParser::failure_status() const { return impl_->status; }
const std::string& HttpParser::failure() const { return impl_->failure; }

}  // namespace monograph::server
