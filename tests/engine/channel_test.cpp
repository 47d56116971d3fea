// The queues between callers and the engine thread, with waiting threads asleep and awake.
#include "engine/channel.h"

#include <gtest/gtest.h>

#include <thread>

namespace monograph {
namespace {

using std::chrono::microseconds;

/// 0: sleeps at once; 200: sleeps before what it waits for comes; 10^6: is awake then.
class Waiting : public ::testing::TestWithParam<int> {
 protected:
  const microseconds spin_{GetParam()};

  static TokenEvent event(int token) {
    TokenEvent event;
    event.token = token;
    return event;
  }
  static std::vector<std::unique_ptr<Sequence>> sequences(int n) {
    std::vector<std::unique_ptr<Sequence>> all;
    for (int i = 0; i < n; ++i) all.push_back(std::make_unique<Sequence>());
    return all;
  }
};

TEST_P(Waiting, EveryEventOfEveryCallerComesInOrder) {
  constexpr int kCallers = 4, kEvents = 50;
  std::vector<std::unique_ptr<Channel>> channels;
  for (int i = 0; i < kCallers; ++i) channels.push_back(std::make_unique<Channel>(spin_));
  std::vector<std::vector<int>> got(kCallers);
  std::vector<std::thread> callers;
  for (int i = 0; i < kCallers; ++i)
    callers.emplace_back([&, i] {
      for (int n = 0; n < kEvents; ++n) got[i].push_back(*channels[i]->pop().token);
    });
  for (int n = 0; n < kEvents; ++n) {
    if (n % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (auto& channel : channels) channel->push(event(n));
  }
  for (std::thread& caller : callers) caller.join();
  for (const auto& tokens : got) {
    ASSERT_EQ(tokens.size(), kEvents);
    for (int n = 0; n < kEvents; ++n) EXPECT_EQ(tokens[n], n);
  }
  for (auto& channel : channels) EXPECT_FALSE(channel->try_pop());
}

TEST_P(Waiting, TheEngineGetsEverythingAndLearnsOfTheEnd) {
  Inbox inbox(1000, spin_);
  int n_taken = 0;
  std::thread engine([&] {
    while (!inbox.closed()) n_taken += static_cast<int>(inbox.take(/*wait=*/true).size());
    n_taken += static_cast<int>(inbox.take(/*wait=*/true).size());  // closed: returns at once
  });
  for (int i = 0; i < 20; ++i) {
    if (i % 5 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    inbox.push(sequences(3));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  inbox.close("over");
  engine.join();
  EXPECT_EQ(n_taken, 60);
  EXPECT_TRUE(inbox.take(/*wait=*/false).empty());
}

INSTANTIATE_TEST_SUITE_P(AsleepAndAwake, Waiting, ::testing::Values(0, 200, 1'000'000));

}  // namespace
}  // namespace monograph
