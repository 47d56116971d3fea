// Settings from file, environment and command line: SPEC D9, S-01..S-11, S-15 as far as the host alone decides them.
#include "base/options.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "base/engine_options.h"
#include "base/option_values.h"
#include "graph/ladder.h"
#include "monograph/error.h"

namespace monograph {
namespace {

using Args = std::vector<std::string>;
using Environment = std::map<std::string, std::string>;

constexpr std::string_view kGroups[] = {kModelGroup, kLimitsGroup, kGraphGroup, "Settings"};

/// A folder of its own that goes away with the test.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "monograph_options_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = name;
    ::chmod(name.c_str(), 0755);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return (path_ / name).string();
  }
  std::string path(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

struct Parsed {
  EngineConfig config;
  Options::Result result;
};

Parsed parse(const Args& args, const Environment& environment = {}) {
  Parsed parsed;
  Options options;
  add_engine_options(options, parsed.config);
  parsed.result = options.parse(args, environment, kGroups);
  check_engine_options(options, parsed.config);
  return parsed;
}

template <typename Work>
std::string error_of(Work work, ErrorCode expected = ErrorCode::kInvalidArgument) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), expected) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << "one line: " << error.what();
    return error.what();
  }
  return "no error";
}

std::string parse_error(const Args& args, const Environment& environment = {}) {
  return error_of([&] { parse(args, environment); });
}

// The three knobs of the prefill feature and decode's list, from each source. (S-01, S-03)

TEST(Options, DefaultsOfTheFeature) {
  const EngineConfig config = parse({}).config;
  EXPECT_FALSE(config.enable_cuda_graph.has_value()) << "on unless switched off";
  EXPECT_FALSE(config.enable_prefill_cuda_graph.has_value()) << "follows the master";
  EXPECT_FALSE(config.prefill_cuda_graph_max_requests.has_value());
  EXPECT_TRUE(config.prefill_capture_buckets.empty());
  EXPECT_TRUE(config.decode_capture_buckets.empty());
  EXPECT_EQ(config.max_seqs, 256);
  EXPECT_EQ(config.block_size, 64);
  EXPECT_TRUE(config.enable_chunked_prefill && config.enable_prefix_cache && config.skip_padding);
  EXPECT_FALSE(config.strict_cuda_graph);
  EXPECT_EQ(config.prefill_graph_policy, GraphPolicy::kAlways);
}

TEST(Options, EachSourceAloneSetsTypeAndValue) {
  const Folder folder;
  const std::string file = folder.write("all.conf",
                                        "enable-prefill-cuda-graph = true\nprefill-cuda-graph-max-requests = 12\n"
                                        "prefill-cuda-graph-capture-config = [16, 32]\n"
                                        "decode_cuda_graph_capture_config = \"1,2\"\n");
  const Parsed sources[] = {
      parse({"--enable-prefill-cuda-graph", "--prefill-cuda-graph-max-requests", "12",
             "--prefill-cuda-graph-capture-config", "16,32", "--decode-cuda-graph-capture-config=1,2"}),
      parse({}, {{"MONOGRAPH_ENABLE_PREFILL_CUDA_GRAPH", "on"},
                 {"MONOGRAPH_PREFILL_CUDA_GRAPH_MAX_REQUESTS", "12"},
                 {"MONOGRAPH_PREFILL_CUDA_GRAPH_CAPTURE_CONFIG", "16,32"},
                 {"MONOGRAPH_DECODE_CUDA_GRAPH_CAPTURE_CONFIG", "1,2"}}),
      parse({"--config", file}),
      parse({}, {{"MONOGRAPH_CONFIG", file}}),
  };
  for (const auto& [config, result] : sources) {
    EXPECT_EQ(config.enable_prefill_cuda_graph, std::optional<bool>(true));
    EXPECT_EQ(config.prefill_cuda_graph_max_requests, std::optional<int>(12));
    EXPECT_EQ(config.prefill_capture_buckets, (std::vector<int>{16, 32}));
    EXPECT_EQ(config.decode_capture_buckets, (std::vector<int>{1, 2}));
    EXPECT_TRUE(result.warnings.empty());
  }
}

