// Any bytes as the body of every route that reads one: a checked request, or an Error with a message that is UTF-8.
#include <cstdlib>

#include "base/json.h"
#include "server/completion_call.h"
#include "server/error_body.h"
#include "server/text_calls.h"
#include "tests/server/support/fake_engine.h"

namespace {

using namespace monograph;

template <typename Read>
void must_be_answered(Read read) {
  try {
    read();
  } catch (const Error& error) {
    // What goes back to the client must be JSON.
    parse_json(server::error_json(server::to_api_error(error)), "error");
  }
}

void check(const server::CompletionCall& call) {
  const bool sane =
      call.n >= 1 && call.n_choices() >= 1 && call.n_choices() <= server::kMaxChoices && !call.requests.empty();
  if (!sane) std::abort();
  for (const Request& request : call.requests)
    if (!request.prompt && !request.chat && request.prompt_ids.empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static test::FakeEngine engine;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  for (const server::Api api : {server::Api::kCompletions, server::Api::kChat, server::Api::kGenerate})
    must_be_answered([&] { check(server::read_completion_call(body, api, engine)); });
  must_be_answered([&] { parse_json(server::tokenize_call(engine, body), "answer"); });
  must_be_answered([&] { parse_json(server::detokenize_call(engine, body), "answer"); });
  must_be_answered([&] { parse_json(server::apply_template_call(engine, body), "answer"); });
  return 0;
}
