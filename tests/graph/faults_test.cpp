// Every step of start-up and of a replay fails once, with every kind of exception: what is clean degrades to eager,
// what is dirty ends start-up, and nothing stale is left. (S-21, S-28, S-29, S-37, S-43, S-98; SPEC F8, F11)
#include <gtest/gtest.h>

#include <algorithm>
#include <new>
#include <numeric>
#include <stdexcept>

#include "graph/family.h"
#include "tests/support/lane.h"

namespace monograph {
namespace {

using testing::DevicePoint;
using testing::Lane;
using testing::LaneOptions;
using testing::same_bits;
using testing::TestSequence;

enum class Kind { kError, kOutOfMemory, kStandard, kBadAlloc, kUnknown };
constexpr Kind kKinds[] = {Kind::kError, Kind::kOutOfMemory, Kind::kStandard, Kind::kBadAlloc, Kind::kUnknown};

[[noreturn]] void fail(Kind kind) {
  if (kind == Kind::kError) throw Error(ErrorCode::kInternal, "made to fail");
  if (kind == Kind::kOutOfMemory) throw Error(ErrorCode::kOutOfMemory, "made to fail");
  if (kind == Kind::kStandard) throw std::runtime_error("made to fail");
  if (kind == Kind::kBadAlloc) throw std::bad_alloc();
  throw 42;
}

/// Counts the calls that start-up makes to device and model, and fails the n-th.
struct Countdown {
  int n_calls = 0, fail_at = 0;  // 0: never
  Kind kind = Kind::kError;
  bool failed = false, in_capture = false;

  void call(bool inside) {
    if (++n_calls != fail_at) return;
    failed = true;
    in_capture = inside;
    fail(kind);
  }
  LaneOptions watched(LaneOptions options) {
    options.hook = [this](DevicePoint point) {
      call(point == DevicePoint::kCaptureBegin || point == DevicePoint::kCapturing ||
           point == DevicePoint::kCaptureEnd);
    };
    options.on_forward = [this](bool capturing) { call(capturing); };
    return options;
  }
};

LaneOptions small(bool warm_up) {
  LaneOptions options;
  options.warm_up = warm_up;
  options.runner.prefill_buckets = {8, 32};
  options.runner.decode_buckets = {1, 4};
  options.runner.measure_buckets = true;
  return options;
}

std::vector<float> eager_logits(const TestSequence& s) {
  LaneOptions options;
  options.runner.enable_graphs = false;
  options.runner.max_eager_tokens = 64;
  Lane lane(options);
  TestSequence fresh = s;
  Batch batch;
  lane.add(batch, fresh, static_cast<int>(fresh.tokens.size()));
  lane.runner().run(batch);
  return lane.logits(0);
}

/// A prompt of 20 tokens whose last is run as a decode row, in a lane that may have lost a family.
void expect_right(Lane& lane) {
  TestSequence s = lane.sequence(20, 3, 1);
  const auto expected = eager_logits(s);
  Batch whole;
  lane.add(whole, s, 20);
  const StepResult prefill = lane.runner().run(whole);
  EXPECT_EQ(prefill.status, lane.runner().init_status());
  EXPECT_TRUE(same_bits(lane.logits(0), expected));
  s.cached = 19;
  Batch decode;
  lane.add(decode, s, 1, false);
  lane.runner().run(decode);
  EXPECT_TRUE(same_bits(lane.logits(0), expected));
}

int families(const Lane& lane) {
  const auto& captures = const_cast<Lane&>(lane).runner().captures();
  const auto has = [&](const char* name) {
    return std::any_of(captures.begin(), captures.end(), [&](const auto& c) { return c.family == name; });
  };
  return has("decode") + has("extend");
}

TEST(StartUpFaults, S21_S28_S29_EveryCallFailsOnceWithEveryType) {
  for (bool warm_up : {false, true}) {
    const auto calls = [&](bool graphs) {
      Countdown countdown;
      LaneOptions options = countdown.watched(small(warm_up));
      options.runner.enable_graphs = graphs;
      Lane lane(options);
      return countdown.n_calls;
    };
    const int n_eager = calls(false), n_all = calls(true);  // what eager needs, too, comes first
    ASSERT_GT(n_all, n_eager + 20);
    int n_dirty = 0, n_clean = 0;
    for (Kind kind : kKinds)
      for (int n = n_eager + 1; n <= n_all; ++n) {
        SCOPED_TRACE("call " + std::to_string(n) + ", kind " + std::to_string(static_cast<int>(kind)));
        Countdown countdown{.fail_at = n, .kind = kind};
        try {
          Lane lane(countdown.watched(small(warm_up)));
          ASSERT_TRUE(countdown.failed);
          ASSERT_FALSE(countdown.in_capture) << "a dirty capture went on";
          EXPECT_EQ(families(lane), 1) << "one family is lost, the other is whole";
          const PrefillStatus status = lane.runner().init_status();
          EXPECT_TRUE(status == PrefillStatus::kReplayed || status == PrefillStatus::kCaptureUnavailable);
          lane.device().set_hook({});
          expect_right(lane);
          ++n_clean;
        } catch (const Error& e) {
          EXPECT_TRUE(countdown.in_capture) << e.what();
          EXPECT_EQ(e.code(), ErrorCode::kDirtyCapture) << e.what();
          ++n_dirty;
        } catch (...) {
          ADD_FAILURE() << "an exception of another type left start-up";
        }
      }
    // Two families of two buckets, three calls of the device and one of the model inside each capture.
    EXPECT_EQ(n_dirty, 5 * 2 * 2 * 4);
    EXPECT_EQ(n_clean, 5 * (n_all - n_eager) - n_dirty);
  }
}

TEST(StartUpFaults, ADeviceFaultIsNoDegradation) {
  int n_waits = 0;
  LaneOptions options = small(true);
  options.hook = [&](DevicePoint point) {
    if (point == DevicePoint::kWait && ++n_waits == 2) throw Error(ErrorCode::kDevice, "illegal access");
  };
  try {
    Lane lane(options);
    FAIL() << "started on a device that failed";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kDevice);
  }
}

// Before each of two buckets of two families is captured, and before each prefill bucket is timed.
TEST(StartUpFaults, ACancelledStartIsNoDegradation) {
  constexpr int kPolls = 6;
  for (int n = 1; n <= kPolls + 1; ++n) {
    LaneOptions options = small(true);
    int n_polls = 0;
    options.runner.cancelled = [&] { return ++n_polls == n; };
    try {
      Lane lane(options);
      EXPECT_EQ(n_polls, kPolls) << "started although poll " << n << " said no";
      EXPECT_GT(n, kPolls);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kCancelled) << e.what();
      EXPECT_EQ(n_polls, n);
    }
  }
}