TEST(Options, LineOverEnvironmentOverFile) {
  const Folder folder;
  const std::string file = folder.write("c", "max-seqs = 1\nmax-queue = 1\nchunk-size = 1\n");
  const Environment environment = {{"MONOGRAPH_MAX_SEQS", "2"}, {"MONOGRAPH_MAX_QUEUE", "2"}};
  const EngineConfig config = parse({"--max-seqs", "3", "--config", file}, environment).config;
  EXPECT_EQ(config.max_seqs, 3);
  EXPECT_EQ(config.max_queue, 2);
  EXPECT_EQ(config.chunk_size, std::optional<int>(1));
}

TEST(Options, TheLastOfARepeatedFlagStaysAndAllAreChecked) {
  EXPECT_EQ(parse({"--max-seqs", "3", "--max-seqs", "4"}).config.max_seqs, 4);
  EXPECT_EQ(parse_error({"--max-seqs", "x", "--max-seqs", "4"}),
            "--max-seqs: \"x\" is not a whole number, expected 1..1024");
}

// A bad value is the same error wherever it stands, also where another source overrides it. (S-07, S-08)

TEST(Options, MalformedValuesOfEverySourceAreErrors) {
  const Folder folder;
  const std::vector<std::string> good_line = {"--prefill-cuda-graph-max-requests", "8"};
  for (const std::string bad :
       {"abc", "0", "-1", "1.5", "1025", "2147483647", "2147483648", "", " 8", "+8", "0x8", "99999999999999999999"}) {
    const bool number =
        bad == "0" || bad == "-1" || (bad.size() > 3 && bad.find_first_not_of("0123456789") == bad.npos);
    const std::string tail = number ? " is outside 1..1024" : " is not a whole number, expected 1..1024";
    const auto expected = [&](const std::string& knob) {
      return "invalid_max_requests: " + knob + ": \"" + bad + '"' + tail;
    };

    EXPECT_EQ(parse_error({"--prefill-cuda-graph-max-requests=" + bad}), expected("--prefill-cuda-graph-max-requests"));
    const Environment environment = {{"MONOGRAPH_PREFILL_CUDA_GRAPH_MAX_REQUESTS", bad}};
    EXPECT_EQ(parse_error({}, environment), expected("MONOGRAPH_PREFILL_CUDA_GRAPH_MAX_REQUESTS"));
    EXPECT_EQ(parse_error(good_line, environment), expected("MONOGRAPH_PREFILL_CUDA_GRAPH_MAX_REQUESTS"));
    const std::string file = folder.write("c", "prefill-cuda-graph-max-requests = \"" + bad + "\"\n");
    Args with_file = good_line;
    with_file.insert(with_file.end(), {"--config", file});
    EXPECT_EQ(parse_error(with_file), expected(file + ": prefill-cuda-graph-max-requests"));
    EXPECT_EQ(parse_error(with_file, {{"MONOGRAPH_PREFILL_CUDA_GRAPH_MAX_REQUESTS", "8"}}),
              expected(file + ": prefill-cuda-graph-max-requests"));
  }
  EXPECT_EQ(parse({"--prefill-cuda-graph-max-requests", "1"}).config.prefill_cuda_graph_max_requests, 1);
  EXPECT_EQ(parse({"--prefill-cuda-graph-max-requests", "1024"}).config.prefill_cuda_graph_max_requests, 1024);
}

TEST(Options, EveryKnobRefusesWhatItCannotHold) {
  const std::pair<const char*, const char*> bad[] = {
      {"device", "tpu"},
      {"load-format", "x"},
      {"activation-dtype", "float16"},
      {"threads", "-1"},
      {"pin-threads", "yes"},
      {"max-seq-len", "0"},
      {"max-seqs", "1025"},
      {"max-queue", "0"},
      {"chunk-size", "65537"},
      {"block-size", "0"},
      {"kv-cache-bytes", "2X"},
      {"memory-fraction", "1.5"},
      {"memory-fraction", "nan"},
      {"enable-cuda-graph", "2"},
      {"prefill-graph-policy", "never"},
      {"skip-padding", ""},
      {"chat-template", "/nowhere"},
      {"enable-prefix-cache", "True"},
  };
  for (const auto& [name, value] : bad) {
    const std::string flag = std::string("--") + name;
    EXPECT_TRUE(parse_error({flag + "=" + value}).starts_with(flag + ": ")) << flag;
    EXPECT_TRUE(parse_error({}, {{environment_name(name), value}}).starts_with(environment_name(name) + ": ")) << name;
  }
}

