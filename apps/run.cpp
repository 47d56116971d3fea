#include <algorithm>
#include <array>
#include <cstdio>

#include "base/engine_options.h"
#include "base/option_values.h"
#include "commands.h"
#include "monograph/error.h"

namespace monograph::app {
namespace {

constexpr const char* kVersion = "monograph 0.1.0";

constexpr const char* kOverview = R"(Monograph runs large language models: every step is one recorded graph.

  monograph generate --model FILE --prompt "Why is the sky blue?"   answer once
  monograph generate --model FILE                                   chat on the terminal
  monograph serve    --model FILE                                   OpenAI-compatible server on 127.0.0.1:8000
  monograph bench    --model FILE prefill|decode|serve|startup      how fast it is here
  monograph inspect  --model FILE [graphs]                          what is in a model file; its graphs
  monograph plan     --lengths 5,4 --bucket 16                      how a batch lies in a graph

FILE is a .gguf file or a Hugging Face folder. `monograph COMMAND --help` lists a command's options,
`--help-all` every one. Each option can also come from the environment (--max-seqs: MONOGRAPH_MAX_SEQS) or
from the file that --config names; the command line wins over the environment, that over the file.
)";

struct Command {
  std::string_view name;
  std::vector<std::string_view> groups;
  std::vector<std::string_view> words;  ///< What may stand after the options.
  const char* intro;
};

const std::array<Command, 5>& commands() {
  static const std::array<Command, 5> kCommands = {{
      {"serve",
       {kModelGroup, kServerGroup, kLimitsGroup, kGraphGroup, kSettingsGroup},
       {},
       "usage: monograph serve --model FILE [options]\n\n"
       "Answers OpenAI-style requests over HTTP until Ctrl-C or SIGTERM.\n"},
      {"generate",
       {kPromptGroup, kModelGroup, kLimitsGroup, kGraphGroup, kSettingsGroup},
       {},
       "usage: monograph generate --model FILE [--prompt TEXT] [options]\n\n"
       "Writes the answer to standard output as it comes, then one summary line to standard error.\n"
       "Without --prompt it chats; Ctrl-C or an empty line ends it.\n\n"
       "  monograph generate --model m.gguf --prompt \"Name three colours.\" --temperature 0\n"
       "  git log -5 | monograph generate --model m.gguf --prompt - --raw --max-tokens 64\n"},
      {"bench",
       {kBenchGroup, kModelGroup, kLimitsGroup, kGraphGroup, kSettingsGroup},
       {"prefill", "decode", "serve", "startup"},
       "usage: monograph bench --model FILE prefill|decode|serve|startup [options]\n\n"
       "  prefill   per prompt length: bucket, eager and graph time on the device, host time, floor, time to first "
       "token\n"
       "  decode    per batch size: eager and graph time of a step, tokens per second\n"
       "  serve     many requests at once over HTTP, from clients of its own\n"
       "  startup   from nothing to the first token\n"},
      {"inspect",
       {kModelGroup, kLimitsGroup, kGraphGroup, kSettingsGroup},
       {"graphs"},
       "usage: monograph inspect --model FILE [graphs] [options]\n\n"
       "Shows what a model file holds; with `graphs` it also captures them and shows buckets, times and memory.\n"},
      {"plan",
       {kPlanGroup, kLimitsGroup, kSettingsGroup},
       {},
       "usage: monograph plan --lengths LIST [options]\n\n"
       "Prints the arrays of one replay, without a model or a GPU. Also used: --block-size, --max-seq-len.\n\n"
       "  monograph plan --lengths 5,4 --bucket 16 --max-requests 3 --block-size 4 --scratch 90,91,92,93\n"},
  }};
  return kCommands;
}

const Command& find_command(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& command : commands()) {
    if (command.name == name) return command;
    names.emplace_back(command.name);
  }
  const std::string near = nearest(name, names);
  throw Error(ErrorCode::kInvalidArgument, "unknown command " + name +
                                               (near.empty() ? "" : "; did you mean " + near + "?") +
                                               " (monograph --help lists them)");
}

/// The one word that may stand beside the options; empty if none does.
std::string checked_word(const Command& command, const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i)
    if (i > 0 || std::find(command.words.begin(), command.words.end(), words[i]) == command.words.end())
      throw Error(ErrorCode::kInvalidArgument, std::string(command.name) + ": unexpected \"" + words[i] + "\"");
  return words.empty() ? "" : words[0];
}

int dispatch(const Command& command, const Settings& settings, const std::string& word, StopSignals& signals) {
  if (command.name == "plan") return plan(settings);
  if (settings.engine.model.empty())
    throw Error(
        ErrorCode::kInvalidArgument,
        std::string(command.name) + ": --model FILE is missing, expected a .gguf file or a Hugging Face folder");
  if (command.name == "serve") return serve(settings, signals);
  if (command.name == "generate") return generate(settings, signals);
  if (command.name == "bench") return bench(settings, word, signals);
  return inspect(settings, word);
}

int run_command(std::span<const std::string> args, StopSignals& signals) {
  const Command& command = find_command(args[0]);
  Settings settings;
  Options options = make_options(settings);
  const Options::Result parsed = options.parse(args.subspan(1), process_environment(), command.groups);
  if (parsed.help || parsed.help_all) {
    std::fputs((command.intro + options.help(command.groups, parsed.help_all)).c_str(), stdout);
    if (!parsed.help_all) std::fputs("\n--help-all lists every option.\n", stdout);
    return kExitOk;
  }
  check_engine_options(options, settings.engine);
  const Log log(stderr_sink(settings.log_level.value_or(LogLevel::kWarning)));
  for (const auto& warning : parsed.warnings) log.warning(warning);
  return dispatch(command, settings, checked_word(command, parsed.positionals), signals);
}

}  // namespace

int run(std::span<const std::string> args, StopSignals& signals) {
  if (args.empty() || args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    std::fputs(kOverview, args.empty() ? stderr : stdout);
    return args.empty() ? kExitError : kExitOk;
  }
  if (args[0] == "--version") {
    std::puts(kVersion);
    return kExitOk;
  }
  try {
    return run_command(args, signals);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled && signals.stopping()) return kExitInterrupted;
    std::fprintf(stderr, "monograph: %s\n", error.what());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "monograph: out of memory\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "monograph: %s\n", error.what());
  }
  return kExitError;
}

}  // namespace monograph::app
