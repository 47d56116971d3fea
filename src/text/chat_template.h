// Chat messages to a prompt, through the Jinja that published chat templates use, in transformers' settings.
#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace monograph {

/// Keeps key order, which `tojson` shows.
using TemplateValue = nlohmann::ordered_json;

/// A compiled template; immutable and thread-safe. trim_blocks, lstrip_blocks, loop controls, raise_exception,
/// strftime_now, tojson as transformers sets them.
class ChatTemplate {
 public:
  /// Throws Error(kUnsupported) naming the construct and line it cannot do, kUnreadableFile for a syntax error with its
  /// line.
  explicit ChatTemplate(std::string_view source);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  /// `variables`: messages, add_generation_prompt, tools, bos_token, eos_token and whatever else the caller passes.
  /// Throws Error(kInvalidArgument) with the template's own text when it calls raise_exception; bounded in time, depth
  /// and output.
  std::string render(const TemplateValue& variables) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace monograph
