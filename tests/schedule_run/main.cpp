// Seeded prompts under random schedules: every prompt must get one answer, bit for bit, however and beside whatever it
// runs. Each schedule is an engine of its own with drawn settings, to which all prompts come in random order and
// bursts, among others that are let go. What an answer must be is that of its prompt alone, eager, in one piece. Ends
// with one line of counts; an answer that differs is shown with its schedule, and ends the run with exit code 1. (R11)
//
//   schedule_run [--device cpu|cuda] [--model PATH] [--activation-dtype float32|bfloat16] [--prompts N] [--schedules N]
//                [--first N] [--seed N] [--seconds S]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "model/model_files.h"
#include "monograph/error.h"
#include "tests/schedule_run/requests.h"
#include "tests/schedule_run/schedule.h"

namespace monograph::schedule_run {
namespace {

using testing::Random;

constexpr int kMostShown = 20;

struct Arguments {
  std::string device = "cpu", model, activation_dtype;
  int prompts = 1000, schedules = 100, first = 1;
  std::uint64_t seed = 1;
  double seconds = 1e9;
};

Arguments parse(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    const int number = std::atoi(value.c_str());
    if (flag == "--device" && (value == "cpu" || value == "cuda"))
      a.device = value;
    else if (flag == "--model" && !value.empty())
      a.model = value;
    else if (flag == "--activation-dtype" && (value == "float32" || value == "bfloat16"))
      a.activation_dtype = value;
    else if (flag == "--prompts" && number > 0)
      a.prompts = number;
    else if (flag == "--schedules" && number > 0)
      a.schedules = number;
    else if (flag == "--first" && number > 0)
      a.first = number;
    else if (flag == "--seed" && !value.empty())
      a.seed = std::strtoull(value.c_str(), nullptr, 10);
    else if (flag == "--seconds" && std::atof(value.c_str()) > 0)
      a.seconds = std::atof(value.c_str());
    else
      throw Error(ErrorCode::kInvalidArgument,
                  flag + " " + value +
                      ": expected --device cpu|cuda, --model PATH, --activation-dtype float32|bfloat16, --prompts N, "
                      "--schedules N, --first N, --seed N or --seconds S");
  }
  const bool gpu = a.device == "cuda";
  const std::string folder = std::string(MONOGRAPH_SOURCE_DIR) + "/tests/golden/models/";
  if (a.model.empty()) a.model = folder + (gpu ? "width256-q4_k_m.gguf" : "qwen3-qknorm");
  if (a.activation_dtype.empty()) a.activation_dtype = gpu ? "bfloat16" : "float32";
  if (gpu && a.activation_dtype != "bfloat16")
    throw Error(ErrorCode::kInvalidArgument, "--activation-dtype float32: expected bfloat16 on a GPU");
  return a;
}

World world_of(const Arguments& a) {
  return {.device = a.device,
          .model = a.model,
          .dtype = a.activation_dtype == "float32" ? DType::kF32 : DType::kBF16,
          .block_size = a.device == "cpu" ? 8 : 64,
          .config = open_model(a.model)->config()};
}

/// Every prompt with what it must get, and what it got.
class Run {
 public:
  explicit Run(const Arguments& arguments) : arguments_(arguments), world_(world_of(arguments)) {
    const auto engine = Engine::load(alone(world_));
    for (int i = 0; i < arguments.prompts; ++i) {
      requests_.push_back(make_request(shape(), arguments.seed, static_cast<std::uint64_t>(i)));
      ResponseStream stream = engine->submit(requests_.back());
      expected_.push_back(take(stream, requests_.back().n));
      hashes_.push_back({expected_.back().hash()});
    }
  }

  /// Its settings and order depend on the run's seed and its own number alone.
  void schedule(int number) {
    Random random(arguments_.seed * 0x9e3779b97f4a7c15ull + static_cast<std::uint64_t>(number));
    const EngineConfig config = draw_config(world_, random);
    const auto other = [&] { return make_other(shape(), arguments_.seed, random()); };
    try {
      const auto engine = Engine::load(config);
      run_schedule(*engine, requests_, other, random, counts_,
                   [&](std::size_t i, const Answer& answer) { check(i, answer, number, config); });
    } catch (const std::exception& e) {
      fail(e.what(), number, config);
    }
    ++n_schedules_;
  }

