#include "device/gpu_support.h"

#include <gmock/gmock.h>

#include "monograph/error.h"

namespace monograph {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Gpu {
  const char* name;
  int major, minor;
  std::string capability() const { return std::to_string(major) + "." + std::to_string(minor); }
};

std::string refusal(const Gpu& gpu, bool allow_untested) {
  try {
    check_gpu(gpu.name, gpu.major, gpu.minor, allow_untested);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kUnsupported);
    EXPECT_EQ(e.field(), "device");
    return e.what();
  }
  ADD_FAILURE() << gpu.name << " was accepted";
  return {};
}

TEST(GpuSupport, S61_DeclaredHardwareNeedsNoFlag) {
  for (bool allow_untested : {false, true})
    for (const char* name : {"NVIDIA H200", "NVIDIA H100 80GB HBM3"})
      EXPECT_EQ(check_gpu(name, 9, 0, allow_untested), GpuSupport::kDeclared) << name;
}

/// Every other capability from 8.0 on, also those that are not made yet: only with the flag.
TEST(GpuSupport, S61_OthersStartOnlyWithTheFlag) {
  for (const Gpu& gpu :
       {Gpu{"NVIDIA A100", 8, 0}, Gpu{"NVIDIA A10", 8, 6}, Gpu{"Orin", 8, 7}, Gpu{"NVIDIA L4", 8, 9},
        Gpu{"a later Hopper", 9, 1}, Gpu{"NVIDIA B200", 10, 0}, Gpu{"NVIDIA B300", 10, 3}, Gpu{"NVIDIA Thor", 11, 0},
        Gpu{"NVIDIA GeForce RTX 5090", 12, 0}, Gpu{"NVIDIA GB10", 12, 1}, Gpu{"not made yet", 90, 0}}) {
    const std::string why = refusal(gpu, false);
    for (const std::string& said : {std::string(gpu.name), "capability " + gpu.capability(),
                                    std::string("tested on 9.0 only"), std::string("--allow-untested-gpu")})
      EXPECT_THAT(why, HasSubstr(said));
    EXPECT_THAT(why, Not(HasSubstr("\n")));
    EXPECT_EQ(check_gpu(gpu.name, gpu.major, gpu.minor, true), GpuSupport::kUntested) << gpu.name;
  }
}

/// The kernels do not exist there: no flag helps, and the sentence does not offer it.
TEST(GpuSupport, S61_BelowEightIsRefusedWithAndWithoutTheFlag) {
  for (const Gpu& gpu : {Gpu{"Tesla K80", 3, 7}, Gpu{"Tesla M60", 5, 2}, Gpu{"Tesla P100", 6, 0},
                         Gpu{"NVIDIA V100", 7, 0}, Gpu{"NVIDIA T4", 7, 5}})
    for (bool allow_untested : {false, true}) {
      const std::string why = refusal(gpu, allow_untested);
      for (const std::string& said :
           {std::string(gpu.name), "capability " + gpu.capability(), std::string("8.0 or above")})
        EXPECT_THAT(why, HasSubstr(said));
      EXPECT_THAT(why, Not(HasSubstr("--allow-untested-gpu")));
      EXPECT_THAT(why, Not(HasSubstr("\n")));
    }
}

}  // namespace
}  // namespace monograph
