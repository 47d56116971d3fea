// Rotation angles of every position, by the rule of the model's config.
#pragma once
#include <vector>

#include "model/config.h"

namespace monograph {

/// Angle per position of each frequency, float32 [rotary_dim / 2], computed in the order the reference implementations
/// use.
std::vector<float> rope_inverse_frequencies(const RopeConfig& rope);

/// Factor on cos and sin (yarn's attention factor, else 1).
float rope_attention_factor(const RopeConfig& rope);

/// cos and sin, float32 [n_positions, rotary_dim / 2], attention factor included.
struct RopeAngles {
  std::vector<float> cos, sin;
};
RopeAngles rope_angles(const RopeConfig& rope, int n_positions);

}  // namespace monograph