TEST(StartUpFaults, StrictMakesACleanFailureFatal) {  // D6
  LaneOptions options = small(true);
  options.runner.strict = true;
  int n_replays = 0;
  options.hook = [&](DevicePoint point) {
    if (point == DevicePoint::kReplay && ++n_replays == 3) throw std::runtime_error("self-test");
  };
  try {
    Lane lane(options);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kUnsupported);
    EXPECT_STREQ(e.what(), "prefill graphs are off: reason=capture_unavailable detail=self-test (--strict-cuda-graph)");
  }
}

TEST(StartUp, S34_TheOrderOfCapture) {
  std::string order;
  LaneOptions options = small(true);
  options.runner.measure_buckets = false;
  options.on_forward = [&](bool capturing) { order += capturing ? 'C' : 'w'; };
  options.hook = [&](DevicePoint point) {
    if (point == DevicePoint::kWait) order += '.';
    if (point == DevicePoint::kReplay) order += 'r';
  };
  Lane lane(options);
  // Per family: a probe; per bucket two warm-ups, a wait, the capture, one replay as a self-test, a wait.
  EXPECT_EQ(order, "w.ww.Cr.ww.Cr.w.ww.Cr.ww.Cr.");
  std::vector<std::string> names;
  for (const auto& c : lane.runner().captures()) names.push_back(c.family + std::to_string(c.bucket));
  EXPECT_EQ(names, (std::vector<std::string>{"decode4", "decode1", "extend32", "extend8"})) << "largest first";
}

TEST(StartUp, S27_EveryBucketIsCapturedAndAccounted) {
  Lane lane(small(false));
  EXPECT_EQ(lane.runner().init_status(), PrefillStatus::kReplayed);
  ASSERT_EQ(lane.runner().captures().size(), 4u);
  for (const auto& c : lane.runner().captures()) {
    EXPECT_GT(c.us, 0);
    EXPECT_GT(c.nodes, 5);
    EXPECT_GE(c.bytes, 0) << "host memory is not counted";
  }
  ASSERT_EQ(lane.runner().bucket_times().size(), 2u);
  for (const auto& [bucket, times] : lane.runner().bucket_times()) {
    EXPECT_GT(times.graph_us, 0) << bucket;
    EXPECT_GT(times.eager_us, 0) << bucket;
  }
}

