// The program as its users meet it: help, mistakes, answers, exit codes, Ctrl-C.
#include "commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "tests/apps/support/child.h"
#include "tests/model/support/files.h"

namespace monograph::app {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::Child;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

const std::string kModels = std::string(MONOGRAPH_SOURCE_DIR) + "/tests/golden/models/";
const std::string kChatModel = kModels + "llama-yarn.gguf";
const std::string kSummary =
    "[0-9]+ prompt tokens, [0-9]+ cached, TTFT [0-9.]+ ms, [0-9]+ tokens at [0-9.]+ tokens/s, seed [0-9]+, "
    "prefill_cuda_graph_status=replayed\n";

int lines(const std::string& text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

std::vector<std::string> generate_args(std::vector<std::string> more = {}) {
  std::vector<std::string> args = {"generate", "--model", kChatModel, "--threads", "1", "--temperature", "0"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

void expect_one_line_error(const std::vector<std::string>& args, const std::string& text) {
  Child child = Child::command(args);
  EXPECT_EQ(child.wait(), kExitError);
  EXPECT_EQ(child.out(), "");
  EXPECT_EQ(child.err(), "monograph: " + text + "\n");
}

TEST(Commands, HelpFitsOnAScreen) {
  Child overview = Child::command({"--help"});
  EXPECT_EQ(overview.wait(), kExitOk);
  EXPECT_LE(lines(overview.out()), 24);
  for (const std::string command : {"serve", "generate", "bench", "inspect", "plan"}) {
    EXPECT_THAT(overview.out(), HasSubstr("monograph " + command));
    Child help = Child::command({command, "--help"});
    EXPECT_EQ(help.wait(), kExitOk);
    EXPECT_LE(lines(help.out()), 40) << help.out();
    EXPECT_THAT(help.out(), StartsWith("usage: monograph " + command));
    Child all = Child::command({command, "--help-all"});
    EXPECT_EQ(all.wait(), kExitOk);
    EXPECT_GT(all.out().size(), help.out().size() - 100);
  }
}

TEST(Commands, MistakesAreOneLine) {
  expect_one_line_error({"generat"}, "unknown command generat; did you mean generate? (monograph --help lists them)");
  expect_one_line_error({"generate", "--prompt", "x"},
                        "generate: --model FILE is missing, expected a .gguf file or a Hugging Face folder");
  expect_one_line_error({"generate", "--modle", "x"}, "unknown option --modle; did you mean --model?");
  expect_one_line_error({"generate", "--port", "1"}, "--port is not an option of this command");
  expect_one_line_error({"serve", "--port", "65536"}, "--port: \"65536\" is outside 0..65535");
  expect_one_line_error({"bench", "--model", kChatModel, "decoding"}, "bench: unexpected \"decoding\"");
  expect_one_line_error({"plan", "prefill"}, "plan: unexpected \"prefill\"");
  expect_one_line_error(generate_args({"--prompt", ""}), "--prompt: the prompt is empty");
  Child env = Child::command(generate_args({"--prompt", "x", "--max-seqs", "4"}), Child::Input::kEmpty,
                             {{"MONOGRAPH_MAX_SEQS", "many"}});
  EXPECT_EQ(env.wait(), kExitError);
  EXPECT_EQ(env.err(), "monograph: MONOGRAPH_MAX_SEQS: \"many\" is not a whole number, expected 1..1024\n");
}

TEST(Commands, AMissingModelSaysWhatToDo) {
  for (const std::string model : {"org/name", "/nowhere/model.gguf"}) {
    Child child = Child::command({"generate", "--model", model, "--prompt", "x"});
    EXPECT_EQ(child.wait(), kExitError);
    EXPECT_EQ(lines(child.err()), 1) << child.err();
    EXPECT_THAT(child.err(), HasSubstr(model));
  }
}

TEST(Commands, GenerateAnswersAndSumsUp) {
  Child child =
      Child::command(generate_args({"--prompt", "hello", "--max-tokens", "8", "--require-status", "replayed"}));
  EXPECT_EQ(child.wait(), kExitOk) << child.err();
  EXPECT_TRUE(child.out().ends_with('\n'));
  EXPECT_THAT(child.err(), MatchesRegex(kSummary));
  Child again = Child::command(generate_args({"--prompt", "hello", "--max-tokens", "8"}));
  EXPECT_EQ(again.wait(), kExitOk);
  EXPECT_EQ(again.out(), child.out());
}

/// N of each "loading weights: N %" in the order of the text.
std::vector<int> progress(const std::string& text) {
  static const std::string kLine = "loading weights: ";
  std::vector<int> percent;
  for (auto at = text.find(kLine); at != std::string::npos; at = text.find(kLine, at + 1))
    percent.push_back(std::atoi(text.c_str() + at + kLine.size()));
  return percent;
}

void expect_progress(const std::string& text) {
  const std::vector<int> percent = progress(text);
  EXPECT_GE(percent.size(), 4u) << text;
  EXPECT_TRUE(std::is_sorted(percent.begin(), percent.end(), std::less_equal<>())) << text;
  for (int p : percent) EXPECT_TRUE(p > 0 && p <= 100 && p % 10 == 0) << text;
}

TEST(Commands, ProgressWhileLoading) {
  Child serve = Child::command({"serve", "--model", kChatModel, "--threads", "1", "--port", "0"});
  ASSERT_TRUE(serve.wait_for("ready: ")) << serve.err();
  expect_progress(serve.err());
  Child asked = Child::command(generate_args({"--prompt", "hello", "--max-tokens", "1", "--log-level", "info"}));
  EXPECT_EQ(asked.wait(), kExitOk) << asked.err();
  expect_progress(asked.err());
}

TEST(Commands, ProgressOnATerminalIsOneLineThatGoesAway) {
  const std::string erase = "\r\033[K";
  Child child = Child::watched(generate_args({"--prompt", "hello", "--max-tokens", "1"}));
  EXPECT_EQ(child.wait(), kExitOk) << child.err();
  expect_progress(child.err());
  const auto last = child.err().rfind(erase);
  ASSERT_NE(last, std::string::npos);
  EXPECT_THAT(child.err().substr(0, last), StartsWith(erase));
  EXPECT_EQ(lines(child.err().substr(0, last)), 0) << "a line of progress stayed";
  EXPECT_EQ(lines(child.err().substr(last)), 1) << "the summary";
}

TEST(Commands, AnswersHaveAtMost512Tokens) {
  const files::TempFolder folder;
  folder.fill(kModels + "llama-gqa");
  std::string config = files::read_bytes(folder.file("config.json"));
  const std::string positions = "\"max_position_embeddings\": 512";
  ASSERT_NE(config.find(positions), std::string::npos);
  files::write_bytes(folder.file("config.json"),
                     config.replace(config.find(positions), positions.size(), "\"max_position_embeddings\": 1024"));
  for (const auto& [given, expected] : {std::pair{"", 512}, {"511", 511}, {"513", 513}}) {
    std::vector<std::string> args = {"generate", "--model", folder.path(),   "--threads", "1",           "--raw",
                                     "--prompt", "hello",   "--temperature", "0",         "--ignore-eos"};
    if (*given) args.insert(args.end(), {"--max-tokens", given});
    Child child = Child::command(args);
    EXPECT_EQ(child.wait(), kExitOk) << child.err();
    EXPECT_THAT(child.err(), HasSubstr(" " + std::to_string(expected) + " tokens at "));
  }
}

TEST(Commands, GenerateUsesTheChatTemplateUnlessRaw) {
  const auto prompt_tokens = [](std::vector<std::string> more) {
    std::vector<std::string> args = generate_args({"--prompt", "hello", "--max-tokens", "1"});
    args.insert(args.end(), more.begin(), more.end());
    Child child = Child::command(args);
    EXPECT_EQ(child.wait(), kExitOk) << child.err();
    return std::atoi(child.err().c_str());
  };
  const int chat = prompt_tokens({}), raw = prompt_tokens({"--raw"}), system = prompt_tokens({"--system", "be brief"});
  EXPECT_GT(chat, raw);
  EXPECT_GT(system, chat);
}

TEST(Commands, GenerateReadsStandardInput) {
  Child child = Child::command(generate_args({"--prompt", "-", "--max-tokens", "4", "--raw"}), Child::Input::kPipe);
  child.write("hello\nthere");
  child.close_input();
  EXPECT_EQ(child.wait(), kExitOk) << child.err();
  EXPECT_THAT(child.err(), MatchesRegex(kSummary));
}

TEST(Commands, AnotherStatusFailsTheGate) {  // S-118
  Child child = Child::command(generate_args(
      {"--prompt", "hello", "--max-tokens", "2", "--enable-cuda-graph=off", "--require-status", "replayed"}));
  EXPECT_EQ(child.wait(), kExitOtherStatus);
  EXPECT_THAT(child.err(), HasSubstr("prefill_cuda_graph_status is not_requested, --require-status asks for replayed"));
}

TEST(Commands, ASeedRepeatsTheText) {
  const auto text = [](const std::string& seed) {
    Child child = Child::command({"generate", "--model", kChatModel, "--threads", "1", "--temperature", "1", "--seed",
                                  seed, "--prompt", "hello", "--max-tokens", "32", "--ignore-eos"});
    EXPECT_EQ(child.wait(), kExitOk) << child.err();
    EXPECT_THAT(child.err(), HasSubstr("seed " + seed + ","));
    return child.out();
  };
  EXPECT_EQ(text("5"), text("5"));
  EXPECT_NE(text("5"), text("6"));
}

TEST(Commands, WithoutAPromptOnATerminalItChats) {
  Child child = Child::command(generate_args({"--max-tokens", "4"}), Child::Input::kTerminal);
  ASSERT_TRUE(child.wait_for("> ")) << child.err();
  child.write("hello\n");
  ASSERT_TRUE(child.wait_for("status=replayed\n> ")) << child.err();
  const int first = std::atoi(child.err().c_str() + 2);
  child.write("and then?\n");
  ASSERT_TRUE(child.wait_for("cached")) << child.err();
  child.write("\n");
  EXPECT_EQ(child.wait(), kExitOk) << child.err();
  const auto second_at = child.err().rfind("\n> ", child.err().size() - 5);
  ASSERT_NE(second_at, std::string::npos);
  EXPECT_THAT(child.err(), ContainsRegex("> [0-9]+ prompt tokens.*\n> [0-9]+ prompt tokens"));
  EXPECT_GT(std::atoi(child.err().c_str() + child.err().find("\n> ") + 3), first) << "the turn before is part of it";
}

TEST(Commands, InterruptEndsGenerateWithinASecond) {
  // Runs into the end of the context at the earliest, and is interrupted while it writes.
  Child child = Child::command(generate_args(
      {"--prompt", "hello", "--max-tokens", "100000", "--ignore-eos", "--stop", "never", "--log-level", "info"}));
  ASSERT_TRUE(child.wait_for("graphs")) << child.err();
  const auto start = steady_clock::now();
  child.signal(SIGINT);
  const auto code = child.wait();
  EXPECT_TRUE(code == kExitInterrupted || code == kExitOk) << code.value_or(-1);
  EXPECT_LT(steady_clock::now() - start, milliseconds(5000));
}

/// A server on a free port, ready.
Child ready_server(std::vector<std::string> more = {}) {
  std::vector<std::string> args = {"serve", "--model", kChatModel, "--threads", "1", "--port", "0"};
  args.insert(args.end(), more.begin(), more.end());
  Child child = Child::command(args);
  EXPECT_TRUE(child.wait_for("ready: http://127.0.0.1:")) << child.err();
  return child;
}

TEST(Commands, SignalsEndServeWithZero) {
  for (int signal : {SIGINT, SIGTERM}) {
    Child child = ready_server();
    const auto start = steady_clock::now();
    child.signal(signal);
    EXPECT_EQ(child.wait(), kExitOk) << child.err();
    EXPECT_LT(steady_clock::now() - start, milliseconds(5000));
    EXPECT_THAT(child.err(), HasSubstr("stopped\n"));
  }
}

TEST(Commands, InterruptWhileLoadingEndsServeWithZero) {
  Child child = Child::command({"serve", "--model", kChatModel, "--threads", "1", "--port", "0"});
  ASSERT_TRUE(child.wait_for("listening on")) << child.err();
  child.signal(SIGINT);
  EXPECT_EQ(child.wait(), kExitOk) << child.err();
}

TEST(Commands, ABusyPortIsOneLineBeforeTheModelIsLoaded) {
  const int holder = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(holder, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(holder, 1), 0);
  ASSERT_EQ(::getsockname(holder, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string port = std::to_string(ntohs(address.sin_port));
  Child child = Child::command({"serve", "--model", "/nowhere.gguf", "--port", port});
  EXPECT_EQ(child.wait(), kExitError);
  EXPECT_EQ(lines(child.err()), 1) << child.err();
  EXPECT_THAT(child.err(), HasSubstr(port));
  ::close(holder);
}

TEST(Commands, InspectAndBenchShowTheModel) {
  Child inspect = Child::command({"inspect", "--model", kModels + "llama-yarn"});
  EXPECT_EQ(inspect.wait(), kExitOk) << inspect.err();
  EXPECT_THAT(inspect.out(), ContainsRegex("family +llama\n"));
  EXPECT_THAT(inspect.out(), ContainsRegex("rope +yarn"));
  EXPECT_THAT(inspect.out(), ContainsRegex("end tokens +0, 2\n"));
  EXPECT_THAT(inspect.out(), ContainsRegex("sampling defaults +temperature 0.7, top_p 0.8, top_k 20\n"));

  Child graphs = Child::command({"inspect", "graphs", "--model", kChatModel, "--threads", "1", "--max-seqs", "4",
                                 "--prefill-cuda-graph-capture-config", "16,32"});
  EXPECT_EQ(graphs.wait(), kExitOk) << graphs.err();
  EXPECT_THAT(graphs.out(), ContainsRegex("prefill graphs +ready\n"));
  EXPECT_THAT(graphs.out(), ContainsRegex("policy +always\n"));
  EXPECT_THAT(graphs.out(), ContainsRegex("\\| decode \\| 4 \\| [0-9.]+ \\| [0-9]+ \\| [0-9]+ \\| \\| \\| \\|\n"));
  for (const std::string bucket : {"16", "32"})  // D3: graph and eager time of each prefill bucket, whatever the policy
    EXPECT_THAT(graphs.out(),
                ContainsRegex("\\| extend \\| " + bucket +
                              " \\| [0-9.]+ \\| [0-9]+ \\| [0-9]+ \\| [0-9.]+ \\| [0-9.]+ \\| (graph|eager) \\|\n"));

  // More decode rows than a sequence has places: padding shares them.
  Child narrow = Child::command(
      {"inspect", "graphs", "--model", kChatModel, "--threads", "1", "--max-seq-len", "64", "--max-seqs", "256"});
  EXPECT_EQ(narrow.wait(), kExitOk) << narrow.err();
  EXPECT_THAT(narrow.out(), HasSubstr("| decode | 256 |"));

  Child bench = Child::command({"bench", "prefill", "--model", kChatModel, "--threads", "1", "--max-seqs", "4",
                                "--prompt-lengths", "5,17", "--repetitions", "1", "--output", "csv"});
  EXPECT_EQ(bench.wait(), kExitOk) << bench.err();
  EXPECT_EQ(lines(bench.out()), 3) << bench.out();
  EXPECT_THAT(bench.out(), ContainsRegex("\"pp17\",17,32,\"replayed\""));

  // Over HTTP; more clients than places, so that some wait.
  Child serving =
      Child::command({"bench", "serve", "--model", kChatModel, "--threads", "1", "--max-seqs", "2", "--prompt-lengths",
                      "20", "--output-tokens", "5", "--num-prompts", "9", "--concurrency", "4", "--output", "json"});
  EXPECT_EQ(serving.wait(), kExitOk) << serving.err();
  for (const char* field :
       {"\"completed\": *9", "\"failed\": *0", "\"total_output\": *45", "\"median_itl_ms\": *[0-9]"})
    EXPECT_THAT(serving.out(), ContainsRegex(field));
}

// Signals by themselves.

TEST(StopSignals, TheSecondEndsAtOnce) {
  Child child = Child::work([] {
    StopSignals signals;
    signals.on_stop([](int) { std::fprintf(stderr, "first\n"); });
    std::fprintf(stderr, "ready\n");
    ::pause();  // both signals are blocked here: only the watcher can end this
    return 0;
  });
  ASSERT_TRUE(child.wait_for("ready"));
  child.signal(SIGTERM);
  ASSERT_TRUE(child.wait_for("first"));
  child.signal(SIGTERM);
  EXPECT_EQ(child.wait(), 128 + SIGTERM);
}

TEST(StopSignals, WhoDoesNotEndInTimeIsEnded) {
  Child child = Child::work([] {
    StopSignals signals;
    signals.end_after(milliseconds(100), 7);
    std::fprintf(stderr, "ready\n");
    ::pause();
    return 0;
  });
  ASSERT_TRUE(child.wait_for("ready"));
  const auto start = steady_clock::now();
  child.signal(SIGINT);
  EXPECT_EQ(child.wait(), 7);
  EXPECT_GE(steady_clock::now() - start, milliseconds(100));
}

}  // namespace
}  // namespace monograph::app
