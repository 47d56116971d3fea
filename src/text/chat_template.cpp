#include "text/chat_template.h"

#include <ctime>

#include "monograph/error.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"

namespace monograph {
namespace {

using jinja::Failure;

Error located(const Failure& failure, int line) {
  const std::string where = "chat template, line " + std::to_string(failure.line > 0 ? failure.line : line) + ": ";
  const char* verdict = failure.code == ErrorCode::kUnsupported ? " is not supported" : "";
  return Error(failure.code, where + failure.what() + verdict);
}

}  // namespace

struct ChatTemplate::Impl {
  jinja::Template parsed;
};

ChatTemplate::ChatTemplate(std::string_view source) {
  try {
    impl_ = std::make_unique<Impl>(Impl{jinja::parse_template(source)});
  } catch (const Failure& failure) {
    throw located(failure, 1);
  }
}

ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;

RenderedPrompt ChatTemplate::render_marked(const TemplateValue& variables, const RenderOptions& options) const {
  const std::time_t now = options.now.value_or(std::time(nullptr));
  std::optional<jinja::Interpreter> interpreter;
  try {
    interpreter.emplace(impl_->parsed, variables, now);
    jinja::Text text = interpreter->run();
    RenderedPrompt prompt{std::move(text.bytes), {}};
    for (const jinja::Span& span : text.from_input) prompt.from_input.emplace_back(span.begin, span.end);
    return prompt;
  } catch (const Failure& failure) {
    throw located(failure, interpreter ? interpreter->line() : 1);
  } catch (const jinja::RaisedByTemplate& raised) {
    throw Error(ErrorCode::kInvalidArgument, raised.what());
  }
}

std::string ChatTemplate::render(const TemplateValue& variables, const RenderOptions& options) const {
  return render_marked(variables, options).text;
}

}  // namespace monograph