TEST(StartUp, S36_NoBuffersForInputsThatTheRoleDoesNotUse) {
  Lane lane(small(false));
  const StagingLayout& extend = lane.runner().staging(GraphRole::kExtend)->layout();
  EXPECT_EQ(extend.input_ids, extend.position_ids) << "P = 0: no position ids";
  LaneOptions decode_only = small(false);
  decode_only.runner.enable_prefill_graphs = false;
  Lane other(decode_only);
  EXPECT_EQ(other.runner().staging(GraphRole::kExtend), nullptr);
  EXPECT_LT(other.runner().fixed_bytes(), lane.runner().fixed_bytes());
}

// S-19, S-55, S-56, S-60: the runner asks by mode, and the type of the error decides, not its text.
TEST(StartUp, S56_UnsupportedAttentionIsKnownByItsType) {
  for (const char* text : {"attention plain is not safe", "something else entirely", ""}) {
    std::vector<AttentionMode> asked;
    LaneOptions options = small(false);
    options.plan = [&](const Backend& backend, AttentionMode mode) -> const AttentionBackend& {
      asked.push_back(mode);
      if (mode == AttentionMode::kPrefillGraph) throw AttentionUnsupported(text);
      return backend.attention[0];
    };
    Lane lane(options);
    EXPECT_EQ(lane.runner().init_status(), PrefillStatus::kAttentionBackendUnsupported);
    EXPECT_EQ(asked, (std::vector<AttentionMode>{AttentionMode::kDefault, AttentionMode::kPrefillGraph}));
    EXPECT_EQ(families(lane), 1) << "decode keeps its graphs";
    expect_right(lane);
  }
  LaneOptions other_type = small(false);
  other_type.plan = [](const Backend& backend, AttentionMode mode) -> const AttentionBackend& {
    if (mode == AttentionMode::kPrefillGraph) throw Error(ErrorCode::kUnsupported, "attention is not safe");
    return backend.attention[0];
  };
  EXPECT_EQ(Lane(other_type).runner().init_status(), PrefillStatus::kCaptureUnavailable);
}

TEST(StartUp, S57_AModelThatIgnoresTheModeIsCaughtBeforeCapture) {
  LaneOptions options = small(false);
  options.capabilities = BackendCapabilities{.paged_prefix = true, .mixed_rows = true};  // not safe in a prefill graph
  options.plan = [](const Backend& backend, AttentionMode) -> const AttentionBackend& { return backend.attention[0]; };
  Lane lane(options);
  EXPECT_EQ(lane.runner().init_status(), PrefillStatus::kAttentionBackendUnsupported);
  expect_right(lane);
}

// S-21: decode graphs are a family of their own; what they need and do not find costs prefill nothing.
TEST(StartUp, S21_AnAttentionThatCannotRefreshRunsDecodeEager) {
  LaneOptions options = small(false);
  AttentionBackend fixed;
  options.plan = [&](const Backend& backend, AttentionMode) -> const AttentionBackend& {
    fixed = backend.attention[0];
    fixed.refreshes_in_place = false;
    return fixed;
  };
  Lane lane(options);
  EXPECT_EQ(lane.runner().init_status(), PrefillStatus::kReplayed);
  EXPECT_EQ(lane.runner().staging(GraphRole::kDecode), nullptr);
  expect_right(lane);
  const auto reason = static_cast<std::size_t>(PrefillStatus::kAttentionBackendUnsupported);
  EXPECT_EQ(lane.runner().stats().decode_misses[reason], 1);
}

// S-55: graph and eager run one attention, whatever the other one declares.
TEST(StartUp, S55_AnotherAttentionForGraphsIsRefused) {
  LaneOptions options = small(false);
  AttentionBackend other;
  options.plan = [&](const Backend& backend, AttentionMode mode) -> const AttentionBackend& {
    other = backend.attention[0];
    return mode == AttentionMode::kDefault ? backend.attention[0] : other;
  };
  Lane lane(options);
  EXPECT_EQ(lane.runner().init_status(), PrefillStatus::kAttentionBackendUnsupported);
  expect_right(lane);
}

