// Invariants that stop the process in every build. Nothing that comes from outside may reach one: that is an Error.
#pragma once

namespace monograph::internal {
[[noreturn]] void check_failed(const char* condition, const char* file, int line);
}

#define CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::monograph::internal::check_failed(#condition, __FILE__, __LINE__))