TEST(Options, KV18_ThereIsNoEightBitCacheToAskFor) {
  EXPECT_TRUE(parse_error({"--kv-cache-dtype", "fp8"}).starts_with("unknown option --kv-cache-dtype"));
  EXPECT_TRUE(parse_error({"--kv-cache-dtype=int8"}).starts_with("unknown option --kv-cache-dtype"));
}

TEST(Options, UnknownNamesAreErrorsThatNameTheNearest) {
  EXPECT_EQ(parse_error({"--max-seq", "4"}), "unknown option --max-seq; did you mean --max-seqs?");
  EXPECT_EQ(parse_error({"--qqqqqq"}), "unknown option --qqqqqq");
  EXPECT_EQ(parse_error({"-x"}), "unknown option -x");
  const Folder folder;
  const std::string file = folder.write("c", "# a comment\n\n[limits]\nmax-seq = 4\n");
  EXPECT_EQ(parse_error({"--config", file}), file + ":4: unknown key max-seq; did you mean max-seqs?");
  EXPECT_EQ(parse_error({"--config", folder.write("d", "max-seqs 4\n")}),
            folder.path("d") + ":1: expected key = value");
  EXPECT_EQ(parse_error({"--config", folder.write("e", "config = x\n")}),
            folder.path("e") + ":1: a settings file cannot name another");
  EXPECT_EQ(parse_error({"--max-seqs"}), "--max-seqs: a value is missing, expected --max-seqs N");
}

TEST(Options, ForeignVariablesWarnAndThoseOfKubernetesDoNot) {
  const auto result = parse({}, {{"MONOGRAPH_MAX_SEQ", "4"},
                                 {"MONOGRAPH_PORT", "tcp://10.0.0.1:80"},
                                 {"MONOGRAPH_PORT_80_TCP_ADDR", "10.0.0.1"},
                                 {"MONOGRAPH_SERVICE_HOST", "10.0.0.1"},
                                 {"PATH", "/bin"}})
                          .result;
  ASSERT_EQ(result.warnings.size(), 1u);
  EXPECT_EQ(result.warnings[0], "MONOGRAPH_MAX_SEQ in the environment is no setting; did you mean MONOGRAPH_MAX_SEQS?");
  EXPECT_EQ(environment_name("port"), "MONOGRAPH_ARG_PORT");
  EXPECT_EQ(environment_name("max-seqs"), "MONOGRAPH_MAX_SEQS");
}

TEST(Options, BooleansInEveryForm) {
  for (const std::string yes : {"true", "1", "on"}) {
    EXPECT_TRUE(parse({"--strict-cuda-graph=" + yes}).config.strict_cuda_graph);
    EXPECT_TRUE(parse({"--strict-cuda-graph", yes}).config.strict_cuda_graph);
  }
  for (const std::string no : {"false", "0", "off"}) EXPECT_FALSE(parse({"--skip-padding=" + no}).config.skip_padding);
  const auto bare = parse({"--strict-cuda-graph", "rest", "--skip-padding", "false"});
  EXPECT_TRUE(bare.config.strict_cuda_graph);
  EXPECT_FALSE(bare.config.skip_padding);
  EXPECT_EQ(bare.result.positionals, Args{"rest"}) << "a bare boolean takes only a boolean word";
  EXPECT_EQ(parse_error({"--skip-padding=yes"}), "--skip-padding: \"yes\" is not one of true, false, 1, 0, on, off");
}

TEST(Options, ValuesMayStartWithADash) {
  EXPECT_EQ(parse({"--step-log", "-"}).config.step_log, "-");
  EXPECT_EQ(parse({"--served-model-name", "--x"}).config.served_model_name, "--x");
}

TEST(Options, FileValuesWithQuotesAndComments) {
  const Folder folder;
  const std::string file = folder.write(
      "c", "served-model-name = \"a # b\"  # comment\r\nmodel = /x/y.gguf ; comment\nstep-log='#'\nmax-seqs=7");
  const EngineConfig config = parse({"--config", file}).config;
  EXPECT_EQ(config.served_model_name, "a # b");
  EXPECT_EQ(config.model, "/x/y.gguf");
  EXPECT_EQ(config.step_log, "#");
  EXPECT_EQ(config.max_seqs, 7);
  EXPECT_EQ(parse_error({"--config", folder.write("d", "model = \"open\n")}),
            folder.path("d") + ":1: model: a quoted value does not end");
}

