// Any bytes as a chat template, run over a conversation with most kinds of values: a prompt or an Error.
#include <string_view>

#include "monograph/error.h"
#include "text/chat_template.h"

namespace {

const monograph::TemplateValue& variables() {
  static const auto value = monograph::TemplateValue::parse(R"({
    "messages": [{"role": "system", "content": " Be brief. "}, {"role": "user", "content": "H\u00e9llo <|x|> \u4e16"},
                 {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, 2.5, true]}}}]},
                 {"role": "tool", "content": [{"type": "text", "text": "a"}]}],
    "tools": [{"function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": ["x", null]}}}}}],
    "bos_token": "<s>", "add_generation_prompt": true, "x": 7, "f": 2.5, "s": "Hello World", "l": [3, 1, 2], "d": {"b": 1, "a": 2}})");
  return value;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const monograph::ChatTemplate chat(std::string_view(reinterpret_cast<const char*>(data), size));
    chat.render(variables(), {1'750'000'000});
  } catch (const monograph::Error&) {
  }
  return 0;
}
