#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace monograph::internal {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "monograph: broken invariant: %s (%s:%d)\n", condition, file, line);
  std::fflush(stderr);
  std::abort();
}

}  // namespace monograph::internal