TEST(Options, AnyBytesInTheFileGiveSettingsOrAnError) {
  const Folder folder;
  const std::string whole =
      "# c\n[limits]\nmax-seqs = 7 # x\nprefill_cuda_graph_capture_config = [16, 32]\nmodel = \"a b\"\n";
  const unsigned seed = 20261201;
  std::mt19937 random(seed);
  int refused = 0;
  for (int run = 0; run < 500; ++run) {
    std::string text = whole;
    for (unsigned edits = 1 + random() % 4; edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      const char byte = static_cast<char>(random() % 3 == 0 ? random() % 256 : "=\"'[]#;\n,:@- "[random() % 13]);
      if (random() % 2)
        text[at] = byte;
      else
        text.insert(at, 1, byte);
    }
    try {
      parse({"--config", folder.write("c", text)});
    } catch (const Error& error) {
      ++refused;
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  }
  EXPECT_GT(refused, 50) << "seed " << seed;
}

TEST(Options, TheMasterOffAndTheFeatureOnIsAnError) {  // S-02
  const std::optional<bool> states[] = {std::nullopt, true, false};
  for (auto master : states)
    for (auto feature : states) {
      Args args;
      if (master) args.push_back(*master ? "--enable-cuda-graph" : "--enable-cuda-graph=off");
      if (feature) args.push_back(*feature ? "--enable-prefill-cuda-graph" : "--enable-prefill-cuda-graph=off");
      if (master == false && feature == true)
        EXPECT_EQ(parse_error(args),
                  "--enable-prefill-cuda-graph is on, but --enable-cuda-graph is off: prefill graphs need the master "
                  "switch");
      else
        EXPECT_NO_THROW(parse(args));
    }
  EXPECT_EQ(parse_error({"--enable-prefill-cuda-graph"}, {{"MONOGRAPH_ENABLE_CUDA_GRAPH", "0"}}),
            "--enable-prefill-cuda-graph is on, but MONOGRAPH_ENABLE_CUDA_GRAPH is off: prefill graphs need the master "
            "switch");
}

TEST(Options, HelpNamesEveryKnobAndTheMaster) {
  EngineConfig config;
  Options options;
  add_engine_options(options, config);
  const std::string all = options.help(kGroups, true);
  for (const char* name :
       {"--model PATH", "--prefill-cuda-graph-capture-config LIST", "--skip-padding", "--config FILE"})
    EXPECT_NE(all.find(name), std::string::npos) << name;
  EXPECT_NE(all.find("graphs for prefill; needs the master"), std::string::npos);  // S-02
  EXPECT_EQ(options.help(kGroups, false).find("--skip-padding"), std::string::npos);
  EXPECT_TRUE(options.parse(Args{"--help"}, {{"MONOGRAPH_MAX_SEQS", "bad"}}, kGroups).help) << "help helps always";
}

// Capture lists. (S-04, S-05, S-06, S-09, S-10, S-11, S-15, S-123)

const std::string kKnobs[] = {"--prefill-cuda-graph-capture-config", "MONOGRAPH_DECODE_CUDA_GRAPH_CAPTURE_CONFIG"};

std::string buckets_error(const std::string& text, const std::string& knob = kKnobs[0]) {
  return error_of([&] { parse_buckets(text, knob); });
}

std::string counting_list(int n) {
  std::string text;
  for (int i = 1; i <= n; ++i) text.append(i > 1 ? "," : "").append(std::to_string(i));
  return text;
}

TEST(Buckets, ListsAreSortedAndDistinct) {
  EXPECT_EQ(parse_buckets("4,1,2,4", ""), (std::vector<int>{1, 2, 4}));
  EXPECT_EQ(parse_buckets("65536", ""), std::vector<int>{kMaxBucket});
  EXPECT_EQ(parse_buckets(counting_list(kMaxBuckets), "").size(), static_cast<std::size_t>(kMaxBuckets));
}

TEST(Buckets, OneBadElementFailsTheWhole) {
  for (const auto& knob : kKnobs) {
    const std::string start = "invalid_capture_buckets: " + knob + ": ";
    EXPECT_EQ(buckets_error("64,-1", knob), start + "\"-1\" is outside 1..65536");
    EXPECT_EQ(buckets_error("64,x", knob), start + "\"x\" is not a whole number, expected 1..65536");
    EXPECT_EQ(buckets_error("0", knob), start + "\"0\" is outside 1..65536");
    EXPECT_EQ(buckets_error("65537", knob), start + "\"65537\" is outside 1..65536");
    EXPECT_EQ(buckets_error("2147483647", knob), start + "\"2147483647\" is outside 1..65536");
    EXPECT_EQ(buckets_error("2147483648", knob), start + "\"2147483648\" is outside 1..65536");
    EXPECT_EQ(buckets_error("", knob), start + "\"\" holds no bucket, expected 1..64 of them");
    EXPECT_EQ(buckets_error("1,,2", knob), start + "\"\" is not a whole number, expected 1..65536");
    EXPECT_EQ(buckets_error("1,2,", knob), start + "\"\" is not a whole number, expected 1..65536");
    EXPECT_EQ(buckets_error("1 ,2", knob), start + "\"1 \" is not a whole number, expected 1..65536");
    EXPECT_EQ(buckets_error(counting_list(kMaxBuckets + 1), knob), start + "more than 64 buckets");
  }
}

TEST(Buckets, RangesAreTheMultiplesBelowMaxThenMax) {
  EXPECT_EQ(parse_buckets("10:4", ""), (std::vector<int>{4, 8, 10}));
  EXPECT_EQ(parse_buckets("8:4", ""), (std::vector<int>{4, 8}));
  EXPECT_EQ(parse_buckets("64:128", ""), std::vector<int>{64});
  EXPECT_EQ(parse_buckets("1:1", ""), std::vector<int>{1});
  EXPECT_EQ(parse_buckets("65536:1024", "").size(), 64u);
  EXPECT_EQ(parse_buckets("64:1", "").size(), 64u);
  EXPECT_EQ(parse_buckets("64:2147483647", ""), std::vector<int>{64});
}

TEST(Buckets, RangesAreCountedBeforeTheyAreBuilt) {
  const std::string start = "invalid_capture_buckets: " + kKnobs[0] + ": ";
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(buckets_error("100000000:1"), start + "\"100000000\" is outside 1..65536");
  EXPECT_EQ(buckets_error("6400:1"), start + "\"6400:1\" makes 6400 buckets, at most 64 are allowed");
  EXPECT_EQ(buckets_error("65:1"), start + "\"65:1\" makes 65 buckets, at most 64 are allowed");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(10));
  EXPECT_EQ(buckets_error("64:0"), start + "\"0\" is outside 1..2147483647");
  EXPECT_EQ(buckets_error("64:2147483648"), start + "\"2147483648\" is outside 1..2147483647");
  EXPECT_EQ(buckets_error("0:1"), start + "\"0\" is outside 1..65536");
  EXPECT_EQ(buckets_error("64:"), start + "\"\" is not a whole number, expected 1..2147483647");
  EXPECT_EQ(buckets_error("1:2:3"), start + "\"1:2:3\" is not a range, expected max:step");
}

