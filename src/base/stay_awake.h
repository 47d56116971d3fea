// Waiting awake before sleeping: a sleeping thread takes tens of microseconds to come back, which a first token that is
// due in a millisecond feels.
#pragma once
#include <chrono>

namespace monograph {

inline void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Looks at `ready` until it holds or `limit` has passed; says which. A limit of 0 looks once.
template <typename Ready>
bool stay_awake(const Ready& ready, std::chrono::microseconds limit) {
  using Clock = std::chrono::steady_clock;
  if (ready()) return true;
  if (limit.count() <= 0) return false;
  for (const auto end = Clock::now() + limit; Clock::now() < end;) {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      pause_briefly();
    }
  }
  return false;
}

}  // namespace monograph
