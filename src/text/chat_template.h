// Chat messages to a prompt, through the Jinja that published chat templates use, in transformers' settings.
#pragma once
#include <cstddef>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace monograph {

/// Keeps key order, which `tojson` shows.
using TemplateValue = nlohmann::ordered_json;

struct RenderOptions {
  std::optional<std::time_t> now;  ///< What strftime_now() shows, in local time; the current time if absent.
};

/// A prompt, and the byte ranges [begin, end) of it that came from the variables: only outside of them may text become
/// a control token (TK11). Variables named ..._token at the top level, and roles of [a-z_]*, are the template's.
struct RenderedPrompt {
  std::string text;
  std::vector<std::pair<std::size_t, std::size_t>> from_input;  ///< Sorted, disjoint, not touching.
};

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
  std::string render(const TemplateValue& variables, const RenderOptions& options = {}) const;
  /// The same text, and where it came from.
  RenderedPrompt render_marked(const TemplateValue& variables, const RenderOptions& options = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace monograph