TEST(Buckets, FilesHoldOnePerLine) {
  const Folder folder;
  const std::string file = folder.write("b", "# buckets\n\n 32 \n16\r\n64");
  EXPECT_EQ(parse_buckets("@" + file, ""), (std::vector<int>{16, 32, 64}));
  std::string many;
  for (int i = 1; i <= 65; ++i) many += std::to_string(i) + "\n";
  const std::string start = "invalid_capture_buckets: " + kKnobs[0] + ": ";
  EXPECT_EQ(buckets_error("@" + folder.write("m", many)), start + "more than 64 buckets");
  const std::string bad = folder.write("x", "16\n# fine\n3x\n");
  EXPECT_EQ(buckets_error("@" + bad), start + bad + ":3: \"3x\" is not a whole number, expected 1..65536");
  const std::string zero = folder.write("z", "0\n");
  EXPECT_EQ(buckets_error("@" + zero), start + zero + ":1: \"0\" is outside 1..65536");
  const std::string empty = folder.write("e", "# nothing\n");
  EXPECT_EQ(buckets_error("@" + empty), start + "\"@" + empty + "\" holds no bucket, expected 1..64 of them");
}

/// Reads as a user who may not do everything, whoever runs the test.
class AsOrdinaryUser {
 public:
  AsOrdinaryUser() : was_(::geteuid()) {
    if (was_ == 0 && ::seteuid(65534) != 0) throw std::runtime_error("seteuid failed");
  }
  ~AsOrdinaryUser() {
    if (was_ == 0 && ::seteuid(0) != 0) std::abort();
  }

