// A step is one graph launch and one wait, whatever it holds: every call to the CUDA runtime is counted. (issue:
// Fidelity)
#include <cupti.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/cuda/support/families.h"

namespace monograph {
namespace {

using testing::Lane;
using testing::TestSequence;

/// Calls by name between construction and destruction, told by CUPTI, which is looked up at run time.
class CallCounter {
 public:
  CallCounter() {
    library_ = dlopen("libcupti.so.13", RTLD_NOW | RTLD_GLOBAL);
    if (!library_) library_ = dlopen("libcupti.so", RTLD_NOW | RTLD_GLOBAL);
    if (!library_) throw std::runtime_error(std::string("CUPTI is needed to count calls: ") + dlerror());
    check(function<decltype(&cuptiSubscribe)>("cuptiSubscribe")(&subscriber_, &CallCounter::on_call, this));
    check(function<decltype(&cuptiEnableDomain)>("cuptiEnableDomain")(1, subscriber_, CUPTI_CB_DOMAIN_RUNTIME_API));
  }
  ~CallCounter() { function<decltype(&cuptiUnsubscribe)>("cuptiUnsubscribe")(subscriber_); }
  CallCounter(const CallCounter&) = delete;

  std::map<std::string, int> calls;

 private:
  static void CUPTIAPI on_call(void* self, CUpti_CallbackDomain, CUpti_CallbackId, const void* data) {
    const auto* info = static_cast<const CUpti_CallbackData*>(data);
    if (info->callbackSite == CUPTI_API_ENTER) ++static_cast<CallCounter*>(self)->calls[plain(info->functionName)];
  }
  /// Without the version that CUPTI appends: cudaGraphLaunch_v10000.
  static std::string plain(std::string name) { return name.substr(0, name.find("_v")); }
  static void check(CUptiResult result) {
    if (result != CUPTI_SUCCESS) throw std::runtime_error("CUPTI refuses: error " + std::to_string(result));
  }
  template <typename Function>
  Function function(const char* name) const {
    return reinterpret_cast<Function>(dlsym(library_, name));
  }

  void* library_ = nullptr;
  CUpti_SubscriberHandle subscriber_{};
};

TEST(Calls, OneLaunchAndOneWaitAStep) {
  Lane lane(testing::on("cuda", testing::families()[5].config));
  constexpr int kSteps = 40;
  std::vector<Batch> batches;
  for (int i = 0; i < kSteps; ++i) {
    TestSequence a = lane.sequence(40 + i, static_cast<unsigned>(i), 1), b = lane.sequence(9, 3, 20, 1);
    Batch batch;
    if (i % 3 == 2) {  // a decode step of two rows
      a.cached = static_cast<int>(a.tokens.size()) - 1;
      b.cached = 8;
      lane.add(batch, a, 1, false);
      lane.add(batch, b, 1, false);
    } else {
      lane.add(batch, a, static_cast<int>(a.tokens.size()));
      if (i % 3 == 1) lane.add(batch, b, 9);
    }
    // Everything a step may ask of the sampler.
    batch.rows[0].sampling.temperature = 0.8f;
    batch.rows[0].sampling.repetition_penalty = 1.1f;
    batch.rows[0].sampling.top_p = 0.9f;
    batch.rows[0].sampling.n_logprobs = 5;
    batch.rows[0].bias = {{5, 1.0f}};
    batch.rows[0].banned = {7};
    batches.push_back(std::move(batch));
  }
  std::map<std::string, int> calls;
  {
    CallCounter counter;
    for (const Batch& batch : batches) ASSERT_TRUE(lane.runner().run(batch).replayed);
    calls = counter.calls;
  }
  const std::map<std::string, int> expected = {{"cudaGraphLaunch", kSteps}, {"cudaStreamSynchronize", kSteps}};
  EXPECT_EQ(calls, expected);
}

}  // namespace
}  // namespace monograph
