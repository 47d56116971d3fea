// Positions of a sequence's tokens, for models that take them explicitly.
#pragma once
#include <cstdint>
#include <vector>

namespace monograph {

struct Sequence;

/// Appends `factor` positions for each of the tokens [first, first + n): those the request gave for its prompt, then
/// counting up from the largest of them, all factors alike. A request that gave none counts from 0.
void append_positions(std::vector<std::int32_t>& out, const Sequence& sequence, int first, int n, int factor);

}  // namespace monograph