 private:
  uid_t was_;
};

TEST(Buckets, FileErrorsKeepTheirCause) {  // S-09, S-10
  const Folder folder;
  for (const auto& knob : kKnobs) {
    const auto expected = [&](const std::string& path, const std::string& cause) {
      return "invalid_capture_buckets: " + knob + ": cannot read \"" + path + "\": " + cause;
    };
    const std::string missing = folder.path("missing");
    EXPECT_EQ(buckets_error("@" + missing, knob), expected(missing, "No such file or directory"));
    EXPECT_EQ(buckets_error("@" + folder.path(""), knob), expected(folder.path(""), "Is a directory"));
    EXPECT_EQ(buckets_error("@", knob), expected("", "No such file or directory"));
    const std::string binary = folder.write("binary", "16\n\xff\xfe\n");
    EXPECT_EQ(buckets_error("@" + binary, knob), expected(binary, "it is not UTF-8 text (byte 0xff in line 2)"));
    const std::string nul = folder.write("nul", std::string("16\n32\0\n", 7));
    EXPECT_EQ(buckets_error("@" + nul, knob), expected(nul, "it is not UTF-8 text (byte 0x00 in line 2)"));
    const std::string secret = folder.write("secret", "16\n");
    ASSERT_EQ(::chmod(secret.c_str(), 0), 0);
    const AsOrdinaryUser user;
    EXPECT_EQ(buckets_error("@" + secret, knob), expected(secret, "Permission denied"));
  }
}

TEST(Buckets, DecodeBucketsStayWithinMaxSeqs) {
  EXPECT_EQ(parse_error({"--decode-cuda-graph-capture-config", "1,300"}),
            "invalid_capture_buckets: --decode-cuda-graph-capture-config: bucket 300 is above --max-seqs 256");
  EXPECT_NO_THROW(parse({"--decode-cuda-graph-capture-config", "1,300", "--max-seqs", "300"}));
}

// Single values.

TEST(OptionValues, Sizes) {
  const std::pair<const char*, std::int64_t> good[] = {
      {"1", 1},          {"4096", 4096},      {"1k", 1024},      {"2K", 2048},     {"3M", 3 << 20},
      {"2G", 2LL << 30}, {"2GiB", 2LL << 30}, {"1T", 1LL << 40}, {"5MiB", 5 << 20}};
  for (const auto& [text, bytes] : good) EXPECT_EQ(parse_bytes(text, "--kv-cache-bytes"), bytes) << text;
  for (const char* bad : {"", "0", "-1", "1.5G", "G", "2GB", "2g", "1 G", "99999999999999999999", "9999999999T", "iB"})
    EXPECT_TRUE(error_of([&] { parse_bytes(bad, "--kv-cache-bytes"); }).starts_with("--kv-cache-bytes: ")) << bad;
}

TEST(OptionValues, NumbersAndChoices) {
  EXPECT_EQ(parse_number("0.9", "x", 0, 1), 0.9);
  for (const char* bad : {"", "nan", "inf", "1e999", "0.5x", " 1", "-0.1", "1.1"})
    EXPECT_TRUE(error_of([&] { parse_number(bad, "--x", 0, 1); }).starts_with("--x: ")) << bad;
  EXPECT_EQ(error_of([] { parse_number("2", "--x", 0, 1); }), "--x: \"2\" is outside 0..1");
  const std::string_view choices[] = {"always", "measured"};
  EXPECT_EQ(parse_choice("measured", "--x", choices), 1);
  EXPECT_EQ(error_of([&] { parse_choice("a\nb", "--x", choices); }), "--x: \"a?b\" is not one of always, measured");
  EXPECT_EQ(parse_int_list("5,4", "--lengths", 1, 9), (std::vector<int>{5, 4}));
}

}  // namespace
}  // namespace monograph
