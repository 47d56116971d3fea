#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "answer.h"
#include "commands.h"
#include "console.h"
#include "line_reader.h"
#include "monograph/engine.h"
#include "monograph/error.h"

namespace monograph::app {
namespace {

using nlohmann::json;

/// What Ctrl-C leaves for a clean end; then the process goes, in whatever state it is.
constexpr std::chrono::milliseconds kInterruptGrace{700};
constexpr int kDefaultMaxTokens = 512;

SamplingParams sampling_of(const Engine& engine, const GenerateSettings& g) {
  SamplingParams s = engine.default_sampling();
  const auto set = [](float& field, const std::optional<double>& given) {
    if (given) field = static_cast<float>(*given);
  };
  set(s.temperature, g.temperature);
  set(s.top_p, g.top_p);
  set(s.min_p, g.min_p);
  set(s.repetition_penalty, g.repetition_penalty);
  set(s.presence_penalty, g.presence_penalty);
  set(s.frequency_penalty, g.frequency_penalty);
  if (g.top_k) s.top_k = *g.top_k;
  if (g.seed) s.seed = static_cast<std::uint64_t>(*g.seed);
  s.max_tokens = g.max_tokens.value_or(kDefaultMaxTokens);
  s.stop = g.stop;
  s.ignore_eos = g.ignore_eos;
  return s;
}

std::string chat_text(const json& messages) {
  const json chat = {{"messages", messages}, {"add_generation_prompt", true}};
  return chat.dump(-1, ' ', false, json::error_handler_t::replace);
}

json first_messages(const GenerateSettings& g) {
  json messages = json::array();
  if (!g.system.empty()) messages.push_back({{"role", "system"}, {"content", g.system}});
  return messages;
}

bool write_out(std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
}

/// Shows the summary and turns an answer's end into an exit code.
int conclude(const Answer& answer, const GenerateSettings& g, const StopSignals& signals) {
  if (!answer.text.ends_with('\n')) write_out("\n");
  if (answer.finish == FinishReason::kError)
    throw Error(ErrorCode::kInternal,
                "the request failed: " + (answer.error.empty() ? "no reason given" : answer.error));
  std::fprintf(stderr, "%s\n", answer.summary().c_str());
  if (signals.stopping()) return kExitInterrupted;
  const std::string_view status = to_string(answer.prefill.status);
  if (!g.require_status.empty() && status != g.require_status) {
    std::fprintf(stderr, "monograph: prefill_cuda_graph_status is %s, --require-status asks for %s\n",
                 std::string(status).c_str(), g.require_status.c_str());
    return kExitOtherStatus;
  }
  return kExitOk;
}

int answer_once(Engine& engine, const GenerateSettings& g, std::string prompt, StopSignals& signals) {
  Request request;
  request.sampling = sampling_of(engine, g);
  if (g.raw || !engine.info().has_chat_template) {
    request.prompt = std::move(prompt);
  } else {
    json messages = first_messages(g);
    messages.push_back({{"role", "user"}, {"content", std::move(prompt)}});
    request.chat = chat_text(messages);
  }
  return conclude(run_request(engine, std::move(request), signals, write_out), g, signals);
}

/// Turns of a conversation, until an empty line, the end of the input or Ctrl-C.
int chat(Engine& engine, const GenerateSettings& g, StopSignals& signals) {
  if (!engine.info().has_chat_template)
    throw Error(ErrorCode::kInvalidArgument, "this model has no chat template: give --prompt, or --chat-template FILE");
  json messages = first_messages(g);
  LineReader lines(signals.stop_fd());
  for (;;) {
    std::fprintf(stderr, "> ");
    const auto line = lines.line();
    if (!line || line->empty()) break;
    messages.push_back({{"role", "user"}, {"content", *line}});
    Request request;
    request.sampling = sampling_of(engine, g);
    request.chat = chat_text(messages);
    const Answer answer = run_request(engine, std::move(request), signals, write_out);
    if (const int code = conclude(answer, g, signals); code != kExitOk) return code;
    messages.push_back({{"role", "assistant"}, {"content", answer.text}});
  }
  std::fprintf(stderr, "\n");
  return signals.stopping() ? kExitInterrupted : kExitOk;
}

}  // namespace

int generate(const Settings& settings, StopSignals& signals) {
  signals.end_after(kInterruptGrace, kExitInterrupted);
  const GenerateSettings& g = settings.generate;
  const bool from_input = g.prompt ? *g.prompt == "-" : ::isatty(STDIN_FILENO) != 1;
  std::optional<std::string> prompt = g.prompt;
  if (from_input) prompt = LineReader(signals.stop_fd()).rest();
  if (prompt && prompt->empty()) throw Error(ErrorCode::kInvalidArgument, "--prompt: the prompt is empty");
  Console console(settings.log_level, LogLevel::kWarning);
  const auto engine = Engine::load(settings.engine, console.engine_sink(), [&] { return signals.stopping(); });
  console.clear();
  const int code = prompt ? answer_once(*engine, g, *prompt, signals) : chat(*engine, g, signals);
  engine->stop(std::chrono::milliseconds(0));
  return code;
}

}  // namespace monograph::app
