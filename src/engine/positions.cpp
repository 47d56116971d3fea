#include "engine/positions.h"

#include "engine/sequence.h"

namespace monograph {

void append_positions(std::vector<std::int32_t>& out, const Sequence& sequence, int first, int n, int factor) {
  const std::vector<std::int32_t>& given = sequence.position_ids;
  const int n_given = static_cast<int>(given.size()) / factor;
  for (int i = first; i < first + n; ++i)
    for (int p = 0; p < factor; ++p)
      out.push_back(i < n_given ? given[static_cast<std::size_t>(i) * factor + p]
                                : sequence.last_position + 1 + (i - n_given));
}

}  // namespace monograph