  void print(double seconds) const;
  bool failed() const { return n_failures_ > 0; }
  /// Whether every kind of traffic occurred, which few schedules or answers need not show.
  bool saw_enough() const {
    if (n_schedules_ < 10 || counts_.answers < 500) return true;
    return counts_.preemptions > 0 && counts_.hits > 0 && counts_.pieces > 0 && counts_.cancelled > 0 &&
           counts_.replayed > 0 && counts_.replayed < counts_.answers && counts_.mixed_steps > 0;
  }

 private:
  PromptShape shape() const { return {world_.config.vocab_size, world_.block_size}; }

  void check(std::size_t i, const Answer& answer, int number, const EngineConfig& config) {
    const std::uint64_t hash = answer.hash();
    hashes_[i].insert(hash);
    if (hash != expected_[i].hash())
      fail("prompt " + std::to_string(i) + " has another answer than alone: " + first_difference(expected_[i], answer),
           number, config);
  }

  void fail(const std::string& what, int number, const EngineConfig& config) {
    if (++n_failures_ > kMostShown) return;
    std::printf("FAILED in schedule %d: %s\n  engine: %s\n  again: schedule_run %s --first %d --schedules 1\n", number,
                what.c_str(), text_of(config).c_str(), text_of_arguments().c_str(), number);
  }

  std::string text_of_arguments() const {
    return "--device " + arguments_.device + " --model " + arguments_.model + " --activation-dtype " +
           arguments_.activation_dtype + " --prompts " + std::to_string(arguments_.prompts) + " --seed " +
           std::to_string(arguments_.seed);
  }

  const Arguments arguments_;
  const World world_;
  std::vector<Request> requests_;
  std::vector<Answer> expected_;
  std::vector<std::set<std::uint64_t>> hashes_;  ///< Of each prompt's answers.
  Counts counts_;
  int n_schedules_ = 0;
  std::int64_t n_failures_ = 0;
};

void Run::print(double seconds) const {
  const auto wide = [](auto n) { return static_cast<long long>(n); };
  long long distinct = 0, greedy = 0;
  std::uint64_t digest = 0;  // the same for every run with this seed on this machine
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    distinct += wide(hashes_[i].size());
    greedy += requests_[i].sampling.temperature == 0;
    digest = digest * 0x100000001b3ull ^ expected_[i].hash();
  }
  const Counts& c = counts_;
  std::printf(
      "schedule_run %s\n  schedules=%d prompts=%zu greedy=%lld answers_compared=%lld distinct_outputs=%lld "
      "failures=%lld "
      "digest=%016llx\n  tokens=%lld steps=%lld shared_steps=%lld mixed_steps=%lld preemptions=%lld prefix_hits=%lld "
      "in_several_pieces=%lld replayed=%lld eager=%lld cancelled=%lld seconds=%.0f\n",
      text_of_arguments().c_str(), n_schedules_, requests_.size(), greedy, wide(c.answers), distinct, wide(n_failures_),
      static_cast<unsigned long long>(digest), wide(c.tokens), wide(c.steps), wide(c.shared_steps), wide(c.mixed_steps),
      wide(c.preemptions), wide(c.hits), wide(c.pieces), wide(c.replayed), wide(c.answers - c.replayed),
      wide(c.cancelled), seconds);
}

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv);
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  Run run(a);
  for (int i = 0; i < a.schedules && seconds() < a.seconds; ++i) run.schedule(a.first + i);
  run.print(seconds());
  if (!run.saw_enough()) std::printf("FAILED: some kind of traffic did not occur\n");
  return run.failed() || !run.saw_enough() ? 1 : 0;
}

}  // namespace
}  // namespace monograph::schedule_run

int main(int argc, char** argv) {
  try {
    return monograph::schedule_run::main(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "schedule_run: %s\n", e.what());
    return 2;
  }
}