// S-43, F8, I7: a replay that fails fails its step, once; the next step finds nothing of it.
TEST(ReplayFaults, S43_NothingStaleAfterAFailureAtAnyPoint) {
  LaneOptions options = small(false);
  int n_forwards = 0;
  options.on_forward = [&](bool) { ++n_forwards; };
  Lane lane(options);
  TestSequence probe = lane.sequence(20, 17, 50, 5);
  const auto expected = eager_logits(probe);
  const int captured_forwards = n_forwards;
  for (DevicePoint point : {DevicePoint::kReplay, DevicePoint::kReplayed, DevicePoint::kWait})
    for (Kind kind : kKinds)
      for (bool prefill : {true, false}) {
        TestSequence other = lane.sequence(21, 18, 1, 1);
        other.cached = prefill ? 0 : 20;
        Batch batch;
        lane.add(batch, other, prefill ? 20 : 1, prefill);
        const std::int64_t replays = lane.device().count(DevicePoint::kReplay), steps = lane.runner().stats().steps;
        lane.device().set_hook([&](DevicePoint at) {
          if (at == point) fail(kind);
        });
        EXPECT_ANY_THROW(lane.runner().run(batch));
        lane.device().set_hook({});
        EXPECT_EQ(lane.device().count(DevicePoint::kReplay), replays + 1) << "run again, or never";
        EXPECT_EQ(n_forwards, captured_forwards) << "it went eager after its replay had begun";
        EXPECT_EQ(lane.runner().stats().steps, steps) << "a step that failed does not count";
        TestSequence again = probe;
        Batch next;
        lane.add(next, again, 20);
        EXPECT_EQ(lane.runner().run(next).status, PrefillStatus::kReplayed);
        EXPECT_TRUE(same_bits(lane.logits(0), expected));
      }
}

TEST(ReplayFaults, S98_TheRunnerWaitsBeforeItsGraphsGo) {
  std::vector<DevicePoint> seen;
  Lane lane(small(false));
  TestSequence s = lane.sequence(20, 1, 1);
  Batch batch;
  lane.add(batch, s, 20);
  lane.device().set_hook([](DevicePoint at) {
    if (at == DevicePoint::kWait) throw Error(ErrorCode::kInternal, "the replay is still in flight");
  });
  EXPECT_ANY_THROW(lane.runner().run(batch));
  lane.device().set_hook([&](DevicePoint at) { seen.push_back(at); });
  lane.drop_runner();
  EXPECT_EQ(seen, std::vector<DevicePoint>{DevicePoint::kWait});
  Lane failing(small(false));
  failing.device().set_hook([](DevicePoint) { throw Error(ErrorCode::kDevice, "gone"); });
  failing.drop_runner();  // a destructor does not throw
}

// What an engine of ours never asks for stops the process before it can write where it must not.
TEST(MisuseDeathTest, RowsAndBlocksThatAreNotThere) {
  Lane lane(small(false));
  const RunnerConfig& config = lane.options().runner;
  for (int row : {-1, config.max_seqs}) {
    TestSequence s = lane.sequence(20, 1, 1, row);
    Batch batch;
    lane.add(batch, s, 20);
    EXPECT_DEATH(lane.runner().run(batch), "history_row") << row;
  }
  for (int n_blocks : {0, lane.options().n_blocks + 1})
    EXPECT_DEATH(lane.runner().limit_blocks(n_blocks), "n_blocks") << n_blocks;
  EXPECT_DEATH(make_runner(config, lane.model(), lane.backend(), {}, {}, Log{}), "kv.empty");
}

TEST(MisuseDeathTest, S37_ABucketThatWasNeverCapturedStopsTheProcess) {
  LaneOptions options = small(false);
  Lane lane(options);
  ForwardContext context;
  context.backend = &lane.backend();
  context.groups = {CacheGroup{}};
  InputShape shape;
  shape.max_tokens = 8;
  shape.max_rows = 1;
  shape.table_width = 1;
  shape.max_seqs = 1;
  shape.max_seq_len = 8;
  GraphFamily family(context, shape, {}, 0, {});
  EXPECT_DEATH(family.replay(Batch{}, 8), "graphs_");
}

}  // namespace
}  // namespace monograph
