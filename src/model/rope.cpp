#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace monograph {
namespace {

constexpr double kTwoPi = 2.0 * std::numbers::pi;

/// Llama 3.1: long wavelengths are slowed by `factor`, short ones kept, those between blended.
void scale_llama3(const RopeConfig& rope, std::vector<float>& frequencies) {
  const double original = rope.original_max_position;
  const double low_wavelength = original / rope.low_freq_factor, high_wavelength = original / rope.high_freq_factor;
  for (float& f : frequencies) {
    const double wavelength = kTwoPi / f;
    if (wavelength < high_wavelength) continue;
    if (wavelength > low_wavelength) {
      f = f / rope.factor;
      continue;
    }
    const double smooth =
        (original / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
    f = static_cast<float>((1.0 - smooth) * f / rope.factor + smooth * f);
  }
}

/// YaRN: a ramp over the dimensions between interpolated and original frequencies. (arXiv:2309.00071)
void scale_yarn(const RopeConfig& rope, std::vector<float>& frequencies) {
  const int dim = rope.rotary_dim;
  const auto correction_dim = [&](double rotations) {
    return dim * std::log(rope.original_max_position / (rotations * kTwoPi)) / (2.0 * std::log(rope.theta));
  };
  const double low = std::max(std::floor(correction_dim(rope.beta_fast)), 0.0);
  double high = std::min(std::ceil(correction_dim(rope.beta_slow)), dim - 1.0);
  if (high == low) high += 0.001;
  for (int i = 0; i < dim / 2; ++i) {
    const double keep = 1.0 - std::clamp((i - low) / (high - low), 0.0, 1.0);
    const double original = frequencies[i];
    frequencies[i] = static_cast<float>(original / rope.factor * (1.0 - keep) + original * keep);
  }
}

double yarn_mscale(double factor, double mscale) { return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0; }

}  // namespace

std::vector<float> rope_inverse_frequencies(const RopeConfig& rope) {
  CHECK(rope.rotary_dim > 0 && rope.rotary_dim % 2 == 0);
  std::vector<float> frequencies(rope.rotary_dim / 2);
  for (int i = 0; i < rope.rotary_dim / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rope.rotary_dim);
    frequencies[i] =
        1.0f / static_cast<float>(std::pow(static_cast<double>(rope.theta), static_cast<double>(exponent)));
  }
  if (!rope.freq_factors.empty()) {
    CHECK(rope.freq_factors.size() == frequencies.size());
    for (std::size_t i = 0; i < frequencies.size(); ++i) frequencies[i] /= rope.freq_factors[i];
    return frequencies;
  }
  switch (rope.kind) {
    case RopeConfig::Kind::kDefault:
      break;
    case RopeConfig::Kind::kLinear:
      for (float& f : frequencies) f /= rope.factor;
      break;
    case RopeConfig::Kind::kLlama3:
      scale_llama3(rope, frequencies);
      break;
    case RopeConfig::Kind::kYarn:
      scale_yarn(rope, frequencies);
      break;
  }
  return frequencies;
}

float rope_attention_factor(const RopeConfig& rope) {
  if (rope.kind != RopeConfig::Kind::kYarn) return 1.0f;
  if (rope.attention_factor) return *rope.attention_factor;
  if (rope.mscale && rope.mscale_all_dim)
    return static_cast<float>(yarn_mscale(rope.factor, *rope.mscale) / yarn_mscale(rope.factor, *rope.mscale_all_dim));
  return static_cast<float>(yarn_mscale(rope.factor, 1.0));
}

RopeAngles rope_angles(const RopeConfig& rope, int n_positions) {
  const std::vector<float> frequencies = rope_inverse_frequencies(rope);
  const float scale = rope_attention_factor(rope);
  RopeAngles angles;
  angles.cos.reserve(static_cast<std::size_t>(n_positions) * frequencies.size());
  angles.sin.reserve(angles.cos.capacity());
  for (int position = 0; position < n_positions; ++position) {
    for (float frequency : frequencies) {
      // The product is rounded to float32 first, as the reference implementations do; the angle's own cosine is exact.
      const float angle = static_cast<float>(position) * frequency;
      angles.cos.push_back(static_cast<float>(std::cos(static_cast<double>(angle))) * scale);
      angles.sin.push_back(static_cast<float>(std::sin(static_cast<double>(angle))) * scale);
    }
  }
  return angles;
}

}  // namespace monograph
