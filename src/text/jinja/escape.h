// HTML escaping, as markupsafe does it.
#pragma once
#include "text/jinja/text.h"

namespace monograph::jinja {

/// & < > " ' as entities; the result is markup.
TextPtr escaped_html(const Text& text);

}  // namespace monograph::jinja
