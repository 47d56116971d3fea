#include "text/chat_template.h"

#include <gtest/gtest.h>

namespace monograph {
namespace {

TEST(ChatTemplate, RendersChatMl) {
  const ChatTemplate chat(
      "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou "
      "are helpful<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
      "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}");
  const auto variables = TemplateValue::parse(
      R"({"messages": [{"role": "user", "content": "Hi \u00e9"}], "add_generation_prompt": true})");
  EXPECT_EQ(chat.render(variables),
            "<|im_start|>system\nYou are helpful<|im_end|>\n<|im_start|>user\nHi \u00e9<|im_end|>\n"
            "<|im_start|>assistant\n");
}

}  // namespace
}  // namespace monograph
