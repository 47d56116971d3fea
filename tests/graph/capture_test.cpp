#include "graph/capture.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "device/cpu/cpu_device.h"
#include "graph/policy.h"
#include "monograph/error.h"

namespace monograph {
namespace {

TEST(CaptureGraph, RecordsWork) {
  CpuDevice device(1);
  int runs = 0;
  const auto graph = capture_graph(device, nullptr, [&] { device.submit("count", [&runs] { ++runs; }); });
  EXPECT_EQ(runs, 0);
  graph->replay();
  EXPECT_EQ(runs, 1);
}

TEST(CaptureGraph, AFailureBeforeTheCaptureIsClean) {
  CpuDevice device(1);
  bool captured = false;
  try {
    capture_graph(
        device, [] { throw Error(ErrorCode::kOutOfMemory, "no room"); }, [&] { captured = true; });
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kOutOfMemory);
  }
  EXPECT_FALSE(captured);
}

TEST(CaptureGraph, AFailureInsideIsDirtyWhateverItsType) {  // S-28, S-29
  CpuDevice device(1);
  const auto code_of = [&](const std::function<void()>& work) {
    try {
      capture_graph(device, nullptr, work);
    } catch (const Error& e) {
      return e.code();
    }
    return ErrorCode::kNotFound;
  };
  EXPECT_EQ(code_of([] { throw Error(ErrorCode::kInvalidArgument, "shape"); }), ErrorCode::kDirtyCapture);
  EXPECT_EQ(code_of([] { throw std::runtime_error("other"); }), ErrorCode::kDirtyCapture);
  EXPECT_EQ(code_of([] { throw 42; }), ErrorCode::kDirtyCapture);
  EXPECT_EQ(code_of([&] { device.allocate(1); }), ErrorCode::kDirtyCapture) << "allocation inside a capture";
}

TEST(MeasuredPolicy, ComparesTheBatchAtHand) {  // S-14
  MeasuredPolicy policy;
  policy.set(16, {10, 40});
  policy.set(32, {30, 50});
  EXPECT_FALSE(policy.eager_is_faster(16, 16));
  EXPECT_FALSE(policy.eager_is_faster(32, 32));
  EXPECT_FALSE(policy.eager_is_faster(64, 40)) << "a bucket that was not measured replays";
  policy.set(32, {45, 50});
  EXPECT_TRUE(policy.eager_is_faster(32, 17)) << "eager at 17 tokens: about 40.6 us";
  EXPECT_FALSE(policy.eager_is_faster(32, 30));
  EXPECT_TRUE(policy.eager_is_faster(32, 3)) << "below the smaller bucket: at most that one's 40 us";
  policy.set(16, {10, 46});
  EXPECT_FALSE(policy.eager_is_faster(32, 3));
}

}  // namespace
}  // namespace monograph
