#include "device/cpu/cpu_device.h"

#include <gtest/gtest.h>

#include "monograph/error.h"

namespace monograph {
namespace {

TEST(CpuDevice, BuffersAreZeroAndAligned) {
  CpuDevice device(1);
  for (std::int64_t bytes : {0, 1, 255, 4096, 3 << 20}) {
    const Buffer buffer = device.allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 256, 0u);
    for (std::int64_t i = 0; i < bytes; ++i) ASSERT_EQ(buffer.as<char>()[i], 0);
  }
}

TEST(CpuDevice, RecordsWithoutRunningAndReplaysWithLiveContents) {
  CpuDevice device(1);
  Buffer buffer = device.allocate(4);
  int* cell = buffer.as<int>();
  int frozen = 10;
  const auto graph = device.capture([&] {
    device.submit("add", [cell, frozen] { *cell += frozen; });
    device.submit("double", [cell] { *cell *= 2; });
  });
  EXPECT_EQ(*cell, 0) << "a capture executes nothing";
  EXPECT_EQ(graph->n_nodes(), 2);
  frozen = 99;  // host scalars are those of the capture
  *cell = 1;    // buffer contents are those of the replay
  graph->replay();
  EXPECT_EQ(*cell, 22);
  graph->replay();
  EXPECT_EQ(*cell, 64);
}

TEST(CpuDevice, AllocationAndWaitingDuringCaptureAreErrors) {
  CpuDevice device(1);
  int host = 0;
  Buffer buffer = device.allocate(4);
  const auto in_capture = [&](const std::function<void()>& work) {
    try {
      device.capture(work);
      ADD_FAILURE() << "capture went through";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInternal);
    }
    EXPECT_FALSE(device.capturing());
  };
  in_capture([&] { device.allocate(16); });
  in_capture([&] { device.allocate_host(16); });
  in_capture([&] { device.synchronize(); });
  in_capture([&] { device.copy_to_device(buffer.data(), &host, 4); });
  in_capture([&] { device.copy_to_host(&host, buffer.data(), 4); });
  in_capture([&] { device.capture([] {}); });
  device.submit("after", [&host] { host = 7; });
  EXPECT_EQ(host, 7);
}

TEST(CpuDevice, RefusesWhatTheHostCannotGive) {
  CpuDevice device(1);
  try {
    const Buffer buffer = device.allocate(std::int64_t{1} << 60);
    ADD_FAILURE() << "got " << buffer.bytes() << " bytes";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kOutOfMemory);
  }
}

}  // namespace
}  // namespace monograph
