// Numbers with a width, a precision and a sign: the part that "%5d" and "{:5d}" share.
#pragma once
#include <string>

#include "text/jinja/value.h"

namespace monograph::jinja {

/// How one value is to be written.
struct FormatSpec {
  std::string fill = " ";  ///< One character.
  char align = 0;          ///< < > ^ or = (fill between sign and digits); 0: as the type has it.
  char sign = '-';         ///< '-': only of negative numbers; '+' or ' ': also before others.
  bool alternate = false;  ///< "#"
  char grouping = 0;       ///< ',' or '_'
  int width = 0;
  int precision = -1;  ///< -1: none given.
  char type = 0;       ///< 0: none given.
};

/// d, x, X, o, b or 0 as the type.
std::string format_integer(Int value, const FormatSpec& spec);
/// e, E, f, F, g, G, % or 0 (as repr()) as the type.
std::string format_double(double value, const FormatSpec& spec);
/// Filled up to the width; `n_signs` leading bytes stay in front of what '=' fills in.
std::string aligned(std::string_view bytes, const FormatSpec& spec, char default_align, std::size_t n_signs = 0);

}  // namespace monograph::jinja
